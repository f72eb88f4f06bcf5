"""Who is next: strict priority, then fair share between tenants, then first come first served (PLC-4).

    priority ──► tenant, by weighted dominant share ──► shape, by its oldest task ──► tasks, oldest first

Entries are never searched for: one is stale if its task has moved since (its `seq` is another) or has another priority,
and is dropped when it comes to the head. `depth` counts the true ones. Tasks whose priority was changed wait beside
their new line, oldest first, and each joins its head when it is older than what is there.

1. A task is in the queues exactly while it is QUEUED; `push` and `left` are called where that changes.
2. A parked shape is passed over, so that what can't be placed hides nobody behind it. `wake` lets it try again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from mainspring.core.shapes import Shape
from mainspring.core.tasks import Priority, Task

_Line = deque[tuple[int, Task, int]]
"""Tasks of one priority, tenant and shape: arrival number, task, and its seq when it came."""
_Movers = list[tuple[datetime, int, Task, int]]
"""A heap of those that came from another priority: since when they are ready, and then as in a line."""


class QueueLine(NamedTuple):
    """Tasks of one priority, tenant and shape that wait, as they are counted."""

    priority: Priority
    tenant: str
    shape: Shape
    length: int
    """With entries that are stale."""
    since: datetime
    """When the oldest of them became ready."""


class FairQueues:
    """All queued tasks of a shard."""

    def __init__(self) -> None:
        self._lines: dict[Priority, dict[str, dict[Shape, _Line]]] = {priority: {} for priority in Priority}
        self._movers: dict[tuple[Priority, str, Shape], _Movers] = {}
        self._arrivals = 0
        self.depth: dict[tuple[Priority, str], int] = {}
        self.parked: dict[Shape, str] = {}
        """Shapes that found no room, and why, in words."""

    def push(self, task: Task, shape: Shape) -> None:
        """A task has become QUEUED."""
        self._arrivals += 1
        line = self._lines[task.priority].setdefault(task.tenant, {}).get(shape)
        if line is None:
            line = self._lines[task.priority][task.tenant][shape] = deque()
        line.append((self._arrivals, task, task.seq))
        key = (task.priority, task.tenant)
        self.depth[key] = self.depth.get(key, 0) + 1

    def restore(self, task: Task, shape: Shape) -> None:
        """Put the entry of a task that is QUEUED back, in case it was taken and not placed. Harmless if it was not."""
        self.push(task, shape)
        self.left(task)

    def change(self, task: Task, shape: Shape, was: Priority) -> None:
        """A task that is QUEUED has another priority than it was: it stands where it would if it had always had it."""
        self._count_out(was, task.tenant)
        self._arrivals += 1
        self._lines[task.priority].setdefault(task.tenant, {}).setdefault(shape, deque())
        movers = self._movers.setdefault((task.priority, task.tenant, shape), [])
        heapq.heappush(movers, (task.since, self._arrivals, task, task.seq))
        key = (task.priority, task.tenant)
        self.depth[key] = self.depth.get(key, 0) + 1

    def left(self, task: Task) -> None:
        """A task is QUEUED no more. Its entry is stale from now on, or has been taken."""
        self._count_out(task.priority, task.tenant)

    def _count_out(self, priority: Priority, tenant: str) -> None:
        key = (priority, tenant)
        if self.depth[key] == 1:
            del self.depth[key]
        else:
            self.depth[key] -= 1

    def park(self, shape: Shape, why: str) -> None:
        """Pass this shape over until `wake`."""
        self.parked[shape] = why

    def wake(self, could_help: Callable[[Shape], bool]) -> None:
        """Let those parked shapes try again that a change could help."""
        for shape in [shape for shape in self.parked if could_help(shape)]:
            del self.parked[shape]

    def shapes(self) -> list[Shape]:
        """All shapes that have tasks waiting and are not parked, each once."""
        found: dict[Shape, None] = {}
        for _, _, lines in self._tenants(Priority):
            found.update((shape, None) for shape in lines if shape not in self.parked)
        return list(found)

    def tenants(self, priority: Priority, *, only: Shape | None = None) -> list[str]:
        """Tenants that have something to place at this priority."""
        return [
            tenant
            for _, tenant, lines in self._tenants((priority,))
            if any(shape not in self.parked and (only is None or shape == only) for shape in lines)
        ]

    def head(self, priority: Priority, tenant: str, *, only: Shape | None = None) -> Shape | None:
        """The shape of this tenant's oldest task that can be tried now."""
        lines = self._lines[priority].get(tenant)
        if lines is None:
            return None
        best: Shape | None = None
        oldest: tuple[datetime, int] | None = None
        for shape in list(lines):
            line = lines[shape]
            while line and _is_stale(line[0], priority):
                line.popleft()
            if self._movers:
                self._join(priority, tenant, shape, line)
            if not line:
                del lines[shape]
            elif shape not in self.parked and (only is None or shape == only):
                place = (line[0][1].since, line[0][0])
                if oldest is None or place < oldest:
                    best, oldest = shape, place
        if not lines:
            del self._lines[priority][tenant]
        return best

    def take(self, priority: Priority, tenant: str, shape: Shape, most: int) -> list[Task]:
        """Take the oldest tasks of a line out of it, each once, also if it was restored. The caller moves them on."""
        line = self._lines[priority][tenant][shape]
        taken: dict[str, Task] = {}
        while len(taken) < most:
            if self._movers:
                self._join(priority, tenant, shape, line)
            if not line:
                break
            entry = line.popleft()
            if not _is_stale(entry, priority):
                taken[entry[1].id] = entry[1]
        return list(taken.values())

    def has(self, task: Task, shape: Shape) -> bool:
        """Whether a task has a true entry. Searches its line: for checks, not for deciding."""
        line = self._lines[task.priority].get(task.tenant, {}).get(shape, ())
        if any(entry is task and seq == task.seq for _, entry, seq in line):
            return True
        movers = self._movers.get((task.priority, task.tenant, shape), ())
        return any(entry is task and seq == task.seq for _, _, entry, seq in movers)

    def lines(self) -> Iterator[QueueLine]:
        """Every line that is not empty, for those who count."""
        for priority, tenant, lines in self._tenants(Priority):
            for shape, line in lines.items():
                movers = self._movers.get((priority, tenant, shape), ())
                first = next((one for one in line if not _is_stale(one, priority)), None)
                ready = [one[0] for one in movers if not _is_stale(one[1:], priority)]
                if first is not None:
                    ready.append(first[1].since)
                if ready:
                    yield QueueLine(priority, tenant, shape, len(line) + len(movers), min(ready))

    def _join(self, priority: Priority, tenant: str, shape: Shape, line: _Line) -> None:
        """Let the oldest of those that came from another priority stand at the head, if that is its place."""
        movers = self._movers.get((priority, tenant, shape))
        while movers and _is_stale(movers[0][1:], priority):
            heapq.heappop(movers)
        if movers and (not line or movers[0][0] < line[0][1].since):
            line.appendleft(heapq.heappop(movers)[1:])
        if movers is not None and not movers:
            del self._movers[priority, tenant, shape]

    def _tenants(self, priorities: Iterable[Priority]) -> Iterator[tuple[Priority, str, dict[Shape, _Line]]]:
        for priority in priorities:
            for tenant, lines in self._lines[priority].items():
                yield priority, tenant, lines


def _is_stale(entry: tuple[int, Task, int], priority: Priority) -> bool:
    _, task, seq = entry
    return task.seq != seq or task.priority is not priority
