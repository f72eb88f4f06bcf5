"""Outbox delivery: at least once, in order per key.

Any host delivers any row: it leases the oldest row of each key, passes it to the receiver of its kind, and marks it as
delivered. A failed row is retried with exponential backoff, and delays only its own key.

Rows are delivered one after the other; kinds with a group receiver get their rows together. Kinds whose receiver waits
for another system are delivered concurrently, so that no other row waits for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import timedelta

import structlog

from mainspring.core.model.batch import OutboxRow
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Outbox

log = structlog.get_logger()

Receiver = Callable[[OutboxRow], Awaitable[None]]
"""Takes a row, or raises. Some rows come twice, with the same id."""

GroupReceiver = Callable[[Sequence[OutboxRow]], Awaitable[None]]
"""The same for several rows with distinct keys. If it raises, they are delivered one by one."""

MAX_ROWS_PER_PASS = 200
LEASE = timedelta(seconds=30)
POLL_SECONDS = 1.0
INITIAL_BACKOFF = timedelta(seconds=1)
MAX_BACKOFF = timedelta(minutes=10)
MAX_CONCURRENT_SECONDS = 25.0
"""Timeout of one row: less than its lease, so that no other host has taken it by then."""


class OutboxDelivery:
    """Delivers outbox rows on one host."""

    def __init__(
        self,
        store: Outbox,
        clock: Clock,
        holder: str,
        receivers: Mapping[str, Receiver],
        concurrent_kinds: Collection[str] = (),
        group_receivers: Mapping[str, GroupReceiver] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._group_receivers = dict(group_receivers or {})
        self._receivers = {**receivers, **{kind: _single_row(group) for kind, group in self._group_receivers.items()}}
        self._concurrent_kinds = concurrent_kinds
        self._in_progress: dict[str, asyncio.Task[bool]] = {}
        self._failures: dict[str, int] = {}
        self._errors: list[Exception] = []
        """Unexpected errors of concurrent deliveries."""

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            while True:
                try:
                    delivered = await self.deliver()
                    if self._errors:
                        raise self._errors.pop()
                except Unavailable as fault:
                    log.warning("outbox.unavailable", fault=str(fault))
                    delivered = 0
                if not delivered:
                    await self._clock.sleep(POLL_SECONDS)
        except asyncio.CancelledError:
            task = list(self._in_progress.values())
            for one in task:
                one.cancel()
            await asyncio.gather(*task, return_exceptions=True)
            raise

    async def deliver(self) -> int:
        """Deliver the rows that are due; return how many were delivered."""
        # A row in progress now may be done when the store answers; the answer may still contain it.
        in_progress = set(self._in_progress)
        taken = await self._store.claim_outbox(self._holder, MAX_ROWS_PER_PASS + len(in_progress), LEASE)
        rows = [row for row in taken if row.id not in in_progress]
        concurrent = [self._start_concurrent(row) for row in rows if row.kind in self._concurrent_kinds]
        delivered = await self._deliver_groups(rows)
        for row in rows:
            if row.kind in self._concurrent_kinds or row.id in delivered:
                continue
            fault = await self._deliver_row(row)
            if fault is None:
                delivered.add(row.id)
            else:
                await self._postpone(row, fault)
        if delivered:
            await self._mark_delivered(delivered)
        elif concurrent:
            await asyncio.wait(concurrent, timeout=POLL_SECONDS)
        return len(delivered) + sum(one.result() for one in concurrent if one.done() and one.exception() is None)

    def _start_concurrent(self, row: OutboxRow) -> asyncio.Task[bool]:
        task = self._in_progress[row.id] = asyncio.create_task(self._deliver_concurrently(row))
        task.add_done_callback(lambda task: self._on_task_done(row.id, task))
        return task

    def _on_task_done(self, id: str, task: asyncio.Task[bool]) -> None:
        del self._in_progress[id]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._errors.append(error)

    async def _deliver_concurrently(self, row: OutboxRow) -> bool:
        """Deliver one row; return whether it was delivered."""
        try:
            async with asyncio.timeout(MAX_CONCURRENT_SECONDS):
                fault = await self._deliver_row(row)
        except TimeoutError:
            fault = f"timed out after {MAX_CONCURRENT_SECONDS:.0f} s"
        try:
            if fault is None:
                await self._mark_delivered([row.id])
            else:
                await self._postpone(row, fault)
        except Unavailable as unavailable:
            # The row is still leased to us: the next pass takes it again, and its receiver deduplicates it by its id.
            log.warning("outbox.unavailable", id=row.id, fault=str(unavailable))
            return False
        return fault is None

    async def _deliver_groups(self, rows: Sequence[OutboxRow]) -> set[str]:
        """Deliver rows of kinds with a group receiver; return the ids delivered. The others are delivered singly."""
        taken: set[str] = set()
        for kind, receiver in self._group_receivers.items():
            group = [row for row in rows if row.kind == kind]
            if len(group) > 1:
                try:
                    await receiver(group)
                    taken.update(row.id for row in group)
                except Exception as fault:  # noqa: BLE001 - the rows are delivered one by one instead
                    log.warning("outbox.group_failed", kind=kind, rows=len(group), fault=repr(fault))
        return taken

    async def _deliver_row(self, row: OutboxRow) -> str | None:
        receiver = self._receivers.get(row.kind)
        if receiver is None:
            return f"no receiver for {row.kind}"
        try:
            await receiver(row)
        except Exception as fault:  # noqa: BLE001 - the row stays, with the reason
            log.warning("outbox.failed", id=row.id, kind=row.kind, fault=repr(fault))
            return repr(fault)
        return None

    async def _mark_delivered(self, ids: Collection[str]) -> None:
        await self._store.delivered(list(ids))
        for name in ids:
            self._failures.pop(name, None)

    async def _postpone(self, row: OutboxRow, fault: str) -> None:
        """Retry a row after an exponential backoff, by the failures that this host has seen."""
        failures = self._failures[row.id] = min(self._failures.get(row.id, 0) + 1, 16)
        await self._store.postpone(row.id, min(INITIAL_BACKOFF * (1 << (failures - 1)), MAX_BACKOFF), fault)


def _single_row(receiver: GroupReceiver) -> Receiver:
    """Adapt a group receiver to single rows."""

    async def receive(row: OutboxRow) -> None:
        await receiver([row])

    return receive
