"""Blocked tasks: QUEUED, but waiting for something other than capacity.

    a slot of a group, for their run   released when there is one: the run of the highest priority first, then the
                                       oldest
    the end of a freeze of their job   all are released when it ends
    a policy that forbids their run    all are released to be checked again when the rules change

They are in no queue, so that they hide nothing behind them, and still count in `FairQueues.depth`. A released task
returns to the position in its queue that it would have if it had never left. A run with many tasks returns a part at a
time.

1. A task is here only while it is QUEUED, has the priority that it came with, and is not in a queue.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import NamedTuple

import msgspec

from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape


class BlockedTask(NamedTuple):
    """A blocked task."""

    task: Task
    shape: Shape


class BlockedRun(NamedTuple):
    """Tasks of one run that are blocked for one reason, for counts."""

    first: BlockedTask
    length: int
    why: str


class _RunEntry(msgspec.Struct, kw_only=True):
    """Blocked tasks of one run."""

    priority: Priority
    """The highest priority of its tasks, which orders the run."""
    tasks: dict[str, BlockedTask] = {}


class _Waiting(msgspec.Struct, kw_only=True):
    """All tasks blocked on one subject."""

    why: str
    runs: dict[str, _RunEntry] = {}
    order: list[tuple[Priority, datetime, str]] = []
    """A heap of runs; entries of runs that are not here any more are stale."""


class BlockedTasks:
    """Blocked tasks of a shard, by subject."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._subjects: dict[str, str] = {}
        """By task: the subject that it is blocked on."""
        self.returning: dict[str, BlockedTask] = {}
        """By task: released, and on its way back to its queue."""

    def __bool__(self) -> bool:
        return bool(self._subjects or self.returning)

    def put(self, subject: str, why: str, task: Task, shape: Shape) -> None:
        """Block a task that was taken out of its queue."""
        self.discard(task)
        waiting = self._waiting.get(subject)
        if waiting is None:
            waiting = self._waiting[subject] = _Waiting(why=why)
        waiting.why = why
        run = waiting.runs.get(task.run_id)
        if run is None or task.priority < run.priority:
            tasks = {} if run is None else run.tasks
            run = waiting.runs[task.run_id] = _RunEntry(priority=task.priority, tasks=tasks)
            heapq.heappush(waiting.order, (task.priority, task.since, task.run_id))
        run.tasks[task.id] = BlockedTask(task, shape)
        self._subjects[task.id] = subject

    def discard(self, task: Task) -> None:
        """Forget a task that has left QUEUED or changed its priority."""
        self.returning.pop(task.id, None)
        subject = self._subjects.pop(task.id, None)
        if subject is None:
            return
        waiting = self._waiting[subject]
        run = waiting.runs[task.run_id]
        del run.tasks[task.id]
        if not run.tasks:
            del waiting.runs[task.run_id]
        if not waiting.runs:
            del self._waiting[subject]

    def has(self, task: Task) -> bool:
        """Whether a task is blocked, or on its way back."""
        return task.id in self._subjects or task.id in self.returning

    def waits_for(self, task: Task) -> str | None:
        """The subject that a task is blocked on."""
        return self._subjects.get(task.id)

    def subjects(self) -> list[str]:
        """All subjects that tasks are blocked on."""
        return list(self._waiting)

    def count_runs(self, subject: str) -> int:
        """Number of runs blocked on a subject."""
        waiting = self._waiting.get(subject)
        return 0 if waiting is None else len(waiting.runs)

    def release(self, subject: str, runs: int | None = None) -> None:
        """Release a number of runs blocked on a subject; None: all."""
        waiting = self._waiting.get(subject)
        while waiting is not None and waiting.runs and runs != 0:
            run = waiting.runs.pop(heapq.heappop(waiting.order)[2], None)
            if run is None:
                continue
            self.returning.update(run.tasks)
            for task_id in run.tasks:
                del self._subjects[task_id]
            runs = None if runs is None else runs - 1
        if waiting is not None and not waiting.runs:
            del self._waiting[subject]

    def shapes_returning(self) -> list[Shape]:
        """Shapes of released tasks."""
        return list(dict.fromkeys(blocked_task.shape for blocked_task in self.returning.values()))

    def returned(self, most: int) -> list[BlockedTask]:
        """Remove and return released tasks."""
        found = list(islice(self.returning.values(), most))
        for blocked_task in found:
            del self.returning[blocked_task.task.id]
        return found

    def waiting(self, subject: str, most: int) -> list[BlockedTask]:
        """Tasks blocked on a subject, in release order."""
        waiting = self._waiting.get(subject)
        if waiting is None:
            return []
        runs = dict.fromkeys(run_id for _, _, run_id in heapq.nsmallest(most, waiting.order) if run_id in waiting.runs)
        return list(
            islice((blocked_task for run_id in runs for blocked_task in waiting.runs[run_id].tasks.values()), most)
        )

    def subject_of(self, task: Task) -> tuple[str, str] | None:
        """The subject that a task is blocked on, and its description; None if it is not blocked."""
        subject = self._subjects.get(task.id)
        return None if subject is None else (subject, self._waiting[subject].why)

    def queues(self) -> Iterator[BlockedRun]:
        """Every run with blocked tasks, for counts."""
        for waiting in self._waiting.values():
            for run in waiting.runs.values():
                yield BlockedRun(next(iter(run.tasks.values())), len(run.tasks), waiting.why)
