"""`mainspring alerts`: list alerts."""

from __future__ import annotations

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


@click.command("alerts", cls=ListCommand)
@click.option("--all", "every", is_flag=True, help="Include resolved alerts.")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def alerts(connection: ConnectionOptions, printing: Printing, every: bool, watch: bool, limit: int) -> None:
    """List open alerts, newest first.

    \b
    Examples:
      mainspring alerts
      mainspring alerts --all -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import ALERTS

    with connection.client() as client:
        show_list(
            lambda: client.alerts(is_open=None if every else True, limit=limit),
            ALERTS,
            printing,
            watch=watch,
            limit=limit,
        )
