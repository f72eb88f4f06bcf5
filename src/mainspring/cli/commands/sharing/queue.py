"""`mainspring queue`: waiting tasks of a pool."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    ListCommand,
    Printing,
    watch_option,
    with_connection_options,
    with_table_options,
)


@click.command("queue", cls=ListCommand)
@click.option("--pool", shell_complete=candidates.pools, help="Pool to show; the server's default pool if omitted.")
@watch_option
@with_table_options
@with_connection_options
def queue(connection: ConnectionOptions, printing: Printing, pool: str | None, watch: bool) -> None:
    """Show the utilization, service level and queues of a pool, in dispatch order.

    A queue holds the tasks of a tenant with the same priority and resource request. -t shows only that tenant's.

    \b
    Examples:
      mainspring queue
      mainspring queue --pool gpu -t acme
      mainspring queue -w
    """
    from mainspring.cli.commands.sharing.queue_view import print_snapshot, read_snapshot, watch_queue

    if watch:
        with connection.watch_client() as client:
            watch_queue(lambda: read_snapshot(client, pool), printing)
    with connection.client() as client:
        print_snapshot(read_snapshot(client, pool), printing)
