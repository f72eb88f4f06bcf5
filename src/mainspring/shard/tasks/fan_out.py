"""Fan-out and expansion: `for_each` creates one task per item, and outputs add tasks (DAG-2, DAG-5).

This module decides what to create and reserves positions; `shard/tasks/bulk_operations.py` creates it.

    free ──► items ──┬─ none ───────────────► SKIPPED
                     ├─ no list ────────────► FAILED
                     ├─ more than allowed ──► PENDING, and the run is paused until a person resumes it
                     └─ N ──────────────────► QUEUED as number 0, and a bulk operation creates the other N - 1
"""

from __future__ import annotations

import msgspec

from mainspring.core.admission.validate_job import Limits
from mainspring.core.graph import expansion
from mainspring.core.graph.expansion import ExpansionContext
from mainspring.core.graph.fan_out import MAX_TASKS, items_of, label_of
from mainspring.core.lifecycle.readiness import Decision
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.task import Origin, RetryState, Task, TaskState
from mainspring.protocol.errors import Broken, ExpressionFailed, Refused, summary_of
from mainspring.shard import alerts
from mainspring.shard.state.dynamic_tasks import DynamicTasks, FanOut
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import inputs
from mainspring.shard.turn import Turn

S = TaskState
_LIMITS = Limits()
_MAX_FAULTS_SHOWN = 5


def fan_out(turn: Turn, run: RunMemory, task: Task) -> Decision | None:
    """Decide where a ready task with `for_each` goes; None if it stays until a person decides.

    Resuming a run that the limit paused allows the fan-out.
    """
    dynamic_tasks = _dynamic_tasks(run)
    allowed = (BulkOperationKind.RESUME, "") in run.bulk_operations
    try:
        items = _items(run, task.position)
    except ExpressionFailed as error:
        return Decision(state=S.FAILED, because=f"its list can't be evaluated: {error}")
    count, limit = len(items), _max_fan_out(turn, run)
    if not count:
        return Decision(state=S.SKIPPED, because="skipped: its list is empty")
    if run.run.task_count + count - 1 > MAX_TASKS:
        because = f"its list has {count} items, which would exceed the limit of {MAX_TASKS} tasks per run"
        return Decision(state=S.FAILED, because=because)
    stopped_at = None if task.trail is None else task.trail.fan_out_limit
    if count > limit and not (allowed and stopped_at == (count, limit)):
        _stop_at_limit(turn, run, task, count, limit)
        return None
    origin = Origin(parent=task.position, generation=task.generation, index=0, total=count)
    made = FanOut(
        position=task.position, generation=task.generation, total=count, first=run.run.task_count - 1, open=count,
        items=items,
    )  # fmt: skip
    turn.touch(task)
    if task.trail is not None and stopped_at is not None:
        task.trail = msgspec.structs.replace(task.trail, fan_out_limit=None)
    task.origin = msgspec.structs.replace(origin, label=label(run, made, 0))
    dynamic_tasks.fan_outs[task.position] = made
    dynamic_tasks.first_positions[task.position, task.generation] = made.first
    if count > 1:
        reserve_positions(turn, run, BulkOperationKind.FAN_OUT, task, count - 1)
    return Decision(state=S.QUEUED, because=f"fanned out over {count} items")


def expand(turn: Turn, run: RunMemory, task: Task, output: str | None) -> str | None:
    """Apply the output of a task that has not ended yet; return what is wrong with it, if anything."""
    dynamic_tasks = _dynamic_tasks(run)
    context = ExpansionContext(
        positions=dynamic_tasks.positions(run.job),
        parent_task=task.position,
        task_count=run.run.task_count,
        max_tasks=_max_fan_out(turn, run),
        parents=run.parents,
        below=run.below,
        can_wait=lambda position: _why_no_more_dependencies(run, position),
    )
    try:
        adds = expansion.check(output, context, _LIMITS)
    except Refused as error:
        shown = "; ".join(f"{fault.where}: {fault.why}" for fault in error.faults[:_MAX_FAULTS_SHOWN])
        more = f"; and {len(error.faults) - _MAX_FAULTS_SHOWN} more" if len(error.faults) > _MAX_FAULTS_SHOWN else ""
        return f"{summary_of(error)}: {shown}{more}"
    first = run.run.task_count
    dynamic_tasks.add(run.job, task.position, first, adds)
    dynamic_tasks.first_positions[task.position, task.generation] = first
    if adds.tasks:
        reserve_positions(turn, run, BulkOperationKind.GROW, task, len(adds.tasks))
    return None


def reserve_positions(turn: Turn, run: RunMemory, kind: BulkOperationKind, task: Task, count: int) -> None:
    """Reserve the next positions of the run for tasks created by `task`, and start creating them."""
    row = run.run
    start = row.task_count
    row.task_count += count
    turn.mark(run)
    turn.memory.runs.unstarted.count(row.priority, row.tenant, count)
    why = f"{task.name} adds {count} tasks"
    turn.open_bulk_operation(run, kind, by="shard", why=why, parent=task.id, done=start, total=start + count)


def item(run: RunMemory, task: Task) -> str | None:
    """The item of a fan-out member, as JSON; None for other tasks."""
    found = run.fan_out_of(task)
    if found is None or task.origin is None:
        return None
    return _restored_items(run, found)[task.origin.index]


def label(run: RunMemory, found: FanOut, index: int) -> str:
    """Label of member `index` of a fan-out."""
    given = label_of(run.spec(found.position).label, _restored_items(run, found)[index], index, found.labels)
    found.labels.add(given)
    return given


def resolve_limit_alert(turn: Turn, run: RunMemory) -> None:
    """Resolve the alerts of a run that the limit had paused: a person has decided."""
    for position in sorted(run.job.templates):
        task = run.tasks[position] if position < len(run.tasks) else None
        if task is not None and task.state is S.PENDING and task.trail is not None and task.trail.fan_out_limit:
            limit = _max_fan_out(turn, run)
            turn.batch.outbox.append(alerts.fan_out_limit(task, 0, limit, turn.now, resolved=True))


def _max_fan_out(turn: Turn, run: RunMemory) -> int:
    """Limit of a fan-out: that of the job, or the tenant's quota if it is lower."""
    allowed = turn.memory.rules.quota(run.run.tenant, turn.now).max_fan_out
    return run.job.spec.max_fan_out if allowed is None else min(allowed, run.job.spec.max_fan_out)


def _dynamic_tasks(run: RunMemory) -> DynamicTasks:
    if run.dynamic_tasks is None:
        raise Broken(f"the job of {run.run.id} can't have dynamic tasks")
    return run.dynamic_tasks


def _items(run: RunMemory, position: int) -> list[str]:
    outputs: dict[str, str | None] = {run.tasks[number].name: None for number in run.parents(position)}
    outputs.update(inputs.inputs(run, position)[0])
    return items_of(run.spec(position).for_each or "", outputs, run.run.params)


def _restored_items(run: RunMemory, found: FanOut) -> list[str]:
    """The items, derived again after a takeover: their source has not changed."""
    if not found.items:
        found.items = _items(run, found.position)
    return found.items


def _why_no_more_dependencies(run: RunMemory, position: int) -> str | None:
    """Why a task can't get more dependencies; None if it can."""
    if position >= len(run.tasks):
        return None
    task = run.tasks[position]
    if task.state is S.PENDING and run.waiting[position] and task.origin is None:
        return None
    return f"{task.name} is {task.state}, so it can't get more dependencies"


def _stop_at_limit(turn: Turn, run: RunMemory, task: Task, count: int, limit: int) -> None:
    """Pause the run, and alert its owner (DAG-2)."""
    turn.touch(task)
    task.trail = msgspec.structs.replace(task.trail or RetryState(), fan_out_limit=(count, limit))
    task.because = f"its list has {count} items (limit {limit}): resume the run to allow it, or cancel it"
    run.run.paused = True
    run.run.because = f"{task.name}: {task.because}"
    turn.mark(run)
    turn.drop_bulk_operations(run, BulkOperationKind.RESUME)
    turn.open_bulk_operation(run, BulkOperationKind.PAUSE, by="shard", why=run.run.because)
    turn.batch.outbox.append(alerts.fan_out_limit(task, count, limit, turn.now))
