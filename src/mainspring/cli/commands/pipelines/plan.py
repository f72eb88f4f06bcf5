"""`mainspring plan`: preview the next runs and changes of pipelines."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("plan")
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--at", metavar="PATH", help="Path of the folder on workers; its local path if omitted.")
@with_output_options
@with_connection_options
def plan(connection: ConnectionOptions, printing: Printing, path: Path, at: str | None) -> None:
    """Show the next runs of the pipelines in PATH, and what deploying it would change.

    PATH is a file or folder. Changes nothing. Without a server, only the times are shown. Exits with 2 if a file is
    invalid.

    \b
    Examples:
      mainspring plan
      mainspring plan pipelines --server https://mainspring.example.org --at /srv/pipelines
      mainspring plan pipelines/etl/pipeline.yaml --tz Europe/Paris
    """
    from mainspring.cli.commands.pipelines.folder_commands import is_served_folder
    from mainspring.cli.commands.pipelines.pipeline_files import read_all
    from mainspring.cli.commands.pipelines.plan_view import PLANS, changes, plan_of, print_plan
    from mainspring.cli.render.output import print_error_message, print_rows
    from mainspring.protocol.clock import SystemClock

    folder = str(path.absolute()) if path.is_dir() else None
    reading = read_all([path], at=None if folder is None else at or folder)
    for error in reading.errors:
        print_error_message(str(error))
    if folder is not None and is_served_folder(connection, path):
        click.echo(f"the server already runs {path} and reloads files as they are saved", err=True)
        found = {}
    else:
        found = {} if folder is None else changes(connection, reading.pipelines, Path(folder).name)
    now = SystemClock().wall()
    plans = [plan_of(pipeline, now, found.get(pipeline.id)) for pipeline in reading.pipelines]
    if printing.is_human_readable:
        for one in plans:
            print_plan(one, now, printing)
    else:
        print_rows(plans, PLANS, printing)
    for warning in reading.warnings:
        click.echo(f"warning: {warning.where}: {warning.why}", err=True)
    if reading.errors:
        sys.exit(2)
