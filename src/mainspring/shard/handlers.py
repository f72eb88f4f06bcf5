"""Handlers: which function applies which event to a turn.

To add an event: its type in `shard/events.py`, its handler here, its owner in `shard/rejected_events.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from mainspring.protocol.errors import Broken
from mainspring.shard import events as happened
from mainspring.shard import invariants, rejected_events
from mainspring.shard.actions import actions, audit_entries
from mainspring.shard.actions.actions import on_run, on_task
from mainspring.shard.events import Event, TimerDue, TimerKind
from mainspring.shard.placement import concurrency_groups, dispatch, reservations, rule_changes
from mainspring.shard.tasks import (
    adoption,
    bulk_operations,
    circuit_breakers,
    deadlines,
    progress,
    run_pacing,
    timeouts,
)
from mainspring.shard.turn import Turn
from mainspring.shard.workers import claim_events, claims, cordon, liveness, reports

_E = TypeVar("_E", bound=Event)
Handler = Callable[[Turn, Event], None]
EVENTS: dict[type[Event], Handler] = {}
"""By type of event."""


def apply(turn: Turn, event: Event) -> None:
    """Apply an event. A worker's event of another session is dropped; an action's audit entry gets the state before."""
    if isinstance(event, happened.WorkerEvent) and not isinstance(event, happened.WorkerRegistered):
        if not liveness.note_heartbeat(turn, event):
            return
    elif isinstance(event, happened.RunAction | happened.WorkerAction):
        event = audit_entries.with_before(turn.memory, event)
    handler = EVENTS.get(type(event))
    if handler is None:
        raise Broken(f"no handler for {event}")
    handler(turn, event)


def _on(kind: type[_E], handler: Callable[[Turn, _E], None]) -> None:
    EVENTS[kind] = cast("Handler", handler)


def _runs_expired(turn: Turn, event: happened.RunsExpired) -> None:
    named = dict.fromkeys([*turn.batch.archived, *event.run_ids])
    turn.batch.archived = [run for run in named if run not in turn.memory.runs]


def _store_lagged(turn: Turn, event: happened.StoreLagged) -> None:
    turn.memory.queues.suspended_from = event.hold


def _event_not_storable(turn: Turn, event: happened.EventNotStorable) -> None:
    if liveness.note_heartbeat(turn, event.event):
        rejected_events.reject(turn, event.event, event.fault)


def _place_shape(turn: Turn, event: happened.PlaceShape) -> None:
    dispatch.place(turn, only=event.shape)


_on(happened.RunArrived, adoption.adopt)
_on(happened.RunUnreadable, lambda turn, event: rejected_events.reject(turn, event, event.fault))
_on(happened.RunsExpired, _runs_expired)
_on(happened.StoreLagged, _store_lagged)
_on(happened.SettingsChanged, liveness.apply_settings)
_on(happened.InvariantsDue, lambda turn, _: invariants.check(turn))
_on(happened.EventNotStorable, _event_not_storable)

_on(happened.WorkerRegistered, liveness.register)
_on(happened.WorkerHeartbeat, reports.progressed)
_on(happened.WorkerLeaving, liveness.leave)
_on(happened.WorkerGone, liveness.remove_gone)
_on(happened.WorkerSilent, liveness.silent_workers)
_on(happened.AttemptsReceived, reports.received)
_on(happened.AttemptStarted, reports.started)
_on(happened.AttemptEnded, reports.ended)
_on(happened.AttemptReturned, reports.returned)
_on(happened.CheckpointSaved, reports.checkpoint)
_on(happened.ExtensionRequested, reports.extension)

_on(claim_events.ClaimWork, claims.claim)
_on(claim_events.ClaimStarted, claims.start)
_on(claim_events.ClaimHeartbeat, claims.heartbeat)
_on(claim_events.ClaimEnded, claims.end)
_on(claim_events.ClaimAbandoned, claims.abandon)

_on(happened.CancelRun, on_run(actions.cancel_run, adopt=True))
_on(happened.PauseRun, on_run(actions.pause_run))
_on(happened.ResumeRun, on_run(actions.resume_run))
_on(happened.CancelTask, on_task(actions.cancel_task))
_on(happened.ReopenTask, on_task(actions.reopen_task))
_on(happened.RetryRun, on_run(actions.retry_run))
_on(happened.ClearTask, on_task(actions.clear_task))
_on(happened.ExtendTask, on_task(timeouts.extend_task))
_on(happened.KillTask, on_task(actions.kill_task))
_on(happened.SaveCheckpoint, on_task(actions.save_checkpoint))
_on(happened.ChangePriority, on_run(actions.change_priority))
for _kind in (happened.CordonWorker, happened.DrainWorker, happened.EvictWorker, happened.UncordonWorker):
    _on(_kind, cordon.apply)

_on(happened.RulesChanged, rule_changes.apply_rules)
_on(happened.ShareGranted, concurrency_groups.share_granted)
_on(happened.ShareWanted, concurrency_groups.share_wanted)
_on(happened.RateGranted, concurrency_groups.rate_granted)

_on(happened.TimerDue, lambda turn, timer: TIMERS[timer.kind](turn, timer))
_on(happened.TaskUndecided, progress.decide_again)
_on(happened.PropagationStep, progress.step)
_on(happened.BulkOperationStep, bulk_operations.continue_operation)
_on(happened.PlaceShape, _place_shape)

TIMERS: dict[TimerKind, Callable[[Turn, TimerDue], None]] = {
    TimerKind.SILENCE: liveness.silence_due,
    TimerKind.RECEIPT: liveness.receipt_due,
    TimerKind.CLAIM: claims.wait_due,
    TimerKind.CLAIM_SILENCE: claims.silence_due,
    TimerKind.RETRY: progress.retry_due,
    TimerKind.TASK_LIMIT: timeouts.hard_limit_due,
    TimerKind.SOFT_LIMIT: timeouts.soft_limit_due,
    TimerKind.STALL: timeouts.stall_due,
    TimerKind.CIRCUIT: circuit_breakers.circuit_due,
    TimerKind.PACE: run_pacing.due,
    TimerKind.RESERVATION: reservations.due,
    TimerKind.RULES: rule_changes.due,
    TimerKind.LIMIT: concurrency_groups.limit_due,
    TimerKind.THROTTLE: lambda turn, _: None,  # the tenant is checked again when the turn places tasks
    TimerKind.RUN_LIMIT: timeouts.run_limit_due,
    TimerKind.DEADLINE: deadlines.due,
}
