"""`mainspring graph`: draw the task graph of a run."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ConnectionOptions, Printing, with_connection_options, with_output_options


@click.command("graph")
@click.argument("run", default="@latest", shell_complete=candidates.runs)
@with_output_options
@with_connection_options
def graph(connection: ConnectionOptions, printing: Printing, run: str) -> None:
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

    with connection.client() as client:
        view = client.graph(find_run(client, run))

    def print_text() -> None:
        for line in draw_graph(view):
            click.echo(line)

    print_one(view, view.run_id, printing, print_text)
