"""Runs of a snapshot: of each the relevant tasks, with what decides where they may run and what becomes ready after
them.

A waiting task is copied with some of its upstream tasks, as their workers count; one that may end is copied with those
that become ready then, if only the graph decides that. Positions are renumbered from 0, so that a run of 100,000 tasks
costs no more than what is copied of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.job import Job, TaskSpec, affinity_targets_of
from mainspring.core.model.task import Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.ids import task_id
from mainspring.shard.explain.snapshot import CopiedRun
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

_UPSTREAMS = 8
"""Upstream tasks per waiting task that count for its affinity."""
_FOLLOWERS = 4
"""Per task that may end: tasks that become ready then."""
MAX_FOLLOWERS = 300
"""In total."""


class CopiedRuns:
    """The runs of a snapshot in the making."""

    def __init__(self, memory: ShardMemory) -> None:
        self._memory = memory
        self._places: dict[str, dict[int, int]] = {}
        """By run: the new number of each copied position."""
        self._followers = 0
        self._jobs: dict[tuple[str, int], Job] = {}
        """By job and position, for runs of which one task is copied: those of a long queue have the same few jobs."""
        self.duration_samples: dict[tuple[str, str, str], tuple[float, ...]] = {}

    def take(self, task: Task) -> str:
        """Copy this task, too; return its id in the copy."""
        positions_of = self._places.setdefault(task.run_id, {})
        new_position = positions_of.setdefault(task.position, len(positions_of))
        return task_id(task.run_id, new_position)

    def has_any(self, run: RunMemory) -> bool:
        """Return whether a task of this run is copied."""
        return run.run.id in self._places

    def has(self, task: Task) -> bool:
        """Return whether a task is copied."""
        return task.position in self._places.get(task.run_id, ())

    def finish(self) -> tuple[tuple[CopiedRun, ...], dict[str, str]]:
        """All runs, with the real ids of their tasks."""
        names: dict[str, str] = {}
        found = []
        for run_id, positions_of in self._places.items():
            run = self._memory.runs[run_id]
            if run.run.task_count > 1:
                self._add_related(run, positions_of)
            found.append(self._copy(run, positions_of, names))
        return tuple(found), names

    def _add_related(self, run: RunMemory, positions_of: dict[int, int]) -> None:
        """Add upstream tasks of waiting ones, and tasks that follow those that may end."""
        for position in list(positions_of):
            task = run.tasks[position]
            if task.state is TaskState.QUEUED:
                for parent in islice(_upstreams(run, position), _UPSTREAMS):
                    positions_of.setdefault(parent, len(positions_of))
                for name in run.shape(position).affinity:
                    for parent in islice(run.positions_of(name), _UPSTREAMS):
                        positions_of.setdefault(parent, len(positions_of))
            if run.dynamic_tasks is None and self._followers < MAX_FOLLOWERS:
                for child in islice(run.children(position), _FOLLOWERS):
                    if child not in positions_of and _follows(run, child):
                        positions_of[child] = len(positions_of)
                        self._followers += 1

    def _copy(self, run: RunMemory, positions_of: dict[int, int], names: dict[str, str]) -> CopiedRun:
        tasks, waiting = list[Task](), list[int]()
        for position, new_position in positions_of.items():
            task = run.tasks[position]
            tasks.append(self._copy_task(task, new_position))
            names[tasks[-1].id] = task.id
            waiting.append(run.waiting[position] if task.state is TaskState.PENDING else 0)
            self._add_durations(run, run.spec(position))
        row = replace(run.run, task_count=len(tasks) if _is_complete(run, tasks) else len(tasks) + 1)
        return CopiedRun(run=row, job=self._job(run, positions_of), tasks=tuple(tasks), waiting=tuple(waiting))

    def _job(self, run: RunMemory, positions_of: dict[int, int]) -> Job:
        """The job of a run with only what is copied of it."""
        if len(positions_of) > 1 or run.dynamic_tasks is not None:
            return _small_job(run, positions_of)
        key = (run.job.id, next(iter(positions_of)))
        if key not in self._jobs:
            self._jobs[key] = _small_job(run, positions_of)
        return self._jobs[key]

    def _copy_task(self, task: Task, new_position: int) -> Task:
        mine = replace(task)
        mine.id, mine.position = task_id(task.run_id, new_position), new_position
        mine.origin = mine.output = mine.error = None
        return mine

    def _add_durations(self, run: RunMemory, spec: TaskSpec) -> None:
        """Copy the recent durations of such tasks."""
        key = (run.run.tenant, run.job.spec.name, spec.name)
        if key not in self.duration_samples:
            self.duration_samples[key] = tuple(sorted(self._memory.durations.samples(*key)))


def _small_job(run: RunMemory, positions_of: dict[int, int]) -> Job:
    specs, shapes, upstream = list[TaskSpec](), list[Shape](), list[tuple[int, ...]]()
    downstream: list[list[int]] = [[] for _ in positions_of]
    for position, new_position in positions_of.items():
        spec, is_over = run.spec(position), run.tasks[position].state in FINAL
        specs.append(TaskSpec(name=spec.name, expected_seconds=spec.expected_seconds))
        shapes.append(run.shape(position))
        copied = () if is_over else islice(_upstreams(run, position), 4 * _UPSTREAMS)
        needs = tuple(positions_of[one] for one in copied if one in positions_of)
        upstream.append(needs)
        for parent in needs:
            downstream[parent].append(new_position)
    return Job(
        id=run.job.id, spec=run.job.spec, tasks=tuple(specs), upstream=tuple(upstream),
        downstream=tuple(map(tuple, downstream)), conditions={}, shapes=tuple(shapes), templates=frozenset(),
        named=affinity_targets_of(specs, shapes), is_dynamic=False,
    )  # fmt: skip


def _upstreams(run: RunMemory, position: int) -> Iterator[int]:
    """The existing upstream tasks; a fan-out stands for all of its tasks."""
    return (member for parent in run.parents(position) for member in run.created_at(parent))


def _follows(run: RunMemory, position: int) -> bool:
    """Return whether only the ends of its upstream tasks decide when a task is ready."""
    if position >= len(run.tasks) or run.conditions(position) is not None:
        return False
    task, spec = run.tasks[position], run.spec(position)
    is_plain = spec.when is None and spec.for_each is None
    return is_plain and task.state is TaskState.PENDING and task.due_at is None


def _is_complete(run: RunMemory, copied: list[Task]) -> bool:
    """Return whether all open tasks of a run were copied: it ends with these."""
    if run.bulk_operations or len(run.tasks) < run.run.task_count:
        return False
    is_open = sum(count for state, count in run.counts.items() if state not in FINAL)
    return is_open == sum(task.state not in FINAL for task in copied)
