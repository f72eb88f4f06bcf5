"""What people ask of runs and tasks. Each act is answered once it is durable; one that changes nothing says so."""

from __future__ import annotations

from copy import copy

from mainspring.core.batch import SpreadKind
from mainspring.core.runs import FINAL_RUN, Run, RunState, conclude
from mainspring.core.states import FINAL, UNSUCCESSFUL
from mainspring.core.tasks import StopKind, Task, TaskState
from mainspring.errors import Broken
from mainspring.shard import adoption, flow, growing, limits, reopening, stops
from mainspring.shard.effects import LookUpRun, Reply
from mainspring.shard.events import (
    Act,
    CancelRun,
    CancelTask,
    ClearTask,
    ExtendTask,
    PauseRun,
    ReopenTask,
    ResumeRun,
    RetryRun,
)
from mainspring.shard.run_memory import RunMemory
from mainspring.shard.turn import Turn, run_ended

S = TaskState
_NOTHING_FAILED = "no task of it has failed"


def act(turn: Turn, event: Act) -> None:
    """Carry an act out, and answer it."""
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
        case _:
            raise Broken(f"nobody carries out {event}")


def cancel_run(turn: Turn, act: CancelRun) -> None:
    """End the run. One that is not adopted yet is adopted for it, so that its tasks have a story too."""
    run = _find_run(turn, act, adopt=True)
    if run is None:
        return
    if run.run.cancelled_by is not None:
        turn.answer(act, Reply.ALREADY, "the run is being cancelled")
        return
    growing.tell_limit_is_over(turn, run)
    run.run.cancelled_by = act.by
    run.run.because = act.why or f"cancelled by {act.by}"
    turn.mark(run)
    for kind in (SpreadKind.PAUSE, SpreadKind.RESUME, SpreadKind.REOPEN):
        turn.drop_spreads(run, kind)
    turn.open_spread(run, SpreadKind.CANCEL, by=act.by, why=act.why or "the run was cancelled")
    turn.answer(act, Reply.DONE)


def pause_run(turn: Turn, act: PauseRun) -> None:
    """Start nothing more of the run."""
    run = _find_run(turn, act)
    if run is None:
        return
    if run.run.paused:
        turn.answer(act, Reply.ALREADY, "the run is paused")
        return
    run.run.paused = True
    turn.mark(run)
    turn.drop_spreads(run, SpreadKind.RESUME)
    turn.open_spread(run, SpreadKind.PAUSE, by=act.by, why=act.why or "the run was paused")
    turn.answer(act, Reply.DONE)


def resume_run(turn: Turn, act: ResumeRun) -> None:
    """Go on with a paused run, also with one that was held for a fault."""
    run = _find_run(turn, act)
    if run is None:
        return
    if not run.run.paused and run.run.held is None:
        turn.answer(act, Reply.ALREADY, "the run is not paused")
        return
    if run.run.held is not None:
        turn.memory.spreads.extend((act.run_id, kind, parent) for kind, parent in run.spreads)
        turn.memory.ripples.extend((act.run_id, position) for position in run.ripples)
    growing.tell_limit_is_over(turn, run)
    run.run.paused = False
    run.run.held = None
    turn.mark(run)
    turn.drop_spreads(run, SpreadKind.PAUSE)
    turn.open_spread(run, SpreadKind.RESUME, by=act.by, why=act.why or "the run was resumed")
    turn.answer(act, Reply.DONE)


def cancel_task(turn: Turn, act: CancelTask) -> None:
    """End one task; its descendants follow when they hear of it."""
    found = _find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state in FINAL:
        turn.answer(act, Reply.ALREADY, f"the task is {task.state}")
    elif task.worker_id is not None:
        stops.request(turn, task, StopKind.CANCEL, by=act.by, why=act.why or f"cancelled by {act.by}")
        turn.answer(act, Reply.DONE, "its worker is asked to stop it")
    else:
        flow.cancel(turn, run, task, by=act.by, because=act.why or f"cancelled by {act.by}", cause=None)
        turn.answer(act, Reply.DONE)


def reopen_task(turn: Turn, act: ReopenTask) -> None:
    """Start a final task again; a run that was over goes on."""
    _bring_back(turn, act)
    found = _find_task(turn, act, act.task_id)
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
    reopening.retry(turn, run, task, by=act.by, why=act.why or f"retried by {act.by}")
    if run.run.failed_task is None:
        turn.drop_spreads(run, SpreadKind.FAIL_FAST)
    turn.answer(act, Reply.DONE)


def retry_run(turn: Turn, act: RetryRun) -> None:
    """Start again all that failed; a run that was over goes on."""
    _bring_back(turn, act)
    run = _find_run(turn, act)
    if run is None:
        return
    failed = run.counts.get(S.FAILED, 0) + run.counts.get(S.TIMED_OUT, 0)
    obstacle = _why_no_retry(run) if failed else _NOTHING_FAILED
    if obstacle is not None:
        turn.answer(act, Reply.REFUSED, obstacle)
        return
    reopening.retry_failed(turn, run, by=act.by, why=act.why or f"retried by {act.by}")
    turn.drop_spreads(run, SpreadKind.FAIL_FAST)
    turn.answer(act, Reply.DONE, f"{failed} task{'s' if failed > 1 else ''} started again")


def _why_no_retry(run: RunMemory, task: Task | None = None) -> str | None:
    """Why what is over can't be started again now."""
    if run.run.cancelled_by is not None or run.run.timed_out:
        return "the run is being ended: its tasks can be retried once that is done"
    if task is not None and run.is_replaced(task):
        return f"the task was replaced: {flow.REPLACED}"
    if task is not None and run.is_growing():
        return "the run is still growing: its tasks can be retried once that is done"
    return None


def clear_task(turn: Turn, act: ClearTask) -> None:
    """Let a quarantined task run again."""
    found = _find_task(turn, act, act.task_id)
    if found is None:
        return
    run, task = found
    if task.state is not S.QUARANTINED:
        turn.answer(act, Reply.REFUSED, f"the task is {task.state}, not {S.QUARANTINED}")
    elif not run.may_start():
        turn.answer(act, Reply.REFUSED, f"the run is {run.state()}: nothing more of it starts")
    else:
        turn.touch(task)
        task.trail = None
        flow.queue_again(turn, run, task, by=act.by, because=act.why or f"cleared by {act.by}")
        turn.answer(act, Reply.DONE)


def extend_task(turn: Turn, act: ExtendTask) -> None:
    """Give a running task more time."""
    found = _find_task(turn, act, act.task_id)
    if found is not None:
        turn.answer(act, *limits.extend(turn, *found, act))


def _find_run(turn: Turn, act: Act, *, adopt: bool = False) -> RunMemory | None:
    """The run that an act is about. If it is not to be had now, the caller is answered, or the rows are asked."""
    run = turn.memory.runs.get(act.run_id)
    if run is not None:
        return run
    rows = act.rows
    if rows is None:
        turn.batch.effects.append(LookUpRun(act))
    elif rows.run is None:
        turn.answer(act, Reply.NOT_FOUND, f"there is no run {act.run_id}")
    elif rows.run.state in FINAL_RUN and isinstance(act, RetryRun):
        turn.answer(act, Reply.REFUSED, f"the run is {rows.run.state}: {_NOTHING_FAILED}")
    elif rows.run.state in FINAL_RUN:
        turn.answer(act, Reply.ALREADY, f"the run is {rows.run.state}")
    elif rows.job is None:
        _act_on_unreadable(turn, act, copy(rows.run))
    elif adopt:
        row = copy(rows.run)
        row.held = None
        turn.memory.overtake(row.id, None)
        return adoption.take_in(turn, row, rows.job)
    else:
        _act_before_adoption(turn, act, copy(rows.run))
    return None


def _act_on_unreadable(turn: Turn, act: Act, row: Run) -> None:
    """A run whose definition can't be read, and that has no tasks yet, can be cancelled, and nothing else."""
    if not isinstance(act, CancelRun) or row.adopted_at is not None:
        turn.answer(act, Reply.REFUSED, f"the definition of the run can't be read{f': {row.held}' if row.held else ''}")
        return
    row.cancelled_by = act.by
    row.because = act.why or f"cancelled by {act.by}"
    row.held = row.held or "its definition can't be read"
    conclude(row, RunState.CANCELLED, turn.now)
    turn.batch.runs.append(row)
    turn.memory.overtake(row.id, row)
    if row.watched:
        turn.batch.outbox.append(run_ended(row, turn.now))
    turn.answer(act, Reply.DONE)


def _act_before_adoption(turn: Turn, act: Act, row: Run) -> None:
    """A run that waits in intake can be paused and resumed there: only its row changes."""
    match act:
        case PauseRun():
            row.paused = True
        case ResumeRun():
            row.paused, row.held = False, None
        case _:
            turn.answer(act, Reply.REFUSED, "the run has not begun: it has no tasks yet")
            return
    turn.batch.runs.append(row)
    turn.memory.overtake(row.id, row)
    turn.answer(act, Reply.DONE)


def _find_task(turn: Turn, act: Act, task_id: str) -> tuple[RunMemory, Task] | None:
    run = _find_run(turn, act)
    if run is None:
        return None
    task = turn.memory.find(task_id)
    if task is None or task.run_id != run.run.id:
        turn.answer(act, Reply.NOT_FOUND, f"the run has no task {task_id}")
        return None
    return run, task


def _bring_back(turn: Turn, act: ReopenTask | RetryRun) -> None:
    """A run that is over comes back into memory, for tasks of it to be retried."""
    rows = act.rows
    if act.run_id in turn.memory.runs or rows is None or rows.run is None or rows.job is None:
        return
    if rows.run.state in FINAL_RUN and any(_is_meant(act, task) for task in rows.tasks):
        row, tasks, open_spreads = copy(rows.run), [copy(task) for task in rows.tasks], map(copy, rows.spreads)
        conclude(row, RunState.RUNNING, turn.now)
        row.generation += 1
        row.adopted_at, row.cancelled_by, row.timed_out, row.retries = turn.now, None, False, 0
        adoption.recall_run(turn.memory, row, rows.job, tasks, list(open_spreads), turn.now)
        adoption.recall_checkpoints(turn.memory, rows.checkpoints)


def _is_meant(act: ReopenTask | RetryRun, task: Task) -> bool:
    """Whether a task of a run that is over is to be retried."""
    if task.birth is not None and task.birth.replaced:
        return False
    return task.state in UNSUCCESSFUL if isinstance(act, RetryRun) else task.id == act.task_id
