"""The store's time for whoever answers requests: its last word plus monotonic time since, now and then asked again."""

from __future__ import annotations

import asyncio
from datetime import datetime

from mainspring.protocol.clock import Clock, StoreTime
from mainspring.store.ports.store import Leases

TRUSTED_SECONDS = 10.0


class AskedTime:
    """Knows the store's time, never ahead of it."""

    def __init__(self, store: Leases, clock: Clock) -> None:
        self._store = store
        self._time = StoreTime(clock)
        self._asking = asyncio.Lock()

    async def now(self) -> datetime:
        """The store's time, or a little before it. Asks the store if its last word is old."""
        if self._time.silence() > TRUSTED_SECONDS:
            async with self._asking:
                if self._time.silence() > TRUSTED_SECONDS:
                    self._time.heard(await self._store.time())
        return self._time.now()
