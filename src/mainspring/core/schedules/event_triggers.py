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
from mainspring.core.model.schedule_rows import Docket, EventRow, Ruling
from mainspring.core.schedules.evaluate import decide_open, event_came_since, plan_due
from mainspring.core.schedules.evaluation import Context, Hearing, settle_each
from mainspring.core.schedules.triggers import EventTrigger, previous_window
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import ExpressionFailed


def receive(docket: Docket, context: Context) -> list[Ruling]:
    """Fire the schedules that are triggered by these events."""

    def step(hearing: Hearing) -> None:
        plan_due(hearing)
        for event in docket.events:
            _take_event(hearing, event)
        decide_open(hearing)

    return settle_each(docket, context, step)


def _take_event(hearing: Hearing, event: EventRow) -> None:
    trigger = hearing.spec.trigger
    if not isinstance(trigger, EventTrigger) or trigger.type != event.type or not hearing.is_going():
        return
    fault = None
    if trigger.filter is not None:
        try:
            if not expressions.is_true(trigger.filter, {"event": msgspec.Raw(event.document.encode())}):
                return
        except ExpressionFailed as failed:
            fault = f"filter failed: {failed}"
    window_at = hearing.free_instant(event.received_at)
    fire = replace(hearing.new_fire(window_at, f"event {expressions.shorten(event.id)}"), event=event.document)
    if fault is not None:
        hearing.leave_out(fire, Outcome.CONDITION_FALSE, fault)
        return
    hearing.waiting.append(fire)
    _resolve_missing(hearing, event)
    hearing.update(replace(hearing.row, latest_event_at=window_at))


def _resolve_missing(hearing: Hearing, event: EventRow) -> None:
    """Resolve the missing-event alert of the latest expected window, if no event had come for it."""
    latest = previous_window(hearing.spec.trigger, hearing.row.through_at)
    if latest is None or event_came_since(hearing, latest):
        return
    summary = f"{hearing.row.name}: event {event.type} received"
    occasion = event.received_at.isoformat()
    hearing.alert(AlertKind.EVENT_MISSING, Severity.WARNING, summary, occasion, resolved=True)
