"""`mainspring runs`: list runs."""

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

STATES = ("PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED")


@click.command("runs", cls=ListCommand)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Filter by state. Repeatable.",
)  # fmt: skip
@click.option("--job", help="Filter by job.", shell_complete=candidates.jobs)
@click.option("--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), help="Filter by priority.")
@filter_option
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def runs(
    connection: ConnectionOptions,
    printing: Printing,
    states: tuple[str, ...],
    job: str | None,
    priority: str | None,
    q: str | None,
    watch: bool,
    limit: int,
) -> None:
    """List runs, newest first.

    \b
    Examples:
      mainspring runs --state FAILED --job etl
      mainspring runs --filter 'job:etl-* created>2026-11-15'
      mainspring runs -q --state RUNNING | xargs -n1 mainspring cancel
      mainspring runs -o json --limit 1000
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import RUNS

    with connection.client() as client:
        show_list(
            lambda: client.runs(states=states, job=job, priority=priority, q=q, limit=limit),
            RUNS,
            printing,
            watch=watch,
            limit=limit,
        )
