"""API tokens: create, list and revoke, by administrators (SEC-2)."""

from __future__ import annotations

from datetime import timedelta

from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import ALL_TENANTS, Principal, Role
from mainspring.api.auth.tokens import MAX_LIFETIME, MIN_LIFETIME, audit_summary, make_token
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router, json_response
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.idempotency import Key
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.protocol.errors import KeyReused
from mainspring.protocol.rest.runs import ActionResult, Page, TokenRequest, TokenView
from mainspring.store.ports.store import Store

router = Router()

MAX_NAME_LENGTH = 128
TENANT_ASSIGNABLE_ROLES = frozenset({Role.VIEWER, Role.SUBMITTER, Role.OPERATOR, Role.APPROVER, Role.ADMIN})
"""Roles that the administrator of one tenant can assign. A worker receives work of all tenants of its pool."""
ASSIGNABLE_ROLES = TENANT_ASSIGNABLE_ROLES | {Role.WORKER}


@router.post("/tokens", operation="create_token", role=Role.ADMIN, status=201, returns=TokenView)
async def create_token(
    body: TokenRequest, principal: Principal, store: Store, time: StoreTimeCache, audit: Auditor, key: Key = None
) -> Response:
    """Create a token. Only this response shows it.

    It belongs to the caller's tenant, or to the named one if the caller has access to all tenants. A repeated
    `Idempotency-Key` is rejected (409): if the first response was lost, revoke the token that the error names.
    """
    tenant = principal.tenant if body.tenant is None else body.tenant
    if tenant != principal.tenant:
        permissions.check_all_tenants(principal)
    _check(body, tenant, ASSIGNABLE_ROLES if principal.sees_all_tenants() else TENANT_ASSIGNABLE_ROLES)
    token, row = make_token(
        tenant=tenant,
        roles=[Role(role) for role in dict.fromkeys(body.roles)],
        name=body.name,
        by=principal.name,
        now=await time.now(),
        life=timedelta(seconds=body.expires_in_seconds),
        key=None if key is None else f"{principal.tenant} {key}",
    )
    if key is not None and await store.find_token(row.id) is not None:
        raise KeyReused(f"token {row.id} was created with this key and is not shown again")
    await store.insert_token(row, audit.entry(row.id, tenant=tenant, after=audit_summary(row)))
    return json_response(view_of(TokenView, row, token=token), 201, {"Location": f"/api/v1/tokens/{row.id}"})


@router.get("/tokens", operation="list_tokens", role=Role.ADMIN)
async def list_tokens(principal: Principal, store: Store, tenant: str | None = None) -> Page[TokenView]:
    """List tokens, oldest first, including expired ones; never the secrets."""
    rows = await store.list_tokens(permissions.tenant_to_read(principal, tenant))
    return Page(items=[view_of(TokenView, row, token=None) for row in rows])


@router.delete("/tokens/{token_id}", operation="revoke_token", role=Role.ADMIN)
async def revoke_token(token_id: str, principal: Principal, store: Store, audit: Auditor) -> ActionResult:
    """Revoke a token. All servers reject it within ten seconds."""
    row = await store.find_token(token_id)
    if row is None or not principal.sees(row.tenant):
        raise not_found("token", token_id)
    entry = audit.entry(token_id, tenant=row.tenant, before=audit_summary(row))
    return ActionResult(changed=await store.revoke_token(token_id, entry))


def _check(body: TokenRequest, tenant: str, assignable: frozenset[Role]) -> None:
    faults = Faults()
    if not 1 <= len(body.name) <= MAX_NAME_LENGTH or not body.name.isprintable():
        faults.add("name", f"must have 1 to {MAX_NAME_LENGTH} printable characters")
    if tenant != ALL_TENANTS:
        validate_job.check_name(tenant, "tenant", faults)
    if not body.roles:
        faults.add("roles", "must have at least one role")
    names = sorted(role.value for role in assignable)
    if len(body.roles) > len(Role):
        faults.add("roles", f"has {len(body.roles)} roles, at most {len(Role)} are allowed")
    for number, role in enumerate(body.roles[: len(Role)]):
        if role not in names:
            faults.add(f"roles[{number}]", f"must be one of {', '.join(names)}")
    if not MIN_LIFETIME.total_seconds() <= body.expires_in_seconds <= MAX_LIFETIME.total_seconds():
        longest = MAX_LIFETIME.total_seconds()
        faults.add("expires_in_seconds", f"must be from {MIN_LIFETIME.total_seconds():.0f} to {longest:.0f}")
    faults.refuse("the token has")
