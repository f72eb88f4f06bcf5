"""Starvation guard: reserve capacity for the next tenant on a worker that empties over time (PLC-4, PLC-6).

Otherwise small tasks of others would take every bit that becomes free, and a large task would wait forever.
"""

from __future__ import annotations

from mainspring.core.model.task import Priority, Task
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.placement.preemption_policy import MAX_EXAMINED, coverage
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.placement import gates, reservations
from mainspring.shard.placement.fair_share import Rank, rank
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn


def reserve_for_next(turn: Turn, task: Task, shape: Shape) -> None:
    """Reserve capacity for a task that is next and would starve behind smaller ones. Nothing is preempted.

    One at a time at each priority: reserved capacity is idle until it is enough.
    """
    memory = turn.memory
    if _has_reservation(memory, task.priority) or not _is_next(turn, task, shape):
        return
    may_take = reservations.may_take(memory, task)
    best: tuple[float, Worker] | None = None
    for worker in _sample(turn):
        if worker.status is WorkerStatus.READY and not worker.reserved and shape.resources.fits(worker.total):
            part = coverage(worker.free, shape.resources)
            if (best is None or part > best[0]) and may_take(worker):
                best = (part, worker)
    if best is not None:
        reservations.reserve(turn, task, best[1], "head of its queue", yields=True)


def _has_reservation(memory: ShardMemory, priority: Priority) -> bool:
    return any(
        task.reserved is not None and task.reserved.yields
        for (level, _, _), reserved in memory.queues.reserved.items()
        if level is priority
        for task in reserved.values()
    )


def _is_next(turn: Turn, task: Task, shape: Shape) -> bool:
    """Whether no other tenant with startable tasks at its priority comes first."""
    mine = rank(turn.memory, task.priority, task.tenant, turn.now, shape)
    return not any(
        priority is task.priority and tenant != task.tenant and _may_start_before(turn, mine, priority, tenant)
        for priority, tenant in turn.memory.queues.depth
    )


def _may_start_before(turn: Turn, place: Rank, priority: Priority, tenant: str) -> bool:
    """Whether a tenant has a startable task with a better rank."""
    memory = turn.memory
    return not gates.passes_over(turn, priority, tenant) and any(
        rank(memory, priority, tenant, turn.now, shape) < place
        and gates.exceeds(memory, priority, tenant, shape, turn.now) is None
        for shape in memory.queues.shapes_of(priority, tenant)
    )


def _sample(turn: Turn) -> list[Worker]:
    workers = list(turn.memory.workers.values())
    return workers if len(workers) <= MAX_EXAMINED else turn.random.sample(workers, MAX_EXAMINED)
