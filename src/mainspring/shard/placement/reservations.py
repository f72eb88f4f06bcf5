"""Room that is kept for a task that waits (PLC-6): nobody else gets what is being freed for it.

    QUEUED ──keep──► QUEUED, reserved ──its room is there──► ASSIGNED
       ▲                  │
       └───give back──────┘   placed elsewhere, cancelled, paused; its time is up; the worker is lost, held or too small

What is kept stands in the task's row (`Task.reserved`), so that a new leader keeps the same room, and on the worker
(`Worker.kept`), where it counts as taken for everybody else. A task has at most one room. All tasks of a line are
alike: whichever room of theirs is there first is for the oldest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from mainspring.core.model.task import Priority, Reservation, Task, TaskState
from mainspring.core.model.worker import Worker
from mainspring.core.placement.feasibility import Hindrance, obstacles
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.placement.affinity import kin_of

if TYPE_CHECKING:
    from mainspring.shard.state.memory import ShardMemory
    from mainspring.shard.turn import Turn

_ROOM = frozenset({Hindrance.NO_ROOM, Hindrance.KEPT})


def keep(turn: Turn, task: Task, worker: Worker, why: str, *, yields: bool = False) -> None:
    """Keep room on a worker for a task that is QUEUED and has none. If it yields, more important ones may have it."""
    until = turn.now + timedelta(seconds=turn.memory.tuning.kept_room_seconds)
    turn.touch(task)
    task.reserved = Reservation(worker=worker.id, until=until, why=why, yields=yields)
    recall(turn.memory, task)


def recall(memory: ShardMemory, task: Task) -> None:
    """Keep the room that a task's row says, on a worker that may have to be heard of first."""
    kept = task.reserved
    if kept is None:
        return
    worker = memory.workers.get(kept.worker) or memory.meet(kept.worker)
    shape = memory.shape(task)
    memory.kept_rooms.setdefault((task.priority, task.tenant, shape), {})[task.id] = task
    worker.keep(task.id, shape.resources)
    memory.refresh(worker)
    memory.set_instant(kept.until, TimerDue(kind=TimerKind.KEPT_ROOM, subject=task.id, stamp=task.seq))


def give_back(turn: Turn, task: Task) -> None:
    """Room is kept for this task no longer, if any was."""
    memory, kept = turn.memory, task.reserved
    if kept is None:
        return
    turn.touch(task)
    task.reserved = None
    _forget(memory, task)
    worker = memory.workers.get(kept.worker)
    if worker is not None:
        worker.give_back(task.id)
        memory.refresh(worker)


def give_all_back(turn: Turn, worker: Worker) -> None:
    """A worker is lost, or gets nothing new: who had room there looks for another."""
    for task_id in list(worker.kept):
        _give_back_and_press(turn, task_id)


def compare(turn: Turn, worker: Worker) -> None:
    """A worker has registered, perhaps with less than it had: who would not fit it any more looks for another."""
    for task_id in list(worker.kept):
        task = turn.memory.find(task_id)
        if task is None or not may_take(turn.memory, task)(worker):
            _give_back_and_press(turn, task_id)


def due(turn: Turn, timer: TimerDue) -> None:
    """The time of a room may be up; without a subject: lines that found no room are to be looked at again."""
    if not timer.subject:
        turn.memory.needs.alarm = None
        return
    task = turn.memory.find(timer.subject)
    if task is not None and task.reserved is not None and task.reserved.until <= turn.now:
        _give_back_and_press(turn, task.id)


def ready(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> Worker | None:
    """A worker where the room that is kept for this line is there now. The oldest of the line has it from now on."""
    memory = turn.memory
    mine = memory.kept_rooms.get((priority, tenant, shape)) if memory.kept_rooms else None
    if not mine:
        return None
    head = memory.queues.first(priority, tenant, shape)
    for task in sorted(mine.values(), key=lambda one: one is not head):
        worker = memory.workers.get(task.reserved.worker) if task.reserved is not None else None
        if worker is not None and has_come(memory, task, worker):
            if head is not None and head is not task:
                _swap(turn, head, task)
            return worker
    return None


def has_come(memory: ShardMemory, task: Task, worker: Worker) -> bool:
    """Whether the room that is kept for a task is there."""
    shape = memory.shape(task)
    return not obstacles(shape, worker, kin_of(memory, task, shape), task.id, memory.zones)


def may_take(memory: ShardMemory, task: Task) -> Callable[[Worker], bool]:
    """Of each worker, whether nothing but room stands between it and a task."""
    shape = memory.shape(task)
    kin = kin_of(memory, task, shape)

    def answer(worker: Worker) -> bool:
        return all(one.kind in _ROOM for one in obstacles(shape, worker, kin, task.id, memory.zones))

    return answer


def _swap(turn: Turn, head: Task, task: Task) -> None:
    """Two tasks of one line exchange their rooms; one of them may have none."""
    memory = turn.memory
    theirs, mine = head.reserved, task.reserved
    for one in (head, task):
        turn.touch(one)
        give_back(turn, one)
    for one, room in ((head, mine), (task, theirs)):
        one.reserved = room
        recall(memory, one)


def _give_back_and_press(turn: Turn, task_id: str) -> None:
    """Give a task's room back, and let its line look for another."""
    memory = turn.memory
    task = memory.find(task_id)
    if task is not None and task.reserved is not None:
        give_back(turn, task)
        if task.state is TaskState.QUEUED:
            memory.needs.press((task.priority, task.tenant, memory.shape(task)), memory.life)


def _forget(memory: ShardMemory, task: Task) -> None:
    """By its id alone: what it asks for may be another than it was."""
    for line, mine in memory.kept_rooms.items():
        if mine.pop(task.id, None) is not None:
            if not mine:
                del memory.kept_rooms[line]
            return
