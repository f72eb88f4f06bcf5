"""Queues of a shard: queued tasks, and all that decides whether they may be taken.

    parked    a shape found no capacity, or a limit of it is exhausted: its queues are skipped
    faulty    placing a shape failed because of a bug or bad data: it stays parked until a new leader tries it
    blocked   a task waits for something other than capacity (`shard/state/blocked.py`)
    starved   a queue found no capacity, and may be entitled to some (`shard/state/starved_queues.py`)
    reserved  a task of the queue has a reservation (`shard/placement/reservations.py`)
    ready     reserved capacity of the queue may be free: it is placed even if its shape is parked for others

1. A QUEUED task is in its queue or blocked, never both; no other task is in either.
2. `reserved` has exactly the QUEUED tasks with a reservation in their row, under the queue that they were reserved for.
3. A faulty shape is parked.
4. A parked shape with affinity rules is woken when a task of its run starts or ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.fairness.fair_queues import FairQueues
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.blocked import BlockedTasks
from mainspring.shard.state.starved_queues import QueueKey, StarvedQueues


class ShardQueues(FairQueues):
    """The fair queues of a shard, with what is blocked, starved and reserved."""

    def __init__(self) -> None:
        super().__init__()
        self.blocked = BlockedTasks()
        self.starved = StarvedQueues()
        self.suspended_from: Priority | None = None
        """Nothing of this priority or below is placed while the store is slow."""
        self._reserved: dict[QueueKey, dict[str, Task]] = {}
        self.reserved: Mapping[QueueKey, Mapping[str, Task]] = self._reserved
        """By queue: its tasks with a reservation, by id."""
        self._ready: dict[QueueKey, None] = {}
        self._faulty: dict[Shape, str] = {}
        self.faulty: Mapping[Shape, str] = self._faulty
        """Shapes whose placement failed, with the fault."""
        self._affinity_parked: dict[str, set[Shape]] = {}
        """By run: shapes that wait for tasks of their run to be elsewhere."""

    # tasks

    def remove(self, task: Task) -> None:
        """Account for a task that is no longer QUEUED, blocked or not. Call it before its state changes."""
        if self.blocked:
            self.blocked.discard(task)
        self.left(task)

    def is_waiting(self, task: Task, shape: Shape) -> bool:
        """Whether a QUEUED task is in its queue or blocked. Searches the queue: for checks, not for deciding."""
        return self.blocked.has(task) or self.has(task, shape)

    # parked shapes

    def park_for_capacity(self, shape: Shape, why: str) -> None:
        """Park a shape that found no capacity. If it has affinity rules, changes of its run wake it."""
        self.park(shape, why)
        if shape.run:
            self._affinity_parked.setdefault(shape.run, set()).add(shape)

    def park_faulty(self, shape: Shape, fault: str) -> None:
        """Park a shape whose placement failed."""
        self._faulty[shape] = fault
        self.park(shape, f"placement failed: {fault}")

    def wake_affinity(self, run_id: str) -> None:
        """Tasks of a run started or ended: wake shapes whose affinity depends on them."""
        if self._affinity_parked:
            self.unpark(self._affinity_parked.pop(run_id, ()))

    def wake_all_affinity(self) -> None:
        """A worker is gone: wake all shapes whose affinity may have depended on it."""
        for run_id in list(self._affinity_parked):
            self.wake_affinity(run_id)

    # reservations

    def add_reservation(self, queue_key: QueueKey, task: Task) -> None:
        """Add a task whose reservation was made or restored."""
        self._reserved.setdefault(queue_key, {})[task.id] = task

    def remove_reservation(self, task: Task) -> None:
        """Remove a task whose reservation is released. Its shape may have changed: all queues are searched."""
        for queue_key, mine in self._reserved.items():
            if mine.pop(task.id, None) is not None:
                if not mine:
                    del self._reserved[queue_key]
                return

    def mark_ready(self, queue_key: QueueKey) -> None:
        """Mark a queue whose reserved capacity may be free."""
        if queue_key[2] not in self._faulty:
            self._ready[queue_key] = None

    def ready(self, priority: Priority | None = None, only: Shape | None = None) -> list[QueueKey]:
        """The queues that are marked as ready, of one priority or shape if given."""
        return [key for key in self._ready if priority in (None, key[0]) and only in (None, key[2])]

    def take_ready(self, priority: Priority, only: Shape | None) -> list[QueueKey]:
        """Unmark and return the ready queues of a priority."""
        taken = self.ready(priority, only)
        for queue_key in taken:
            del self._ready[queue_key]
        return taken
