"""Manual retry: restart a final task, and all that was cancelled or skipped because of it (STA-1)."""

from __future__ import annotations

from mainspring.core.lifecycle.states import FINAL, UNSUCCESSFUL
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.task import StopKind, Task, TaskState
from mainspring.shard.actions import stop_requests
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import progress
from mainspring.shard.turn import Turn

S = TaskState


def retry(turn: Turn, run: RunMemory, task: Task, *, by: str, why: str) -> None:
    """Restart `task` now, and the others by a bulk operation."""
    row = run.run
    if row.failed_task == task.id or turn.memory.runs.find(row.failed_task or "") is None:
        row.failed_task = None
    row.because = why
    turn.mark(run)
    record_descendants(run, task)
    reopen_task(turn, run, task, by=by, because=why)
    if row.task_count > 1:
        turn.open_bulk_operation(run, BulkOperationKind.REOPEN, by=by, why=why, parent=task.id)


def retry_failed(turn: Turn, run: RunMemory, *, by: str, why: str) -> None:
    """Restart all failed tasks, and what ended because of them, by a bulk operation."""
    run.run.failed_task = None
    run.run.because = why
    turn.mark(run)
    turn.open_bulk_operation(run, BulkOperationKind.REOPEN, by=by, why=why)


def record_descendants(run: RunMemory, task: Task) -> None:
    """Remember what is downstream of a task that is being retried."""
    run.reopening[task.id] = run.below(task.position)


def follows(memory: ShardMemory, run: RunMemory, task: Task, retried: str) -> bool:
    """Whether a task restarts because `retried` does, or, if that is empty, because all failed tasks do."""
    if not retried:
        return _follows_failures(memory, task)
    if task.state not in (S.CANCELLED, S.SKIPPED) or task.id == retried:
        return False
    return task.cause == retried or run.template_position(task.position) in run.reopening[retried]


def _follows_failures(memory: ShardMemory, task: Task) -> bool:
    """Whether a task failed, or ended because of a failed one, which may have been restarted by now."""
    if task.state in UNSUCCESSFUL:
        return True
    cause = memory.runs.find(task.cause) if task.cause is not None else None
    if cause is None:
        return False
    if task.state is S.CANCELLED:
        return cause.state is not S.CANCELLED
    return task.state is S.SKIPPED and (cause.state in UNSUCCESSFUL or cause.state not in FINAL)


def remove_replaced(turn: Turn, run: RunMemory, task: Task, *, by: str) -> None:
    """End a task whose creator was restarted."""
    turn.replace(task)
    if task.state in FINAL:
        return
    if task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=by, why=progress.REPLACED)
    else:
        progress.cancel(turn, run, task, by=by, because=progress.REPLACED)


def withdraw_stop(turn: Turn, task: Task, retried: str) -> None:
    """Withdraw a stop request that was made because `retried` had failed."""
    if task.stop is not None and task.stop.cause == retried:
        turn.touch(task)
        task.stop = None


def reopen_cause(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """When all failed tasks restart: restart the cause of a task's end before the task itself.

    The cause can have a higher position than the task: a fan-out member, or a task added by an output.
    """
    cause = turn.memory.runs.find(task.cause) if task.cause is not None else None
    if cause is not None and cause.state in UNSUCCESSFUL and not run.is_replaced(cause):
        reopen_task(turn, run, cause, by=by, because=because)


def reopen_task(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Restart one final task: it waits for its upstreams again, and its children wait for it.

    Tasks that it created, by its output or as the list of a fan-out, are replaced.
    """
    if task.state not in FINAL:
        return
    turn.touch(task)
    fan_out = run.fan_out_of(task)
    was_over = fan_out is None or not fan_out.open
    progress.restart(turn, run, task, by=by, because=because)
    if fan_out is not None:
        fan_out.open += 1
        fan_out.gathered = None
    if was_over:
        _wait_again(turn, run, task if fan_out is None else run.tasks[fan_out.position], by)
    _replace_created(turn, run, task, by)
    progress.count_again(turn, run, task)


def _wait_again(turn: Turn, run: RunMemory, task: Task, by: str) -> None:
    """Make the children of an ended task wait for it again."""
    notified = run.propagations.pop(task.position, None)
    children = run.children(task.position)
    for position in children if notified is None else children[:notified]:
        if position >= len(run.tasks) or run.tasks[position].state in FINAL:
            continue
        if run.dynamic_tasks is not None and task.position not in run.parents(position):
            continue
        run.waiting[position] += 1
        if run.tasks[position].state is S.QUEUED:
            turn.move(run.tasks[position], S.PENDING, by=by, because=f"waits for {task.name} again")


def _replace_created(turn: Turn, run: RunMemory, task: Task, by: str) -> None:
    """Replace the tasks that a task added, and the fan-outs over its output. Bulk operations update their rows."""
    if run.dynamic_tasks is None:
        return
    changed = run.dynamic_tasks.take_back(run.job, task.position)
    _clear_replaced_failure(turn, run)
    for position in changed:  # a task that lost a dependency may be ready now
        if position < len(run.tasks) and run.tasks[position].state not in FINAL:
            progress.count_again(turn, run, run.tasks[position])
    _replace_lists_from(turn, run, task, by)


def _replace_lists_from(turn: Turn, run: RunMemory, task: Task, by: str) -> None:
    for position in run.children(task.position):
        if position in run.job.templates and position < len(run.tasks):
            _replace_fan_out(turn, run, run.tasks[position], by)


def _replace_fan_out(turn: Turn, run: RunMemory, template: Task, by: str) -> None:
    """Rebuild the list of a fan-out. The template restarts once it has ended as member 0."""
    fan_out = None if run.dynamic_tasks is None else run.dynamic_tasks.fan_outs.pop(template.position, None)
    if fan_out is None:
        if template.state is S.FAILED:
            run.run.failed_task = None if run.run.failed_task == template.id else run.run.failed_task
            turn.mark(run)
            reopen_task(turn, run, template, by=by, because=progress.LIST_REBUILT)
        return
    turn.replace(template)
    _clear_replaced_failure(turn, run)
    if not fan_out.open:
        _wait_again(turn, run, template, by)
    if template.state in FINAL:
        progress.start_over(turn, run, template)
    elif template.worker_id is not None:
        stop_requests.request(turn, template, StopKind.CANCEL, by=by, why=progress.LIST_REBUILT)
    else:
        progress.cancel(turn, run, template, by=by, because=progress.LIST_REBUILT)
    _replace_lists_from(turn, run, template, by)


def _clear_replaced_failure(turn: Turn, run: RunMemory) -> None:
    """Clear a failure of a replaced task: it no longer stops the run."""
    failed = None if run.run.failed_task is None else turn.memory.runs.find(run.run.failed_task)
    if failed is not None and run.is_replaced(failed):
        run.run.failed_task = None
        turn.mark(run)
