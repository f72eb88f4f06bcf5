"""What an act is about: a run in memory, one that waits in intake, or one that is over; and a task of it.

A run that is not in memory is looked up: the act comes again with the rows. Then it is answered here, if the run is not
to be had; one in intake is adopted for the act, or its row alone changes.
"""

from __future__ import annotations

from copy import copy

from mainspring.core.lifecycle.states import UNSUCCESSFUL
from mainspring.core.model.run import FINAL_RUN, Run, RunState, conclude
from mainspring.core.model.task import Priority, Task
from mainspring.shard.effects import LookUpRun, Reply
from mainspring.shard.events import (
    Act,
    CancelRun,
    ChangePriority,
    KillTask,
    PauseRun,
    ReopenTask,
    ResumeRun,
    RetryRun,
    SaveCheckpoint,
)
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import adoption
from mainspring.shard.turn import Turn, run_ended

NOTHING_FAILED = "no task of it has failed"


def find_run(turn: Turn, act: Act, *, adopt: bool = False) -> RunMemory | None:
    """The run that an act is about. If it is not to be had now, the caller is answered, or the rows are asked."""
    run = turn.memory.runs.get(act.run_id)
    if run is not None:
        return run
    rows = act.rows
    if rows is None:
        turn.batch.effects.append(LookUpRun(act))
    elif rows.run is None:
        turn.answer(act, Reply.NOT_FOUND, f"there is no run {act.run_id}")
    elif rows.run.state in FINAL_RUN:
        _act_on_over(turn, act, rows.run)
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


def _act_on_over(turn: Turn, act: Act, row: Run) -> None:
    """Of a run that is over all has been done that could be, or can't be any more."""
    match act:
        case RetryRun():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: {NOTHING_FAILED}")
        case ChangePriority():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: nothing more of it is placed")
        case KillTask() | SaveCheckpoint():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: no task of it runs any more")
        case _:
            turn.answer(act, Reply.ALREADY, f"the run is {row.state}")


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
    """A run that waits in intake can be paused and resumed there, and get another priority: only its row changes."""
    detail = ""
    match act:
        case PauseRun():
            row.paused, row.because = True, say_by("paused", act)
        case ResumeRun():
            row.paused, row.held, row.because = False, None, say_by("resumed", act)
        case ChangePriority() if row.priority is act.priority:
            turn.answer(act, Reply.ALREADY, f"the run has {act.priority.name}")
            return
        case ChangePriority():
            detail = change_of(row.priority, act.priority)
            row.priority = act.priority
        case _:
            turn.answer(act, Reply.REFUSED, "the run has not begun: it has no tasks yet")
            return
    turn.batch.runs.append(row)
    turn.memory.overtake(row.id, row)
    turn.answer(act, Reply.DONE, detail)


def say_by(done: str, act: Act) -> str:
    """What somebody has done to a run, and why if they said so."""
    return f"{done} by {act.by}{f': {act.why}' if act.why else ''}"


def find_task(turn: Turn, act: Act, task_id: str) -> tuple[RunMemory, Task] | None:
    """The task that an act is about, with its run. If it is not to be had now, the same as for a run."""
    run = find_run(turn, act)
    if run is None:
        return None
    task = turn.memory.find(task_id)
    if task is None or task.run_id != run.run.id:
        turn.answer(act, Reply.NOT_FOUND, f"the run has no task {task_id}")
        return None
    return run, task


def bring_back(turn: Turn, act: ReopenTask | RetryRun) -> None:
    """A run that is over comes back into memory, for tasks of it to be retried."""
    rows = act.rows
    if act.run_id in turn.memory.runs or rows is None or rows.run is None or rows.job is None:
        return
    if rows.run.state in FINAL_RUN and any(_is_meant(act, task) for task in rows.tasks):
        row, tasks, open_spreads = copy(rows.run), [copy(task) for task in rows.tasks], map(copy, rows.spreads)
        conclude(row, RunState.RUNNING, turn.now)
        row.generation += 1
        row.adopted_at, row.cancelled_by, row.timed_out, row.retries = turn.now, None, False, 0
        row.at_risk_at = row.stuck_at = None
        adoption.recall_run(turn.memory, row, rows.job, tasks, list(open_spreads), turn.now)
        adoption.recall_checkpoints(turn.memory, rows.checkpoints)


def _is_meant(act: ReopenTask | RetryRun, task: Task) -> bool:
    """Whether a task of a run that is over is to be retried."""
    if task.birth is not None and task.birth.replaced:
        return False
    return task.state in UNSUCCESSFUL if isinstance(act, RetryRun) else task.id == act.task_id


def change_of(was: Priority, priority: Priority) -> str:
    """A change of priority in words."""
    return f"from {was.name} to {priority.name}"
