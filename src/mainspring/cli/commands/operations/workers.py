"""`mainspring workers`, who they are, and what is done to one: `drain`, `cordon`, `uncordon`."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import Noun, Printing, Reach, limited, prints, prints_rows, reaches_server, watched

_why = click.option("--why", default="", help="Why; it is shown with the worker.")


@click.group("workers", cls=Noun, invoke_without_command=True)
@watched
@limited(200)
@prints_rows
@reaches_server
@click.pass_context
def workers(ctx: click.Context, /, reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List workers; see and end the certificates that they are known by.

    \b
    Examples:
      mainspring workers
      mainspring workers -o wide --sort -running
      mainspring workers revoke gpu-3
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.tables import WORKERS

    with reach.client() as client:
        show_list(lambda: client.workers(limit=limit), WORKERS, printing, watch=watch, limit=limit)


@workers.command("identities")
@watched
@limited(200)
@prints_rows
@reaches_server
def identities(reach: Reach, printing: Printing, watch: bool, limit: int) -> None:
    """List the workers that are known by their certificates, also those whose certificate is over.

    \b
    Examples:
      mainspring workers identities --sort expires
    """
    from mainspring.cli.render.admin_tables import IDENTITIES
    from mainspring.cli.render.listing import show_list

    with reach.client() as client:
        show_list(lambda: client.worker_identities(limit=limit), IDENTITIES, printing, watch=watch, limit=limit)


@workers.command("revoke")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@prints
@reaches_server
def revoke(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """End WORKER's certificate: within ten seconds its link is closed, and it is not let in again.

    What it has in hands is lost to it, and runs elsewhere. It comes back with a new join token.

    \b
    Examples:
      mainspring workers revoke gpu-3 --why "its disk was stolen"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "revoke", client.revoke_worker(worker, why))], printing)


@click.command("drain")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@prints
@reaches_server
def drain(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER nothing more, and call back what it has not started; what runs there goes on.

    \b
    Examples:
      mainspring drain w1 --why "new kernel"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "drain", client.drain(worker, why))], printing)


@click.command("cordon")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@prints
@reaches_server
def cordon(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER nothing more; what it has in hands goes on.

    \b
    Examples:
      mainspring cordon w1 --why "disk is slow"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "cordon", client.cordon(worker, why))], printing)


@click.command("evict")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@prints
@reaches_server
def evict(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Take everything that WORKER has in hands away from it: it runs elsewhere, and the try does not count.

    \b
    Examples:
      mainspring evict w1 --why "the machine goes back today"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "evict", client.evict(worker, why))], printing)


@click.command("uncordon")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@prints
@reaches_server
def uncordon(reach: Reach, printing: Printing, worker: str, why: str) -> None:
    """Give WORKER tasks again.

    \b
    Examples:
      mainspring uncordon w1
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    with reach.client() as client:
        print_deeds([Deed.of(worker, "uncordon", client.uncordon(worker, why))], printing)
