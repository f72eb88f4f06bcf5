"""Actions on runs and tasks. Each gets a reply once it is durable; the reply says if nothing changed.

Executed and redundant actions are written to the audit log in the same batch (I-73). The entry has the previous state
of the target (`shard/actions/audit_entries.py`) and the result.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import SpreadKind
from mainspring.core.model.task import StopKind, Task, TaskState, Trail
from mainspring.core.work.work import digest_of
from mainspring.protocol.errors import Broken
from mainspring.shard.actions import action_targets, audit_entries, reopen, stop_requests
from mainspring.shard.effects import Reply
from mainspring.shard.events import (
    Act,
    CancelRun,
    CancelTask,
    ChangePriority,
    ClearTask,
    ExtendTask,
    KillTask,
    PauseRun,
    ReopenTask,
    ResumeRun,
    RetryRun,
    SaveCheckpoint,
)
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import bulk_operations, fan_out, progress, timeouts
from mainspring.shard.turn import Turn

S = TaskState
LONGEST_GRACE_SECONDS = 3_600.0


def apply(turn: Turn, event: Act) -> None:
    """Execute an action, and reply to it."""
    event = audit_entries.with_before(turn.memory, event)
    match event:
        case CancelRun():
            cancel_run(turn, event)
        case PauseRun():
            pause_run(turn, event)
        case ResumeRun():
            resume_run(turn, event)
        case CancelTask():
            cancel_task(turn, event)
        case ReopenTask():
            reopen_task(turn, event)
        case RetryRun():
            retry_run(turn, event)
        case ClearTask():
            clear_task(turn, event)
        case ExtendTask():
            extend_task(turn, event)
        case KillTask():
            kill_task(turn, event)
        case SaveCheckpoint():
            save_checkpoint(turn, event)
        case ChangePriority():
            change_priority(turn, event)
        case _:
            raise Broken(f"no handler for {event}")


def cancel_run(turn: Turn, act: CancelRun) -> None:
    """Cancel the run. A run in intake is adopted first, so that its tasks have a history."""
    run = action_targets.find_run(turn, act, adopt=True)
    if run is None:
        return
    if run.run.cancelled_by is not None:
        turn.answer(act, Reply.ALREADY, "the run is already being cancelled")
        return
    fan_out.tell_limit_is_over(turn, run)
    run.run.cancelled_by = act.by
    run.run.because = act.why or f"cancelled by {act.by}"
    turn.mark(run)
    for kind in (SpreadKind.PAUSE, SpreadKind.RESUME, SpreadKind.REOPEN):
        turn.drop_spreads(run, kind)
    turn.open_spread(run, SpreadKind.CANCEL, by=act.by, why=act.why or "the run was cancelled")
    turn.answer(act, Reply.DONE)


def pause_run(turn: Turn, act: PauseRun) -> None:
    """Pause the run."""
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    if run.run.paused:
        turn.answer(act, Reply.ALREADY, "the run is already paused")
        return
    run.run.paused = True
    run.run.because = action_targets.say_by("paused", act)
    turn.mark(run)
    turn.drop_spreads(run, SpreadKind.RESUME)
    turn.open_spread(run, SpreadKind.PAUSE, by=act.by, why=act.why or "the run was paused")
    turn.answer(act, Reply.DONE)


def resume_run(turn: Turn, act: ResumeRun) -> None:
    """Resume a run that is paused, or held because of a fault."""
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    if not run.run.paused and run.run.held is None:
        turn.answer(act, Reply.ALREADY, "the run is not paused")
        return
    if run.run.held is not None:
        turn.memory.spreads.extend((act.run_id, kind, parent) for kind, parent in run.spreads)
        turn.memory.ripples.extend((act.run_id, position) for position in run.ripples)
    fan_out.tell_limit_is_over(turn, run)
    run.run.paused = False
    run.run.held = None
    run.run.because = action_targets.say_by("resumed", act)
    turn.mark(run)
    turn.drop_spreads(run, SpreadKind.PAUSE)
    turn.open_spread(run, SpreadKind.RESUME, by=act.by, why=act.why or "the run was resumed")
    turn.answer(act, Reply.DONE)


def cancel_task(turn: Turn, act: CancelTask) -> None:
    """Cancel one task; its descendants follow by propagation."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state in FINAL:
        turn.answer(act, Reply.ALREADY, f"the task is {task.state}")
    elif task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=act.by, why=act.why or f"cancelled by {act.by}")
        turn.answer(act, Reply.DONE, "stop requested from its worker")
    else:
        progress.cancel(turn, run, task, by=act.by, because=act.why or f"cancelled by {act.by}", cause=None)
        turn.answer(act, Reply.DONE)


def reopen_task(turn: Turn, act: ReopenTask) -> None:
    """Restart a final task; a final run becomes active again."""
    action_targets.bring_back(turn, act)
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state not in FINAL:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: only a final task can be retried")
        return
    obstacle = _why_no_retry(run, task)
    if obstacle is not None:
        turn.answer(act, Reply.REFUSED, obstacle)
        return
    reopen.retry(turn, run, task, by=act.by, why=act.why or f"retried by {act.by}")
    if run.run.failed_task is None:
        turn.drop_spreads(run, SpreadKind.FAIL_FAST)
    turn.answer(act, Reply.DONE)


def retry_run(turn: Turn, act: RetryRun) -> None:
    """Restart all failed tasks; a final run becomes active again."""
    action_targets.bring_back(turn, act)
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    failed = run.counts.get(S.FAILED, 0) + run.counts.get(S.TIMED_OUT, 0)
    obstacle = _why_no_retry(run) if failed else action_targets.NOTHING_FAILED
    if obstacle is not None:
        turn.answer(act, Reply.REFUSED, obstacle)
        return
    reopen.retry_failed(turn, run, by=act.by, why=act.why or f"retried by {act.by}")
    turn.drop_spreads(run, SpreadKind.FAIL_FAST)
    turn.answer(act, Reply.DONE, f"{failed} task{'s' if failed > 1 else ''} restarted")


def _why_no_retry(run: RunMemory, task: Task | None = None) -> str | None:
    """Why tasks can't be restarted now; None if they can."""
    if run.run.cancelled_by is not None or run.run.timed_out:
        return "the run is being cancelled or timed out: retry its tasks once it has ended"
    if task is not None and run.is_replaced(task):
        return f"the task was replaced: {progress.REPLACED}"
    if task is not None and run.is_growing():
        return "tasks are still being added to the run: retry its tasks once that is done"
    return None


def clear_task(turn: Turn, act: ClearTask) -> None:
    """Release a quarantined task."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state is not S.QUARANTINED:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}, not {S.QUARANTINED}")
    elif not run.may_start():
        turn.answer(act, Reply.REFUSED, f"the run is {run.state()}: no task of it may start")
    else:
        turn.touch(task)
        first = task.trail.first_start if task.trail is not None else None
        task.trail = Trail(first_start=first) if first is not None else None
        progress.queue_again(turn, run, task, by=act.by, because=act.why or f"cleared by {act.by}")
        turn.answer(act, Reply.DONE)


def extend_task(turn: Turn, act: ExtendTask) -> None:
    """Extend the time limit of a running task."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is not None:
        turn.answer(act, *timeouts.extend(turn, *found, act))


def kill_task(turn: Turn, act: KillTask) -> None:
    """Kill the process of a task, which is then cancelled or queued again. An earlier deadline replaces a later one."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    _, task = found
    being_cancelled = task.stop is not None and task.stop.kind is StopKind.CANCEL
    if task.worker_id is None:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: it has no process to kill")
    elif not 0 <= act.grace_seconds <= LONGEST_GRACE_SECONDS:
        turn.answer(act, Reply.REFUSED, f"the grace period must be from 0 to {LONGEST_GRACE_SECONDS:.0f} seconds")
    elif act.again and being_cancelled:
        turn.answer(act, Reply.REFUSED, "the task is being cancelled: it can be killed, but not queued again")
    else:
        kind = StopKind.EVICT if act.again else StopKind.CANCEL
        grace, why = timedelta(seconds=act.grace_seconds), act.why or f"killed by {act.by}"
        if stop_requests.kill(turn, task, kind, by=act.by, why=why, grace=grace):
            then = "; the task will be queued again" if act.again else ""
            turn.answer(act, Reply.DONE, f"kill requested from its worker{then}")
        else:
            turn.answer(act, Reply.ALREADY, "its worker already has to kill it by then")


def save_checkpoint(turn: Turn, act: SaveCheckpoint) -> None:
    """Replace the checkpoint of a task, if it is the expected one.

    While an attempt runs, only that attempt may save.
    """
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    known = audit_entries.digest(run.checkpoints.get(task.position))
    if task.state in FINAL:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: no attempt will read a checkpoint")
    elif task.attempt_id not in (None, act.attempt_id):
        turn.answer(act, Reply.REFUSED, f"attempt {task.attempt_id} is running")
    elif act.expected is not None and act.expected != known:
        turn.answer(act, Reply.REFUSED, f"the checkpoint has changed: {known or 'there is none'}")
    else:
        turn.save_checkpoint(task, act.attempt_id, act.document)
        turn.answer(act, Reply.DONE, digest_of(act.document))


def change_priority(turn: Turn, act: ChangePriority) -> None:
    """Change the priority of a run at once, and of its open tasks by a bulk operation. Running tasks continue."""
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    if run.run.priority is act.priority:
        turn.answer(act, Reply.ALREADY, f"the run already has priority {act.priority.name}")
        return
    detail = action_targets.change_of(run.run.priority, act.priority)
    bulk_operations.prioritise(turn, run, act.priority, by=act.by, why=act.why or f"{detail}, by {act.by}")
    turn.answer(act, Reply.DONE, detail)
