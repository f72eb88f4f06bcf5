"""Timers of a shard, derived from rows and memory, so that a new leader rebuilds them.

Times (such as a retry's) follow the store's clock. Durations (silence, receipt, limits) follow shard time, which
advances at most 2 s per turn, so that a clock jump or a stall of the shard expires nothing. There is one heap for each;
the caller converts to seconds.

A timer has a stamp and is ignored when its subject has changed: nothing is ever searched for or removed. When more than
half of a heap is stale it is rebuilt.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from mainspring.shard.events import TimerDue

_SLACK = 1_000


class Timers:
    """A heap of timers on one clock."""

    def __init__(self, is_stale: Callable[[TimerDue], bool]) -> None:
        self._heap: list[tuple[float, int, TimerDue]] = []
        self._count = 0
        self._is_stale = is_stale
        self._rebuild_at = _SLACK

    def set(self, due: float, timer: TimerDue) -> None:
        """Set `timer` to fire at `due`."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, timer))
        if len(self._heap) > self._rebuild_at:
            self._heap = [entry for entry in self._heap if not self._is_stale(entry[2])]
            heapq.heapify(self._heap)
            self._rebuild_at = 2 * len(self._heap) + _SLACK

    def pop_due(self, now: float, most: int) -> list[TimerDue]:
        """Remove and return fired timers, oldest first."""
        found: list[TimerDue] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            timer = heapq.heappop(self._heap)[2]
            if not self._is_stale(timer):
                found.append(timer)
        return found

    def pending(self) -> Iterator[TimerDue]:
        """Timers that are not stale, in any order."""
        return (timer for _, _, timer in self._heap if not self._is_stale(timer))

    def next_due(self) -> float | None:
        """When the first timer fires; it may turn out to be stale."""
        return self._heap[0][0] if self._heap else None
