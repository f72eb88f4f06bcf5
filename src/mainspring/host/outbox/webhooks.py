"""Webhooks: notify other systems when runs end.

    outbox "run.ended" ──► runs_ended ──► a delivery for each subscribed webhook, and an outbox row "webhook"
    outbox "webhook"   ──► send ──► a signed POST; the response is recorded with the delivery

1. A delivery and its outbox row are one transaction, with an id made of webhook, run and generation: an end that
   arrives twice is one delivery.
2. A failed delivery is retried by the outbox with backoff, up to MAX_ATTEMPTS; after that it can be resent manually.
   A failing receiver delays neither other webhooks nor deliveries of other runs.
3. The end of a run is published if its tenant had a webhook when the run was created (`WebhookCache.has_any`), or if
   it is a run of a schedule.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import msgspec
import structlog

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.task import TaskState
from mainspring.core.model.webhook_events import CloudEvent, is_subscribed, message_id, run_ended_event
from mainspring.host.outbox.delivery import GroupReceiver, Receiver
from mainspring.host.outbox.run_ended import RunEnded, decode_run_ended
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.store.ports.admin import DeliveryRow, WebhookRow
from mainspring.store.ports.front import TaskFilter
from mainspring.store.ports.store import Store

log = structlog.get_logger()

Post = Callable[[WebhookRow, str, bytes], Awaitable[int]]
"""Sends the body of a delivery with this id to a webhook; returns the HTTP status. Raises Unavailable or Refused."""

WEBHOOK_KIND = "webhook"
"""Outbox kind of deliveries. Delivered concurrently: the receiver waits for another system."""
MAX_ATTEMPTS = 15
"""With the backoff of the outbox: over about an hour."""
MAX_PER_TENANT = 100
MAX_CONCURRENT = 4
CACHE_SECONDS = 5.0
_MAX_CACHED_TENANTS = 10_000
_FAILED = (TaskState.FAILED, TaskState.TIMED_OUT)


class _ToSend(msgspec.Struct, frozen=True, kw_only=True):
    delivery: str


class WebhookCache:
    """Cache of the webhooks of each tenant, for CACHE_SECONDS."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, list[WebhookRow]]] = OrderedDict()

    async def of(self, tenant: str) -> list[WebhookRow]:
        """Return the enabled webhooks of a tenant."""
        until, rows = self._known.get(tenant, (0.0, []))
        now = self._clock.monotonic()
        if now < until:
            return rows
        rows = [row for row in await self._store.list_webhooks(tenant, "", MAX_PER_TENANT) if row.enabled]
        self._known[tenant] = (now + CACHE_SECONDS, rows)
        if len(self._known) > _MAX_CACHED_TENANTS:
            self._known.popitem(last=False)
        return rows

    async def has_any(self, tenant: str) -> bool:
        """Return whether a tenant has an enabled webhook."""
        return bool(await self.of(tenant))

    def forget(self, tenant: str) -> None:
        """Drop a tenant from the cache after a change on this server."""
        self._known.pop(tenant, None)


class Webhooks:
    """The outbox receivers of webhooks."""

    def __init__(self, store: Store, cache: WebhookCache, post: Post) -> None:
        self._cache = cache
        self._store = store
        self._post = post
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    def receivers(self) -> Mapping[str, Receiver]:
        """Return the receivers by outbox kind."""
        return {WEBHOOK_KIND: self.send}

    def after(self, first: GroupReceiver) -> GroupReceiver:
        """Return a receiver that runs after another one, which may see rows twice."""

        async def receive(rows: Sequence[OutboxRow]) -> None:
            await first(rows)
            await self.runs_ended(rows)

        return receive

    async def runs_ended(self, rows: Sequence[OutboxRow]) -> None:
        """Create a delivery for each webhook that is subscribed to an ended run."""
        deliveries = []
        for row in rows:
            ended = decode_run_ended(row)
            webhooks = await self._cache.of(ended.tenant)
            if webhooks:
                deliveries += await self._messages(ended, webhooks, row.created_at)
        if deliveries:
            await self._store.add_deliveries(deliveries, [outgoing(one, one.created_at) for one in deliveries])

    async def send(self, row: OutboxRow) -> None:
        """Send a delivery. Raises if it is to be retried."""
        delivery = await self._store.find_delivery(msgspec.json.decode(row.payload, type=_ToSend).delivery)
        if delivery is None:
            return
        webhook = await self._store.find_webhook(delivery.webhook_id)
        if webhook is None or not webhook.enabled:
            fault = "webhook disabled or deleted"
            await self._store.record_delivery(delivery.id, state="failed", status=None, fault=fault)
            return
        semaphore = self._semaphores.setdefault(webhook.id, asyncio.Semaphore(MAX_CONCURRENT))
        try:
            async with semaphore:
                status = await self._post(webhook, delivery.id, delivery.body.encode())
        except Refused as fault:
            await self._failed(delivery, str(fault), None, permanent=True)
        except Unavailable as fault:
            await self._failed(delivery, str(fault), None)
        else:
            if not 200 <= status < 300:
                await self._failed(delivery, f"HTTP {status}", status)
                return
            await self._store.record_delivery(delivery.id, state="delivered", status=status, fault="")
            log.info("webhook.delivered", webhook=webhook.id, delivery=delivery.id, subject=delivery.subject)

    async def _failed(self, delivery: DeliveryRow, fault: str, status: int | None, *, permanent: bool = False) -> None:
        """Record a failure. Raises Unavailable, so that it is retried, unless it is permanent."""
        given_up = permanent or delivery.tries + 1 >= MAX_ATTEMPTS
        state = "failed" if given_up else "waiting"
        await self._store.record_delivery(delivery.id, state=state, status=status, fault=fault)
        if not given_up:
            raise Unavailable(fault)
        log.warning("webhook.given_up", webhook=delivery.webhook_id, delivery=delivery.id, fault=fault)

    async def _messages(self, ended: RunEnded, webhooks: Sequence[WebhookRow], at: datetime) -> list[DeliveryRow]:
        found = await self._store.find_run(ended.run)
        if found is None or found.run.generation != ended.generation or found.run.state is not ended.state:
            return []  # The run was retried since, or a database failover lost it.
        wanted = [
            webhook
            for webhook in webhooks
            if is_subscribed(webhook.events, webhook.job, state=ended.state, job_name=found.job_name)
        ]
        if not wanted:
            return []
        failed = await self._store.list_tasks(TaskFilter(run_id=ended.run, states=_FAILED), 1)
        messages = []
        for webhook in wanted:
            name = message_id(webhook.id, ended.run, ended.generation)
            event = run_ended_event(
                name, found.run, job=found.job_name, job_version=found.job_version, at=at,
                failed=failed[0] if failed else None,
            )  # fmt: skip
            messages.append(new_delivery(webhook, event, at))
        return messages


def new_delivery(webhook: WebhookRow, event: CloudEvent, at: datetime) -> DeliveryRow:
    """Create a delivery that has not been sent yet."""
    return DeliveryRow(
        id=event.id, webhook_id=webhook.id, tenant=webhook.tenant, type=event.type, subject=event.subject,
        body=msgspec.json.encode(event).decode(), created_at=at, state="waiting", tries=0, status=None, fault="",
        last_at=None,
    )  # fmt: skip


def outgoing(delivery: DeliveryRow, at: datetime, again: str = "") -> OutboxRow:
    """Create the outbox row of a delivery; `again` distinguishes a resend from the first one."""
    return OutboxRow(
        id=f"{delivery.id}{again}", key=f"{WEBHOOK_KIND}:{delivery.webhook_id}:{delivery.subject}", kind=WEBHOOK_KIND,
        payload=msgspec.json.encode({"delivery": delivery.id}).decode(), created_at=at,
    )  # fmt: skip
