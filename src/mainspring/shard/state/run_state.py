"""One run in memory: its rows, what is derived from them, and its current graph.

1. `waiting[position]` is the number of upstream tasks that have not notified the task (I-41). A fan-out is one
   upstream, and notifies when all of its members have ended.
2. `counts` omits tasks that are replaced and have ended (STA-5).
3. A run whose job has no dynamic tasks has no `dynamic_tasks`: one check of that per method below is its only cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from mainspring.core.graph.graph import descendants
from mainspring.core.limits.token_bucket import PacedOperation, TokenBucket
from mainspring.core.model.batch import BulkOperation, BulkOperationKind
from mainspring.core.model.job import Job, TaskSpec
from mainspring.core.model.run import Run, RunProgress, RunState, derive_run_state
from mainspring.core.model.task import Task, TaskState
from mainspring.core.placement.task_shapes import Shape, shape_of
from mainspring.shard.state.dynamic_tasks import DynamicTasks, ExpandedTask, FanOut

DYNAMIC_KINDS = frozenset({BulkOperationKind.FAN_OUT, BulkOperationKind.GROW})
_FORGOTTEN = ExpandedTask(TaskSpec(name="forgotten"), shape_of(TaskSpec(name="forgotten")))
"""Definition of a replaced task whose adding output is gone: it only has to end."""


class RunMemory(msgspec.Struct, kw_only=True):
    """One run, with what is derived from its rows."""

    run: Run
    job: Job
    tasks: list[Task] = []
    """By position. Shorter than the job's list while the run is being adopted."""
    waiting: list[int] = []
    counts: dict[TaskState, int] = {}
    delayed: int = 0
    """Tasks that are PENDING until a time."""
    bulk_operations: dict[tuple[BulkOperationKind, str], BulkOperation] = {}
    propagations: dict[int, int] = {}
    """By position of an ended task: how many of its children have been notified."""
    reopening: dict[str, frozenset[int]] = {}
    """For an open REOPEN operation: the positions downstream of its task."""
    checkpoints: dict[int, str] = {}
    """By position: the latest checkpoint (WRK-7)."""
    buckets: dict[PacedOperation, TokenBucket] = {}
    """Token buckets of its paced operations, for those used so far."""
    changed_at: datetime | None = None
    """When a task last changed state, as far as this leader knows."""
    dynamic_tasks: DynamicTasks | None = None
    """Tasks and edges beyond the definition. None: the job can't have any."""
    live: dict[int, Task] = {}
    """By position: tasks that a worker holds."""

    def subject(self) -> str:
        """The job as `tenant/name`."""
        return f"{self.run.tenant}/{self.job.spec.name}"

    # current graph

    def template_position(self, position: int) -> int:
        """Position of a task's definition and edges: for a fan-out member that of its template."""
        if self.dynamic_tasks is None or position < len(self.job.tasks) or position in self.dynamic_tasks.expanded:
            return position
        origin = self.tasks[position].origin
        return origin.parent if origin is not None and origin.parent in self.job.templates else position

    def spec(self, position: int) -> TaskSpec:
        """The definition of a task."""
        if self.dynamic_tasks is None or position < len(self.job.tasks):
            return self.job.tasks[position]
        return self._dynamic_definition(position).spec

    def shape(self, position: int) -> Shape:
        """The resource request of a task, as defined."""
        if self.dynamic_tasks is None or position < len(self.job.tasks):
            return self.job.shapes[position]
        return self._dynamic_definition(position).shape

    def _dynamic_definition(self, position: int) -> ExpandedTask:
        """The definition of a task beyond the job's list."""
        expanded = None if self.dynamic_tasks is None else self.dynamic_tasks.expanded.get(position)
        if expanded is not None:
            return expanded
        template = self.template_position(position)
        if template >= len(self.job.tasks):
            return _FORGOTTEN
        return ExpandedTask(self.job.tasks[template], self.job.shapes[template])

    def parents(self, position: int) -> tuple[int, ...]:
        """Upstream positions; a fan-out counts as one."""
        if self.dynamic_tasks is None:
            return self.job.upstream[position]
        return self.dynamic_tasks.parents(self.job, self.template_position(position))

    def children(self, position: int) -> Sequence[int]:
        """Downstream positions; a fan-out counts as one."""
        if self.dynamic_tasks is None:
            return self.job.downstream[position]
        return self.dynamic_tasks.children(self.job, self.template_position(position))

    def conditions(self, position: int) -> dict[int, str] | None:
        """The conditions on the edges to a task, by upstream position."""
        if self.dynamic_tasks is None:
            return self.job.conditions.get(position)
        template_position = self.template_position(position)
        return self.dynamic_tasks.conditions.get(template_position, self.job.conditions.get(template_position))

    def below(self, position: int) -> frozenset[int]:
        """All positions downstream of a task."""
        if self.dynamic_tasks is None:
            return frozenset(descendants(self.job.downstream.__getitem__, position))
        return frozenset(descendants(self.children, self.template_position(position)))

    def fan_out_of(self, task: Task) -> FanOut | None:
        """The current fan-out that a task belongs to."""
        if self.dynamic_tasks is None or task.origin is None or task.origin.replaced:
            return None
        found = self.fan_out_at(task.origin.parent)
        return found if found is not None and found.generation == task.origin.generation else None

    def fan_out_at(self, position: int) -> FanOut | None:
        """The current fan-out of the task at this position."""
        return None if self.dynamic_tasks is None else self.dynamic_tasks.fan_outs.get(position)

    def members_at(self, position: int) -> Iterable[int]:
        """Positions of the members of the fan-out at a position; without one, the position itself."""
        fan_out = self.fan_out_at(position)
        return (position,) if fan_out is None else fan_out.members()

    def positions_of(self, name: str) -> Iterator[int]:
        """Positions of the created tasks of a name; for a fan-out all of its members."""
        added = None if self.dynamic_tasks is None else self.dynamic_tasks.names
        position = (added or self.job.named).get(name)
        if position is not None:
            yield from self.created_at(position)

    def created_at(self, position: int) -> Iterator[int]:
        """The same, of the tasks that have been created."""
        return (member for member in self.members_at(position) if member < len(self.tasks))

    def is_replaced(self, task: Task) -> bool:
        """Whether the creator of this task was started again: the task has to end, and nothing waits for it."""
        while self.dynamic_tasks is not None and task.origin is not None:
            origin = task.origin
            if origin.replaced:
                return True
            if origin.parent == task.position:
                return False
            if origin.parent in self.job.templates:
                return self.fan_out_of(task) is None
            task = self.tasks[origin.parent]
            if task.generation != origin.generation:
                return True
        return False

    def is_expanding(self) -> bool:
        """Whether dynamic tasks are being created."""
        return any(kind in DYNAMIC_KINDS for kind, _ in self.bulk_operations)

    def position_of(self, suffix: str) -> int | None:
        """Position of the task whose id has this suffix: creator, generation, index."""
        numbers = suffix.split(".")
        if self.dynamic_tasks is None or len(numbers) != 3 or not all(map(str.isdigit, numbers)):
            return None
        parent, generation, index = map(int, numbers)
        first = self.dynamic_tasks.first_positions.get((parent, generation))
        if first is None or first + index >= len(self.tasks):
            return None
        return first + index if self.tasks[first + index].id.endswith(f".{suffix}") else None

    # state

    def state(self) -> RunState:
        """The run's state, derived."""
        run = self.run
        progress = RunProgress(
            policy=self.job.spec.on_failure,
            paused=self.is_suspended(),
            cancelled=run.cancelled_by is not None,
            timed_out=run.timed_out,
            complete=not self.bulk_operations and len(self.tasks) == run.task_count,
            delayed=self.delayed,
        )
        return derive_run_state(self.counts, progress)

    def is_stopped(self) -> bool:
        """Whether no task of this run may ever start again: unstarted tasks are cancelled."""
        run = self.run
        return run.cancelled_by is not None or run.failed_task is not None or run.timed_out

    def is_suspended(self) -> bool:
        """Whether no task of this run may start until a person resumes it."""
        return self.run.paused or self.run.held is not None

    def may_start(self) -> bool:
        """Whether a task of this run may be queued or placed."""
        return not self.is_stopped() and not self.is_suspended()

    def may_place(self, task: Task) -> bool:
        """Whether this queued task may be placed."""
        return self.may_start() and (task.origin is None or not self.is_replaced(task))
