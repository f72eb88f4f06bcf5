"""`mainspring queue`: what waits in a pool, and for what."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Listing, Printing, Reach, prints_rows, reaches_server, watched


@click.command("queue", cls=Listing)
@click.option("--pool", shell_complete=candidates.pools, help="Which pool; where runs usually go, unless said.")
@watched
@prints_rows
@reaches_server
def queue(reach: Reach, printing: Printing, pool: str | None, watch: bool) -> None:
    """Show how full a pool is, how well the cluster is, and what waits: in which order, since when, and for what.

    A line is all tasks of a tenant that have the same priority and want the same. With -t only the lines of that
    tenant are listed.

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
