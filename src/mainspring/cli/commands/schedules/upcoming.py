"""`mainspring next`, also `upcoming`: list upcoming windows."""

from __future__ import annotations

from copy import copy

import rich_click as click

from mainspring.cli.options import Listing, Printing, Reach, limited, prints_rows, reaches_server, watched


@click.command("upcoming", cls=Listing)
@click.option(
    "--until",
    metavar="DURATION_OR_TIME",
    default="24h",
    show_default=True,
    help="How far ahead: a duration such as 24h, or a time.",
)
@click.option("--all", "every", is_flag=True, help="List all windows, not only the next of each schedule.")
@watched
@limited(50)
@prints_rows
@reaches_server
def upcoming(reach: Reach, printing: Printing, until: str, every: bool, watch: bool, limit: int) -> None:
    """List the next window of each schedule, soonest first, with the last result.

    Alias: `mainspring upcoming`.

    \b
    Examples:
      mainspring next
      mainspring next --until 1h --all -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import upcoming_table
    from mainspring.cli.render.times import read_time_ahead

    read_time_ahead(until, "--until", printing)
    with reach.client() as client:
        show_list(
            lambda: client.upcoming(
                until=read_time_ahead(until, "--until", printing), first_only=not every, with_last=True, limit=limit
            ),
            upcoming_table(printing),
            printing,
            watch=watch,
            limit=limit,
        )


what_is_next = copy(upcoming)
what_is_next.name = "next"
