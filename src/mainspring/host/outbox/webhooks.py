"""Webhooks: notify other systems when runs end.

    outbox "run.ended" ──► runs_ended ──► a delivery for each subscribed webhook, and an outbox row "webhook"
    outbox "webhook"   ──► send ──► a signed POST; the response is recorded with the delivery

1. A delivery and its outbox row are one transaction, with an id made of webhook, run and generation: an end that
   arrives twice is one delivery.
2. A failed delivery is retried by the outbox with backoff, up to TRIES attempts; after that it can be resent manually.
   A failing receiver delays neither other webhooks nor deliveries of other runs.
3. The end of a run is published if its tenant had a webhook when the run was created (`WebhookBook.wants_any`), or if
   it is a run of a schedule.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime

import msgspec
import structlog

from mainspring.core.model.batch import Outgoing
from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.core.model.webhook_events import CloudEvent, is_wanted, message_id, tell_end
from mainspring.host.outbox.delivery import GroupReceiver, Receiver
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
TRIES = 15
"""With the backoff of the outbox: over about an hour."""
MOST_OF_TENANT = 100
AT_ONCE = 4
KNOWN_SECONDS = 5.0
_MOST_KNOWN = 10_000
_FAILED = (TaskState.FAILED, TaskState.TIMED_OUT)


class _RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The message of a shard that a run ended (`shard/turn.py`)."""

    run: str
    tenant: str
    state: RunState
    generation: int


class _ToSend(msgspec.Struct, frozen=True, kw_only=True):
    delivery: str


_RUN_ENDED = msgspec.json.Decoder(_RunEnded)
_TO_SEND = msgspec.json.Decoder(_ToSend)


class WebhookBook:
    """Cache of the webhooks of each tenant, for KNOWN_SECONDS."""

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
        rows = [row for row in await self._store.list_webhooks(tenant, "", MOST_OF_TENANT) if row.enabled]
        self._known[tenant] = (now + KNOWN_SECONDS, rows)
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)
        return rows

    async def wants_any(self, tenant: str) -> bool:
        """Return whether a tenant has an enabled webhook."""
        return bool(await self.of(tenant))

    def forget(self, tenant: str) -> None:
        """Drop a tenant from the cache after a change on this server."""
        self._known.pop(tenant, None)


class Webhooks:
    """The outbox receivers of webhooks."""

    def __init__(self, store: Store, clock: Clock, post: Post) -> None:
        self.book = WebhookBook(store, clock)
        self._store = store
        self._post = post
        self._turns: dict[str, asyncio.Semaphore] = {}

    def receivers(self) -> Mapping[str, Receiver]:
        """Return the receivers by outbox kind."""
        return {WEBHOOK_KIND: self.send}

    def after(self, first: GroupReceiver) -> GroupReceiver:
        """Return a receiver that runs after another one, which may see rows twice."""

        async def receive(rows: Sequence[Outgoing]) -> None:
            await first(rows)
            await self.runs_ended(rows)

        return receive

    async def runs_ended(self, rows: Sequence[Outgoing]) -> None:
        """Create a delivery for each webhook that is subscribed to an ended run."""
        deliveries = []
        for row in rows:
            said = _RUN_ENDED.decode(row.payload)
            webhooks = await self.book.of(said.tenant)
            if webhooks:
                deliveries += await self._messages(said, webhooks, row.created_at)
        if deliveries:
            await self._store.add_deliveries(deliveries, [outgoing(one, one.created_at) for one in deliveries])

    async def send(self, row: Outgoing) -> None:
        """Send a delivery. Raises if it is to be retried."""
        delivery = await self._store.find_delivery(_TO_SEND.decode(row.payload).delivery)
        if delivery is None:
            return
        webhook = await self._store.find_webhook(delivery.webhook_id)
        if webhook is None or not webhook.enabled:
            fault = "webhook disabled or deleted"
            await self._store.note_delivery(delivery.id, state="failed", status=None, fault=fault)
            return
        turns = self._turns.setdefault(webhook.id, asyncio.Semaphore(AT_ONCE))
        try:
            async with turns:
                status = await self._post(webhook, delivery.id, delivery.body.encode())
        except Refused as fault:
            await self._failed(delivery, str(fault), None, hopeless=True)
        except Unavailable as fault:
            await self._failed(delivery, str(fault), None)
        else:
            if not 200 <= status < 300:
                await self._failed(delivery, f"HTTP {status}", status)
                return
            await self._store.note_delivery(delivery.id, state="delivered", status=status, fault="")
            log.info("webhook.delivered", webhook=webhook.id, delivery=delivery.id, subject=delivery.subject)

    async def _failed(self, delivery: DeliveryRow, fault: str, status: int | None, *, hopeless: bool = False) -> None:
        """Record a failure. Raises Unavailable, so that it is retried, unless it is permanent."""
        given_up = hopeless or delivery.tries + 1 >= TRIES
        state = "failed" if given_up else "waiting"
        await self._store.note_delivery(delivery.id, state=state, status=status, fault=fault)
        if not given_up:
            raise Unavailable(fault)
        log.warning("webhook.given_up", webhook=delivery.webhook_id, delivery=delivery.id, fault=fault)

    async def _messages(self, said: _RunEnded, webhooks: Sequence[WebhookRow], at: datetime) -> list[DeliveryRow]:
        found = await self._store.find_run(said.run)
        if found is None or found.run.generation != said.generation or found.run.state is not said.state:
            return []  # The run was retried since, or a database failover lost it.
        wanted = [
            webhook
            for webhook in webhooks
            if is_wanted(webhook.events, webhook.job, state=said.state, job_name=found.job_name)
        ]
        if not wanted:
            return []
        failed = await self._store.list_tasks(TaskFilter(run_id=said.run, states=_FAILED), 1)
        messages = []
        for webhook in wanted:
            name = message_id(webhook.id, said.run, said.generation)
            event = tell_end(
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


def outgoing(delivery: DeliveryRow, at: datetime, again: str = "") -> Outgoing:
    """Create the outbox row of a delivery; `again` distinguishes a resend from the first one."""
    return Outgoing(
        id=f"{delivery.id}{again}", key=f"{WEBHOOK_KIND}:{delivery.webhook_id}:{delivery.subject}", kind=WEBHOOK_KIND,
        payload=msgspec.json.encode({"delivery": delivery.id}).decode(), created_at=at,
    )  # fmt: skip
