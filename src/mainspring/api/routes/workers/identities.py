"""Worker identities (SEC-3): join tokens, worker certificates, and their revocation."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.tokens import make_join_token
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router, json_response
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.actions import reason
from mainspring.api.views import run_views
from mainspring.api.views.run_views import USUAL_PAGE, Cursor, Limit
from mainspring.api.worker_link import enrolment
from mainspring.api.worker_link.enrolment import Enrolment
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.protocol.certificates import LARGEST_REQUEST_BYTES, WORKER_NAME
from mainspring.protocol.errors import Forbidden, Refused, Unauthenticated
from mainspring.protocol.rest.admin import (
    CertificateView,
    EnrolRequest,
    IdentityView,
    JoinTokenRequest,
    JoinTokenView,
    RenewRequest,
)
from mainspring.protocol.rest.runs import ActRequest, Done, Page
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow

router = Router()

LONGEST_NAME = 128
MOST_POOLS = 100
MOST_USES = 10_000
SHORTEST_LIFE, LONGEST_LIFE = timedelta(minutes=1), timedelta(days=30)
"""Lifetime of a join token."""


@router.post("/join-tokens", operation="create_join_token", role=Role.ADMIN, status=201, returns=JoinTokenView)
async def create_join_token(
    body: JoinTokenRequest, principal: Principal, services: Services, audit: Auditor
) -> Response:
    """Create a join token for enrolling workers. Only this response shows it.

    For callers with access to all tenants: a worker receives work of all tenants of its pools.
    """
    permissions.check_every_tenant(principal)
    _check(body)
    token, row = make_join_token(
        pools=dict.fromkeys(body.pools),
        uses=body.uses,
        name=body.name,
        by=principal.name,
        now=await services.time.now(),
        life=timedelta(seconds=body.expires_in_seconds),
    )
    await services.store.insert_join_token(row, audit.entry(row.id, tenant=INSTALLATION, after=_described(row)))
    return json_response(_join_token_view(row, token), 201)


@router.get("/join-tokens", operation="list_join_tokens", role=Role.ADMIN)
async def list_join_tokens(principal: Principal, services: Services) -> Page[JoinTokenView]:
    """List join tokens, oldest first, including expired ones; never the secrets."""
    permissions.check_every_tenant(principal)
    return Page(items=[_join_token_view(row) for row in await services.store.list_join_tokens()])


@router.delete("/join-tokens/{token_id}", operation="revoke_join_token", role=Role.ADMIN)
async def revoke_join_token(token_id: str, principal: Principal, services: Services, audit: Auditor) -> Done:
    """Revoke a join token. Workers that have enrolled with it stay enrolled."""
    permissions.check_every_tenant(principal)
    row = await services.store.find_join_token(token_id)
    if row is None:
        raise not_found("join token", token_id)
    entry = audit.entry(token_id, tenant=INSTALLATION, before=_described(row))
    return Done(changed=await services.store.revoke_join_token(token_id, entry))


@router.post(
    "/workers/enrol", operation="enrol_worker", role=Role.JOIN, status=201, largest_body=2 * LARGEST_REQUEST_BYTES
)
async def enrol_worker(body: EnrolRequest, principal: Principal, services: Services, audit: Auditor) -> CertificateView:
    """Enroll a worker, with a join token as the bearer: returns a certificate for the key of the request.

    Rejected (409) if another worker has the name. The same request with the same key is answered again.
    """
    giving = _enrolment(services)
    if not WORKER_NAME.fullmatch(body.name):
        faults = Faults()
        faults.add("name", "must be letters, digits, ., _ and -")
        raise Refused("the worker has 1 fault", faults.all())
    now = await services.time.now()
    certificate, made = giving.sign(body.request, body.name, now=now)
    joined = await services.store.find_join_token(principal.join_token or "")
    row = IdentityRow(
        name=made.name,
        key=made.key,
        pools=joined.pools if joined is not None else (),
        serial=made.serial,
        join_token=principal.join_token or "",
        enrolled_at=now,
        renewed_at=now,
        expires_at=made.expires_at,
    )
    entry = audit.entry(made.name, tenant=INSTALLATION, after=_identity_view(row))
    if not await services.store.enrol(row, entry):
        raise Unauthenticated("the join token has no uses left: create another with `mainspring join-token create`")
    return _certificate_view(row, certificate)


@router.post("/workers/renew", operation="renew_worker", role=Role.WORKER, largest_body=2 * LARGEST_REQUEST_BYTES)
async def renew_worker(body: RenewRequest, principal: Principal, services: Services, audit: Auditor) -> CertificateView:
    """Renew a worker certificate, over a connection that uses the current one. The key stays the same."""
    giving = _enrolment(services)
    own = principal.worker
    row = await services.store.find_identity(own.name) if own is not None else None
    if own is None or row is None:
        raise Forbidden(f"only workers with a certificate can renew it: {enrolment.ENROL}")
    now = await services.time.now()
    certificate, made = giving.sign(body.request, own.name, now=now)
    if made.key != own.key:
        raise Forbidden("the request is not signed with the key of the certificate")
    renewed = replace(row, serial=made.serial, renewed_at=now, expires_at=made.expires_at)
    entry = audit.entry(own.name, tenant=INSTALLATION, before=_identity_view(row), after=_identity_view(renewed))
    if not await services.store.renew_identity(renewed, entry):
        raise Unauthenticated(f"the certificate of worker {own.name} was revoked: {enrolment.ENROL}")
    return _certificate_view(renewed, certificate)


@router.get("/worker-identities", operation="list_identities", role=Role.ADMIN)
async def list_identities(
    principal: Principal, services: Services, limit: Limit = USUAL_PAGE, cursor: Cursor = ""
) -> Page[IdentityView]:
    """List workers with certificates, by name, including expired ones."""
    permissions.check_every_tenant(principal)
    (after,) = run_views.read_cursor(cursor, 1)
    rows = await services.store.list_identities(after, limit)
    return run_views.page(rows, [_identity_view(row) for row in rows], limit, [rows[-1].name] if rows else [])


@router.post("/workers/{worker_id}/revoke", operation="revoke_worker", role=Role.ADMIN)
async def revoke_worker(
    worker_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor
) -> Done:
    """Revoke a worker's certificate. Within ten seconds its link is closed and all servers reject it."""
    permissions.check_every_tenant(principal)
    row = await services.store.find_identity(worker_id)
    if row is None:
        raise not_found("identity of worker", worker_id)
    entry = audit.entry(worker_id, tenant=INSTALLATION, why=reason(body.why), before=_identity_view(row))
    return Done(changed=await services.store.revoke_identity(worker_id, entry))


def _enrolment(services: Services) -> Enrolment:
    """Return the CA settings. Raises Forbidden if this server has none."""
    if services.enrolment is None:
        raise Forbidden("this server issues no certificates: it was started without --worker-ca")
    return services.enrolment


def _check(body: JoinTokenRequest) -> None:
    """Raise Refused with all faults, if any."""
    faults = Faults()
    if not 1 <= len(body.name) <= LONGEST_NAME or not body.name.isprintable():
        faults.add("name", f"must have 1 to {LONGEST_NAME} printable characters")
    if not 1 <= len(body.pools) <= MOST_POOLS:
        faults.add("pools", f"must name 1 to {MOST_POOLS} pools")
    for number, pool in enumerate(body.pools[:MOST_POOLS]):
        validate_job.check_name(pool, f"pools[{number}]", faults)
    if not 1 <= body.uses <= MOST_USES:
        faults.add("uses", f"must be from 1 to {MOST_USES}")
    if not SHORTEST_LIFE.total_seconds() <= body.expires_in_seconds <= LONGEST_LIFE.total_seconds():
        shortest, longest = SHORTEST_LIFE.total_seconds(), LONGEST_LIFE.total_seconds()
        faults.add("expires_in_seconds", f"must be from {shortest:.0f} to {longest:.0f}")
    if faults.total():
        raise Refused(f"the join token has {faults.total()} fault{'s' if faults.total() > 1 else ''}", faults.all())


def _described(row: JoinTokenRow) -> dict[str, object]:
    """Return the audit summary of a join token, without its secret."""
    return {"name": row.name, "pools": row.pools, "uses_left": row.uses_left, "expires_at": row.expires_at}


def _join_token_view(row: JoinTokenRow, token: str | None = None) -> JoinTokenView:
    return JoinTokenView(
        id=row.id,
        name=row.name,
        pools=list(row.pools),
        uses_left=row.uses_left,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        token=token,
    )


def _identity_view(row: IdentityRow) -> IdentityView:
    return IdentityView(
        name=row.name,
        pools=list(row.pools),
        serial=row.serial,
        join_token=row.join_token,
        enrolled_at=row.enrolled_at,
        renewed_at=row.renewed_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _certificate_view(row: IdentityRow, certificate: str) -> CertificateView:
    return CertificateView(
        certificate=certificate, name=row.name, pools=list(row.pools), serial=row.serial, expires_at=row.expires_at
    )
