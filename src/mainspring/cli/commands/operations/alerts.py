"""`mainspring alerts`: list alerts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.options import ListCommand
from mainspring.cli.resource import Listing, Session, listing

if TYPE_CHECKING:
    from mainspring.protocol.rest.schedules import AlertView


@click.command("alerts", cls=ListCommand)
@click.option("--all", "every", is_flag=True, help="Include resolved alerts.")
@listing(50)
def alerts(session: Session, every: bool, limit: int) -> Listing[AlertView]:
    """List open alerts, newest first.

    \b
    Examples:
      mainspring alerts
      mainspring alerts --all -o json
    """
    from mainspring.cli.render.tables import ALERTS

    return ALERTS, lambda: session.client.alerts(is_open=None if every else True, limit=limit)
