"""Tenants, the owners of work, with title and contact. A tenant exists as soon as it owns something."""

from __future__ import annotations

from starlette.responses import Response

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.views.view_of import view_of
from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.protocol.rest.admin import TenantRequest, TenantView
from mainspring.protocol.rest.runs import Page
from mainspring.store.ports.admin import TenantRow
from mainspring.store.ports.store import Store

router = Router()

MAX_TEXT_LENGTH = {"title": 200, "contact": 500, "note": 4_000}


@router.get("/tenants", operation="list_tenants", role=Role.VIEWER)
async def list_tenants(principal: Principal, store: Store, paging: PageRequest) -> Page[TenantView]:
    """List tenants by name: all, or the caller's own."""
    if not principal.sees_all_tenants():
        own = await store.find_tenant(principal.tenant)
        return Page(items=[] if own is None else [_view(own)])
    rows = await store.list_tenants(paging.after(), paging.limit)
    return paging.page(rows, _view, lambda row: [row.name])


@router.get("/tenants/{name}", operation="get_tenant", role=Role.VIEWER, returns=TenantView)
async def get_tenant(name: str, principal: Principal, store: Store, known: IfNoneMatch = None) -> Response:
    """Get a tenant."""
    row = await store.find_tenant(name) if principal.sees(name) else None
    if row is None:
        raise not_found("tenant", name)
    return etags.answer(_view(row), row.version, known)


@router.put("/tenants/{name}", operation="put_tenant", role=Role.ADMIN, returns=TenantView, all_tenants=True)
async def put_tenant(name: str, body: TenantRequest, store: Store, audit: Auditor, match: IfMatch = None) -> Response:
    """Describe a tenant, which need not exist yet. Requires access to all tenants."""
    _check(name, body)
    existing = await store.find_tenant(name)
    expected = etags.expected(match, None if existing is None else existing.version, f"tenant {name}")
    row = view_of(
        TenantRow, body, name=name, version=0, created_at=EPOCH, created_by=audit.actor, updated_at=EPOCH,
        updated_by=audit.actor,
    )  # fmt: skip
    before = None if existing is None else view_of(TenantRequest, existing)
    kept = await store.put_tenant(row, expected, audit.entry(name, tenant=name, before=before, after=body))
    return etags.answer(_view(kept), kept.version)


def _check(name: str, body: TenantRequest) -> None:
    faults = Faults()
    validate_job.check_name(name, "path:name", faults)
    for field, longest in MAX_TEXT_LENGTH.items():
        if len(getattr(body, field)) > longest:
            faults.add(field, f"must have at most {longest} characters")
    faults.refuse("the tenant has")


def _view(row: TenantRow) -> TenantView:
    """Convert a tenant; one without a description has no author."""
    if row.version == 0:
        return TenantView(name=row.name, title="", contact="", note="", version=0)
    return view_of(TenantView, row)
