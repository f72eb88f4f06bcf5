"""`mainspring runs`: list runs."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.commands.runs.bulk_actions import filtered
from mainspring.cli.completion import candidates
from mainspring.cli.options import Listing, Printing, Reach, limited, prints_rows, reaches_server, watched

STATES = ("PENDING", "RUNNING", "PAUSED", "SUCCEEDED", "FAILED", "PARTIAL", "TIMED_OUT", "CANCELLED")


@click.command("runs", cls=Listing)
@click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False),
    help="Filter by state. Repeatable.",
)  # fmt: skip
@click.option("--job", help="Filter by job.", shell_complete=candidates.jobs)
@click.option("--priority", type=click.Choice(["P0", "P1", "P2"], case_sensitive=False), help="Filter by priority.")
@filtered
@watched
@limited(50)
@prints_rows
@reaches_server
def runs(
    reach: Reach,
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

    with reach.client() as client:
        show_list(
            lambda: client.runs(states=states, job=job, priority=priority, q=q, limit=limit),
            RUNS,
            printing,
            watch=watch,
            limit=limit,
        )
