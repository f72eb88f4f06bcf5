"""`mainspring show`: show a resource in detail."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("show")
@click.argument("what", metavar="ID", default="@latest", shell_complete=candidates.everything)
@with_output_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, what: str) -> None:
    """Show a run, task, attempt, worker, job or schedule in detail.

    \b
    Examples:
      mainspring show @latest
      mainspring show @latest/extract
      mainspring show w1
      mainspring show etl@3 -o yaml
    """
    from mainspring.cli.render.details import DetailPrinter

    with connection.client() as client:
        DetailPrinter(client, printing).show(what)
