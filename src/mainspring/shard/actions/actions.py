"""Actions on runs and tasks. Each gets a reply once it is durable; the reply says if nothing changed.

Executed and redundant actions are written to the audit log in the same batch (I-73). The entry has the previous state
of the target (`shard/actions/audit_entries.py`) and the result.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.task import RetryState, StopKind, Task, TaskState
from mainspring.core.work.work import digest_of
from mainspring.shard import events as happened
from mainspring.shard.actions import action_targets, audit_entries, reopen, stop_requests
from mainspring.shard.effects import ActionStatus
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import bulk_operations, fan_out, progress
from mainspring.shard.turn import Turn

S = TaskState
MAX_GRACE_SECONDS = 3_600.0
Result = tuple[ActionStatus, str]
"""The status of an action, and a detail for its sender."""
DONE: Result = (ActionStatus.DONE, "")
_R = TypeVar("_R", bound=happened.RunAction)
_T = TypeVar("_T", bound=happened.TaskAction)


def on_run(decide: Callable[[Turn, _R, RunMemory], Result], *, adopt: bool = False) -> Callable[[Turn, _R], None]:
    """A handler that finds the run of an action, executes the action, and replies."""

    def handle(turn: Turn, action: _R) -> None:
        action_targets.reload_final_run(turn, action)
        run = action_targets.find_run(turn, action, adopt=adopt)
        if run is not None:
            turn.respond(action, *decide(turn, action, run))

    return handle


def on_task(decide: Callable[[Turn, _T, RunMemory, Task], Result]) -> Callable[[Turn, _T], None]:
    """A handler that finds the task of an action, executes the action, and replies."""

    def decide_task(turn: Turn, action: _T, run: RunMemory) -> Result:
        task = turn.memory.runs.find(action.task_id)
        if task is None or task.run_id != run.run.id:
            return ActionStatus.NOT_FOUND, f"task {action.task_id} not found in the run"
        return decide(turn, action, run, task)

    return on_run(decide_task)


def cancel_run(turn: Turn, action: happened.CancelRun, run: RunMemory) -> Result:
    """Cancel the run. A run in intake is adopted first, so that its tasks have a history."""
    if run.run.cancelled_by is not None:
        return ActionStatus.ALREADY, "the run is already being cancelled"
    fan_out.resolve_limit_alert(turn, run)
    run.run.cancelled_by = action.by
    run.run.because = action.why or f"cancelled by {action.by}"
    turn.mark(run)
    turn.drop_bulk_operations(run, BulkOperationKind.PAUSE, BulkOperationKind.RESUME, BulkOperationKind.REOPEN)
    turn.open_bulk_operation(run, BulkOperationKind.CANCEL, by=action.by, why=action.why or "the run was cancelled")
    return DONE


def pause_run(turn: Turn, action: happened.PauseRun, run: RunMemory) -> Result:
    """Pause the run."""
    if run.run.paused:
        return ActionStatus.ALREADY, "the run is already paused"
    run.run.paused = True
    run.run.because = action_targets.format_action("paused", action)
    turn.mark(run)
    turn.drop_bulk_operations(run, BulkOperationKind.RESUME)
    turn.open_bulk_operation(run, BulkOperationKind.PAUSE, by=action.by, why=action.why or "the run was paused")
    return DONE


def resume_run(turn: Turn, action: happened.ResumeRun, run: RunMemory) -> Result:
    """Resume a run that is paused, or held because of a fault."""
    if not run.run.paused and run.run.held is None:
        return ActionStatus.ALREADY, "the run is not paused"
    if run.run.held is not None:
        for kind, parent in run.bulk_operations:
            turn.memory.backlog.add(happened.BulkOperationStep(run_id=action.run_id, kind=kind, parent=parent))
        for position in run.propagations:
            turn.memory.backlog.add(happened.PropagationStep(run_id=action.run_id, position=position))
    fan_out.resolve_limit_alert(turn, run)
    run.run.paused = False
    run.run.held = None
    run.run.because = action_targets.format_action("resumed", action)
    turn.mark(run)
    turn.drop_bulk_operations(run, BulkOperationKind.PAUSE)
    turn.open_bulk_operation(run, BulkOperationKind.RESUME, by=action.by, why=action.why or "the run was resumed")
    return DONE


def cancel_task(turn: Turn, action: happened.CancelTask, run: RunMemory, task: Task) -> Result:
    """Cancel one task; its descendants follow by propagation."""
    why = action.why or f"cancelled by {action.by}"
    if task.state in FINAL:
        return ActionStatus.ALREADY, f"the task is {task.state}"
    if task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=action.by, why=why)
        return ActionStatus.DONE, "stop requested from its worker"
    progress.cancel(turn, run, task, by=action.by, because=why)
    return DONE


def reopen_task(turn: Turn, action: happened.ReopenTask, run: RunMemory, task: Task) -> Result:
    """Restart a final task; a final run becomes active again."""
    if task.state not in FINAL:
        return ActionStatus.REFUSED, f"the task is {task.state}: only a final task can be retried"
    obstacle = _why_no_retry(run, task)
    if obstacle is not None:
        return ActionStatus.REFUSED, obstacle
    reopen.retry(turn, run, task, by=action.by, why=action.why or f"retried by {action.by}")
    if run.run.failed_task is None:
        turn.drop_bulk_operations(run, BulkOperationKind.FAIL_FAST)
    return DONE


def retry_run(turn: Turn, action: happened.RetryRun, run: RunMemory) -> Result:
    """Restart all failed tasks; a final run becomes active again."""
    failed = run.counts.get(S.FAILED, 0) + run.counts.get(S.TIMED_OUT, 0)
    obstacle = _why_no_retry(run) if failed else action_targets.NO_FAILED_TASK
    if obstacle is not None:
        return ActionStatus.REFUSED, obstacle
    reopen.retry_failed(turn, run, by=action.by, why=action.why or f"retried by {action.by}")
    turn.drop_bulk_operations(run, BulkOperationKind.FAIL_FAST)
    return ActionStatus.DONE, f"{failed} task{'s' if failed > 1 else ''} restarted"


def _why_no_retry(run: RunMemory, task: Task | None = None) -> str | None:
    """Why tasks can't be restarted now; None if they can."""
    if run.run.cancelled_by is not None or run.run.timed_out:
        return "the run is being cancelled or timed out: retry its tasks once it has ended"
    if task is not None and run.is_replaced(task):
        return f"the task was replaced: {progress.REPLACED}"
    if task is not None and run.is_expanding():
        return "tasks are still being added to the run: retry its tasks once that is done"
    return None


def clear_task(turn: Turn, action: happened.ClearTask, run: RunMemory, task: Task) -> Result:
    """Release a quarantined task."""
    if task.state is not S.QUARANTINED:
        return ActionStatus.REFUSED, f"the task is {task.state}, not {S.QUARANTINED}"
    if not run.may_start():
        return ActionStatus.REFUSED, f"the run is {run.state()}: no task of it may start"
    turn.touch(task)
    first = task.trail.first_start if task.trail is not None else None
    task.trail = RetryState(first_start=first) if first is not None else None
    progress.queue_again(turn, run, task, by=action.by, because=action.why or f"cleared by {action.by}")
    return DONE


def kill_task(turn: Turn, action: happened.KillTask, _run: RunMemory, task: Task) -> Result:
    """Kill the process of a task, which is then cancelled or queued again. An earlier deadline replaces a later one."""
    if task.worker_id is None:
        return ActionStatus.REFUSED, f"the task is {task.state}: it has no process to kill"
    if not 0 <= action.grace_seconds <= MAX_GRACE_SECONDS:
        return ActionStatus.REFUSED, f"the grace period must be from 0 to {MAX_GRACE_SECONDS:.0f} seconds"
    if action.again and task.stop is not None and task.stop.kind is StopKind.CANCEL:
        return ActionStatus.REFUSED, "the task is being cancelled: it can be killed, but not queued again"
    kind = StopKind.EVICT if action.again else StopKind.CANCEL
    grace, why = timedelta(seconds=action.grace_seconds), action.why or f"killed by {action.by}"
    if not stop_requests.kill(turn, task, kind, by=action.by, why=why, grace=grace):
        return ActionStatus.ALREADY, "its worker already has to kill it by then"
    then = "; the task will be queued again" if action.again else ""
    return ActionStatus.DONE, f"kill requested from its worker{then}"


def save_checkpoint(turn: Turn, action: happened.SaveCheckpoint, run: RunMemory, task: Task) -> Result:
    """Replace the checkpoint of a task, if it is the expected one.

    While an attempt runs, only that attempt may save.
    """
    known = audit_entries.digest(run.checkpoints.get(task.position))
    if task.state in FINAL:
        return ActionStatus.REFUSED, f"the task is {task.state}: no attempt will read a checkpoint"
    if task.attempt_id not in (None, action.attempt_id):
        return ActionStatus.REFUSED, f"attempt {task.attempt_id} is running"
    if action.expected is not None and action.expected != known:
        return ActionStatus.REFUSED, f"the checkpoint has changed: {known or 'there is none'}"
    turn.save_checkpoint(task, action.attempt_id, action.document)
    return ActionStatus.DONE, digest_of(action.document)


def change_priority(turn: Turn, action: happened.ChangePriority, run: RunMemory) -> Result:
    """Change the priority of a run at once, and of its open tasks by a bulk operation. Running tasks continue."""
    if run.run.priority is action.priority:
        return ActionStatus.ALREADY, f"the run already has priority {action.priority.name}"
    detail = action_targets.change_of(run.run.priority, action.priority)
    why = action.why or f"{detail}, by {action.by}"
    bulk_operations.set_priority(turn, run, action.priority, by=action.by, why=why)
    return ActionStatus.DONE, detail
