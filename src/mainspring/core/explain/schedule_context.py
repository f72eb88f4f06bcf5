"""The state that a diagnosis of a schedule needs, and formats of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import msgspec

from mainspring.core.explain.diagnosis import Gate, GateState
from mainspring.core.model.batch import DurationRow
from mainspring.core.model.schedule_rows import BackfillRow, FireRow, ScheduleChange, ScheduleRow, UpstreamSchedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger
from mainspring.core.schedules.triggers import format_window as format_rfc3339
from mainspring.core.schedules.windows import Outcome
from mainspring.core.text.durations import format_seconds

ENABLED, NOT_PAUSED, DUE, AFTER, OVERLAP, CONDITION = (
    "enabled", "pause", "due", "after", "overlap", "condition"
)  # fmt: skip
MIN_EVENTS = 3
"""Minimum to estimate how often events come."""


class ScheduleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schedule."""

    schedule: ScheduleRow
    spec: ScheduleSpec
    now: datetime
    waiting: tuple[FireRow, ...] = ()
    """Waiting windows, oldest first."""
    active: tuple[FireRow, ...] = ()
    """Windows with unfinished runs, oldest first."""
    latest: FireRow | None = None
    """The fire of its latest window."""
    backfill: BackfillRow | None = None
    """The backfill of the oldest waiting window, if only backfilled windows wait."""
    backfilled: int = 0
    """How many of its windows have finished."""
    other: UpstreamSchedule | None = None
    """The upstream job."""
    events: tuple[datetime, ...] = ()
    """When events of its type came, latest first."""
    stopped: ScheduleChange | None = None
    """The last pause or disabling."""
    duration: DurationRow | None = None
    """Usual duration of its job's runs."""
    called: str
    """Display name: its own, or its job's if it is the only schedule of that job."""


def gates_of(context: ScheduleContext, holds: str, says: str = "") -> tuple[Gate, ...]:
    """The gates of a window, in the order in which they are checked."""
    spec = context.spec
    active = sum(fire.backfill_id is None for fire in context.active)
    names = [(ENABLED, ""), (NOT_PAUSED, ""), (DUE, "")]
    if spec.after is not None:
        names.append((AFTER, spec.after.job))
    names.append((OVERLAP, f"{active} of {spec.max_active}"))
    if spec.condition is not None:
        names.append((CONDITION, spec.condition.file_exists or ""))
    gates: list[Gate] = []
    passed = GateState.YES
    for name, words in names:
        if name == holds:
            gates.append(Gate(name=name, passed=GateState.HOLDS, says=says or words))
            passed = GateState.NOT_REACHED
        else:
            gates.append(Gate(name=name, passed=passed, says=words))
    return tuple(gates)


def format_window(context: ScheduleContext, window_at: datetime) -> str:
    """Format a window in its time zone."""
    trigger = context.spec.trigger
    text = format_rfc3339(trigger, window_at)
    zone = trigger.timezone if isinstance(trigger, CronTrigger) else "UTC"
    if isinstance(trigger, EventTrigger) and trigger.expected is not None:
        zone = trigger.expected.timezone
    return f"{text[:10]} {text[11:19]} {zone}"


def format_latest(context: ScheduleContext) -> str:
    """The outcome of the latest window, as the end of a sentence."""
    fire = context.latest
    if fire is None or fire.outcome is Outcome.WAITING:
        return ""
    window = f"; its latest window, {format_window(context, fire.last_window_at)},"
    if fire.outcome is not Outcome.RAN:
        return f"{window} did not run: {fire.because}"
    if fire.run_state is None:
        return f"{window} is running ({fire.run_id})"
    return f"{window} {fire.run_state.value.lower().replace('_', ' ')} ({fire.run_id})"


def format_usual(events: Sequence[datetime]) -> str:
    """How often events usually come, latest first, if there are enough to tell."""
    if len(events) < MIN_EVENTS:
        return ""
    gaps = sorted((later - earlier).total_seconds() for later, earlier in pairwise(events))
    return f", usually every {format_seconds(gaps[len(gaps) // 2])}"
