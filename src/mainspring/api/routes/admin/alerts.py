"""Alerts, open circuits, and duration statistics (OBS-6, RTY-4)."""

from __future__ import annotations

from typing import Literal

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.routing import Router
from mainspring.api.views.view_of import view_of
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import AlertView, BreakerView, DurationView
from mainspring.store.ports.store import Store

router = Router()

AlertState = Literal["open", "resolved"]


@router.get("/alerts", operation="list_alerts", role=Role.VIEWER)
async def list_alerts(
    principal: Principal, store: Store, paging: PageRequest, state: AlertState | None = None, tenant: str | None = None
) -> Page[AlertView]:
    """List alerts, latest first: open ones, resolved ones, or all."""
    scope = permissions.tenant_to_read(principal, tenant)
    is_open = None if state is None else state == "open"
    rows = await store.list_alerts(scope, is_open, paging.after(), paging.limit)
    return paging.page(
        rows, lambda row: view_of(AlertView, row, details=msgspec.Raw(row.details)), lambda row: [row.id]
    )


@router.get("/breakers", operation="list_breakers", role=Role.VIEWER)
async def list_breakers(principal: Principal, store: Store) -> Page[BreakerView]:
    """List open circuits. Callers of one tenant see those of its own jobs."""
    own = f"{principal.tenant}/"
    return Page(
        items=[
            view_of(BreakerView, row, pool=row.shard)
            for row in await store.breakers()
            if principal.sees_all_tenants() or (row.kind == "job" and row.subject.startswith(own))
        ]
    )


@router.get("/jobs/{name}/durations", operation="list_durations", role=Role.VIEWER)
async def list_durations(
    name: str, visible: VisibleRows, store: Store, tenant: str | None = None
) -> Page[DurationView]:
    """List duration statistics of a job: the whole run, without a name, then its tasks by name."""
    job = await visible.job(name, tenant)
    return Page(items=[view_of(DurationView, row) for row in await store.durations(job.tenant, name)])
