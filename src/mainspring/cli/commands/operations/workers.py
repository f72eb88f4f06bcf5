"""`mainspring workers` and worker actions: `drain`, `cordon`, `uncordon`, `evict`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import ResourceGroup
from mainspring.cli.resource import Listing, Outcome, Session, action, listing

if TYPE_CHECKING:
    from mainspring.protocol.rest.admin import IdentityView
    from mainspring.protocol.rest.runs import WorkerView

_WHY = "Reason, shown with the worker."
_worker = click.argument("worker", shell_complete=candidates.workers)


@click.group("workers", cls=ResourceGroup)
@listing(200)
def workers(session: Session, limit: int) -> Listing[WorkerView]:
    """List workers; list and revoke their certificates.

    \b
    Examples:
      mainspring workers
      mainspring workers -o wide --sort -running
      mainspring workers revoke gpu-3
    """
    from mainspring.cli.render.tables import WORKERS

    return WORKERS, lambda: session.client.workers(limit=limit)


@workers.command("identities")
@listing(200)
def identities(session: Session, limit: int) -> Listing[IdentityView]:
    """List worker certificates, including expired ones.

    \b
    Examples:
      mainspring workers identities --sort expires
    """
    from mainspring.cli.render.tables import IDENTITIES

    return IDENTITIES, lambda: session.client.worker_identities(limit=limit)


@workers.command("revoke")
@_worker
@action(_WHY)
def revoke(session: Session, worker: str, why: str) -> Outcome:
    """Revoke the certificate of WORKER.

    It is disconnected within ten seconds and can't reconnect. Its tasks are rescheduled on other workers. To
    return, it needs a new join token.

    \b
    Examples:
      mainspring workers revoke gpu-3 --why "its disk was stolen"
    """
    return worker, session.client.revoke_worker(worker, why)


@click.command("drain")
@_worker
@action(_WHY)
def drain(session: Session, worker: str, why: str) -> Outcome:
    """Drain WORKER: its running tasks continue, no new ones start.

    Tasks that were assigned but not started are requeued.

    \b
    Examples:
      mainspring drain w1 --why "new kernel"
    """
    return worker, session.client.drain(worker, why)


@click.command("cordon")
@_worker
@action(_WHY)
def cordon(session: Session, worker: str, why: str) -> Outcome:
    """Mark WORKER as unschedulable. Running tasks are not affected.

    \b
    Examples:
      mainspring cordon w1 --why "disk is slow"
    """
    return worker, session.client.cordon(worker, why)


@click.command("evict")
@_worker
@action(_WHY)
def evict(session: Session, worker: str, why: str) -> Outcome:
    """Evict all tasks from WORKER.

    They are rescheduled; evicted attempts do not count as retries.

    \b
    Examples:
      mainspring evict w1 --why "the machine goes back today"
    """
    return worker, session.client.evict(worker, why)


@click.command("uncordon")
@_worker
@action(_WHY)
def uncordon(session: Session, worker: str, why: str) -> Outcome:
    """Mark WORKER as schedulable.

    \b
    Examples:
      mainspring uncordon w1
    """
    return worker, session.client.uncordon(worker, why)
