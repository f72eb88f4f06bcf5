"""`mainspring deploy`: deploy a folder of pipelines to a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import ConnectionOptions, confirm, with_confirmation
from mainspring.cli.resource import Session, why_option, with_table_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mainspring.folder.deploy import PruneCandidate


@click.command("deploy")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--at", metavar="PATH", help="Path of the folder on workers; its local path if omitted.")
@click.option("--name", metavar="NAME", help="Deployment name, used by --prune; the folder's name if omitted.")
@click.option("--prune", is_flag=True, help="Delete deployed pipelines that are no longer in the folder.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@why_option()
@with_confirmation
@with_table_session
def deploy(
    session: Session, directory: Path, at: str | None, name: str | None, prune: bool, dry_run: bool, why: str,
    yes: bool,
) -> None:  # fmt: skip
    """Deploy every pipeline below DIRECTORY to a server.

    Deploying is idempotent. All files are validated first; nothing is deployed if one is invalid. Files are not
    uploaded: workers must have the directory, at the same path or at --at.

    \b
    Examples:
      mainspring deploy pipelines --server https://mainspring.example.org --at /srv/pipelines
      mainspring deploy pipelines --prune --dry-run
    """
    from functools import cache

    from mainspring.cli.commands.pipelines.folder_commands import is_served_folder
    from mainspring.cli.render.output import Table, print_hint, print_warnings
    from mainspring.folder.deploy import REFUSED, DeployResult, FolderDeployment
    from mainspring.folder.deployment import folder_label, read_folder
    from mainspring.protocol.errors import Conflict

    if at is not None and not PurePosixPath(at).is_absolute():
        raise click.UsageError("--at must be an absolute path")
    if is_served_folder(session.connection, directory):
        conflict = Conflict(f"this server already runs {directory}; deployed pipelines would run twice")
        conflict.hint = "it reloads files as they are saved; to deploy elsewhere, use `--server`"
        raise conflict
    root = Path(os.path.abspath(directory))  # noqa: PTH100 - keep symbolic links: workers may lack them
    pipelines = read_folder(directory, os.path.normpath(at or root))
    if not pipelines and not prune:
        raise click.UsageError(f"there is no pipeline.yaml below {directory}")
    print_warnings(warning for pipeline in pipelines for warning in pipeline.warnings)
    label = folder_label(name or root.name)
    deploying = FolderDeployment(cache(session.client_of), pipelines, label, dry_run=dry_run, why=why)
    prunable = deploying.find_prunable()
    if prune and prunable and not dry_run:
        confirm(_question(prunable), yes=yes)
    rows = list(deploying.execute(prunable if prune else None))
    table = Table.of(
        DeployResult,
        "pipeline change version schedules detail",
        version=lambda row, _: row.version or None,
        schedules=lambda row, _: ", ".join(f"{name} {change}" for name, change in row.schedules.items()),
        id=lambda row: row.pipeline,
    )
    session.print_rows(rows, table)
    if session.printing.is_human_readable:
        _sum_up([row.change for row in rows], [] if prune else prunable, dry_run=dry_run)
        if at is None and not _is_here(session.connection):
            print_hint(f"workers must have the folder at {root}; use `--at` if it has another path there")
    if any(row.change == REFUSED for row in rows):
        sys.exit(4)


def _is_here(connection: ConnectionOptions) -> bool:
    """Whether the server is on this machine."""
    from mainspring.cli.config.connection_settings import resolve_connection_settings
    from mainspring.client.server_urls import is_loopback, read_address

    server = resolve_connection_settings(connection).server.value
    return server is None or is_loopback(read_address(server).host)


def _question(prunable: Sequence[PruneCandidate]) -> str:
    names = ", ".join(
        one.job if one.includes_job else f"{' and '.join(one.schedules)} (the schedule)" for one in prunable
    )
    return f"delete pipelines removed from the folder: {names}?"


def _sum_up(changes: Sequence[str], left: Sequence[PruneCandidate], *, dry_run: bool) -> None:
    """Print a summary on stderr."""
    counted = [f"{changes.count(change)} {change}" for change in dict.fromkeys(changes)]
    click.echo(", ".join(counted) + (" (dry run, nothing changed)" if dry_run else ""), err=True)
    if left:
        names = ", ".join(one.job for one in left)
        click.echo(f"removed from the folder, but still on the server: {names}; use --prune to delete", err=True)
