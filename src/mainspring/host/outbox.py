"""Delivery of what must reach anyone but a worker or a waiting caller: at least once, in order for each key.

Any host delivers any row: it takes the oldest of each key for a while, hands it to the receiver of its kind, and marks
it. What a receiver did not take is tried again later, with longer and longer pauses, and holds back its own key only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

import structlog

from mainspring.clock import Clock
from mainspring.core.batch import Outgoing
from mainspring.errors import Unavailable
from mainspring.store.port import Outbox

log = structlog.get_logger()

Receiver = Callable[[Outgoing], Awaitable[None]]
"""Takes a row, or raises. It sees some rows twice, and knows them by their id."""

AT_ONCE = 100
LEASE = timedelta(seconds=30)
LOOK_SECONDS = 1.0
FIRST_PAUSE = timedelta(seconds=1)
LONGEST_PAUSE = timedelta(minutes=10)


class OutboxDelivery:
    """One host's part in the delivery."""

    def __init__(self, store: Outbox, clock: Clock, holder: str, receivers: Mapping[str, Receiver]) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._receivers = receivers
        self._failures: dict[str, int] = {}

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            try:
                delivered = await self.deliver()
            except Unavailable as fault:
                log.warning("outbox.unavailable", fault=str(fault))
                delivered = 0
            if not delivered:
                await self._clock.sleep(LOOK_SECONDS)

    async def deliver(self) -> int:
        """Deliver what is due now; how many rows reached their receiver."""
        rows = await self._store.take_outgoing(self._holder, AT_ONCE, LEASE)
        delivered = []
        for row in rows:
            fault = await self._hand_over(row)
            if fault is None:
                delivered.append(row.id)
                self._failures.pop(row.id, None)
            else:
                await self._store.postpone(row.id, self._pause(row.id), fault)
        if delivered:
            await self._store.delivered(delivered)
        return len(delivered)

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

    def _pause(self, id: str) -> timedelta:
        """Twice as long after each failure that this host has seen of the row."""
        failures = self._failures[id] = min(self._failures.get(id, 0) + 1, 16)
        return min(FIRST_PAUSE * (1 << (failures - 1)), LONGEST_PAUSE)
