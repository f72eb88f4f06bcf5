"""Webhooks: HTTP notifications of how runs end, and their deliveries.

A webhook's secret is shown once and not stored (ADR 0023). The target address is checked on each delivery, because DNS
names may change; an invalid URL is rejected immediately. A URL may refer to a variable or file of the server's machine
(`${env:NAME}`) only if the server was started with that option: a tenant must not read its operator's secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import msgspec
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.access import Access
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import ALL_TENANTS, Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import etags
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.request_components import RequestComponent
from mainspring.api.services import ServerInfo
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views.view_of import view_of
from mainspring.core.admission.validate_job import Faults, check_name
from mainspring.core.model.webhook_events import EVENTS, reference_in, test_event
from mainspring.core.text.urls import MAX_URL_LENGTH, fault_of_url
from mainspring.host.outbox.webhooks import MAX_PER_TENANT, WebhookCache, new_delivery, outgoing
from mainspring.protocol.errors import Conflict, Refused
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.rest.admin import DeliveryView, WebhookRequest, WebhookView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.store.ports.admin import DeliveryRow, WebhookRow
from mainspring.store.ports.store import Store

router = Router()

MAX_NOTE_LENGTH = 1_000


@dataclass(frozen=True, slots=True)
class WebhookEditor(RequestComponent):
    """Changes of webhooks by the caller."""

    visible: VisibleRows
    server: ServerInfo
    store: Store
    webhooks: WebhookCache
    audit: Auditor

    async def put(self, row: WebhookRow, expected: int | None, before: WebhookRow | None = None) -> WebhookRow:
        """Write a webhook."""
        summary = None if before is None else _audit_summary(before)
        entry = self.audit.entry(row.id, tenant=row.tenant, before=summary, after=_audit_summary(row))
        kept = await self.store.put_webhook(row, expected, entry)
        self.webhooks.forget(row.tenant)
        return kept


@router.post("/webhooks", operation="create_webhook", role=Role.ADMIN, status=201, returns=WebhookView)
async def create_webhook(body: WebhookRequest, editor: WebhookEditor, time: StoreTimeCache, access: Access) -> Response:
    """Create a webhook. Only this response shows its secret."""
    tenant = permissions.tenant_to_write(editor.visible.principal, body.tenant)
    _check(body, tenant, editor.server)
    if len(await editor.store.list_webhooks(tenant, "", MAX_PER_TENANT)) >= MAX_PER_TENANT:
        raise Conflict(f"a tenant has at most {MAX_PER_TENANT} webhooks")
    now = await time.now()
    row = view_of(
        WebhookRow, body, id=new_id("hook", now, Random(entropy())), tenant=tenant, events=tuple(body.events),
        version=0, created_at=now, created_by=editor.audit.actor,
    )  # fmt: skip
    row = await editor.put(row, 0)
    view = _view(row, secret=access.webhook_secret(row.id))
    return etags.answer(view, row.version, status=201, headers={"Location": f"/api/v1/webhooks/{row.id}"})


@router.get("/webhooks", operation="list_webhooks", role=Role.OPERATOR)
async def list_webhooks(
    principal: Principal, store: Store, paging: PageRequest, tenant: str | None = None
) -> Page[WebhookView]:
    """List webhooks, oldest first, without their secrets."""
    wanted = permissions.tenant_to_read(principal, tenant)
    rows = await store.list_webhooks(wanted, paging.after(), paging.limit)
    return paging.page(rows, _view, lambda row: [row.id])


@router.get("/webhooks/{webhook_id}", operation="get_webhook", role=Role.OPERATOR, returns=WebhookView)
async def get_webhook(webhook_id: str, visible: VisibleRows, known: IfNoneMatch = None) -> Response:
    """Get a webhook, without its secret."""
    row = await visible.webhook(webhook_id)
    return etags.answer(_view(row), row.version, known)


@router.put("/webhooks/{webhook_id}", operation="change_webhook", role=Role.ADMIN, returns=WebhookView)
async def change_webhook(
    webhook_id: str, body: WebhookRequest, editor: WebhookEditor, match: IfMatch = None
) -> Response:
    """Replace a webhook; its secret and tenant stay."""
    row = await editor.visible.webhook(webhook_id)
    _check(body, row.tenant, editor.server)
    if body.tenant not in {None, row.tenant}:
        raise Refused("the tenant of a webhook can't be changed")
    changed = msgspec.structs.replace(
        row, url=body.url, events=tuple(body.events), job=body.job, enabled=body.enabled, note=body.note
    )
    expected = etags.expected(match, row.version, f"webhook {row.id}")
    changed = await editor.put(changed, expected, before=row)
    return etags.answer(_view(changed), changed.version)


@router.delete("/webhooks/{webhook_id}", operation="delete_webhook", role=Role.ADMIN)
async def delete_webhook(webhook_id: str, editor: WebhookEditor, match: IfMatch = None) -> ActionResult:
    """Delete a webhook and its deliveries."""
    row = await editor.visible.webhook(webhook_id)
    etags.expected(match, row.version, f"webhook {row.id}")
    entry = editor.audit.entry(row.id, tenant=row.tenant, before=_audit_summary(row))
    changed = await editor.store.drop_webhook(row.id, entry)
    editor.webhooks.forget(row.tenant)
    return ActionResult(changed=changed)


@router.post("/webhooks/{webhook_id}/test", operation="test_webhook", role=Role.ADMIN, status=202, returns=DeliveryView)
async def test_webhook(
    webhook_id: str, visible: VisibleRows, store: Store, time: StoreTimeCache, audit: Auditor
) -> DeliveryView:
    """Send a test message; see the deliveries for its result."""
    row = await visible.webhook(webhook_id)
    now = await time.now()
    event = test_event(new_id("msg", now, Random(entropy())), row.id, tenant=row.tenant, at=now)
    delivery = new_delivery(row, event, now)
    entry = audit.entry(row.id, tenant=row.tenant, after={"delivery": delivery.id})
    await store.add_deliveries([delivery], [outgoing(delivery, now)], entry)
    return _delivery_view(delivery)


@router.get("/webhooks/{webhook_id}/deliveries", operation="list_deliveries", role=Role.OPERATOR)
async def list_deliveries(
    webhook_id: str, visible: VisibleRows, store: Store, paging: PageRequest
) -> Page[DeliveryView]:
    """List the deliveries of a webhook with their results, latest first."""
    row = await visible.webhook(webhook_id)
    rows = await store.list_deliveries(row.id, paging.after(), paging.limit)
    return paging.page(rows, _delivery_view, lambda row: [row.id])


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/resend", operation="resend_delivery", role=Role.ADMIN)
async def resend_delivery(
    webhook_id: str, delivery_id: str, visible: VisibleRows, store: Store, time: StoreTimeCache, audit: Auditor
) -> ActionResult:
    """Send a message again, with the same id."""
    row = await visible.webhook(webhook_id)
    delivery = await store.find_delivery(delivery_id)
    if delivery is None or delivery.webhook_id != row.id:
        raise not_found("delivery", delivery_id)
    now = await time.now()
    again = outgoing(delivery, now, again=f":{entropy():016x}")
    entry = audit.entry(delivery_id, tenant=row.tenant)
    return ActionResult(changed=await store.resend(delivery_id, again, entry))


def _check(body: WebhookRequest, tenant: str, server: ServerInfo) -> None:
    faults = Faults()
    fault = fault_of_url(body.url)
    if reference_in(body.url) is not None and len(body.url) <= MAX_URL_LENGTH:
        fault = None if server.has_url_references else "must be a URL: references are disabled on this server"
    if fault is not None:
        faults.add("url", fault)
    for number, event in enumerate(body.events[: Faults.MOST]):
        if event not in EVENTS:
            faults.add(f"events[{number}]", f"must be one of {', '.join(EVENTS)}")
    if len(body.events) > len(EVENTS):
        faults.add("events", f"must have at most {len(EVENTS)} entries")
    if body.job:
        check_name(body.job, "job", faults)
    if len(body.note) > MAX_NOTE_LENGTH:
        faults.add("note", f"must have at most {MAX_NOTE_LENGTH} characters")
    if tenant != ALL_TENANTS:
        check_name(tenant, "tenant", faults)
    faults.refuse("the webhook has")


def _view(row: WebhookRow, secret: str | None = None) -> WebhookView:
    return view_of(WebhookView, row, secret=secret)


def _audit_summary(row: WebhookRow) -> dict[str, object]:
    """Return the audit summary of a webhook."""
    return {"url": row.url, "events": row.events, "job": row.job, "enabled": row.enabled, "note": row.note}


def _delivery_view(row: DeliveryRow) -> DeliveryView:
    return view_of(DeliveryView, row, body=msgspec.Raw(row.body))
