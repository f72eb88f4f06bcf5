"""`mainspring next`, also `upcoming`: what fires when."""

from __future__ import annotations

from copy import copy

import rich_click as click

from mainspring.cli.options import Listing, Printing, Reach, limited, prints_rows, reaches_server, watched


@click.command("upcoming", cls=Listing)
@click.option(
    "--until", metavar="LENGTH_OR_TIME", default="24h", show_default=True, help="How far to look ahead: 24h, or a time."
)
@click.option("--all", "every", is_flag=True, help="Every window, not only the next one of each schedule.")
@watched
@limited(50)
@prints_rows
@reaches_server
def upcoming(reach: Reach, printing: Printing, until: str, every: bool, watch: bool, limit: int) -> None:
    """List what fires next, each schedule once, soonest first, with how it went the last time.

    `mainspring upcoming` is the same.

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
