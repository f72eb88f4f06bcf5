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

from mainspring.core.model.batch import Outgoing
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import Outbox

log = structlog.get_logger()

Receiver = Callable[[Outgoing], Awaitable[None]]
"""Takes a row, or raises. Some rows come twice, with the same id."""

GroupReceiver = Callable[[Sequence[Outgoing]], Awaitable[None]]
"""The same for several rows with distinct keys. If it raises, they are delivered one by one."""

AT_ONCE = 200
LEASE = timedelta(seconds=30)
LOOK_SECONDS = 1.0
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=10)
LONGEST_ASIDE_SECONDS = 25.0
"""Timeout of one row: less than its lease, so that no other host has taken it by then."""


class OutboxDelivery:
    """Delivers outbox rows on one host."""

    def __init__(
        self,
        store: Outbox,
        clock: Clock,
        holder: str,
        receivers: Mapping[str, Receiver],
        aside: Collection[str] = (),
        together: Mapping[str, GroupReceiver] | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._together = dict(together or {})
        self._receivers = {**receivers, **{kind: _alone(group) for kind, group in self._together.items()}}
        self._aside = aside
        self._under_way: dict[str, asyncio.Task[bool]] = {}
        self._failures: dict[str, int] = {}
        self._broken: list[Exception] = []
        """Unexpected errors of concurrent deliveries."""

    async def run(self) -> None:
        """Deliver until cancelled."""
        try:
            while True:
                try:
                    delivered = await self.deliver()
                    if self._broken:
                        raise self._broken.pop()
                except Unavailable as fault:
                    log.warning("outbox.unavailable", fault=str(fault))
                    delivered = 0
                if not delivered:
                    await self._clock.sleep(LOOK_SECONDS)
        except asyncio.CancelledError:
            handing = list(self._under_way.values())
            for one in handing:
                one.cancel()
            await asyncio.gather(*handing, return_exceptions=True)
            raise

    async def deliver(self) -> int:
        """Deliver the rows that are due; return how many were delivered."""
        # A row in progress now may be done when the store answers; the answer may still contain it.
        under_way = set(self._under_way)
        taken = await self._store.take_outgoing(self._holder, AT_ONCE + len(under_way), LEASE)
        rows = [row for row in taken if row.id not in under_way]
        concurrent = [self._set_aside(row) for row in rows if row.kind in self._aside]
        delivered = await self._hand_over_together(rows)
        for row in rows:
            if row.kind in self._aside or row.id in delivered:
                continue
            fault = await self._hand_over(row)
            if fault is None:
                delivered.add(row.id)
            else:
                await self._postpone(row, fault)
        if delivered:
            await self._mark(delivered)
        elif concurrent:
            await asyncio.wait(concurrent, timeout=LOOK_SECONDS)
        return len(delivered) + sum(one.result() for one in concurrent if one.done() and one.exception() is None)

    def _set_aside(self, row: Outgoing) -> asyncio.Task[bool]:
        handing = self._under_way[row.id] = asyncio.create_task(self._deliver_aside(row))
        handing.add_done_callback(lambda handing: self._note_end(row.id, handing))
        return handing

    def _note_end(self, id: str, handing: asyncio.Task[bool]) -> None:
        del self._under_way[id]
        error = None if handing.cancelled() else handing.exception()
        if isinstance(error, Exception):
            self._broken.append(error)

    async def _deliver_aside(self, row: Outgoing) -> bool:
        """Deliver one row; return whether it was delivered."""
        try:
            async with asyncio.timeout(LONGEST_ASIDE_SECONDS):
                fault = await self._hand_over(row)
        except TimeoutError:
            fault = f"timed out after {LONGEST_ASIDE_SECONDS:.0f} s"
        try:
            if fault is None:
                await self._mark([row.id])
            else:
                await self._postpone(row, fault)
        except Unavailable as unavailable:
            # The row is still leased to us: the next pass takes it again, and its receiver deduplicates it by its id.
            log.warning("outbox.unavailable", id=row.id, fault=str(unavailable))
            return False
        return fault is None

    async def _hand_over_together(self, rows: Sequence[Outgoing]) -> set[str]:
        """Deliver rows of kinds with a group receiver; return the ids delivered. The others are delivered singly."""
        taken: set[str] = set()
        for kind, receiver in self._together.items():
            group = [row for row in rows if row.kind == kind]
            if len(group) > 1:
                try:
                    await receiver(group)
                    taken.update(row.id for row in group)
                except Exception as fault:  # noqa: BLE001 - the rows are delivered one by one instead
                    log.warning("outbox.group_failed", kind=kind, rows=len(group), fault=repr(fault))
        return taken

    async def _hand_over(self, row: Outgoing) -> str | None:
        receiver = self._receivers.get(row.kind)
        if receiver is None:
            return f"no receiver for {row.kind}"
        try:
            await receiver(row)
        except Exception as fault:  # noqa: BLE001 - the row stays, with the reason
            log.warning("outbox.failed", id=row.id, kind=row.kind, fault=repr(fault))
            return repr(fault)
        return None

    async def _mark(self, ids: Collection[str]) -> None:
        await self._store.delivered(list(ids))
        for name in ids:
            self._failures.pop(name, None)

    async def _postpone(self, row: Outgoing, fault: str) -> None:
        await self._store.postpone(row.id, self._pause(row.id), fault)

    def _pause(self, id: str) -> timedelta:
        """Return the exponential backoff of a row, by the failures that this host has seen."""
        failures = self._failures[id] = min(self._failures.get(id, 0) + 1, 16)
        return min(FIRST_PAUSE * (1 << (failures - 1)), LONGEST_PAUSE)


def _alone(receiver: GroupReceiver) -> Receiver:
    """Adapt a group receiver to single rows."""

    async def receive(row: Outgoing) -> None:
        await receiver([row])

    return receive
