"""Worker identities (SEC-3): join tokens, worker certificates, and their revocation."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from msgspec.structs import replace
from starlette.responses import Response

from mainspring.api.auth.access import Access
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.tokens import make_join_token
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.problems import not_found, refuse
from mainspring.api.http.routing import Router, json_response
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.views.view_of import view_of
from mainspring.api.worker_link import enrollment
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.protocol.certificates import MAX_REQUEST_BYTES, WORKER_NAME
from mainspring.protocol.errors import Fault, Forbidden, Unauthenticated
from mainspring.protocol.rest.admin import (
    CertificateView,
    EnrollRequest,
    IdentityView,
    JoinTokenRequest,
    JoinTokenView,
    RenewRequest,
)
from mainspring.protocol.rest.runs import ActionRequest, ActionResult, Page
from mainspring.store.ports.store import Store
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow

router = Router()

MAX_NAME_LENGTH = 128
MAX_POOLS = 100
MAX_USES = 10_000
MIN_LIFETIME, MAX_LIFETIME = timedelta(minutes=1), timedelta(days=30)
"""Lifetime of a join token."""


@router.post(
    "/join-tokens", operation="create_join_token", role=Role.ADMIN, status=201, returns=JoinTokenView, all_tenants=True
)
async def create_join_token(
    body: JoinTokenRequest, principal: Principal, store: Store, time: StoreTimeCache, audit: Auditor
) -> Response:
    """Create a join token for enrolling workers. Only this response shows it.

    For callers with access to all tenants: a worker receives work of all tenants of its pools.
    """
    _check(body)
    token, row = make_join_token(
        pools=dict.fromkeys(body.pools),
        uses=body.uses,
        name=body.name,
        by=principal.name,
        now=await time.now(),
        life=timedelta(seconds=body.expires_in_seconds),
    )
    await store.insert_join_token(row, audit.entry(row.id, tenant=INSTALLATION, after=_audit_summary(row)))
    return json_response(view_of(JoinTokenView, row, token=token), 201)


@router.get("/join-tokens", operation="list_join_tokens", role=Role.ADMIN, all_tenants=True)
async def list_join_tokens(store: Store) -> Page[JoinTokenView]:
    """List join tokens, oldest first, including expired ones; never the secrets."""
    return Page(items=[view_of(JoinTokenView, row, token=None) for row in await store.list_join_tokens()])


@router.delete("/join-tokens/{token_id}", operation="revoke_join_token", role=Role.ADMIN, all_tenants=True)
async def revoke_join_token(token_id: str, store: Store, audit: Auditor) -> ActionResult:
    """Revoke a join token. Workers that have enrolled with it stay enrolled."""
    row = await store.find_join_token(token_id)
    if row is None:
        raise not_found("join token", token_id)
    entry = audit.entry(token_id, tenant=INSTALLATION, before=_audit_summary(row))
    return ActionResult(changed=await store.revoke_join_token(token_id, entry))


@router.post(
    "/workers/enroll", operation="enroll_worker", role=Role.JOIN, status=201, max_body_bytes=2 * MAX_REQUEST_BYTES
)
async def enroll_worker(
    body: EnrollRequest, principal: Principal, store: Store, time: StoreTimeCache, access: Access, audit: Auditor
) -> CertificateView:
    """Enroll a worker, with a join token as the bearer: returns a certificate for the key of the request.

    Rejected (409) if another worker has the name. The same request with the same key is answered again.
    """
    authority = _enrollment(access)
    if not WORKER_NAME.fullmatch(body.name):
        refuse("the worker", [Fault(where="name", why="must be letters, digits, ., _ and -")])
    now = await time.now()
    certificate, issued = authority.sign(body.request, body.name, now=now)
    joined = await store.find_join_token(principal.join_token or "")
    row = view_of(
        IdentityRow,
        issued,
        pools=joined.pools if joined is not None else (),
        join_token=principal.join_token or "",
        enrolled_at=now,
        renewed_at=now,
    )
    entry = audit.entry(issued.name, tenant=INSTALLATION, after=view_of(IdentityView, row))
    if not await store.enroll(row, entry):
        raise Unauthenticated("the join token has no uses left: create another with `mainspring join-token create`")
    return view_of(CertificateView, row, certificate=certificate)


@router.post("/workers/renew", operation="renew_worker", role=Role.WORKER, max_body_bytes=2 * MAX_REQUEST_BYTES)
async def renew_worker(
    body: RenewRequest, principal: Principal, store: Store, time: StoreTimeCache, access: Access, audit: Auditor
) -> CertificateView:
    """Renew a worker certificate, over a connection that uses the current one. The key stays the same."""
    authority = _enrollment(access)
    own = principal.worker
    row = await store.find_identity(own.name) if own is not None else None
    if own is None or row is None:
        raise Forbidden(f"only workers with a certificate can renew it: {enrollment.ENROLL_HINT}")
    now = await time.now()
    certificate, issued = authority.sign(body.request, own.name, now=now)
    if issued.key != own.key:
        raise Forbidden("the request is not signed with the key of the certificate")
    renewed = replace(row, serial=issued.serial, renewed_at=now, expires_at=issued.expires_at)
    entry = audit.entry(
        own.name, tenant=INSTALLATION, before=view_of(IdentityView, row), after=view_of(IdentityView, renewed)
    )
    if not await store.renew_identity(renewed, entry):
        raise Unauthenticated(f"the certificate of worker {own.name} was revoked: {enrollment.ENROLL_HINT}")
    return view_of(CertificateView, renewed, certificate=certificate)


@router.get("/worker-identities", operation="list_identities", role=Role.ADMIN, all_tenants=True)
async def list_identities(store: Store, paging: PageRequest) -> Page[IdentityView]:
    """List workers with certificates, by name, including expired ones."""
    rows = await store.list_identities(paging.after(), paging.limit)
    return paging.page(rows, partial(view_of, IdentityView), lambda row: [row.name])


@router.post("/workers/{worker_id}/revoke", operation="revoke_worker", role=Role.ADMIN, all_tenants=True)
async def revoke_worker(worker_id: str, body: ActionRequest, store: Store, audit: Auditor) -> ActionResult:
    """Revoke a worker's certificate. Within ten seconds its link is closed and all servers reject it."""
    row = await store.find_identity(worker_id)
    if row is None:
        raise not_found("identity of worker", worker_id)
    entry = audit.entry(worker_id, tenant=INSTALLATION, why=reason(body.why), before=view_of(IdentityView, row))
    return ActionResult(changed=await store.revoke_identity(worker_id, entry))


def _enrollment(access: Access) -> Enrollment:
    """Return the CA settings. Raises Forbidden if this server has none."""
    if access.enrollment is None:
        raise Forbidden("this server issues no certificates: it was started without --worker-ca")
    return access.enrollment


def _check(body: JoinTokenRequest) -> None:
    """Raise Refused with all faults, if any."""
    faults = Faults()
    if not 1 <= len(body.name) <= MAX_NAME_LENGTH or not body.name.isprintable():
        faults.add("name", f"must have 1 to {MAX_NAME_LENGTH} printable characters")
    if not 1 <= len(body.pools) <= MAX_POOLS:
        faults.add("pools", f"must name 1 to {MAX_POOLS} pools")
    for number, pool in enumerate(body.pools[:MAX_POOLS]):
        validate_job.check_name(pool, f"pools[{number}]", faults)
    if not 1 <= body.uses <= MAX_USES:
        faults.add("uses", f"must be from 1 to {MAX_USES}")
    if not MIN_LIFETIME.total_seconds() <= body.expires_in_seconds <= MAX_LIFETIME.total_seconds():
        shortest, longest = MIN_LIFETIME.total_seconds(), MAX_LIFETIME.total_seconds()
        faults.add("expires_in_seconds", f"must be from {shortest:.0f} to {longest:.0f}")
    faults.refuse("the join token has")


def _audit_summary(row: JoinTokenRow) -> dict[str, object]:
    """Return the audit summary of a join token, without its secret."""
    return {"name": row.name, "pools": row.pools, "uses_left": row.uses_left, "expires_at": row.expires_at}
