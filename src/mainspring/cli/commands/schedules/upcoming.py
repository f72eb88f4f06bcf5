"""`mainspring next`, also `upcoming`: list upcoming windows."""

from __future__ import annotations

from copy import copy

import rich_click as click

from mainspring.cli.options import (
    ConnectionOptions,
    ListCommand,
    Printing,
    limit_option,
    watch_option,
    with_connection_options,
    with_table_options,
)


@click.command("upcoming", cls=ListCommand)
@click.option(
    "--until",
    metavar="DURATION_OR_TIME",
    default="24h",
    show_default=True,
    help="How far ahead: a duration such as 24h, or a time.",
)
@click.option("--all", "every", is_flag=True, help="List all windows, not only the next of each schedule.")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def upcoming(
    connection: ConnectionOptions, printing: Printing, until: str, every: bool, watch: bool, limit: int
) -> None:
    """List the next window of each schedule, soonest first, with the last result.

    Alias: `mainspring upcoming`.

    \b
    Examples:
      mainspring next
      mainspring next --until 1h --all -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import upcoming_table
    from mainspring.cli.render.times import parse_future_time

    parse_future_time(until, "--until", printing)
    with connection.client() as client:
        show_list(
            lambda: client.upcoming(
                until=parse_future_time(until, "--until", printing), first_only=not every, with_last=True, limit=limit
            ),
            upcoming_table(printing),
            printing,
            watch=watch,
            limit=limit,
        )


next_runs = copy(upcoming)
next_runs.name = "next"
