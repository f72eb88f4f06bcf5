"""`mainspring graph`: a run as a drawing."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints, reaches_server


@click.command("graph")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@prints
@reaches_server
def graph(reach: Reach, printing: Printing, run: str) -> None:
    """Draw the graph of RUN: what waits for what, and the state of each part.

    Each task stands below the last one that it waits for; the others are named beside it.

    \b
    Examples:
      mainspring graph @latest
      mainspring graph @latest -o json
    """
    from mainspring.cli.commands.runs.graph_view import draw_graph
    from mainspring.cli.render.output import print_one
    from mainspring.cli.resource_ids import find_run

    with reach.client() as client:
        view = client.graph(find_run(client, run))

    def for_people() -> None:
        for line in draw_graph(view):
            click.echo(line)

    print_one(view, view.run_id, printing, for_people)
