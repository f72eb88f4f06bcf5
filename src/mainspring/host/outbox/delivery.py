"""Delivery of what must reach anyone but a worker or a waiting caller: at least once, in order for each key.

Any host delivers any row: it takes the oldest of each key for a while, hands it to the receiver of its kind, and marks
it. What a receiver did not take is tried again later, with longer and longer pauses, and holds back its own key only.

Rows are handed over one after the other, those of a kind whose receiver takes many at once together. Those of a kind
whose receiver waits for somebody outside are handed over aside, all at once: no other row waits for them.
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
"""Takes a row, or raises. It sees some rows twice, and knows them by their id."""

GroupReceiver = Callable[[Sequence[Outgoing]], Awaitable[None]]
"""The same for many rows, each of another key. If it raises, each is handed over by itself."""

AT_ONCE = 200
LEASE = timedelta(seconds=30)
LOOK_SECONDS = 1.0
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=10)
LONGEST_ASIDE_SECONDS = 25.0
"""For one row: less than its lease, so that nobody else has it by then."""


class OutboxDelivery:
    """One host's part in the delivery."""

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
        """What rows that are delivered aside ended with, though they should end with nothing."""

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
        """Deliver what is due now; how many rows reached their receiver by now."""
        # What is under way now may be over when the store has answered: its answer knows of it, or does not.
        under_way = set(self._under_way)
        taken = await self._store.take_outgoing(self._holder, AT_ONCE + len(under_way), LEASE)
        rows = [row for row in taken if row.id not in under_way]
        aside = [self._set_aside(row) for row in rows if row.kind in self._aside]
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
        elif aside:
            await asyncio.wait(aside, timeout=LOOK_SECONDS)
        return len(delivered) + sum(one.result() for one in aside if one.done() and one.exception() is None)

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
        """Deliver one row; whether it reached its receiver."""
        try:
            async with asyncio.timeout(LONGEST_ASIDE_SECONDS):
                fault = await self._hand_over(row)
        except TimeoutError:
            fault = f"it took longer than {LONGEST_ASIDE_SECONDS:.0f} s"
        try:
            if fault is None:
                await self._mark([row.id])
            else:
                await self._postpone(row, fault)
        except Unavailable as unavailable:
            # The row is still ours: the next look takes it again, and its receiver knows it by its id.
            log.warning("outbox.unavailable", id=row.id, fault=str(unavailable))
            return False
        return fault is None

    async def _hand_over_together(self, rows: Sequence[Outgoing]) -> set[str]:
        """Hand over what goes together; the ids of what was taken. What was not is handed over row by row."""
        taken: set[str] = set()
        for kind, receiver in self._together.items():
            group = [row for row in rows if row.kind == kind]
            if len(group) > 1:
                try:
                    await receiver(group)
                    taken.update(row.id for row in group)
                except Exception as fault:  # noqa: BLE001 - it has an owner, and the others go on without it
                    log.warning("outbox.group_failed", kind=kind, rows=len(group), fault=repr(fault))
        return taken

    async def _hand_over(self, row: Outgoing) -> str | None:
        receiver = self._receivers.get(row.kind)
        if receiver is None:
            return f"nobody here receives {row.kind}"
        try:
            await receiver(row)
        except Exception as fault:  # noqa: BLE001 - the row stays, and the reason is written beside it
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
        """Twice as long after each failure that this host has seen of the row."""
        failures = self._failures[id] = min(self._failures.get(id, 0) + 1, 16)
        return min(FIRST_PAUSE * (1 << (failures - 1)), LONGEST_PAUSE)


def _alone(receiver: GroupReceiver) -> Receiver:
    """A receiver of many, for one row."""

    async def receive(row: Outgoing) -> None:
        await receiver([row])

    return receive
