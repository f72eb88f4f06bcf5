"""`mainspring show`: show a resource in detail."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints, reaches_server


@click.command("show")
@click.argument("what", metavar="ID", default="@latest", shell_complete=candidates.everything)
@prints
@reaches_server
def show(reach: Reach, printing: Printing, what: str) -> None:
    """Show a run, task, attempt, worker, job or schedule in detail.

    \b
    Examples:
      mainspring show @latest
      mainspring show @latest/extract
      mainspring show w1
      mainspring show etl@3 -o yaml
    """
    from mainspring.cli.render.details import Portraits

    with reach.client() as client:
        Portraits(client, printing).show(what)
