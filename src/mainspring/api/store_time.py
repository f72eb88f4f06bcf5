"""The store's time for requests: the last value read plus monotonic time since, refreshed when it is old."""

from __future__ import annotations

import asyncio
from datetime import datetime

from mainspring.protocol.clock import Clock, StoreTime
from mainspring.store.ports.store import Leases

MAX_AGE_SECONDS = 10.0


class StoreTimeCache:
    """A cached clock of the store, never ahead of it."""

    def __init__(self, store: Leases, clock: Clock) -> None:
        self._store = store
        self._time = StoreTime(clock)
        self._refresh_lock = asyncio.Lock()

    async def now(self) -> datetime:
        """Return the store's time, or slightly earlier. Reads it from the store if the last value is old."""
        if self._time.silence() > MAX_AGE_SECONDS:
            async with self._refresh_lock:
                if self._time.silence() > MAX_AGE_SECONDS:
                    self._time.heard(await self._store.time())
        return self._time.now()
