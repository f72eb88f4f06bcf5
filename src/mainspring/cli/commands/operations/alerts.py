"""`mainspring alerts`: list alerts."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import Listing, Printing, Reach, limited, prints_rows, reaches_server, watched


@click.command("alerts", cls=Listing)
@click.option("--all", "every", is_flag=True, help="Include resolved alerts.")
@watched
@limited(50)
@prints_rows
@reaches_server
def alerts(reach: Reach, printing: Printing, every: bool, watch: bool, limit: int) -> None:
    """List open alerts, newest first.

    \b
    Examples:
      mainspring alerts
      mainspring alerts --all -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import ALERTS

    with reach.client() as client:
        show_list(
            lambda: client.alerts(is_open=None if every else True, limit=limit),
            ALERTS,
            printing,
            watch=watch,
            limit=limit,
        )
