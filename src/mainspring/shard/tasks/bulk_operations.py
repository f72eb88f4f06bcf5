"""Bulk operations: work on a whole run that may exceed a batch (create its tasks, cancel, pause, resume, reopen, change
the priority).

A bulk operation (`Turn.open_bulk_operation`) visits the positions of its run from 0 to `total`, some of them in each
turn. If one step is not enough, its row is written in the same batch, and `done` moves with each later step: a new
leader continues where it stopped.

1. A run with an open bulk operation is not final.
2. Visiting a position twice does nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import BulkOperation, BulkOperationKind
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from mainspring.protocol.errors import Broken
from mainspring.shard.actions import reopen, stop_requests
from mainspring.shard.events import BulkOperationStep
from mainspring.shard.state.run_state import DYNAMIC_KINDS, RunMemory
from mainspring.shard.tasks import progress, run_pacing
from mainspring.shard.tasks.progress import Step
from mainspring.shard.turn import Turn

S = TaskState
_VISITS_PER_ROW = 8
"""Positions visited for each row that a turn may write: most visits write nothing."""


def continue_operation(turn: Turn, event: BulkOperationStep) -> None:
    """One step of a bulk operation; if it is not finished, it goes to the end of the queue."""
    backlog, run, key = turn.memory.backlog, turn.memory.runs.get(event.run_id), (event.kind, event.parent)
    backlog.bulk_operations.discard(event)
    if run is None or run.run.held is not None or key not in run.bulk_operations:
        return
    end = step(turn, run, run.bulk_operations[key])
    if end is Step.MORE:
        backlog.add(event)
    elif end is Step.LATER:
        run_pacing.defer(turn.memory, run, run_pacing.PACES[event.kind], event)


def step(turn: Turn, run: RunMemory, operation: BulkOperation) -> Step:
    """Run the next step of a bulk operation, within the turn's budget and the run's pace."""
    if operation.kind in DYNAMIC_KINDS and operation.done != len(run.tasks):
        # Earlier operations come first: tasks are created in the order of their positions.
        return Step.LATER if run.run.id in turn.memory.backlog.deferred else Step.MORE
    create, visit = _CREATIONS.get(operation.kind), _VISITS.get(operation.kind)
    pace = run_pacing.PACES.get(operation.kind)
    left = None if pace is None else run_pacing.allowance(turn.memory, run, pace, operation.total - operation.done)
    used, most = _used(run, operation), max(1, turn.budget) * _VISITS_PER_ROW
    end = Step.DONE
    while operation.done < operation.total:
        if not most or turn.spent():
            end = Step.MORE
            break
        task = run.tasks[operation.done] if operation.done < len(run.tasks) else None
        if (left is not None and _used(run, operation) - used >= left) or _must_wait(run, operation, task):
            end = Step.LATER
            break
        if task is None and create is not None:
            create(turn, run, operation)
        elif task is not None and visit is not None:
            visit(turn, run, operation, task)
        if run.bulk_operations.get((operation.kind, operation.parent)) is not operation:
            break  # The visit led to the opposite operation, which has ended this one.
        operation.done += 1
        most -= 1
    if left is not None and pace is not None:
        run_pacing.charge(turn.memory, run, pace, _used(run, operation) - used)
    turn.save_bulk_operation(operation)
    if end is Step.DONE:
        run.bulk_operations.pop((operation.kind, operation.parent), None)
        if operation.kind is BulkOperationKind.REOPEN:
            run.reopening.pop(operation.parent, None)
    return end


def set_priority(turn: Turn, run: RunMemory, priority: Priority, *, by: str, why: str) -> None:
    """Change the priority of a run at once, and of its open tasks by a bulk operation. Running tasks continue."""
    row = run.run
    turn.memory.runs.move_unstarted(row.tenant, row.priority, priority, row.task_count - len(run.tasks))
    row.priority = priority
    turn.mark(run)
    turn.open_bulk_operation(run, BulkOperationKind.REPRIORITIZE, by=by, why=why)


def _used(run: RunMemory, operation: BulkOperation) -> int:
    """What counts against the pace: created tasks for a dynamic operation, otherwise tasks that became ready."""
    return operation.done if operation.kind in DYNAMIC_KINDS else run.counts.get(S.QUEUED, 0)


def _must_wait(run: RunMemory, operation: BulkOperation, task: Task | None) -> bool:
    """Whether the next task may have to restart while tasks are still being added: what it created must be complete."""
    if operation.kind is not BulkOperationKind.REOPEN or run.dynamic_tasks is None or not run.is_expanding():
        return False
    return task is not None and task.state in FINAL and not run.is_replaced(task)


def _adopt(turn: Turn, run: RunMemory, operation: BulkOperation) -> None:
    progress.create_task(turn, run, operation.done)


def _create_child(turn: Turn, run: RunMemory, operation: BulkOperation) -> None:
    creator = turn.memory.runs.find(operation.parent)
    if creator is None:
        raise Broken(f"no creator for {operation}")
    progress.create_child(turn, run, creator, operation.done)


def _cancel(turn: Turn, run: RunMemory, operation: BulkOperation, task: Task) -> None:
    if run.is_replaced(task):
        turn.replace(task)
    _end(turn, run, operation, task)


def _fail_fast(turn: Turn, run: RunMemory, operation: BulkOperation, task: Task) -> None:
    if task.state not in (S.RUNNING, S.QUARANTINED):
        _end(turn, run, operation, task, cause=run.run.failed_task)


def _end(turn: Turn, run: RunMemory, operation: BulkOperation, task: Task, cause: str | None = None) -> None:
    if task.state in FINAL:
        return
    if task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=operation.by, why=operation.why, cause=cause)
    else:
        progress.cancel_unstarted(turn, run, task)


def _pause(turn: Turn, _run: RunMemory, operation: BulkOperation, task: Task) -> None:
    if task.state is S.QUEUED:
        turn.move(task, S.PENDING, by=operation.by, because="the run was paused")
    elif task.state is S.ASSIGNED:
        stop_requests.request(turn, task, StopKind.HOLD, by=operation.by, why="the run was paused")


def _resume(turn: Turn, run: RunMemory, _operation: BulkOperation, task: Task) -> None:
    if task.state is S.PENDING:
        progress.free_if_ready(turn, run, task)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))


def _reprioritize(turn: Turn, run: RunMemory, _operation: BulkOperation, task: Task) -> None:
    if task.state not in FINAL and task.priority is not run.run.priority:
        turn.set_priority(task, run.run.priority)


def _reopen(turn: Turn, run: RunMemory, operation: BulkOperation, task: Task) -> None:
    if run.is_replaced(task):
        reopen.remove_replaced(turn, run, task, by=operation.by)
    elif reopen.follows(turn.memory, run, task, operation.parent):
        if not operation.parent:
            reopen.reopen_cause(turn, run, task, by=operation.by, because=operation.why)
        reopen.reopen_task(turn, run, task, by=operation.by, because=operation.why)
    elif task.state is S.QUEUED:
        turn.memory.queues.restore(task, turn.memory.shape(task))
    else:
        reopen.withdraw_stop(turn, task, operation.parent)


_CREATIONS: dict[BulkOperationKind, Callable[[Turn, RunMemory, BulkOperation], None]] = {
    BulkOperationKind.ADOPT: _adopt,
    BulkOperationKind.FAN_OUT: _create_child,
    BulkOperationKind.GROW: _create_child,
}
"""By kind: how the task at the next position is created."""
_VISITS: dict[BulkOperationKind, Callable[[Turn, RunMemory, BulkOperation, Task], None]] = {
    BulkOperationKind.CANCEL: _cancel,
    BulkOperationKind.FAIL_FAST: _fail_fast,
    BulkOperationKind.PAUSE: _pause,
    BulkOperationKind.RESUME: _resume,
    BulkOperationKind.REPRIORITIZE: _reprioritize,
    BulkOperationKind.REOPEN: _reopen,
}
"""By kind: what happens to the next task, if it has been created."""
