"""`mainspring workers`, and what is done to one: `drain`, `cordon`, `uncordon`."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.options import Printing, Reach, limited, prints, prints_rows, reaches_server

_why = click.option("--why", default="", help="Why; it is shown with the worker.")


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Go on, and show what changes.")
@limited(200)
@prints_rows
@reaches_server
def workers(reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List workers.

    \b
    Examples:
      mainspring workers
      mainspring workers -o wide --sort -running
    """
    from mainspring.cli.listing import show_list
    from mainspring.cli.tables import WORKERS

    with reach.client() as client:
        show_list(lambda: client.workers(limit=limit), WORKERS, printing, watch=watch, limit=limit)


@click.command()
@click.argument("worker")
@_why
@prints
@reaches_server
def drain(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER nothing more, and let it end once it has nothing in hands.

    \b
    Examples:
      mainspring drain w1 --why "new kernel"
    """
    from mainspring.cli.deeds import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "drain", client.drain(worker, why))], printing)


@click.command()
@click.argument("worker")
@_why
@prints
@reaches_server
def cordon(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER nothing more; what it has in hands goes on.

    \b
    Examples:
      mainspring cordon w1 --why "disk is slow"
    """
    from mainspring.cli.deeds import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "cordon", client.cordon(worker, why))], printing)


@click.command()
@click.argument("worker")
@_why
@prints
@reaches_server
def uncordon(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER tasks again.

    \b
    Examples:
      mainspring uncordon w1
    """
    from mainspring.cli.deeds import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "uncordon", client.uncordon(worker, why))], printing)
