"""An event loop whose time is virtual: when nothing is ready, the clock jumps to the next timer. Nothing ever waits.

(The simulator has a loop of its own that also stalls and kills processes; this one is asyncio's, so that tests are
plain coroutines.)
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
LONGEST = 1_000_000.0
STEP_SECONDS = 1e-6
"""Each round of the loop takes a moment, as it does on a machine: who looks at the clock in a loop sees it move."""


class _Jump(selectors.DefaultSelector):
    """Asked to wait, it lets the clock jump instead."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready; virtual time has passed if nothing was."""
        ready = super().select(0)
        self.waited += STEP_SECONDS
        if not ready and timeout is None:
            raise RuntimeError("nothing is left to happen, and somebody still waits")
        if not ready and timeout:
            self.waited += min(timeout, LONGEST)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop on virtual time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._jump.waited


class VirtualClock:
    """The clock of a host and of the store: the loop's time. `skew` shifts the wall clock, as a store's may jump."""

    def __init__(self) -> None:
        self.skew = timedelta()

    def monotonic(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        """The store's date."""
        return BEGINNING + timedelta(seconds=self.monotonic()) + self.skew

    async def sleep(self, seconds: float) -> None:
        """Come back after so many virtual seconds."""
        await asyncio.sleep(seconds)
