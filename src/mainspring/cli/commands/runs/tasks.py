"""`mainspring tasks`: list tasks."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import filter_option
from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    ListCommand,
    Printing,
    limit_option,
    watch_option,
    with_connection_options,
    with_table_options,
)

STATES = (
    "PENDING", "QUEUED", "ASSIGNED", "RUNNING", "SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELLED", "SKIPPED",
    "QUARANTINED",
)  # fmt: skip


@click.command("tasks", cls=ListCommand)
@click.argument("run", required=False, shell_complete=candidates.runs)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Filter by state. Repeatable.",
)  # fmt: skip
@click.option("--worker", help="Filter by worker.", shell_complete=candidates.workers)
@click.option("--name", help="Filter by name.")
@filter_option
@watch_option
@limit_option(100)
@with_table_options
@with_connection_options
def tasks(
    connection: ConnectionOptions,
    printing: Printing,
    run: str | None,
    states: tuple[str, ...],
    worker: str | None,
    name: str | None,
    q: str | None,
    watch: bool,
    limit: int,
) -> None:
    """List the tasks of RUN, or of all runs.

    \b
    Examples:
      mainspring tasks @latest
      mainspring tasks --state QUEUED --state RUNNING
      mainspring tasks --filter 'state:queued wait>5m'
      mainspring tasks --worker w1 -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import TASKS
    from mainspring.cli.resource_ids import find_run

    with connection.client() as client:
        run_id = None if run is None else find_run(client, run)
        show_list(
            lambda: client.tasks(states=states, run=run_id, worker=worker, name=name, q=q, limit=limit),
            TASKS,
            printing,
            watch=watch,
            limit=limit,
        )
