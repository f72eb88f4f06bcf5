"""Lines that found no room, and when each of them is looked at next (`shard/placement/preemption.py`).

A line is the tasks of one priority, tenant and shape. It is here from the moment it finds no room until somebody looks
and nothing of it waits without room, or nothing of it waits at all.
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
"""In so many seconds: of more shapes than these the log of decisions does not tell."""


class Need(msgspec.Struct, kw_only=True):
    """What is known of a line that found no room."""

    head: str = ""
    """The task that was at its head when it was last looked at."""
    since: float
    """How long that one has been there without room. Like all times here in seconds of the shard's life."""
    due: float


class Needs:
    """All lines of a shard that found no room."""

    def __init__(self) -> None:
        self._known: dict[Line, Need] = {}
        self._due: dict[Priority, list[tuple[float, int, Line]]] = {priority: [] for priority in Priority}
        self._count = 0
        self.alarm: float | None = None
        """When a timer comes up, if one is set."""
        self.next_alarm: float | None = None
        """When one should come up, by what is known so far."""
        self.swept = -1.0
        """When all lines of shapes that are parked were last taken in."""
        self.stirred: dict[str, None] = {}
        """Workers with kept room of which something may have become free."""
        self.is_new = False
        """Whether lines have come since then: there may be others of the same shape."""
        self._told: dict[Shape, float] = {}
        """When the log of decisions last told of a shape, the longest ago first."""
        self.most_told = _MOST_TOLD
        """Of so many shapes at most; of none where nobody reads the log."""

    def press(self, line: Line, life: float) -> None:
        """A line has found no room, or has one more task since. One that waits for its next look goes on doing so."""
        if line not in self._known:
            self._known[line] = Need(since=life, due=life)
            self._put(line, life)
            self.is_new = True

    def press_again(self, line: Line, head: str, waited: float, life: float) -> None:
        """Somebody else got the room that was kept for the head of a line, which has waited so long already."""
        self.press(line, life)
        need = self._known[line]
        need.head, need.since = head, life - waited
        if need.due > life:
            self.put_off(line, life)

    def known(self) -> Mapping[Line, Need]:
        """All lines that are here, with what is known of each."""
        return self._known

    def recall(self, line: Line, need: Need) -> None:
        """Take a line in of which so much was known elsewhere."""
        self._known[line] = need
        self._put(line, need.due)

    def put_off(self, line: Line, due: float, wake_at: float | None = None) -> None:
        """Look at a line again at the first turn after `due`; if there is none, at `wake_at` all the same."""
        self._known[line].due = due
        self._put(line, due)
        if wake_at is not None:
            self.wake(wake_at)

    def hurry(self, priority: Priority, life: float, could_help: Callable[[Shape], bool]) -> None:
        """Look at those lines of a priority now that a change could help."""
        for line, need in self._known.items():
            if line[0] is priority and need.due > life and could_help(line[2]):
                self.put_off(line, life)

    def wake(self, at: float) -> None:
        """Let there be a turn then, whatever happens."""
        self.next_alarm = at if self.next_alarm is None else min(at, self.next_alarm)

    def forget(self, line: Line) -> None:
        """A line needs nothing more."""
        self._known.pop(line, None)

    def need(self, line: Line, head: str, life: float) -> Need:
        """What is known of a line whose head is this task; another one than last time has just come there."""
        need = self._known[line]
        if need.head != head:
            need.head, need.since = head, life
        return need

    def pop_due(self, priority: Priority, life: float, most: int) -> list[Line]:
        """Lines to look at now. The caller puts each off or forgets it."""
        heap, found = self._due[priority], dict[Line, None]()
        while heap and heap[0][0] <= life and len(found) < most:
            due, _, line = heapq.heappop(heap)
            known = self._known.get(line)
            if known is not None and known.due == due:
                found[line] = None
        return list(found)

    def is_to_be_told(self, shape: Shape, life: float) -> bool:
        """Whether the log of decisions is to tell now that a shape finds no room; it is told by then."""
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
