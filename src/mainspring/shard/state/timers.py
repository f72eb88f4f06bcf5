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
from datetime import UTC, datetime

from mainspring.shard.events import TimerDue, TimerKind

MAX_TURN_SECONDS = 2.0
_SLACK = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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


class ShardTimers:
    """Shard time, and the timers of both clocks.

    1. `shard_time` advances with the store's clock, at most `MAX_TURN_SECONDS` per turn, and never goes back.
    """

    def __init__(self, is_stale: Callable[[TimerDue], bool]) -> None:
        self.shard_time = 0.0
        """Shard time in seconds."""
        self.last_turn: datetime | None = None
        self.at = Timers(is_stale)
        """Timers for times of the store's clock, in seconds since 1970."""
        self.after = Timers(is_stale)
        """Timers in shard time."""

    def advance(self, now: datetime) -> None:
        """Advance shard time to a time of the store's clock."""
        self.shard_time += self._since_last_turn(now)
        self.last_turn = now

    def set_at(self, due_at: datetime, kind: TimerKind, subject: str, stamp: int = 0) -> None:
        """Set a timer for a time of the store's clock."""
        self.at.set(_seconds(due_at), TimerDue(kind=kind, subject=subject, stamp=stamp))

    def set_after(self, seconds: float, kind: TimerKind, subject: str, stamp: int = 0) -> None:
        """Set a timer after a number of seconds of shard time."""
        self.after.set(self.shard_time + seconds, TimerDue(kind=kind, subject=subject, stamp=stamp))

    def pop_due(self, now: datetime, most: int) -> list[TimerDue]:
        """Remove and return the timers that have fired."""
        return self.at.pop_due(_seconds(now), most) + self.after.pop_due(self.shard_time, most)

    def seconds_to_next(self, now: datetime) -> float | None:
        """Seconds until the next timer; None if there is none."""
        at, after = self.at.next_due(), self.after.next_due()
        waits = [] if at is None else [at - _seconds(now)]
        if after is not None:
            waits.append(after - self.shard_time - self._since_last_turn(now))
        return max(0.0, min(waits)) if waits else None

    def _since_last_turn(self, now: datetime) -> float:
        if self.last_turn is None:
            return 0.0
        return min(max((now - self.last_turn).total_seconds(), 0.0), MAX_TURN_SECONDS)


def _seconds(at: datetime) -> float:
    return (at - _EPOCH).total_seconds()
