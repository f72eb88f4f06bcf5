"""Receive and list events (TRG-7). The live stream of transitions is in `api/routes/runs/live_events.py`."""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import bodies
from mainspring.api.http.cursors import PageRequest, TimeCursor
from mainspring.api.http.routing import Router
from mainspring.api.routes.jobs.jobs import TenantName
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.cloud_events import MAX_REQUEST_BYTES, STRUCTURED, read_events
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views.view_of import view_of
from mainspring.host.schedules.schedule_actions import ScheduleActions
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import CloudEvent, EventView, ReceivedView
from mainspring.store.ports.schedules import EventRow
from mainspring.store.ports.store import Store

router = Router()

_IDS_AUDITED = 10


@router.post(
    "/events",
    operation="receive_events",
    role=Role.SUBMITTER,
    takes=STRUCTURED,
    reads=CloudEvent,
    rate_class=RateClass.SUBMISSION,
)
async def receive_events(
    request: Request,
    principal: Principal,
    time: StoreTimeCache,
    schedule_actions: ScheduleActions,
    audit: Auditor,
    tenant: TenantName | None = None,
) -> Page[ReceivedView]:
    """Receive events: one, or a list of them, as CloudEvents in structured, batch or binary mode.

    The response follows the durable write, and shows for each event whether it is new. An event with the source and id
    of an earlier one is ignored, so retries are safe.
    """
    tenant = permissions.tenant_to_write(principal, tenant)
    body = await bodies.read(request, MAX_REQUEST_BYTES)
    events = read_events(request.headers, body, tenant=tenant, now=await time.now())
    types = sorted({event.type for event in events})
    entry = audit.entry(
        types[0] if len(types) == 1 else f"{len(types)} types",
        tenant=tenant,
        after={"events": len(events), "ids": [event.id for event in events[:_IDS_AUDITED]]},
    )
    are_new = await schedule_actions.receive_events(tenant, events, entry)
    return Page(
        items=[view_of(ReceivedView, event, is_new=is_new) for event, is_new in zip(events, are_new, strict=True)]
    )


@router.get("/events/received", operation="list_received_events", role=Role.VIEWER)
async def list_received_events(
    principal: Principal, store: Store, paging: PageRequest, type: str | None = None, tenant: str | None = None
) -> Page[EventView]:
    """List received events within their retention, latest first."""
    position = TimeCursor.read(paging.cursor)
    scope = permissions.tenant_to_read(principal, tenant)
    rows = await store.list_events(scope, type, position.before(None), paging.limit + position.skip)
    return position.page(rows, paging.limit, lambda row: row.received_at, _view)


def _view(row: EventRow) -> EventView:
    return view_of(EventView, row, document=msgspec.Raw(row.document))
