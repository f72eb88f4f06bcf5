"""The one home of time.

A host has no wall clock. It has a monotonic one, and the store's word: every answer of the store brings the store's
time along. `StoreTime` keeps the largest recent difference between the two, which is never ahead of the store (the
answer took time to arrive), and adds monotonic time to it.

    1. `StoreTime.now()` never goes back.
    2. It is never ahead of the store's own clock, as long as the store's clock does not go back.
    3. Nothing but `MachineClock` asks the operating system what time it is.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Protocol

_REMEMBERED_ANSWERS = 64


class Clock(Protocol):
    """Where a process gets its time from. The simulator has its own."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back, never jumps."""
        ...

    def wall(self) -> datetime:
        """What this machine believes the time to be. Only a store (SQLite's adapter) may decide by it."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Come back after `seconds`."""
        ...


class MachineClock:
    """The clock of the machine that we run on."""

    def monotonic(self) -> float:
        """Seconds on the machine's monotonic clock."""
        return time.monotonic()

    def wall(self) -> datetime:
        """The machine's wall clock, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep without holding anybody up."""
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Sleep and hold this thread up: for programs without a loop, such as commands and the client."""
        time.sleep(seconds)


def cpu_seconds() -> float:
    """How much CPU time this thread has used: for saying what something costs, never for deciding."""
    return time.thread_time()


class StoreTime:
    """The store's time as a host knows it: the store's last words plus monotonic time since."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._differences: deque[tuple[float, timedelta]] = deque(maxlen=_REMEMBERED_ANSWERS)
        self._offset: timedelta | None = None
        self._origin = datetime(1970, 1, 1, tzinfo=UTC)
        self._latest: datetime | None = None

    def heard(self, store_time: datetime) -> None:
        """Take note of the time that came with an answer of the store."""
        at = self._clock.monotonic()
        self._differences.append((at, store_time - self._origin - timedelta(seconds=at)))
        self._offset = max(difference for _, difference in self._differences)

    def now(self) -> datetime:
        """The store's time, or a little before it. Needs to have heard of the store once."""
        if self._offset is None:
            raise RuntimeError("the store has not been heard of yet")
        now = self._origin + self._offset + timedelta(seconds=self._clock.monotonic())
        if self._latest is None or now > self._latest:
            self._latest = now
        return self._latest

    def silence(self) -> float:
        """Seconds since the store was last heard of; infinite if it never was."""
        return self._clock.monotonic() - self._differences[-1][0] if self._differences else float("inf")
