"""Restore the dynamic tasks of a run from its rows (HA-3): the creator of each is in its `origin`."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from mainspring.core.graph import expansion
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import BulkOperation, BulkOperationKind
from mainspring.core.model.job import Job
from mainspring.core.model.task import Origin, Task, TaskState
from mainspring.shard.state.dynamic_tasks import DynamicTasks, FanOut


def dynamic_tasks(job: Job, tasks: Sequence[Task], bulk_operations: Sequence[BulkOperation]) -> DynamicTasks:
    """Derive fan-outs and expansions from rows. An open bulk operation knows the position of its first task."""
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
        if position < len(tasks) and _is_fanned_out(tasks[position]):
            _restore_fan_out(found, tasks, tasks[position], begins)
    _restore_expansions(found, job, tasks, begins)
    return found


def _is_fanned_out(template: Task) -> bool:
    return template.origin is not None and not template.origin.replaced


def _restore_fan_out(found: DynamicTasks, tasks: Sequence[Task], template: Task, begins: dict[str, int]) -> None:
    origin = template.origin or Origin(template.position, template.generation, 0, 1)
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
    line: list[tuple[int, int]] = []

    def note(position: int) -> None:
        if position < len(tasks) and tasks[position].state is TaskState.SUCCEEDED:
            heapq.heappush(line, (_first(found, tasks[position], begins), position))

    for position, spec in enumerate(job.tasks):
        if spec.grows:
            note(position)
    while line:
        first, position = heapq.heappop(line)
        parent_task = tasks[position]
        found.first_positions[position, parent_task.generation] = first
        found.add(job, position, first, expansion.read(parent_task.output))
        for child in found.added[position]:
            if found.expanded[child].spec.grows:
                note(child)


def _first(found: DynamicTasks, parent_task: Task, begins: dict[str, int]) -> int:
    """Position of the first task that it added; if it added edges only, behind everything they can refer to."""
    known = found.first_positions.get((parent_task.position, parent_task.generation))
    return begins.get(parent_task.id, 1 << 40) if known is None else known
