"""Decision log of a shard (PLC-8). `core/model/decisions.py` says which decisions are kept.

Nothing here decides, draws from the turn's generator or changes a task: a shard that keeps every decision behaves like
one that keeps none. Each function is called before its decision is executed, and sees the worker as it was then.
"""

from __future__ import annotations

from mainspring import __version__
from mainspring.core.explain.unplaced import explain
from mainspring.core.model.decisions import (
    MAX_DECISIONS_PER_BATCH,
    MAX_NAMED,
    Decision,
    DecisionKind,
    PreemptedTask,
    is_sampled,
    placement_reason,
    preemption_reason,
)
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, StopKind, Task
from mainspring.core.model.worker import Worker
from mainspring.core.placement.capacity_cells import SAMPLE
from mainspring.core.placement.feasibility import obstacles, score_of
from mainspring.core.placement.preemption_policy import Mode, Plan
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.ids import derived_id
from mainspring.shard.actions import stop_requests
from mainspring.shard.placement.affinity import affinity_of
from mainspring.shard.turn import Turn

_MAX_EXPLAINED_WORKERS = 64
"""Pools of up to this size get a reason for each worker. That takes 0.1 ms."""


def placed(turn: Turn, lease_id: str, worker: Worker, shape: Shape, tasks: list[Task]) -> None:
    """Record that these tasks are about to get one lease on a worker."""
    memory = turn.memory
    if not is_sampled(lease_id, memory.scheduler_settings.decisions_sampled_per_1000):
        return
    worker_count = len(memory.workers.open.all)
    reserved = [task.id for task in tasks if task.reserved is not None and task.reserved.worker == worker.id]
    free = worker.free_for(reserved[0]) if reserved else worker.free
    for task in tasks:
        affinity = affinity_of(memory, task, shape)
        is_small = affinity.affinity is None and worker_count <= SAMPLE
        examined = 1 if reserved else worker_count if is_small else None
        why = placement_reason(
            was_reserved=bool(reserved), workers_examined=examined, worker_count=worker_count, group_size=len(tasks)
        )
        _note(
            turn, DecisionKind.PLACED, task, shape, why, worker=worker, free=free, workers_examined=examined,
            score=score_of(shape, worker, memory.workers.open, affinity), attempt=task.attempt + 1,
        )  # fmt: skip


def preempts(turn: Turn, task: Task, mode: Mode, plan: Plan) -> None:
    """Record that a task is about to preempt others."""
    victims = [
        PreemptedTask(
            task_id=one.id, tenant=one.tenant, priority=one.priority, lost_seconds=stop_requests.seconds_lost(turn, one)
        )
        for lease in plan.victims
        for one in lease.members.values()
        if one.stop is None or one.stop.kind is StopKind.HOLD
    ]
    if victims:
        _note(
            turn, DecisionKind.PREEMPTS, task, turn.memory.shape(task),
            preemption_reason(mode, victims, plan.workers_examined), worker=plan.worker,
            free=plan.worker.free_for(task.id), workers_examined=plan.workers_examined, victims=victims,
        )  # fmt: skip


def no_capacity(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> None:
    """Record that the first task of a queue finds no eligible worker."""
    memory = turn.memory
    if not memory.queues.starved.should_log(shape, memory.shard_time):
        return
    head = memory.queues.first(priority, tenant, shape)
    if head is None:
        return
    worker_count, why = len(memory.workers), f"no worker has capacity for {shape}"
    if worker_count <= _MAX_EXPLAINED_WORKERS:
        affinity, zones = affinity_of(memory, head, shape), memory.limits.zones
        found = [obstacles(shape, worker, affinity, head.id, zones) for worker in memory.workers.values()]
        why = explain(shape, found)
    _note(turn, DecisionKind.NO_CAPACITY, head, shape, why, workers_examined=worker_count)


def _note(
    turn: Turn, kind: DecisionKind, task: Task, shape: Shape, why: str, *, worker: Worker | None = None,
    free: Resources | None = None, score: float | None = None, workers_examined: int | None, attempt: int | None = None,
    victims: list[PreemptedTask] | None = None,
) -> None:  # fmt: skip
    """Add a decision to the batch up to its limit. Preemptions are always kept."""
    number = len(turn.batch.decisions)
    if number >= MAX_DECISIONS_PER_BATCH and not victims:
        return
    worker_id = None if worker is None else worker.id
    decision = Decision(
        id=derived_id("dec", turn.now, number, f"{kind} {task.id} {task.seq} {worker_id}"), at=turn.now, kind=kind,
        shard=turn.memory.shard, tenant=task.tenant, task_id=task.id, run_id=task.run_id, name=task.name,
        attempt=task.attempt if attempt is None else attempt, priority=task.priority, request=shape,
        worker_id=worker_id, free=free, score=score, workers_examined=workers_examined,
        victims=tuple((victims or [])[:MAX_NAMED]), victim_count=len(victims or []), why=why, version=__version__,
    )  # fmt: skip
    turn.batch.decisions.append(decision)
