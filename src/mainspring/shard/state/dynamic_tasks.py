"""Dynamic tasks of a run: fan-outs, and tasks and edges added by outputs (DAG-2, DAG-5).

All of it is derived from rows: the creator of a task is in its `origin`, its definition in the job or in the output of
the creator. Positions are reserved when the number of tasks is known, and tasks are created in their order.

1. A fan-out counts its open tasks against its total from the start, created or not: a fan-in is never early.
2. `downstream` only grows, so that a propagation in progress keeps its position; a child that no longer needs the task
   ignores the notification.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

import msgspec

from mainspring.core.graph.expansion import Expansion
from mainspring.core.graph.expansion import read as read_expansion
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import BulkOperation, BulkOperationKind
from mainspring.core.model.job import Job, TaskSpec
from mainspring.core.model.task import Origin, Task, TaskState
from mainspring.core.placement.task_shapes import Shape, shape_of


class FanOut(msgspec.Struct, kw_only=True):
    """The current fan-out of a task with `for_each`."""

    position: int
    """Position of the task itself, which is member 0."""
    generation: int
    """Generation of that task when it fanned out."""
    total: int
    first: int
    """Member n is at this position plus n, except member 0."""
    open: int
    """Number of members that have not ended, including those not created yet."""
    items: list[str] = []
    """As JSON; empty after a takeover until they are needed."""
    labels: set[str] = set()
    gathered: str | None = None
    """Outputs of the members as one list, once all have ended."""

    def members(self) -> Iterator[int]:
        """Positions of the members, in the order of the items."""
        yield self.position
        yield from range(self.first + 1, self.first + self.total)


class ExpandedTask(msgspec.Struct, frozen=True):
    """A task added by an output."""

    spec: TaskSpec
    shape: Shape


class DynamicTasks(msgspec.Struct, kw_only=True):
    """Dynamic tasks and edges of one run."""

    fan_outs: dict[int, FanOut] = {}
    """By position of the task with `for_each`."""
    first_positions: dict[tuple[int, int], int] = {}
    """By creator's position and generation: the position of its task 0, whether or not it exists."""
    expanded: dict[int, ExpandedTask] = {}
    added: dict[int, range] = {}
    """By position of a task whose output added tasks: the positions of these."""
    names: dict[str, int] = {}
    """All tasks that are not replaced; empty until an output names one."""
    upstream: dict[int, tuple[int, ...]] = {}
    """Only tasks with edges beyond the definition; likewise below."""
    downstream: dict[int, list[int]] = {}
    conditions: dict[int, dict[int, str]] = {}
    extended: dict[int, dict[int, tuple[int, ...]]] = {}
    """By position of a task whose output gave other tasks more dependencies: these tasks, and what was added."""

    def positions(self, job: Job) -> dict[str, int]:
        """Position of the task of each name. A fan-out is at the position of its template."""
        if not self.names:
            self.names = {task.name: position for position, task in enumerate(job.tasks)}
        return self.names

    def add(self, job: Job, parent_task: int, first: int, expansion: Expansion) -> None:
        """Apply a validated expansion: tasks from position `first` on, and edges."""
        names = self.positions(job)
        self.added[parent_task] = range(first, first + len(expansion.tasks))
        known: dict[Shape, Shape] = {}
        for position, task in zip(self.added[parent_task], expansion.tasks, strict=True):
            names[task.name] = position
            shape = shape_of(task, job.spec.groups)
            self.expanded[position] = ExpandedTask(task, known.setdefault(shape, shape))
            self.upstream[position], self.downstream[position] = (), []
        for position, task in zip(self.added[parent_task], expansion.tasks, strict=True):
            self._connect(job, position, {names[edge.task]: edge.when for edge in task.needs} or {parent_task: None})
        mine = self.extended[parent_task] = {}
        for further in expansion.edges:
            position = names[further.task]
            needs = {names[edge.task]: edge.when for edge in further.all_needs()}
            mine[position] = (*mine.get(position, ()), *self._connect(job, position, needs))

    def take_back(self, job: Job, parent_task: int) -> set[int]:
        """Remove what this task added; return the other tasks that lost dependencies."""
        changed: set[int] = set()
        for position in self.added.pop(parent_task, range(0)):
            name = self.expanded[position].spec.name
            if self.names.get(name) == position:
                del self.names[name]
            changed |= self.take_back(job, position)
        for position, parents in self.extended.pop(parent_task, {}).items():
            self.upstream[position] = tuple(one for one in self.parents(job, position) if one not in parents)
            for parent in parents:
                self.conditions.get(position, {}).pop(parent, None)
            changed.add(position)
        return changed

    def parents(self, job: Job, position: int) -> tuple[int, ...]:
        """Upstream positions. Replaced tasks have none."""
        found = self.upstream.get(position)
        if found is None:
            return job.upstream[position] if position < len(job.tasks) else ()
        return found

    def children(self, job: Job, position: int) -> tuple[int, ...] | list[int]:
        """Downstream positions, including those from before the task was replaced."""
        found = self.downstream.get(position)
        if found is None:
            return job.downstream[position] if position < len(job.tasks) else ()
        return found

    def _connect(self, job: Job, position: int, needs: dict[int, str | None]) -> tuple[int, ...]:
        """Add dependencies to a task; return the new ones."""
        had = self.parents(job, position)
        new = tuple(parent for parent in needs if parent not in had)
        self.upstream[position] = (*had, *new)
        is_known = position not in self.expanded or bool(had)
        for parent in new:
            down = self.downstream.setdefault(parent, list(self.children(job, parent)))
            if not is_known or position not in down:
                down.append(position)
        given = {parent: when for parent in new if (when := needs[parent]) is not None}
        if given:
            self.conditions[position] = {**self.conditions.get(position, job.conditions.get(position, {})), **given}
        return new


def restore_dynamic_tasks(job: Job, tasks: Sequence[Task], bulk_operations: Sequence[BulkOperation]) -> DynamicTasks:
    """Derive fan-outs and expansions from rows (HA-3). An open bulk operation knows the position of its first task."""
    found = DynamicTasks()
    for task in tasks:
        origin = task.origin
        if origin is not None and origin.parent != task.position:
            found.first_positions[origin.parent, origin.generation] = task.position - origin.index
    begins = {
        operation.parent: operation.done - (1 if operation.kind is BulkOperationKind.FAN_OUT else 0)
        for operation in bulk_operations
        if operation.kind in (BulkOperationKind.FAN_OUT, BulkOperationKind.GROW)
    }
    for position in sorted(job.templates):
        origin = tasks[position].origin if position < len(tasks) else None
        if origin is not None and not origin.replaced:
            _restore_fan_out(found, tasks, tasks[position], origin, begins)
    _restore_expansions(found, job, tasks, begins)
    return found


def _restore_fan_out(
    found: DynamicTasks, tasks: Sequence[Task], template: Task, origin: Origin, begins: dict[str, int]
) -> None:
    key = (template.position, origin.generation)
    first = found.first_positions.setdefault(key, begins.get(template.id, template.position))
    fan_out = found.fan_outs[template.position] = FanOut(
        position=template.position, generation=origin.generation, total=origin.total, first=first, open=origin.total
    )
    for position in fan_out.members():
        if position < len(tasks):
            member = tasks[position]
            fan_out.open -= member.state in FINAL
            fan_out.labels.add(member.origin.label if member.origin is not None else "")


def _restore_expansions(found: DynamicTasks, job: Job, tasks: Sequence[Task], begins: dict[str, int]) -> None:
    """Restore expansions in the order in which they were added: a later one may depend on an earlier one."""
    expansions: list[tuple[int, int]] = []

    def note(position: int) -> None:
        if position < len(tasks) and tasks[position].state is TaskState.SUCCEEDED:
            heapq.heappush(expansions, (_first(found, tasks[position], begins), position))

    for position, spec in enumerate(job.tasks):
        if spec.grows:
            note(position)
    while expansions:
        first, position = heapq.heappop(expansions)
        parent_task = tasks[position]
        found.first_positions[position, parent_task.generation] = first
        found.add(job, position, first, read_expansion(parent_task.output))
        for child in found.added[position]:
            if found.expanded[child].spec.grows:
                note(child)


def _first(found: DynamicTasks, parent_task: Task, begins: dict[str, int]) -> int:
    """Position of the first task that it added; if it added edges only, behind everything they can refer to."""
    known = found.first_positions.get((parent_task.position, parent_task.generation))
    return begins.get(parent_task.id, 1 << 40) if known is None else known
