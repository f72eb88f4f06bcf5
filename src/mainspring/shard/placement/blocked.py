"""Set aside: tasks that are QUEUED, and wait for something that is not room.

    a slot of a group, for their run   its tasks come back when there is one: the most important run first, then the
                                       oldest
    the end of a freeze of their job   all come back when it is over
    a policy that forbids their run    all come back to be looked at when the rules are others

They are in no line, so that they hide nobody behind them, and still count in `FairQueues.depth`. Each comes back to the
place in its line that it would have if it had never left it. A run with many tasks comes back a part at a time.

1. A task is here only while it is QUEUED, has the priority that it came with, and is not in a line.
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


class Aside(NamedTuple):
    """A task that is set aside."""

    task: Task
    shape: Shape


class AsideLine(NamedTuple):
    """Tasks of one run that are set aside for one reason, as they are counted."""

    first: Aside
    length: int
    why: str


class _RunAside(msgspec.Struct, kw_only=True):
    """What is set aside of one run."""

    priority: Priority
    """The highest with which it stands in the order."""
    tasks: dict[str, Aside] = {}


class _Waiting(msgspec.Struct, kw_only=True):
    """All that waits for one thing."""

    why: str
    runs: dict[str, _RunAside] = {}
    order: list[tuple[Priority, datetime, str]] = []
    """A heap of the runs; an entry whose run is not here any more is stale."""


class Asides:
    """What is set aside in a shard, by what it waits for."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._where: dict[str, str] = {}
        """By task: what it waits for."""
        self.returning: dict[str, Aside] = {}
        """By task: it waits for nothing more, and goes back to its line."""

    def __bool__(self) -> bool:
        return bool(self._where or self.returning)

    def put(self, subject: str, why: str, task: Task, shape: Shape) -> None:
        """Set a task aside that was taken out of its line."""
        self.discard(task)
        waiting = self._waiting.get(subject)
        if waiting is None:
            waiting = self._waiting[subject] = _Waiting(why=why)
        waiting.why = why
        run = waiting.runs.get(task.run_id)
        if run is None or task.priority < run.priority:
            tasks = {} if run is None else run.tasks
            run = waiting.runs[task.run_id] = _RunAside(priority=task.priority, tasks=tasks)
            heapq.heappush(waiting.order, (task.priority, task.since, task.run_id))
        run.tasks[task.id] = Aside(task, shape)
        self._where[task.id] = subject

    def discard(self, task: Task) -> None:
        """A task is QUEUED no more, or has another priority."""
        self.returning.pop(task.id, None)
        subject = self._where.pop(task.id, None)
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
        """Whether a task is set aside, or on its way back."""
        return task.id in self._where or task.id in self.returning

    def waits_for(self, task: Task) -> str | None:
        """What a task waits for that is set aside."""
        return self._where.get(task.id)

    def subjects(self) -> list[str]:
        """What something waits for."""
        return list(self._waiting)

    def count_runs(self, subject: str) -> int:
        """How many runs wait for something."""
        waiting = self._waiting.get(subject)
        return 0 if waiting is None else len(waiting.runs)

    def call_back(self, subject: str, runs: int | None = None) -> None:
        """Let so many runs that wait for something come back; None: all."""
        waiting = self._waiting.get(subject)
        while waiting is not None and waiting.runs and runs != 0:
            run = waiting.runs.pop(heapq.heappop(waiting.order)[2], None)
            if run is None:
                continue
            self.returning.update(run.tasks)
            for task_id in run.tasks:
                del self._where[task_id]
            runs = None if runs is None else runs - 1
        if waiting is not None and not waiting.runs:
            del self._waiting[subject]

    def shapes_returning(self) -> list[Shape]:
        """The shapes of what goes back to its line."""
        return list(dict.fromkeys(aside.shape for aside in self.returning.values()))

    def returned(self, most: int) -> list[Aside]:
        """Take out so many of those that go back to their lines."""
        found = list(islice(self.returning.values(), most))
        for aside in found:
            del self.returning[aside.task.id]
        return found

    def waiting(self, subject: str, most: int) -> list[Aside]:
        """So many of those that wait for something, in the order in which they come back."""
        waiting = self._waiting.get(subject)
        if waiting is None:
            return []
        runs = dict.fromkeys(run_id for _, _, run_id in heapq.nsmallest(most, waiting.order) if run_id in waiting.runs)
        return list(islice((aside for run_id in runs for aside in waiting.runs[run_id].tasks.values()), most))

    def subject_of(self, task: Task) -> tuple[str, str] | None:
        """What a task is set aside for, and in words; None if it is not."""
        subject = self._where.get(task.id)
        return None if subject is None else (subject, self._waiting[subject].why)

    def lines(self) -> Iterator[AsideLine]:
        """Every run of which something is set aside, for those who count."""
        for waiting in self._waiting.values():
            for run in waiting.runs.values():
                yield AsideLine(next(iter(run.tasks.values())), len(run.tasks), waiting.why)
