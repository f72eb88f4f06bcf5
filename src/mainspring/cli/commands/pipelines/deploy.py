"""`mainspring deploy`: deploy a folder of pipelines to a server."""

from __future__ import annotations

import os
import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import Printing, Reach, agreed, asks_first, prints_rows, reaches_server

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mainspring.definitions.pipeline_file import Pipeline
    from mainspring.folder.deploy import Gone
    from mainspring.protocol.errors import MainspringError


@click.command("deploy")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--at", metavar="PATH", help="Path of the folder on workers; its local path if omitted.")
@click.option("--name", help="Deployment name, used by --prune; the folder's name if omitted.")
@click.option("--prune", is_flag=True, help="Delete deployed pipelines that are no longer in the folder.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--why", default="", help="Reason, recorded in the audit log.")
@asks_first
@prints_rows
@reaches_server
def deploy(
    reach: Reach,
    printing: Printing,
    directory: Path,
    at: str | None,
    name: str | None,
    prune: bool,
    dry_run: bool,
    why: str,
    yes: bool,
) -> None:
    """Deploy every pipeline below DIRECTORY to a server. Deploying is idempotent.

    All files are validated first; nothing is deployed if one is invalid. Files are not uploaded: workers must have the
    directory, at the same path or at --at.

    \b
    Examples:
      mainspring deploy pipelines --server https://mainspring.example.org --at /srv/pipelines
      mainspring deploy pipelines --prune --dry-run
    """
    from contextlib import ExitStack
    from dataclasses import replace
    from functools import cache

    from mainspring.cli.commands.pipelines.deploy_table import DEPLOYED
    from mainspring.cli.commands.pipelines.folder_commands import runs_folder
    from mainspring.cli.render.output import print_rows, say_hint
    from mainspring.folder.deploy import REFUSED, Deploying
    from mainspring.folder.deployment import mark_of, read_folder

    if at is not None and not PurePosixPath(at).is_absolute():
        raise click.UsageError("--at must be an absolute path")
    if runs_folder(reach, directory):
        raise _run_already(directory)
    root = Path(os.path.abspath(directory))  # noqa: PTH100 - keep symbolic links: workers may lack them
    pipelines = read_folder(directory, os.path.normpath(at or root))
    if not pipelines and not prune:
        raise click.UsageError(f"there is no pipeline.yaml below {directory}")
    _warn(pipelines)
    with ExitStack() as stack:
        clients = cache(lambda tenant: stack.enter_context(replace(reach, tenant=tenant or reach.tenant).client()))
        deploying = Deploying(clients, pipelines, mark_of(name or root.name), dry_run=dry_run, why=why)
        gone = deploying.find_gone()
        if prune and gone and not dry_run and not agreed(_question(gone), yes=yes):
            raise click.Abort
        rows = list(deploying.carry_out(gone if prune else None))
    print_rows(rows, DEPLOYED, printing)
    if printing.is_for_people:
        _sum_up([row.change for row in rows], [] if prune else gone, dry_run=dry_run)
        if at is None and not _is_here(reach):
            say_hint(f"workers must have the folder at {root}; use `--at` if it has another path there")
    if any(row.change == REFUSED for row in rows):
        sys.exit(4)


def _run_already(directory: Path) -> MainspringError:
    """Return the error for a folder that the server runs itself: its pipelines would run twice."""
    from mainspring.protocol.errors import Conflict

    conflict = Conflict(f"this server already runs {directory}; deployed pipelines would run twice")
    conflict.hint = "it reloads files as they are saved; to deploy elsewhere, use `--server`"
    return conflict


def _is_here(reach: Reach) -> bool:
    """Whether the server is on this machine."""
    from mainspring.cli.config.connection_settings import find_whereabouts
    from mainspring.client.addresses import is_loopback, read_address

    server = find_whereabouts(reach).server.value
    return server is None or is_loopback(read_address(server).host)


def _warn(pipelines: Sequence[Pipeline]) -> None:
    """Print the warnings of the pipelines."""
    for pipeline in pipelines:
        for warning in pipeline.warnings:
            click.echo(f"warning: {warning.where}: {warning.why}", err=True)


def _question(gone: Sequence[Gone]) -> str:
    names = ", ".join(one.job if one.is_whole else f"{' and '.join(one.schedules)} (the schedule)" for one in gone)
    return f"delete pipelines removed from the folder: {names}?"


def _sum_up(changes: Sequence[str], left: Sequence[Gone], *, dry_run: bool) -> None:
    """Print a summary on stderr."""
    counted = [f"{changes.count(change)} {change}" for change in dict.fromkeys(changes)]
    click.echo(", ".join(counted) + (" (dry run, nothing changed)" if dry_run else ""), err=True)
    if left:
        names = ", ".join(one.job for one in left)
        click.echo(f"removed from the folder, but still on the server: {names}; use --prune to delete", err=True)
