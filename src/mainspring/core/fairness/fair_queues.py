"""Fair queues: the queued tasks by priority, tenant and shape, first come first served (PLC-4).

    priority ──► tenant ──► shape, by its oldest task ──► tasks, oldest first

Which tenant is next, by fair share, is decided in `shard/placement/fair_share.py`.

Entries are never searched for: an entry is stale if its task has moved since (its `seq` differs) or has another
priority, and is dropped at the head. `depth` counts the valid ones. Tasks whose priority was changed, or that were
blocked, wait beside their queue, oldest first, and each joins its head once it is older than what is there.

1. A task is in the queues exactly while it is QUEUED, unless it is blocked (`shard/state/blocked.py`); `push` and
   `left` are called where that changes, and `depth` counts all of them.
2. A parked shape is skipped, so that tasks that can't be placed don't hide what is behind them. `wake` unparks it.
3. A tenant that may have no more is skipped at a priority, until it may have more (`retry_tenant`), or its next task
   may be another: tasks of it came or left, or a shape of it was woken.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape, without_affinity

_Entry = tuple[int, Task, int]
"""Arrival number, task, and its seq on arrival."""
_Queue = deque[_Entry]
"""Tasks of one priority, tenant and shape."""
Head = tuple[datetime, int, Shape]
"""A queue: when its oldest task became ready, its arrival number, and the shape."""
_Reinserted = list[tuple[datetime, int, Task, int]]
"""A heap of tasks from another priority, or that were blocked: when they became ready, then as in a queue."""
TenantsByShape = dict[Shape, dict[str, None]]
"""Tenants by shape. No shape is there without one."""


class QueueSummary(NamedTuple):
    """Summary of a queue: the waiting tasks of one priority, tenant and shape."""

    priority: Priority
    tenant: str
    shape: Shape
    length: int
    """Including stale entries."""
    since: datetime
    """When the oldest of them became ready."""


class QueueIndex:
    """Index of tenants by the shapes of their queues, at one priority.

    1. `trying` is `all` without skipped tenants, so that tenants at their quotas cost nothing. Scanning 10,000 of these
       in every turn would take 2 ms.
    2. Only skipped tenants are omitted, and a tenant that gets another queue is no longer skipped.
    """

    def __init__(self) -> None:
        self.all: TenantsByShape = {}
        self.trying: TenantsByShape = {}
        self._skipped: dict[str, tuple[Shape, ...]] = {}
        """Skipped tenants, and the shapes of their queues at that time."""

    def join(self, tenant: str, shape: Shape) -> None:
        """Add a tenant's queue of this shape."""
        self.retry_tenant(tenant)
        self.all.setdefault(shape, {})[tenant] = None
        self.trying.setdefault(shape, {})[tenant] = None

    def leave(self, tenant: str, shape: Shape) -> None:
        """Remove a tenant's queue of this shape."""
        _take_out(self.all, tenant, shape)
        _take_out(self.trying, tenant, shape)

    def skip(self, tenant: str, shapes: Iterable[Shape]) -> None:
        """Skip a tenant, which has queues of these shapes, for now."""
        self._skipped[tenant] = tuple(shapes)
        for shape in self._skipped[tenant]:
            _take_out(self.trying, tenant, shape)

    def retry_tenant(self, tenant: str) -> None:
        """Stop skipping a tenant: it may have more than before."""
        for shape in self._skipped.pop(tenant, ()):
            if tenant in self.all.get(shape, ()):
                self.trying.setdefault(shape, {})[tenant] = None

    def retry_tenants(self, tenants: Iterable[str] | None = None) -> None:
        """Stop skipping these tenants, or all."""
        if self._skipped:
            for tenant in list(self._skipped if tenants is None else tenants):
                self.retry_tenant(tenant)


class FairQueues:
    """All queued tasks of a shard."""

    def __init__(self) -> None:
        self._queues: dict[Priority, dict[str, dict[Shape, _Queue]]] = {priority: {} for priority in Priority}
        self._indexes = {priority: QueueIndex() for priority in Priority}
        self._reinserted: dict[tuple[Priority, str, Shape], _Reinserted] = {}
        self._arrivals = 0
        self.depth: dict[tuple[Priority, str], int] = {}
        self.parked: dict[Shape, str] = {}
        """Shapes without capacity, and why, in words."""
        self._kinds: dict[Shape, dict[Shape, None]] = {}
        """Parked shapes that differ only in their run, by what they have in common."""
        self._full: dict[Shape, None] = {}
        """Common shapes that no worker has capacity for, wherever the other tasks of a run are."""
        self.wake_count = 0
        """How often parked shapes were woken."""

    def push(self, task: Task, shape: Shape) -> None:
        """Add a task that has become QUEUED."""
        self._arrivals += 1
        self._queue(task, shape).append((self._arrivals, task, task.seq))
        key = (task.priority, task.tenant)
        self.depth[key] = self.depth.get(key, 0) + 1

    def sort(self) -> None:
        """Restore the order in which tasks became QUEUED."""
        for _, _, queues in self._tenants(Priority):
            for shape, queue in queues.items():
                queues[shape] = deque(sorted(queue, key=lambda entry: entry[1].since))

    def restore(self, task: Task, shape: Shape) -> None:
        """Put back the entry of a QUEUED task, in case it was taken and not placed. Harmless if it was not."""
        self.push(task, shape)
        self.left(task)

    def change(self, task: Task, shape: Shape, was: Priority) -> None:
        """Move a QUEUED task to its new priority, at the position it would have if it had always had it."""
        self._count_out(was, task.tenant)
        self.put_back(task, shape)
        key = (task.priority, task.tenant)
        self.depth[key] = self.depth.get(key, 0) + 1

    def put_back(self, task: Task, shape: Shape) -> None:
        """Reinsert a QUEUED task that was taken out, at its original position."""
        self._arrivals += 1
        self._queue(task, shape)
        reinserted = self._reinserted.setdefault((task.priority, task.tenant, shape), [])
        heapq.heappush(reinserted, (task.since, self._arrivals, task, task.seq))

    def left(self, task: Task) -> None:
        """Account for a task that is no longer QUEUED. Its entry is stale from now on, or has been taken."""
        self._count_out(task.priority, task.tenant)

    def skip(self, priority: Priority, tenant: str) -> None:
        """Skip a tenant at this priority for now, because it may have no more.

        Checking each one in every turn is what 10,000 tenants at their quotas would cost: 0.1 s a turn.
        """
        self._indexes[priority].skip(tenant, self._queues[priority].get(tenant, ()))

    def retry_tenant(self, tenant: str) -> None:
        """Stop skipping a tenant: it may have more than before."""
        for index in self._indexes.values():
            index.retry_tenant(tenant)

    def retry_tenants(self) -> None:
        """Stop skipping all tenants."""
        for index in self._indexes.values():
            index.retry_tenants()

    def _count_out(self, priority: Priority, tenant: str) -> None:
        key = (priority, tenant)
        self._indexes[priority].retry_tenant(tenant)
        if self.depth[key] == 1:
            del self.depth[key]
        else:
            self.depth[key] -= 1

    def park(self, shape: Shape, why: str) -> None:
        """Skip this shape until `wake`."""
        self.parked[shape] = why
        self._kinds.setdefault(without_affinity(shape), {})[shape] = None

    def wake(self, could_help: Callable[[Shape], bool], *, may_try: Callable[[Shape], bool] | None = None) -> None:
        """Unpark those shapes that a change could help, as far as they may try.

        What could help is asked once for all that differ only in their run: there may be many thousands of these.
        """
        for kind in [kind for kind in {**self._kinds, **self._full} if could_help(kind)]:
            self._full.pop(kind, None)
            self.unpark([shape for shape in self._kinds.get(kind, ()) if may_try is None or may_try(shape)])

    def mark_full(self, shape: Shape) -> None:
        """Note that no shape that differs from this one only in its run finds capacity, until one is woken."""
        self._full[without_affinity(shape)] = None

    def is_full(self, shape: Shape) -> bool:
        """Return whether a shape is known to find no capacity, wherever the other tasks of its run are."""
        return bool(self._full) and without_affinity(shape) in self._full

    def unpark(self, shapes: Iterable[Shape]) -> None:
        """Unpark these shapes."""
        for shape in shapes:
            if self.parked.pop(shape, None) is not None:
                kind = without_affinity(shape)
                del self._kinds[kind][shape]
                if not self._kinds[kind]:
                    del self._kinds[kind]
                self.wake_count += 1
                for index in self._indexes.values():
                    index.retry_tenants(index.all.get(shape, ()))

    def also_full(self, priority: Priority, shape: Shape) -> list[Shape]:
        """Unparked shapes of a priority that find no capacity for the same reason as this one."""
        if not self.is_full(shape):
            return []
        kind = without_affinity(shape)
        shapes = self._indexes[priority].all
        return [other for other in shapes if other not in self.parked and without_affinity(other) == kind]

    def shapes(self) -> list[Shape]:
        """All unparked shapes with waiting tasks, each once."""
        waiting = (shape for _, _, queues in self._tenants(Priority) for shape in queues)
        return list(dict.fromkeys(shape for shape in waiting if shape not in self.parked))

    def open_shapes(self, priority: Priority, *, only: Shape | None = None) -> set[Shape]:
        """Unparked shapes with waiting tasks at this priority."""
        found = self._indexes[priority].all.keys() - self.parked.keys()
        return found if only is None else found & {only}

    def tenants(self, priority: Priority, *, only: Shape | None = None) -> AbstractSet[str]:
        """Tenants that have something to place at this priority and are not skipped; always in the same order."""
        index = [
            index
            for shape, index in self._indexes[priority].trying.items()
            if shape not in self.parked and (only is None or shape == only)
        ]
        return index[0].keys() if len(index) == 1 else dict.fromkeys(chain.from_iterable(index)).keys()

    def heads(self, priority: Priority, tenant: str, *, only: Shape | None = None) -> list[Head]:
        """The queues of a tenant that can be tried now, unordered, each with the position of its oldest task."""
        shapes = self.shapes_of(priority, tenant)
        open_shapes = [shape for shape in shapes if shape not in self.parked and (only is None or shape == only)]
        return [head for shape in open_shapes if (head := self.head_of(priority, tenant, shape)) is not None]

    def head_of(self, priority: Priority, tenant: str, shape: Shape) -> Head | None:
        """A queue, with the position of its oldest task. An empty one is removed."""
        first = self._first(priority, tenant, shape)
        if first is not None:
            return first[1].since, first[0], shape
        self._forget(priority, tenant, shape)
        return None

    def take(self, priority: Priority, tenant: str, shape: Shape, most: int) -> list[Task]:
        """Take the oldest tasks of a queue out of it, each once, even if restored. The caller moves them on."""
        queue = self._queues[priority][tenant][shape]
        taken: dict[str, Task] = {}
        while len(taken) < most and (entry := self._first(priority, tenant, shape)) is not None:
            queue.popleft()
            taken[entry[1].id] = entry[1]
        if not queue and (priority, tenant, shape) not in self._reinserted:
            self._forget(priority, tenant, shape)
        return list(taken.values())

    def first(self, priority: Priority, tenant: str, shape: Shape) -> Task | None:
        """The task that `take` would return first."""
        entry = self._first(priority, tenant, shape)
        return None if entry is None else entry[1]

    def oldest(self, priority: Priority, tenant: str, shape: Shape, most: int) -> list[Task]:
        """Tasks that `take` would return first, in order; of reinserted ones only the first."""
        if self.first(priority, tenant, shape) is None:
            return []
        queue = self._queues[priority][tenant][shape]
        return [entry[1] for entry in islice(queue, most) if not _is_stale(entry, priority)]

    def peek(self, priority: Priority, tenant: str, shape: Shape, most: int) -> list[tuple[int, Task]]:
        """Tasks that `take` would return first, each with its arrival number. Read-only, for introspection."""
        queue = self._queues[priority].get(tenant, {}).get(shape, ())
        first = islice((entry[:2] for entry in queue if not _is_stale(entry, priority)), most)
        reinserted = self._reinserted.get((priority, tenant, shape))
        if reinserted is None:
            return list(first)
        valid = sorted(entry for entry in reinserted if not _is_stale(entry[1:], priority))
        joined = heapq.merge(first, (entry[1:3] for entry in valid), key=lambda entry: entry[1].since)
        return list(islice(joined, most))

    def front(self, priority: Priority, tenant: str, shape: Shape) -> tuple[datetime, int, Task] | None:
        """The oldest task of a queue: when it became ready, its arrival number, and itself. Read-only."""
        for arrival, task in self.peek(priority, tenant, shape, 1):
            return task.since, arrival, task
        return None

    def count_before(self, task: Task, shape: Shape) -> int:
        """Return about how many tasks of its queue are before a task: stale entries are counted too."""
        queue = self._queues[task.priority].get(task.tenant, {}).get(shape, deque[_Entry]())
        start = bisect_left(queue, task.since, key=lambda entry: entry[1].since)
        for place in range(start, len(queue)):  # not by iterating, which would begin at the head of a long queue
            other = queue[place][1]
            if other is task or other.since > task.since:
                return place
        return start

    def length(self, tenant: str, shape: Shape, priorities: Iterable[Priority] = Priority) -> int:
        """Return how many tasks of a tenant and shape wait, at these priorities, including stale entries."""
        total = 0
        for priority in priorities:
            queue = self._queues[priority].get(tenant, {}).get(shape, ())
            total += len(queue) + len(self._reinserted.get((priority, tenant, shape), ()))
        return total

    def has(self, task: Task, shape: Shape) -> bool:
        """Return whether a task has a valid entry. Searches its queue: for checks, not for deciding."""
        queue = self._queues[task.priority].get(task.tenant, {}).get(shape, ())
        if any(entry is task and seq == task.seq for _, entry, seq in queue):
            return True
        reinserted = self._reinserted.get((task.priority, task.tenant, shape), ())
        return any(entry is task and seq == task.seq for _, _, entry, seq in reinserted)

    def waiting(self, priority: Priority) -> Iterator[tuple[str, Shape, int]]:
        """Every queue of a priority: its tenant and shape, and its length including stale entries."""
        for _, tenant, queues in self._tenants((priority,)):
            for shape, queue in queues.items():
                yield tenant, shape, len(queue) + len(self._reinserted.get((priority, tenant, shape), ()))

    def shapes_of(self, priority: Priority, tenant: str) -> list[Shape]:
        """The shapes of a tenant's queues at a priority, parked or not."""
        return list(self._queues[priority].get(tenant, ()))

    def parked_queues(self, priorities: Iterable[Priority]) -> Iterator[tuple[Priority, str, Shape]]:
        """Every queue of these priorities whose shape is parked."""
        for priority in priorities:
            for shape, index in self._indexes[priority].all.items():
                if shape in self.parked:
                    for tenant in index:
                        yield priority, tenant, shape

    def queues(self) -> Iterator[QueueSummary]:
        """Summaries of all queues that are not empty."""
        for priority, tenant, queues in self._tenants(Priority):
            for shape, queue in queues.items():
                reinserted = self._reinserted.get((priority, tenant, shape), ())
                first = next((one for one in queue if not _is_stale(one, priority)), None)
                ready = [one[0] for one in reinserted if not _is_stale(one[1:], priority)]
                if first is not None:
                    ready.append(first[1].since)
                if ready:
                    yield QueueSummary(priority, tenant, shape, len(queue) + len(reinserted), min(ready))

    def _queue(self, task: Task, shape: Shape) -> _Queue:
        queues = self._queues[task.priority].setdefault(task.tenant, {})
        queue = queues.get(shape)
        if queue is None:
            queue = queues[shape] = deque()
            self._indexes[task.priority].join(task.tenant, shape)
        else:
            self._indexes[task.priority].retry_tenant(task.tenant)
        return queue

    def _forget(self, priority: Priority, tenant: str, shape: Shape) -> None:
        """Remove an empty queue."""
        queues = self._queues[priority].get(tenant, {})
        if queues.pop(shape, None) is None:
            return
        if not queues:
            del self._queues[priority][tenant]
        self._indexes[priority].leave(tenant, shape)

    def _first(self, priority: Priority, tenant: str, shape: Shape) -> _Entry | None:
        """The valid entry at the head of a queue."""
        queue = self._queues[priority].get(tenant, {}).get(shape)
        if queue is None:
            return None
        while queue and _is_stale(queue[0], priority):
            queue.popleft()
        if self._reinserted:
            self._join(priority, tenant, shape, queue)
        return queue[0] if queue else None

    def _join(self, priority: Priority, tenant: str, shape: Shape, queue: _Queue) -> None:
        """Move the oldest reinserted task to the head, if that is its position."""
        reinserted = self._reinserted.get((priority, tenant, shape))
        while reinserted and _is_stale(reinserted[0][1:], priority):
            heapq.heappop(reinserted)
        if reinserted and (not queue or reinserted[0][0] < queue[0][1].since):
            queue.appendleft(heapq.heappop(reinserted)[1:])
        if reinserted is not None and not reinserted:
            del self._reinserted[priority, tenant, shape]

    def _tenants(self, priorities: Iterable[Priority]) -> Iterator[tuple[Priority, str, dict[Shape, _Queue]]]:
        for priority in priorities:
            for tenant, queues in self._queues[priority].items():
                yield priority, tenant, queues


def _is_stale(entry: _Entry, priority: Priority) -> bool:
    _, task, seq = entry
    return task.seq != seq or task.priority is not priority


def _take_out(index: TenantsByShape, tenant: str, shape: Shape) -> None:
    tenants = index.get(shape)
    if tenants is not None and tenant in tenants:
        del tenants[tenant]
        if not tenants:
            del index[shape]
