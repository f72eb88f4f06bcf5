"""What is known of a schedule when somebody asks why it does not run, and the words for parts of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise

import msgspec

from mainspring.core.explain.diagnosis import Gate, Passed
from mainspring.core.model.batch import DurationRow
from mainspring.core.model.schedule_rows import BackfillRow, FireRow, OtherSchedule, ScheduleChange, ScheduleRow
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger
from mainspring.core.schedules.triggers import say_window as say_rfc3339
from mainspring.core.schedules.windows import Outcome
from mainspring.core.text.durations import say_seconds

ENABLED, NOT_PAUSED, DUE, AFTER, OVERLAP, CONDITION = (
    "enabled", "not paused", "due", "after", "overlap", "condition"
)  # fmt: skip
FEWEST_EVENTS = 3
"""With fewer it can't be said how often they usually come."""


class ScheduleScene(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a schedule."""

    schedule: ScheduleRow
    spec: ScheduleSpec
    now: datetime
    waiting: tuple[FireRow, ...] = ()
    """Windows that wait, oldest first."""
    active: tuple[FireRow, ...] = ()
    """Windows whose run is not over, oldest first."""
    latest: FireRow | None = None
    """What became of its latest window."""
    backfill: BackfillRow | None = None
    """That of the oldest waiting window, if only windows of backfills wait."""
    backfilled: int = 0
    """How many windows of it are over."""
    other: OtherSchedule | None = None
    """The job that it waits for."""
    events: tuple[datetime, ...] = ()
    """When events of its type came, the latest first."""
    stopped: ScheduleChange | None = None
    """Who paused or disabled it last."""
    duration: DurationRow | None = None
    """How long a run of its job usually takes."""
    called: str
    """What people call it: its own name, or that of its job if it is the only one of that."""


def gates_of(scene: ScheduleScene, holds: str, says: str = "") -> tuple[Gate, ...]:
    """What a window passes, in the order in which it is decided."""
    spec = scene.spec
    active = sum(fire.backfill_id is None for fire in scene.active)
    names = [(ENABLED, ""), (NOT_PAUSED, ""), (DUE, "")]
    if spec.after is not None:
        names.append((AFTER, spec.after.job))
    names.append((OVERLAP, f"{active} of {spec.max_active}"))
    if spec.condition is not None:
        names.append((CONDITION, spec.condition.file_exists or ""))
    gates: list[Gate] = []
    passed = Passed.YES
    for name, words in names:
        if name == holds:
            gates.append(Gate(name=name, passed=Passed.HOLDS, says=says or words))
            passed = Passed.NOT_REACHED
        else:
            gates.append(Gate(name=name, passed=passed, says=words))
    return tuple(gates)


def say_window(scene: ScheduleScene, window_at: datetime) -> str:
    """A window as clocks of its zone show it."""
    trigger = scene.spec.trigger
    text = say_rfc3339(trigger, window_at)
    zone = trigger.timezone if isinstance(trigger, CronTrigger) else "UTC"
    if isinstance(trigger, EventTrigger) and trigger.expected is not None:
        zone = trigger.expected.timezone
    return f"{text[:10]} {text[11:19]} {zone}"


def say_latest(scene: ScheduleScene) -> str:
    """What became of the latest window, if no run of it came out well."""
    fire = scene.latest
    if fire is None or fire.outcome is Outcome.WAITING:
        return ""
    window = f"; its latest window, {say_window(scene, fire.last_window_at)},"
    if fire.outcome is not Outcome.RAN:
        return f"{window} did not run: {fire.because}"
    if fire.run_state is None:
        return f"{window} is running ({fire.run_id})"
    return f"{window} {fire.run_state.value.lower().replace('_', ' ')} ({fire.run_id})"


def say_usual(events: Sequence[datetime]) -> str:
    """How often events usually come, the latest first, if there are enough to tell."""
    if len(events) < FEWEST_EVENTS:
        return ""
    gaps = sorted((later - earlier).total_seconds() for later, earlier in pairwise(events))
    return f", usually every {say_seconds(gaps[len(gaps) // 2])}"
