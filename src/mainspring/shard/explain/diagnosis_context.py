"""Shared state of the diagnoses of one pool: workers, tenants, competing queues.

What many queues need is computed once. Of a large pool only some queues are examined, within `_MAX_CHECKS` in total.
"""

from __future__ import annotations

from collections.abc import KeysView
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.core.model.resources import ZERO_RESOURCES, dominant_share
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.feasibility import is_feasible
from mainspring.core.placement.task_shapes import Shape, without_affinity
from mainspring.shard.explain import matching
from mainspring.shard.explain.matching import WorkerMatches
from mainspring.shard.placement import concurrency_groups, failure_throttle, fair_share, gates
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

_MAX_QUEUES = 500
_MAX_CHECKS = 5_000
_WORKERS_COMPARED = 8
"""A queue competes with a task if one of this many workers that match the task matches both."""


class TaskContext(msgspec.Struct, frozen=True, kw_only=True):
    """A task under diagnosis, and what belongs to it."""

    memory: ShardMemory
    run: RunMemory
    task: Task
    shape: Shape
    """Its current requirements."""
    now: datetime
    diagnosis: DiagnosisContext

    def match_workers(self) -> WorkerMatches:
        """Return how the workers match it."""
        return self.diagnosis.match_workers(self.task, self.shape)

    def is_parked(self) -> bool:
        """Return whether the scheduler has found no capacity for its shape."""
        return self.shape in self.memory.queues.parked


class CompetingQueue(NamedTuple):
    """A queue that may start something on the same workers."""

    tenant: str
    shape: Shape
    tasks: int


class DiagnosisContext:
    """Shared state of the diagnoses of one pool at one moment."""

    def __init__(self, memory: ShardMemory, now: datetime) -> None:
        self.memory = memory
        self.now = now
        self.queues_explained = 0
        """How many queues have been explained."""
        self._checks_left = _MAX_CHECKS
        self._matches: dict[Shape, WorkerMatches] = {}
        self._may_start: dict[tuple[Priority, str], bool] = {}
        self._competing_queues: dict[tuple[Priority, Shape, bool], list[CompetingQueue]] = {}
        self.has_omitted = False
        """There were more competing queues than were examined."""
        self._beyond: dict[tuple[Priority, str], tuple[datetime, int, Task] | None] = {}
        self._weight: float | None = None

    def context_of(self, task: Task, shape: Shape | None = None) -> TaskContext:
        """The context of a task in memory, in the queue of a shape if that is known."""
        run, shape = self.memory.runs[task.run_id], shape or self.memory.shape(task)
        return TaskContext(memory=self.memory, run=run, task=task, shape=shape, now=self.now, diagnosis=self)

    def shapes_known(self) -> KeysView[Shape]:
        """Shapes that the workers have been matched with."""
        return self._matches.keys()

    def match_workers(self, task: Task, shape: Shape) -> WorkerMatches:
        """Return how the workers match a shape, of which a task is queued."""
        found = self._matches.get(shape)
        if found is None:
            found = self._matches[shape] = matching.match_workers(self.memory, task, shape)
        return found

    def part_of_share(self, tenant: str) -> float:
        """A tenant's use, as a fraction of its fair share."""
        memory = self.memory
        if self._weight is None:
            self._weight = fair_share.total_weight(memory, fair_share.active_tenants(memory), self.now)
        share = dominant_share(memory.leases.use.get(tenant, ZERO_RESOURCES), memory.workers.capacity)
        weight = memory.rules.quota(tenant, self.now).weight
        return share * self._weight / weight if weight else 0.0

    def first_beyond(self, priority: Priority, tenant: str) -> tuple[datetime, int, Task] | None:
        """The oldest task of a tenant that could be tried, but exceeds its quota: younger ones are not placed.

        Tasks that alone exceed the quota are skipped. Returned with when it became ready and its arrival number.
        """
        key = priority, tenant
        if key not in self._beyond:
            self._beyond[key] = self._find_beyond(priority, tenant)
        return self._beyond[key]

    def _find_beyond(self, priority: Priority, tenant: str) -> tuple[datetime, int, Task] | None:
        memory, queues, now = self.memory, self.memory.queues, self.now
        if not self._spend(len(queues.shapes_of(priority, tenant))):
            return None
        shapes = [shape for shape in queues.shapes_of(priority, tenant) if shape not in queues.parked]
        fronts = [(front, shape) for shape in shapes if (front := queues.front(priority, tenant, shape)) is not None]
        for front, shape in sorted(fronts, key=lambda one: one[0][:2]):
            is_beyond = gates.exceeds(memory, priority, tenant, shape, now) is not None
            if is_beyond and not gates.exceeds_alone(memory, tenant, shape, now):
                return front
        return None

    def competing_queues(self, context: TaskContext, priority: Priority) -> list[CompetingQueue]:
        """Queues of a priority that may take what a task waits for. Of many, some are examined."""
        kind = without_affinity(context.shape)
        key = priority, kind, context.is_parked()
        if key not in self._competing_queues:
            self._competing_queues[key] = self._find_competing_queues(context, priority)
        return self._competing_queues[key]

    def _find_competing_queues(self, context: TaskContext, priority: Priority) -> list[CompetingQueue]:
        memory, queues = self.memory, self.memory.queues
        matches = [matched.worker for matched in context.match_workers().matches[:_WORKERS_COMPARED]]
        competes: dict[Shape, bool] = {}
        found = []
        for place, (tenant, shape, length) in enumerate(queues.waiting(priority)):
            if place >= _MAX_QUEUES or not self._spend(1):
                self.has_omitted = True
                break
            tasks = min(length, queues.depth.get((priority, tenant), 0))
            if not tasks or not self._is_tried(context, priority, tenant, shape):
                continue
            kind = without_affinity(shape)
            if kind not in competes:
                competes[kind] = any(is_feasible(kind, worker, zones=memory.limits.zones) for worker in matches)
            if competes[kind] and self._may_be_placed(priority, tenant, shape):
                found.append(CompetingQueue(tenant, shape, tasks))
        return found

    def _is_tried(self, context: TaskContext, priority: Priority, tenant: str, shape: Shape) -> bool:
        """Return whether a queue is dispatched as soon as there is capacity: a parked one does not block an unparked
        one."""
        memory = self.memory
        if shape in memory.queues.parked and not context.is_parked():
            return False
        if shape in memory.queues.faulty:
            return False
        known = self._may_start.get((priority, tenant))
        if known is None:
            known = gates.freeze_over(memory, tenant, self.now) is None and (
                priority is Priority.P0 or not failure_throttle.is_throttled(memory, tenant, self.now)
            )
            self._may_start[priority, tenant] = known
        return known

    def _may_be_placed(self, priority: Priority, tenant: str, shape: Shape) -> bool:
        """Return whether no quota, group, freeze or policy blocks the oldest task of a queue."""
        memory, now = self.memory, self.now
        front = memory.queues.front(priority, tenant, shape)
        if front is None or gates.exceeds(memory, priority, tenant, shape, now) is not None:
            return False
        head = front[2]
        run = memory.runs[head.run_id]
        if not run.may_place(head) or gates.blocking_rule(memory, run, now) is not None:
            return False
        return concurrency_groups.held_by(memory, head, shape, now) is None

    def _spend(self, checks: int) -> bool:
        """Return whether this many more may be examined."""
        self._checks_left -= checks
        return self._checks_left >= 0
