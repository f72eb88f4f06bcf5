"""The store's time for requests: the last value read plus monotonic time since, refreshed when it is old."""

from __future__ import annotations

import asyncio
from datetime import datetime

from mainspring.protocol.clock import Clock, StoreTime
from mainspring.store.ports.store import Leases

TRUSTED_SECONDS = 10.0


class AskedTime:
    """A cached clock of the store, never ahead of it."""

    def __init__(self, store: Leases, clock: Clock) -> None:
        self._store = store
        self._time = StoreTime(clock)
        self._asking = asyncio.Lock()

    async def now(self) -> datetime:
        """Return the store's time, or slightly earlier. Reads it from the store if the last value is old."""
        if self._time.silence() > TRUSTED_SECONDS:
            async with self._asking:
                if self._time.silence() > TRUSTED_SECONDS:
                    self._time.heard(await self._store.time())
        return self._time.now()
