"""Fire schedules on incoming events (TRG-7).

    an event of the type ── filter ──► true                    a fire, decided like any other; its run gets the event
                                   ──► false                   ignored
                                   ──► evaluation fails        a fire, CONDITION_FALSE, with the reason

The window of such a fire is the instant of receipt, made unique. Due windows are planned first, so that a window that
expected an event sees only the events that arrived in time.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from mainspring.core.expressions import engine as expressions
from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.schedule_rows import EvaluationBatch, EventRow, ScheduleDecision
from mainspring.core.schedules.evaluate import decide_open, plan_due, received_event_since
from mainspring.core.schedules.evaluation import Context, Evaluation, evaluate_each
from mainspring.core.schedules.triggers import EventTrigger, previous_window
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import ExpressionFailed


def receive(evaluation_batch: EvaluationBatch, context: Context) -> list[ScheduleDecision]:
    """Fire the schedules that are triggered by these events."""

    def step(evaluation: Evaluation) -> None:
        plan_due(evaluation)
        for event in evaluation_batch.events:
            _take_event(evaluation, event)
        decide_open(evaluation)

    return evaluate_each(evaluation_batch, context, step)


def _take_event(evaluation: Evaluation, event: EventRow) -> None:
    trigger = evaluation.spec.trigger
    if not isinstance(trigger, EventTrigger) or trigger.type != event.type or not evaluation.plans_windows():
        return
    fault = None
    if trigger.filter is not None:
        try:
            if not expressions.is_true(trigger.filter, {"event": msgspec.Raw(event.document.encode())}):
                return
        except ExpressionFailed as failed:
            fault = f"filter failed: {failed}"
    window_at = evaluation.free_instant(event.received_at)
    fire = replace(evaluation.new_fire(window_at, f"event {expressions.shorten(event.id)}"), event=event.document)
    if fault is not None:
        evaluation.record_skipped(fire, Outcome.CONDITION_FALSE, fault)
        return
    evaluation.waiting.append(fire)
    _resolve_missing(evaluation, event)
    evaluation.update(replace(evaluation.row, latest_event_at=window_at))


def _resolve_missing(evaluation: Evaluation, event: EventRow) -> None:
    """Resolve the missing-event alert of the latest expected window, if no event had come for it."""
    latest = previous_window(evaluation.spec.trigger, evaluation.row.planned_through)
    if latest is None or received_event_since(evaluation, latest):
        return
    summary = f"{evaluation.row.name}: event {event.type} received"
    occasion = event.received_at.isoformat()
    evaluation.alert(AlertKind.EVENT_MISSING, Severity.WARNING, summary, occasion, resolved=True)
