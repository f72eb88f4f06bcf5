"""One heap of timers for a shard, derived from rows and memory, so that a new leader rebuilds it.

Instants (a retry's time) follow the store's clock. Lengths (silence, receipt, limits) follow the shard's life, which
counts at most 2 s per turn, so that a jump of the clock or a stall of ours ends nothing. Both are seconds on the one
heap's axis after conversion by the caller, so there are two heaps.

A timer carries a stamp and becomes a no-op when its subject has moved on: nothing is ever searched for or removed.
When more than half of a heap is stale it is built anew.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from mainspring.shard.events import TimerDue

_SLACK = 1_000


class Timers:
    """Timers on one axis of time."""

    def __init__(self, is_stale: Callable[[TimerDue], bool]) -> None:
        self._heap: list[tuple[float, int, TimerDue]] = []
        self._count = 0
        self._is_stale = is_stale
        self._rebuild_at = _SLACK

    def set(self, due: float, timer: TimerDue) -> None:
        """Let `timer` come up at `due`."""
        self._count += 1
        heapq.heappush(self._heap, (due, self._count, timer))
        if len(self._heap) > self._rebuild_at:
            self._heap = [entry for entry in self._heap if not self._is_stale(entry[2])]
            heapq.heapify(self._heap)
            self._rebuild_at = 2 * len(self._heap) + _SLACK

    def pop_due(self, now: float, most: int) -> list[TimerDue]:
        """Take out those that have come up, oldest first."""
        found: list[TimerDue] = []
        while self._heap and self._heap[0][0] <= now and len(found) < most:
            timer = heapq.heappop(self._heap)[2]
            if not self._is_stale(timer):
                found.append(timer)
        return found

    def pending(self) -> Iterator[TimerDue]:
        """Those that are set and mean something still, in any order."""
        return (timer for _, _, timer in self._heap if not self._is_stale(timer))

    def next_due(self) -> float | None:
        """When the first of them comes up; it may turn out to be stale."""
        return self._heap[0][0] if self._heap else None
