"""Permission to act as a worker (SEC-3), checked on register and claim, over any transport."""

from __future__ import annotations

from mainspring.api.auth import permissions
from mainspring.api.services import Principal, Role, Services
from mainspring.api.worker_link.enrollment import ENROLL_HINT
from mainspring.protocol.errors import Forbidden


def check_worker(services: Services, principal: Principal) -> None:
    """Raise Forbidden unless the caller may act as a worker: with a certificate, or with a token where that suffices.

    A worker with a token receives work of all tenants of its pool.
    """
    if Role.ADMIN not in principal.roles:
        permissions.check(principal, Role.WORKER, "worker_link")
    permissions.check_all_tenants(principal)
    if principal.worker is None and services.enrollment is not None and services.enrollment.is_required:
        raise Forbidden(f"workers need a certificate on this server: {ENROLL_HINT}")


async def check_worker_name(services: Services, principal: Principal, *, name: str, pool: str) -> None:
    """Raise Forbidden unless the caller may act as the worker of this name, in this pool.

    A certificate is valid for its own name and pools. A token is valid for every name without a certificate.
    """
    check_worker(services, principal)
    own = principal.worker
    if own is None:
        has_certificate = services.enrollment is not None and await services.identities.worker_named(name) is not None
        if has_certificate:
            raise Forbidden(f"the name {name} belongs to a worker with a certificate")
    elif name != own.name:
        raise Forbidden(f"the certificate is for worker {own.name}, not for {name}")
    elif pool not in own.pools:
        raise Forbidden(f"worker {name} may serve {', '.join(own.pools)}, not {pool}")
