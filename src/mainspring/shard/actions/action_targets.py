"""Targets of an action: a run in memory, in intake or final, and a task of it.

A run that is not in memory is looked up: the action is delivered again with its rows. A run in intake is adopted for
the action, or only its row changes; a final or unreadable run gets a reply here.
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

NOTHING_FAILED = "it has no failed tasks"


def find_run(turn: Turn, act: Act, *, adopt: bool = False) -> RunMemory | None:
    """Return the run of an action. If it is not available, reply to the caller or request its rows."""
    run = turn.memory.runs.get(act.run_id)
    if run is not None:
        return run
    rows = act.rows
    if rows is None:
        turn.batch.effects.append(LookUpRun(act))
    elif rows.run is None:
        turn.answer(act, Reply.NOT_FOUND, f"run {act.run_id} not found")
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
    """Reply to an action on a final run: it is redundant or no longer possible."""
    match act:
        case RetryRun():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: {NOTHING_FAILED}")
        case ChangePriority():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: its priority no longer matters")
        case KillTask() | SaveCheckpoint():
            turn.answer(act, Reply.REFUSED, f"the run is {row.state}: it has no running tasks")
        case _:
            turn.answer(act, Reply.ALREADY, f"the run is {row.state}")


def _act_on_unreadable(turn: Turn, act: Act, row: Run) -> None:
    """Act on a run with an unreadable definition: it can only be cancelled, and only while it has no tasks."""
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
    """Act on a run in intake: pause, resume and priority change only its row."""
    detail = ""
    match act:
        case PauseRun():
            row.paused, row.because = True, say_by("paused", act)
        case ResumeRun():
            row.paused, row.held, row.because = False, None, say_by("resumed", act)
        case ChangePriority() if row.priority is act.priority:
            turn.answer(act, Reply.ALREADY, f"the run already has priority {act.priority.name}")
            return
        case ChangePriority():
            detail = change_of(row.priority, act.priority)
            row.priority = act.priority
        case _:
            turn.answer(act, Reply.REFUSED, "the run has not started: it has no tasks yet")
            return
    turn.batch.runs.append(row)
    turn.memory.overtake(row.id, row)
    turn.answer(act, Reply.DONE, detail)


def say_by(done: str, act: Act) -> str:
    """Describe an action: what, by whom, and why if given."""
    return f"{done} by {act.by}{f': {act.why}' if act.why else ''}"


def find_task(turn: Turn, act: Act, task_id: str) -> tuple[RunMemory, Task] | None:
    """Return the task of an action and its run, with the same fallbacks as for a run."""
    run = find_run(turn, act)
    if run is None:
        return None
    task = turn.memory.find(task_id)
    if task is None or task.run_id != run.run.id:
        turn.answer(act, Reply.NOT_FOUND, f"task {task_id} not found in the run")
        return None
    return run, task


def bring_back(turn: Turn, act: ReopenTask | RetryRun) -> None:
    """Load a final run into memory, so that tasks of it can be retried."""
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
    """Whether a task of a final run is to be retried."""
    if task.birth is not None and task.birth.replaced:
        return False
    return task.state in UNSUCCESSFUL if isinstance(act, RetryRun) else task.id == act.task_id


def change_of(was: Priority, priority: Priority) -> str:
    """Describe a change of priority."""
    return f"from {was.name} to {priority.name}"
