"""Clocks: the machine's, and the store's as a host knows it.

A host does not use a wall clock. It has a monotonic clock, and every answer of the store carries the store's time.
`StoreTime` keeps the largest recent difference between the two, which is never ahead of the store (the answer took time
to arrive), and adds monotonic time to it.

    1. `StoreTime.now()` never goes back.
    2. It is never ahead of the store's own clock, as long as the store's clock does not go back.
    3. Only `SystemClock` asks the operating system for the time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Protocol

_MAX_ANSWERS = 64


class Clock(Protocol):
    """Time source of a process. The simulator has its own."""

    def monotonic(self) -> float:
        """Return monotonic seconds: never goes back, never jumps."""
        ...

    def wall(self) -> datetime:
        """Return this machine's wall clock. Only a store (SQLite's adapter) may use it for decisions."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """The system clock."""

    def monotonic(self) -> float:
        """Return the system's monotonic clock in seconds."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Return the system's wall clock in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep without blocking the event loop."""
        await asyncio.sleep(seconds)

    def pause(self, seconds: float) -> None:
        """Sleep and block the thread: for programs without an event loop, such as commands and the client."""
        time.sleep(seconds)


def cpu_seconds() -> float:
    """Return the CPU time of this thread: for measurements, never for decisions."""
    return time.thread_time()


class StoreTime:
    """The store's time, extrapolated with monotonic time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._differences: deque[tuple[float, timedelta]] = deque(maxlen=_MAX_ANSWERS)
        self._offset: timedelta | None = None
        self._origin = datetime(1970, 1, 1, tzinfo=UTC)
        self._latest: datetime | None = None

    def heard(self, store_time: datetime) -> None:
        """Record the time in an answer of the store."""
        at = self._clock.monotonic()
        self._differences.append((at, store_time - self._origin - timedelta(seconds=at)))
        self._offset = max(difference for _, difference in self._differences)

    def now(self) -> datetime:
        """Return the store's time, or slightly earlier. Needs at least one answer of the store."""
        if self._offset is None:
            raise RuntimeError("the store has not answered yet")
        now = self._origin + self._offset + timedelta(seconds=self._clock.monotonic())
        if self._latest is None or now > self._latest:
            self._latest = now
        return self._latest

    def silence(self) -> float:
        """Return the seconds since the store's last answer; infinite if there was none."""
        return self._clock.monotonic() - self._differences[-1][0] if self._differences else float("inf")
