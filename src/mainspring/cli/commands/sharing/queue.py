"""`mainspring queue`: waiting tasks of a pool."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Listing, Printing, Reach, prints_rows, reaches_server, watched


@click.command("queue", cls=Listing)
@click.option("--pool", shell_complete=candidates.pools, help="Pool to show; the server's default pool if omitted.")
@watched
@prints_rows
@reaches_server
def queue(reach: Reach, printing: Printing, pool: str | None, watch: bool) -> None:
    """Show the utilization, service level and queues of a pool, in dispatch order.

    A queue holds the tasks of a tenant with the same priority and resource request. -t shows only that tenant's.

    \b
    Examples:
      mainspring queue
      mainspring queue --pool gpu -t acme
      mainspring queue -w
    """
    from mainspring.cli.commands.sharing.queue_view import print_moment, read_moment, watch_queue

    if watch:
        with reach.watching_client() as client:
            watch_queue(lambda: read_moment(client, pool), printing)
    with reach.client() as client:
        print_moment(read_moment(client, pool), printing)
