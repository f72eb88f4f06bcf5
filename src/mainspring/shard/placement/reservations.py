"""Reservations (PLC-6): capacity that is being freed, and kept for the waiting task that it is freed for.

    QUEUED ──reserve──► QUEUED, reserved ──capacity free────► ASSIGNED
       ▲                     │
       └───release───────────┘   placed elsewhere, cancelled, paused; expired; the worker is lost, cordoned or too small

A reservation is in the task's row (`Task.reserved`), so that a new leader keeps it, and on the worker
(`Worker.reserved`), where it counts as used for all other tasks. A task has at most one. Tasks of a queue are
interchangeable: the first reservation that is ready goes to the oldest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.core.model.task import Priority, Reservation, Task, TaskState
from mainspring.core.model.worker import Worker
from mainspring.core.placement.feasibility import ObstacleKind, obstacles
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.placement.affinity import affinity_of

if TYPE_CHECKING:
    from mainspring.shard.state.memory import ShardMemory
    from mainspring.shard.turn import Turn

_LACK_OF_CAPACITY = frozenset({ObstacleKind.NO_CAPACITY, ObstacleKind.RESERVED})


def reserve(turn: Turn, task: Task, worker: Worker, why: str, *, yields: bool = False) -> None:
    """Reserve capacity on a worker for a queued task. If it yields, higher priorities may take it."""
    until = turn.now + timedelta(seconds=turn.memory.scheduler_settings.reservation_seconds)
    turn.touch(task)
    task.reserved = Reservation(worker=worker.id, until=until, why=why, yields=yields)
    restore(turn.memory, task)


def restore(memory: ShardMemory, task: Task) -> None:
    """Restore the reservation in a task's row, on a worker that may not have registered yet."""
    reserved = task.reserved
    if reserved is None:
        return
    worker = memory.workers.get(reserved.worker) or memory.add_worker(reserved.worker)
    shape = memory.shape(task)
    memory.queues.add_reservation((task.priority, task.tenant, shape), task)
    worker.reserve(task.id, shape.resources)
    memory.refresh(worker)
    memory.timers.set_at(reserved.until, TimerKind.RESERVATION, task.id, task.seq)


def release(turn: Turn, task: Task) -> None:
    """Release the reservation of a task, if it has one."""
    memory, reserved = turn.memory, task.reserved
    if reserved is None:
        return
    turn.touch(task)
    task.reserved = None
    memory.queues.remove_reservation(task)
    worker = memory.workers.get(reserved.worker)
    if worker is not None:
        worker.release(task.id)
        memory.refresh(worker)


def release_all(turn: Turn, worker: Worker) -> None:
    """Release all reservations on a worker that is lost or cordoned."""
    for task_id in list(worker.reserved):
        _release_and_mark(turn, task_id)


def compare(turn: Turn, worker: Worker) -> None:
    """Release reservations that no longer fit a worker that has registered again."""
    for task_id in list(worker.reserved):
        task = turn.memory.runs.find(task_id)
        if task is None or not may_take(turn.memory, task)(worker):
            _release_and_mark(turn, task_id)


def due(turn: Turn, timer: TimerDue) -> None:
    """A reservation may have expired; without a subject: check starved queues again."""
    if not timer.subject:
        turn.memory.queues.starved.clear_alarm()
        return
    task = turn.memory.runs.find(timer.subject)
    if task is not None and task.reserved is not None and task.reserved.until <= turn.now:
        _release_and_mark(turn, task.id)


def ready(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> Worker | None:
    """A worker where a reservation of this queue is ready. The oldest task of the queue gets it."""
    memory = turn.memory
    mine = memory.queues.reserved.get((priority, tenant, shape)) if memory.queues.reserved else None
    if not mine:
        return None
    head = memory.queues.first(priority, tenant, shape)
    for task in sorted(mine.values(), key=lambda one: one is not head):
        worker = memory.workers.get(task.reserved.worker) if task.reserved is not None else None
        if worker is not None and is_ready(memory, task, worker):
            if head is not None and head is not task:
                _swap(turn, head, task)
            return worker
    return None


def is_ready(memory: ShardMemory, task: Task, worker: Worker) -> bool:
    """Whether the capacity reserved for a task is free."""
    shape = memory.shape(task)
    return not obstacles(shape, worker, affinity_of(memory, task, shape), task.id, memory.limits.zones)


def may_take(memory: ShardMemory, task: Task) -> Callable[[Worker], bool]:
    """A predicate for workers that lack nothing but capacity for a task."""
    shape = memory.shape(task)
    affinity = affinity_of(memory, task, shape)

    def lacks_only_capacity(worker: Worker) -> bool:
        found = obstacles(shape, worker, affinity, task.id, memory.limits.zones)
        return all(obstacle.kind in _LACK_OF_CAPACITY for obstacle in found)

    return lacks_only_capacity


def _swap(turn: Turn, head: Task, task: Task) -> None:
    """Swap the reservations of two tasks of one queue; one of them may have none."""
    memory = turn.memory
    theirs, mine = head.reserved, task.reserved
    for one in (head, task):
        turn.touch(one)
        release(turn, one)
    for one, reservation in ((head, mine), (task, theirs)):
        one.reserved = reservation
        restore(memory, one)


def _release_and_mark(turn: Turn, task_id: str) -> None:
    """Release a task's reservation, and mark its queue as starved."""
    memory = turn.memory
    task = memory.runs.find(task_id)
    if task is not None and task.reserved is not None:
        release(turn, task)
        if task.state is TaskState.QUEUED:
            memory.queues.starved.mark_starved((task.priority, task.tenant, memory.shape(task)), memory.shard_time)
