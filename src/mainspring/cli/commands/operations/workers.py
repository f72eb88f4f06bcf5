"""`mainspring workers` and worker actions: `drain`, `cordon`, `uncordon`, `evict`."""

from __future__ import annotations

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    limit_option,
    watch_option,
    with_connection_options,
    with_output_options,
    with_table_options,
)

_why = click.option("--why", default="", help="Reason, shown with the worker.")


@click.group("workers", cls=ResourceGroup, invoke_without_command=True)
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
@click.pass_context
def workers(ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List workers; list and revoke their certificates.

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

    with connection.client() as client:
        show_list(lambda: client.workers(limit=limit), WORKERS, printing, watch=watch, limit=limit)


@workers.command("identities")
@watch_option
@limit_option(200)
@with_table_options
@with_connection_options
def identities(connection: ConnectionOptions, printing: Printing, watch: bool, limit: int) -> None:
    """List worker certificates, including expired ones.

    \b
    Examples:
      mainspring workers identities --sort expires
    """
    from mainspring.cli.render.admin_tables import IDENTITIES
    from mainspring.cli.render.listing import show_list

    with connection.client() as client:
        show_list(lambda: client.worker_identities(limit=limit), IDENTITIES, printing, watch=watch, limit=limit)


@workers.command("revoke")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@with_output_options
@with_connection_options
def revoke(connection: ConnectionOptions, printing: Printing, worker: str, why: str) -> None:
    """Revoke the certificate of WORKER. It is disconnected within ten seconds and can't reconnect.

    Its tasks are rescheduled on other workers. To return, it needs a new join token.

    \b
    Examples:
      mainspring workers revoke gpu-3 --why "its disk was stolen"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(worker, "revoke", client.revoke_worker(worker, why))], printing)


@click.command("drain")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@with_output_options
@with_connection_options
def drain(connection: ConnectionOptions, printing: Printing, worker: str, why: str) -> None:
    """Drain WORKER: assign no new tasks and requeue those not started. Running tasks continue.

    \b
    Examples:
      mainspring drain w1 --why "new kernel"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(worker, "drain", client.drain(worker, why))], printing)


@click.command("cordon")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@with_output_options
@with_connection_options
def cordon(connection: ConnectionOptions, printing: Printing, worker: str, why: str) -> None:
    """Mark WORKER as unschedulable. Running tasks are not affected.

    \b
    Examples:
      mainspring cordon w1 --why "disk is slow"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(worker, "cordon", client.cordon(worker, why))], printing)


@click.command("evict")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@with_output_options
@with_connection_options
def evict(connection: ConnectionOptions, printing: Printing, worker: str, why: str) -> None:
    """Evict all tasks from WORKER; they are rescheduled, and evicted attempts do not count as retries.

    \b
    Examples:
      mainspring evict w1 --why "the machine goes back today"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(worker, "evict", client.evict(worker, why))], printing)


@click.command("uncordon")
@click.argument("worker", shell_complete=candidates.workers)
@_why
@with_output_options
@with_connection_options
def uncordon(connection: ConnectionOptions, printing: Printing, worker: str, why: str) -> None:
    """Mark WORKER as schedulable.

    \b
    Examples:
      mainspring uncordon w1
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    with connection.client() as client:
        print_action_outcomes([ActionOutcome.of(worker, "uncordon", client.uncordon(worker, why))], printing)
