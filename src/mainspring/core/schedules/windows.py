"""Plan the due windows of a schedule, and the outcome of each (TRG-4, TRG-5, TRG-6).

            planned before ─┐                                              ┌─ now
    ────────────────────────┼──●──●──●──●──●──●──●──●──●──●──●──●──●──●──●─┼──●────
                               └ late ──────┘  └ skipped ──┘  └ caught up  └ on time

1. A window is on time if it is the latest due one and less than `ON_TIME` old; all other due windows were missed.
2. Each due window is covered by exactly one fire, and `planned_through` moves over all of them: the next plan can't see
   them again. Fire and `planned_through` are to be committed together.
3. Nothing is planned before its time, and nothing twice if the clock goes back.
4. A plan has at most `max_catch_up_windows` + 3 fires, however long nothing was planned and however often it fires.

A window that expects an event is due only after its buffer (`triggers.buffer_of`): its age counts from then on.

A paused or disabled schedule is not planned. Resuming, creating or changing one sets `planned_through` to that
instant, so that no earlier window counts as missed; at creation it may be set to an earlier one, so that some do.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from mainspring.core.schedules.schedule_spec import Missed, ScheduleSpec
from mainspring.core.schedules.time_zones import EPOCH, INSTANT
from mainspring.core.schedules.triggers import Trigger, buffer_of, count_windows, next_window, previous_window

ON_TIME = timedelta(seconds=60)
"""Longer than a failover: a window that is due during one is not missed."""


class Outcome(StrEnum):
    """Outcome of a window."""

    RAN = "ran"
    WAITING = "waiting"
    """No run yet: `core/schedules/start_policy.py` decides it again."""
    SKIPPED = "skipped"
    LATE = "late"
    CONDITION_FALSE = "condition_false"


class Fire(msgspec.Struct, frozen=True, kw_only=True):
    """One row: a window, or several consecutive ones that do not run."""

    window_at: datetime
    """The key, with the schedule and the generation."""
    last_window_at: datetime
    count: int = 1
    outcome: Outcome
    because: str
    is_catch_up: bool = False


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The due windows."""

    fires: tuple[Fire, ...]
    """In order of time. What is RAN here may still have to wait: ask `start_policy.decide_start`."""
    planned_through: datetime
    """Every window up to here is covered by a fire."""
    next_at: datetime | None
    """When the next window is due: there is nothing to plan before."""


def plan(spec: ScheduleSpec, *, planned_through: datetime, now: datetime) -> Plan:
    """Plan what became due after `planned_through`, of a schedule that is not paused.

    First the latest windows are chosen, as many as may run, without those that are too late. All before the first that
    runs is collapsed into a row of late windows and a row of skipped ones.
    """
    buffer = buffer_of(spec.trigger)
    until = now - buffer
    first = next_window(spec.trigger, planned_through) if spec.enabled else None
    if first is None or first > until:
        return Plan(fires=(), planned_through=planned_through, next_at=_add(first, buffer))
    latest, following = first, next_window(spec.trigger, first)
    if following is not None and following <= until:
        latest = previous_window(spec.trigger, until) or first
        following = next_window(spec.trigger, latest)
    late_before = _late_before(spec, now)
    chosen = [window for window in _choose(spec, first, latest, until) if window >= late_before]
    fires = _skipped_fires(spec, first, chosen[0] if chosen else latest + INSTANT, late_before)
    for window in chosen:
        is_catch_up = not _is_on_time(window, latest, until)
        because = f"caught up, {(until - window).total_seconds():.0f} s late" if is_catch_up else "on time"
        fire = Fire(window_at=window, last_window_at=window, outcome=Outcome.RAN, because=because)
        fires.append(replace(fire, is_catch_up=is_catch_up))
    return Plan(fires=tuple(fires), planned_through=latest, next_at=_add(following, buffer))


def start_of(schedule_id: str, spec: ScheduleSpec, window_at: datetime, now: datetime) -> datetime:
    """Return when the run of a window starts if it is created now: at once, or after its jitter."""
    return max(now, window_at + jitter(schedule_id, window_at, spec.jitter_seconds or 0))


def jitter(schedule_id: str, window_at: datetime, most_seconds: int) -> timedelta:
    """Delay of a run after its window: 0 to `most_seconds`, always the same for the same window."""
    if most_seconds == 0:
        return timedelta(0)
    digest = hashlib.sha256(fire_key(schedule_id, window_at, 1).encode()).digest()
    return timedelta(milliseconds=int.from_bytes(digest[:8], "big") % (most_seconds * 1000 + 1))


def fire_key(schedule_id: str, window_at: datetime, generation: int) -> str:
    """Return the name of a fire, for its jitter and file probes. The key of the table `fires` keeps runs unique."""
    return f"{schedule_id}@{window_at.astimezone(UTC).isoformat()}#{generation}"


def is_too_late(spec: ScheduleSpec, window_at: datetime, now: datetime) -> bool:
    """Return whether a window may no longer start. The allowed delay counts from the end of the jitter."""
    return window_at < _late_before(spec, now)


def upcoming(spec: ScheduleSpec, after: datetime, limit: int) -> list[datetime]:
    """Return the next windows, up to `limit`; none if the schedule is disabled."""
    windows: list[datetime] = []
    window = next_window(spec.trigger, after) if spec.enabled else None
    while window is not None and len(windows) < limit:
        windows.append(window)
        window = next_window(spec.trigger, window)
    return windows


def _choose(spec: ScheduleSpec, first: datetime, latest: datetime, now: datetime) -> list[datetime]:
    """The latest windows, as many as may run, oldest first."""
    capacity = spec.max_catch_up_windows if spec.missed is Missed.RUN else 0
    if _is_on_time(latest, latest, now):
        capacity += 1
    chosen: list[datetime] = []
    window: datetime | None = latest
    while window is not None and len(chosen) < capacity:
        chosen.append(window)
        window = previous_window(spec.trigger, window - INSTANT) if window > first else None
    return chosen[::-1]


def _is_on_time(window: datetime, latest: datetime, now: datetime) -> bool:
    return window == latest and now - window < ON_TIME


def _late_before(spec: ScheduleSpec, now: datetime) -> datetime:
    """Windows before this may no longer start."""
    if spec.max_delay_seconds is None:
        return EPOCH
    return now - buffer_of(spec.trigger) - timedelta(seconds=spec.max_delay_seconds + (spec.jitter_seconds or 0))


def _add(window: datetime | None, buffer: timedelta) -> datetime | None:
    try:
        return None if window is None else window + buffer
    except OverflowError:
        # Outside of the calendar.
        return None


def _skipped_fires(spec: ScheduleSpec, start: datetime, end: datetime, late_before: datetime) -> list[Fire]:
    """Fires for windows that don't run, from `start` up to `end`: one for the late, one for the skipped."""
    if start >= end:
        return []
    split = min(end, max(start, late_before))
    late = f"more than {spec.max_delay_seconds or 0:g} s late"
    skipped = "missed; the policy skips missed windows"
    if spec.missed is Missed.RUN:
        skipped = f"missed; only the latest {spec.max_catch_up_windows} are caught up"
    return [
        *_collapse(spec.trigger, start, split, Outcome.LATE, late),
        *_collapse(spec.trigger, split, end, Outcome.SKIPPED, skipped),
    ]


def _collapse(trigger: Trigger, start: datetime, end: datetime, outcome: Outcome, because: str) -> list[Fire]:
    """One fire for all windows from `start` up to `end`, if there are any."""
    first, last = next_window(trigger, start - INSTANT), previous_window(trigger, end - INSTANT)
    if first is None or last is None or last < first:
        return []
    count = count_windows(trigger, start - INSTANT, last)
    return [Fire(window_at=first, last_window_at=last, count=count, outcome=outcome, because=because)]
