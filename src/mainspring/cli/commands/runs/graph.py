"""`mainspring graph`: draw the task graph of a run."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Printing, Reach, prints, reaches_server


@click.command("graph")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@prints
@reaches_server
def graph(reach: Reach, printing: Printing, run: str) -> None:
    """Draw the task graph of RUN with the state of each task.

    Each task is drawn below its last dependency; its other dependencies are named beside it.

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
