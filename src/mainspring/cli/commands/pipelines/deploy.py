"""`mainspring deploy`: a folder of pipelines, unchanged, to a server."""

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
@click.option("--at", metavar="PATH", help="Where workers find the folder; where it is here, unless said.")
@click.option("--name", help="What the folder is called there: its own name, unless said. --prune goes by it.")
@click.option("--prune", is_flag=True, help="Also delete what was deployed from this folder and is not in it any more.")
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--why", default="", help="Why; it is kept with the deed.")
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
    """Give a server every pipeline below DIRECTORY, unchanged. The same again changes nothing.

    All files are checked first, and nothing is sent if one of them is broken. The directory itself is not sent: workers
    need to find it, at the same path or at the one that --at says.

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
        raise click.UsageError("--at must be a path from / on")
    if runs_folder(reach, directory):
        raise _run_already(directory)
    root = Path(os.path.abspath(directory))  # noqa: PTH100 - links on the way stay, as workers may have none
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
            say_hint(f"workers look for the folder at {root}, as it is here; `--at` says where else it is there")
    if any(row.change == REFUSED for row in rows):
        sys.exit(4)


def _run_already(directory: Path) -> MainspringError:
    """It would run twice: by its files, and by what was deployed."""
    from mainspring.protocol.errors import Conflict

    conflict = Conflict(f"this server runs {directory} itself: what is deployed to it as well would run twice")
    conflict.hint = "files are in use there as they are saved; `--server` says another server"
    return conflict


def _is_here(reach: Reach) -> bool:
    """Whether the server is on this machine."""
    from mainspring.cli.config.connection_settings import find_whereabouts
    from mainspring.client.addresses import is_loopback, read_address

    server = find_whereabouts(reach).server.value
    return server is None or is_loopback(read_address(server).host)


def _warn(pipelines: Sequence[Pipeline]) -> None:
    """Say what was read, and is not followed."""
    for pipeline in pipelines:
        for warning in pipeline.warnings:
            click.echo(f"warning: {warning.where}: {warning.why}", err=True)


def _question(gone: Sequence[Gone]) -> str:
    names = ", ".join(one.job if one.is_whole else f"{' and '.join(one.schedules)} (the schedule)" for one in gone)
    return f"delete what is gone from the folder: {names}?"


def _sum_up(changes: Sequence[str], left: Sequence[Gone], *, dry_run: bool) -> None:
    """How it went, on stderr."""
    counted = [f"{changes.count(change)} {change}" for change in dict.fromkeys(changes)]
    click.echo(", ".join(counted) + (" if it were done: nothing was changed" if dry_run else ""), err=True)
    if left:
        names = ", ".join(one.job for one in left)
        click.echo(f"the server also has what is gone from the folder ({names}): --prune deletes it", err=True)
