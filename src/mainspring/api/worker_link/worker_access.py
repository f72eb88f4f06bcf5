"""Whether somebody may be a worker (SEC-3): asked when a worker registers or claims, over whichever way it came."""

from __future__ import annotations

from mainspring.api.auth import permissions
from mainspring.api.services import Principal, Role, Services
from mainspring.api.worker_link.enrolment import ENROL
from mainspring.protocol.errors import Forbidden


def check_worker(services: Services, principal: Principal) -> None:
    """Raises Forbidden unless whoever asks may be some worker: with a certificate, or with a token where that will do.

    A worker with a token gets the work of every tenant of its pool.
    """
    if Role.ADMIN not in principal.roles:
        permissions.check(principal, Role.WORKER, "worker_link")
    permissions.check_every_tenant(principal)
    if principal.worker is None and services.enrolment is not None and services.enrolment.is_required:
        raise Forbidden(f"a worker needs a certificate here: {ENROL}")


async def check_worker_is(services: Services, principal: Principal, *, name: str, pool: str) -> None:
    """Raises Forbidden unless whoever asks may be the worker of this name, in this pool.

    A certificate is good for its own name and its pools. A token is good for every name that no certificate has.
    """
    check_worker(services, principal)
    own = principal.worker
    if own is None:
        is_theirs = services.enrolment is not None and await services.identities.worker_named(name) is not None
        if is_theirs:
            raise Forbidden(f"worker {name} is known by its certificate, and nobody else may use its name")
    elif name != own.name:
        raise Forbidden(f"the certificate is that of worker {own.name}, not of {name}")
    elif pool not in own.pools:
        raise Forbidden(f"worker {name} may serve {', '.join(own.pools)}, not {pool}")
