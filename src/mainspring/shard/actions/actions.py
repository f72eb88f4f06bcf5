"""What people ask of runs and tasks. Each act is answered once it is durable; one that changes nothing says so.

What is carried out, or was so before, is in the audit log: the same batch has the entry (I-73), which says what the
subject was like (`shard/actions/audit_entries.py`) and how the act ended.
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


def act(turn: Turn, event: Act) -> None:
    """Carry an act out, and answer it."""
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
            raise Broken(f"nobody carries out {event}")


def cancel_run(turn: Turn, act: CancelRun) -> None:
    """End the run. One that is not adopted yet is adopted for it, so that its tasks have a story too."""
    run = action_targets.find_run(turn, act, adopt=True)
    if run is None:
        return
    if run.run.cancelled_by is not None:
        turn.answer(act, Reply.ALREADY, "the run is being cancelled")
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
    """Start nothing more of the run."""
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    if run.run.paused:
        turn.answer(act, Reply.ALREADY, "the run is paused")
        return
    run.run.paused = True
    run.run.because = action_targets.say_by("paused", act)
    turn.mark(run)
    turn.drop_spreads(run, SpreadKind.RESUME)
    turn.open_spread(run, SpreadKind.PAUSE, by=act.by, why=act.why or "the run was paused")
    turn.answer(act, Reply.DONE)


def resume_run(turn: Turn, act: ResumeRun) -> None:
    """Go on with a paused run, also with one that was held for a fault."""
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
    """End one task; its descendants follow when they hear of it."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state in FINAL:
        turn.answer(act, Reply.ALREADY, f"the task is {task.state}")
    elif task.worker_id is not None:
        stop_requests.request(turn, task, StopKind.CANCEL, by=act.by, why=act.why or f"cancelled by {act.by}")
        turn.answer(act, Reply.DONE, "its worker is asked to stop it")
    else:
        progress.cancel(turn, run, task, by=act.by, because=act.why or f"cancelled by {act.by}", cause=None)
        turn.answer(act, Reply.DONE)


def reopen_task(turn: Turn, act: ReopenTask) -> None:
    """Start a final task again; a run that was over goes on."""
    action_targets.bring_back(turn, act)
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state not in FINAL:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: only one that is over can be retried")
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
    """Start again all that failed; a run that was over goes on."""
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
    turn.answer(act, Reply.DONE, f"{failed} task{'s' if failed > 1 else ''} started again")


def _why_no_retry(run: RunMemory, task: Task | None = None) -> str | None:
    """Why what is over can't be started again now."""
    if run.run.cancelled_by is not None or run.run.timed_out:
        return "the run is being ended: its tasks can be retried once that is done"
    if task is not None and run.is_replaced(task):
        return f"the task was replaced: {progress.REPLACED}"
    if task is not None and run.is_growing():
        return "the run is still growing: its tasks can be retried once that is done"
    return None


def clear_task(turn: Turn, act: ClearTask) -> None:
    """Let a quarantined task run again."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state is not S.QUARANTINED:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}, not {S.QUARANTINED}")
    elif not run.may_start():
        turn.answer(act, Reply.REFUSED, f"the run is {run.state()}: nothing more of it starts")
    else:
        turn.touch(task)
        first = task.trail.first_start if task.trail is not None else None
        task.trail = Trail(first_start=first) if first is not None else None
        progress.queue_again(turn, run, task, by=act.by, because=act.why or f"cleared by {act.by}")
        turn.answer(act, Reply.DONE)


def extend_task(turn: Turn, act: ExtendTask) -> None:
    """Give a running task more time."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is not None:
        turn.answer(act, *timeouts.extend(turn, *found, act))


def kill_task(turn: Turn, act: KillTask) -> None:
    """End the process of a task, which is cancelled then, or runs again. What is under way is brought forward."""
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    _, task = found
    being_cancelled = task.stop is not None and task.stop.kind is StopKind.CANCEL
    if task.worker_id is None:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: it has no process that could be killed")
    elif not 0 <= act.grace_seconds <= LONGEST_GRACE_SECONDS:
        turn.answer(act, Reply.REFUSED, f"the grace must be from 0 to {LONGEST_GRACE_SECONDS:.0f} seconds")
    elif act.again and being_cancelled:
        turn.answer(act, Reply.REFUSED, "the task is being cancelled: it can be killed, and not run again")
    else:
        kind = StopKind.EVICT if act.again else StopKind.CANCEL
        grace, why = timedelta(seconds=act.grace_seconds), act.why or f"killed by {act.by}"
        if stop_requests.kill(turn, task, kind, by=act.by, why=why, grace=grace):
            turn.answer(act, Reply.DONE, f"its worker is asked to kill it{' and it runs again' if act.again else ''}")
        else:
            turn.answer(act, Reply.ALREADY, "its worker has been asked to kill it by then")


def save_checkpoint(turn: Turn, act: SaveCheckpoint) -> None:
    """Put a document in the place of a task's checkpoint, if that is the one that is expected there.

    While an attempt is under way nobody saves in the name of an older one.
    """
    found = action_targets.find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    known = audit_entries.digest(run.checkpoints.get(task.position))
    if task.state in FINAL:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}: no attempt of it would find a checkpoint")
    elif task.attempt_id not in (None, act.attempt_id):
        turn.answer(act, Reply.REFUSED, f"the attempt is another: {task.attempt_id} is under way")
    elif act.expected is not None and act.expected != known:
        turn.answer(act, Reply.REFUSED, f"the checkpoint is another: {known or 'there is none'}")
    else:
        turn.save_checkpoint(task, act.attempt_id, act.document)
        turn.answer(act, Reply.DONE, digest_of(act.document))


def change_priority(turn: Turn, act: ChangePriority) -> None:
    """Give a run another priority at once, and its tasks that are not over as a spread. What runs goes on."""
    run = action_targets.find_run(turn, act)
    if run is None:
        return
    if run.run.priority is act.priority:
        turn.answer(act, Reply.ALREADY, f"the run has {act.priority.name}")
        return
    detail = action_targets.change_of(run.run.priority, act.priority)
    bulk_operations.prioritise(turn, run, act.priority, by=act.by, why=act.why or f"{detail}, by {act.by}")
    turn.answer(act, Reply.DONE, detail)
