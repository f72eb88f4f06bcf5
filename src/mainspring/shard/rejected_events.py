"""One bad value never stops a shard: an event that fails alone goes to `rejected_events`, and its owner is held.

    a report of an attempt      its task is QUARANTINED, the reply to the worker is *rejected*
    a checkpoint, more time     dropped; nothing else changes
    a run that arrives          it is held, and leaves intake
    the placement of a shape    the shape is parked until a new leader tries it
    a timer, a step             its task is QUARANTINED, or its run is held
    an action                   the caller gets the error
    rules, shares of limits     the previous ones stay in force

The host calls this after it has reloaded the memory: nothing of the failed attempt is left.
"""

from __future__ import annotations

from copy import copy

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import RejectedEvent
from mainspring.core.model.run import FINAL_RUN, RunState, update_state
from mainspring.core.model.task import AttemptEnd, Task, TaskState
from mainspring.protocol.ids import new_id
from mainspring.protocol.wire import Answer, Verdict
from mainspring.shard import alerts
from mainspring.shard import events as happened
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import ActionStatus, Send
from mainspring.shard.tasks import progress
from mainspring.shard.turn import Turn
from mainspring.shard.workers.claim_events import ClaimAbandoned, ClaimCall, ClaimEnded

_MAX_RECORD_CHARS = 16_384
_MAX_FAULT_CHARS = 1_000


def reject(turn: Turn, event: happened.Event, fault: str) -> None:
    """Record an event that could not be applied, and hold its owner."""
    fault = _sanitize(fault, _MAX_FAULT_CHARS)
    _hold_owner(turn, event, fault)
    subject, kind = _subject_of(event), happened.name_of(event)
    record = RejectedEvent(
        id=new_id("rej", turn.now, turn.random), shard=turn.memory.shard, kind=kind,
        subject=_sanitize(subject, _MAX_FAULT_CHARS), event=_describe(event), fault=fault, at=turn.now,
    )  # fmt: skip
    turn.batch.rejected.append(record)
    turn.batch.outbox.append(alerts.event_rejected(record.id, turn.memory.shard, kind, record.subject, fault, turn.now))


def _hold_owner(turn: Turn, event: happened.Event, fault: str) -> None:
    """Move the owner of an event to a state that only a person can end.

    Other events block nothing: the shard continues as if they had not arrived.
    """
    match event:
        case happened.AttemptStarted() | happened.AttemptEnded() | happened.AttemptReturned() | ClaimEnded():
            has_ended = isinstance(event, happened.AttemptEnded | ClaimEnded)
            task = turn.memory.attempts.get(event.attempt)
            if task is not None and task.worker_id == event.worker:
                _quarantine(turn, task, fault, has_ended=has_ended)
            if isinstance(event, happened.AttemptEnded):
                verdict = Answer(event.attempt, Verdict.REJECTED)
                turn.batch.effects.append(Send(event.worker, event.session, verdict))
            elif isinstance(event, ClaimEnded):
                turn.respond(event, ActionStatus.REFUSED, fault)
        case happened.RunArrived() | happened.RunUnreadable():
            row = turn.memory.runs.current(event.run)
            if row is not None and row.state not in FINAL_RUN:
                row = copy(row)
                row.held = fault
                if row.adopted_at is not None:
                    update_state(row, RunState.PAUSED, turn.now)
                turn.batch.runs.append(row)
        case happened.PlaceShape():
            turn.memory.queues.park_faulty(event.shape, fault)
        case happened.TimerDue():
            _quarantine(turn, turn.memory.runs.find(event.subject), fault)
            _hold_run(turn, event.subject, fault)
        case happened.BulkOperationStep() | happened.PropagationStep() | happened.TaskUndecided():
            _hold_run(turn, event.run_id, fault)
        case happened.ActionRequest():
            turn.respond(event, ActionStatus.REFUSED, fault)
            if isinstance(event, happened.RunAction):
                turn.memory.runs.drop_override(event.run_id)
        case _:
            pass


def _subject_of(event: happened.Event) -> str:
    """The id of what an event is about."""
    match event:
        case happened.AttemptStarted() | happened.AttemptEnded() | happened.AttemptReturned() | ClaimEnded():
            return event.attempt
        case happened.CheckpointSaved() | happened.ExtensionRequested():
            return event.attempt
        case happened.RunArrived() | happened.RunUnreadable():
            return event.run.id
        case happened.PlaceShape():
            return str(event.shape)
        case happened.TimerDue():
            return event.subject
        case happened.BulkOperationStep() | happened.PropagationStep() | happened.TaskUndecided():
            return event.run_id
        case happened.RunAction():
            return event.run_id
        case happened.WorkerEvent() | happened.WorkerAction() | ClaimCall() | ClaimAbandoned():
            return event.worker
        case happened.WorkerSilent():
            return event.row.id
        case happened.ShareGranted() | happened.ShareWanted() | happened.RateGranted():
            return event.limit
        case happened.RulesChanged():
            return f"rules {event.rules.version}"
        case _:
            return ""


def _quarantine(turn: Turn, task: Task | None, fault: str, *, has_ended: bool = False) -> None:
    """Quarantine a task; kill its process unless that has ended. A run that is ending is not held up."""
    if task is None or task.state in FINAL or task.state is TaskState.QUARANTINED:
        return
    if task.attempt_id is not None:
        if not has_ended:
            stop_requests.disown(turn, task.worker_id or "", task.attempt_id)
        turn.end_attempt(task, AttemptEnd.REJECTED, why=fault)
    turn.move(task, TaskState.QUARANTINED, by="shard", because=fault)
    run = turn.memory.runs[task.run_id]
    if run.run.cancelled_by is not None or run.run.timed_out:
        progress.cancel_unstarted(turn, run, task)
    elif run.is_replaced(task):
        progress.cancel(turn, run, task, by="shard", because=progress.REPLACED)


def _hold_run(turn: Turn, run_id: str, fault: str) -> None:
    """Suspend a run: its bulk operations and propagations rest until a person resumes it."""
    run = turn.memory.runs.get(run_id)
    if run is not None:
        run.run.held = fault
        turn.mark(run)


def _describe(event: happened.Event) -> str:
    """The event as JSON for people: bounded, and without characters that no store accepts."""
    try:
        text = msgspec.json.encode(event, enc_hook=repr).decode()
    except (TypeError, ValueError, UnicodeEncodeError):
        text = repr(event)
    return msgspec.json.encode(_sanitize(text, _MAX_RECORD_CHARS)).decode()


def _sanitize(text: str, most: int) -> str:
    """The part of a text that every store accepts: no NUL, no lone surrogate, bounded."""
    text = text[:most].replace("\\\\u0000", "?").replace("\\u0000", "?").replace("\0", "?")
    return text.encode("utf-8", "replace").decode()
