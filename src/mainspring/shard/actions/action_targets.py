"""Targets of an action: a run in memory, in intake or final, and a task of it.

A run that is not in memory is looked up: the action is delivered again with its rows. A run in intake is adopted for
the action, or only its row changes; a final or unreadable run gets a reply here.
"""

from __future__ import annotations

from copy import copy

from mainspring.core.lifecycle.states import UNSUCCESSFUL
from mainspring.core.model.run import FINAL_RUN, Run, RunState, update_state
from mainspring.core.model.task import Priority, Task
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus, LookUpRun
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import adoption
from mainspring.shard.turn import Turn, run_ended_message

NO_FAILED_TASK = "it has no failed tasks"


def find_run(turn: Turn, action: happened.RunAction, *, adopt: bool = False) -> RunMemory | None:
    """Return the run of an action. If it is not available, reply to the caller or request its rows."""
    run = turn.memory.runs.get(action.run_id)
    if run is not None:
        return run
    rows = action.rows
    if rows is None:
        turn.batch.effects.append(LookUpRun(action))
    elif rows.run is None:
        turn.respond(action, ActionStatus.NOT_FOUND, f"run {action.run_id} not found")
    elif rows.run.state in FINAL_RUN:
        _reject_final_run(turn, action, rows.run)
    elif rows.job is None:
        _act_on_invalid(turn, action, copy(rows.run))
    elif adopt:
        row = copy(rows.run)
        row.held = None
        turn.memory.runs.override(row.id, None)
        return adoption.take_in(turn, row, rows.job)
    else:
        _act_before_adoption(turn, action, copy(rows.run))
    return None


def _reject_final_run(turn: Turn, action: happened.RunAction, row: Run) -> None:
    """Reply to an action on a final run: it is redundant or no longer possible."""
    match action:
        case happened.RetryRun():
            turn.respond(action, ActionStatus.REFUSED, f"the run is {row.state}: {NO_FAILED_TASK}")
        case happened.ChangePriority():
            turn.respond(action, ActionStatus.REFUSED, f"the run is {row.state}: its priority no longer matters")
        case happened.KillTask() | happened.SaveCheckpoint():
            turn.respond(action, ActionStatus.REFUSED, f"the run is {row.state}: it has no running tasks")
        case _:
            turn.respond(action, ActionStatus.ALREADY, f"the run is {row.state}")


def _act_on_invalid(turn: Turn, action: happened.RunAction, row: Run) -> None:
    """Act on a run with an unreadable definition: it can only be cancelled, and only while it has no tasks."""
    if not isinstance(action, happened.CancelRun) or row.adopted_at is not None:
        fault = f": {row.held}" if row.held else ""
        turn.respond(action, ActionStatus.REFUSED, f"the definition of the run can't be read{fault}")
        return
    row.cancelled_by = action.by
    row.because = action.why or f"cancelled by {action.by}"
    row.held = row.held or "its definition can't be read"
    update_state(row, RunState.CANCELLED, turn.now)
    turn.batch.runs.append(row)
    turn.memory.runs.override(row.id, row)
    if row.watched:
        turn.batch.outbox.append(run_ended_message(row, turn.now))
    turn.respond(action, ActionStatus.DONE)


def _act_before_adoption(turn: Turn, action: happened.RunAction, row: Run) -> None:
    """Act on a run in intake: pause, resume and priority change only its row."""
    detail = ""
    match action:
        case happened.PauseRun():
            row.paused, row.because = True, format_action("paused", action)
        case happened.ResumeRun():
            row.paused, row.held, row.because = False, None, format_action("resumed", action)
        case happened.ChangePriority() if row.priority is action.priority:
            turn.respond(action, ActionStatus.ALREADY, f"the run already has priority {action.priority.name}")
            return
        case happened.ChangePriority():
            detail = change_of(row.priority, action.priority)
            row.priority = action.priority
        case _:
            turn.respond(action, ActionStatus.REFUSED, "the run has not started: it has no tasks yet")
            return
    turn.batch.runs.append(row)
    turn.memory.runs.override(row.id, row)
    turn.respond(action, ActionStatus.DONE, detail)


def format_action(done: str, action: happened.RunAction) -> str:
    """Describe an action: what, by whom, and why if given."""
    return f"{done} by {action.by}{f': {action.why}' if action.why else ''}"


def reload_final_run(turn: Turn, action: happened.RunAction) -> None:
    """Load a final run into memory, if tasks of it are to be retried."""
    rows = action.rows
    if not isinstance(action, happened.ReopenTask | happened.RetryRun):
        return
    if action.run_id in turn.memory.runs or rows is None or rows.run is None or rows.job is None:
        return
    if rows.run.state in FINAL_RUN and any(_is_target(action, task) for task in rows.tasks):
        row = copy(rows.run)
        update_state(row, RunState.RUNNING, turn.now)
        row.generation += 1
        row.adopted_at, row.cancelled_by, row.timed_out, row.retries = turn.now, None, False, 0
        row.at_risk_at = row.stuck_at = None
        tasks, operations = list(map(copy, rows.tasks)), list(map(copy, rows.bulk_operations))
        adoption.restore_run(turn.memory, row, rows.job, tasks, operations, turn.now)
        adoption.restore_checkpoints(turn.memory, rows.checkpoints)


def _is_target(action: happened.ReopenTask | happened.RetryRun, task: Task) -> bool:
    """Whether a task of a final run is to be retried."""
    if task.origin is not None and task.origin.replaced:
        return False
    return task.state in UNSUCCESSFUL if isinstance(action, happened.RetryRun) else task.id == action.task_id


def change_of(was: Priority, priority: Priority) -> str:
    """Describe a change of priority."""
    return f"from {was.name} to {priority.name}"
