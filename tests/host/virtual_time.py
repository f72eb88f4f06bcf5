"""An event loop with virtual time: when nothing is ready, the clock jumps to the next timer.

(The simulator has a loop of its own that also stalls and kills processes; this one is asyncio's, so that tests are
plain coroutines.)
"""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
MAX_STEP_SECONDS = 1_000_000.0
STEP_SECONDS = 1e-6
"""Each iteration of the loop takes some time, as in reality, so that code that polls the clock sees it advance."""


class _Jump(selectors.DefaultSelector):
    """A selector that advances the clock instead of waiting."""

    waited = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; otherwise advance virtual time."""
        ready = super().select(0)
        self.waited += STEP_SECONDS
        if not ready and timeout is None:
            raise RuntimeError("deadlock: no timer is left, but a coroutine is waiting")
        if not ready and timeout:
            self.waited += min(timeout, MAX_STEP_SECONDS)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop with virtual time."""

    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        """Return the virtual seconds since the loop was created."""
        return self._jump.waited


class VirtualClock:
    """The clock of a host and of the store: the loop's time. `skew` shifts the wall clock, as a store's may jump."""

    def __init__(self) -> None:
        self.skew = timedelta()

    def monotonic(self) -> float:
        """Return the loop's time."""
        return asyncio.get_running_loop().time()

    def wall(self) -> datetime:
        """Return the store's time."""
        return BEGINNING + timedelta(seconds=self.monotonic()) + self.skew

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds."""
        await asyncio.sleep(seconds)
