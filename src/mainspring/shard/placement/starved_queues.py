"""Starved queues: those that found no capacity, and when each is checked next (`shard/placement/preemption.py`).

A queue is the tasks of one priority, tenant and shape. It is here from the moment it finds no capacity until a check
finds that no task of it waits without a reservation.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping

import msgspec

from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape

Line = tuple[Priority, str, Shape]
_TOLD_EVERY_SECONDS = 10.0
_MOST_TOLD = 1_000
"""Shapes logged per interval at most."""


class Need(msgspec.Struct, kw_only=True):
    """State of one starved queue."""

    head: str = ""
    """Its first task at the last check."""
    since: float
    """Since when that task has been starved. All times here are shard time."""
    due: float


class Needs:
    """All starved queues of a shard."""

    def __init__(self) -> None:
        self._known: dict[Line, Need] = {}
        self._due: dict[Priority, list[tuple[float, int, Line]]] = {priority: [] for priority in Priority}
        self._count = 0
        self.alarm: float | None = None
        """When the current timer fires, if one is set."""
        self.next_alarm: float | None = None
        """When a timer should fire, as far as known."""
        self.swept = -1.0
        """When queues of parked shapes were last marked."""
        self.stirred: dict[str, None] = {}
        """Workers with reservations of which a part may have become free."""
        self.is_new = False
        """Whether queues were added since then: there may be others of the same shape."""
        self._told: dict[Shape, float] = {}
        """When each shape was last logged, oldest first."""
        self.most_told = _MOST_TOLD
        """Zero where nobody reads the log."""

    def press(self, line: Line, life: float) -> None:
        """Mark a queue as starved. A queue that waits for its next check keeps its time."""
        if line not in self._known:
            self._known[line] = Need(since=life, due=life)
            self._put(line, life)
            self.is_new = True

    def press_again(self, line: Line, head: str, waited: float, life: float) -> None:
        """Mark a queue whose head lost its reservation to another task after waiting this long."""
        self.press(line, life)
        need = self._known[line]
        need.head, need.since = head, life - waited
        if need.due > life:
            self.put_off(line, life)

    def known(self) -> Mapping[Line, Need]:
        """All starved queues."""
        return self._known

    def recall(self, line: Line, need: Need) -> None:
        """Restore a queue with its state."""
        self._known[line] = need
        self._put(line, need.due)

    def put_off(self, line: Line, due: float, wake_at: float | None = None) -> None:
        """Check a queue again in the first turn after `due`; at `wake_at` at the latest."""
        self._known[line].due = due
        self._put(line, due)
        if wake_at is not None:
            self.wake(wake_at)

    def hurry(self, priority: Priority, life: float, could_help: Callable[[Shape], bool]) -> None:
        """Check the queues of a priority now that a change could help."""
        for line, need in self._known.items():
            if line[0] is priority and need.due > life and could_help(line[2]):
                self.put_off(line, life)

    def wake(self, at: float) -> None:
        """Make sure that there is a turn at that time."""
        self.next_alarm = at if self.next_alarm is None else min(at, self.next_alarm)

    def forget(self, line: Line) -> None:
        """Remove a queue that is no longer starved."""
        self._known.pop(line, None)

    def need(self, line: Line, head: str, life: float) -> Need:
        """State of a queue with this head; its wait restarts if the head has changed."""
        need = self._known[line]
        if need.head != head:
            need.head, need.since = head, life
        return need

    def pop_due(self, priority: Priority, life: float, most: int) -> list[Line]:
        """Queues to check now. The caller defers or removes each."""
        heap, found = self._due[priority], dict[Line, None]()
        while heap and heap[0][0] <= life and len(found) < most:
            due, _, line = heapq.heappop(heap)
            known = self._known.get(line)
            if known is not None and known.due == due:
                found[line] = None
        return list(found)

    def is_to_be_told(self, shape: Shape, life: float) -> bool:
        """Whether to log now that a shape found no capacity; marks it as logged."""
        told = self._told
        while told and life - next(iter(told.values())) >= _TOLD_EVERY_SECONDS:
            del told[next(iter(told))]
        if shape in told or len(told) >= self.most_told:
            return False
        told[shape] = life
        return True

    def _put(self, line: Line, due: float) -> None:
        self._count += 1
        heapq.heappush(self._due[line[0]], (due, self._count, line))
