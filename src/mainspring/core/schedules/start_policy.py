"""Start policy: may a window's run start? In time, after the upstream job, within the overlap limit (TRG-8, TRG-12).

    too late ─────────────────────────────► LATE
    upstream job failed or was skipped ───► SKIPPED     has not finished ─► WAITING
    `max_active` runs are unfinished:
        queue ──────────► WAITING
        skip ───────────► SKIPPED
        cancel_running ─► WAITING, and the oldest are asked to stop; SKIPPED if a newer window waits for the same
    else ─────────────────────────────────► RAN

A window that would wait while MAX_WAITING others do is SKIPPED.

The same function decides a window when it is due and again whenever its block may have gone. It relies on being called
for the oldest window of a schedule first, and on runs that it let start being counted as active.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.schedules.schedule_spec import After, Overlap, ScheduleSpec
from mainspring.core.schedules.windows import Outcome, is_too_late

MAX_WAITING = 100
"""Limit of waiting windows per schedule; further ones are skipped, so that a hanging run can't fill the store."""

_SATISFYING = frozenset({RunState.SUCCEEDED, RunState.PARTIAL})


class UpstreamWindow(msgspec.Struct, frozen=True, kw_only=True):
    """State of the job that a schedule waits for."""

    window_at: datetime | None = None
    """Its latest window at or before ours (`triggers.previous_window`), if any."""
    outcome: Outcome | None = None
    """Outcome of that window; None if it has not been planned yet."""
    run_state: RunState | None = None
    """State of that window's run, if any."""
    succeeded_at: datetime | None = None
    """When a run of it last succeeded, for any window."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """State that a decision depends on besides the schedule."""

    active: int = 0
    """Unfinished runs of the schedule, excluding backfills, which have a limit of their own."""
    stopping: int = 0
    """How many of them have been asked to stop."""
    waiting: int = 0
    """Older waiting windows of the schedule, excluding backfills."""
    has_newer: bool = False
    """Whether a later window waits or is due."""
    other: UpstreamWindow = UpstreamWindow()


class StartGate(StrEnum):
    """Gate that keeps a window from starting."""

    AFTER = "after"
    OVERLAP = "overlap"


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The decision."""

    outcome: Outcome
    because: str
    gate: StartGate | None = None
    """What blocks a window that waits or is skipped; None: nothing, or its lateness or backfill."""
    to_cancel: int = 0
    """How many of the oldest active runs, not asked yet, are to be asked to stop."""


def decide_start(spec: ScheduleSpec, window_at: datetime, situation: Situation, *, now: datetime) -> Start:
    """Decide whether the run of a window is created now, later or never."""
    if is_too_late(spec, window_at, now):
        return Start(outcome=Outcome.LATE, because=f"more than {spec.max_delay_seconds or 0:g} s late")
    if spec.after is not None:
        blocked = _wait_for_other(spec.after, situation.other, now)
        if blocked is not None:
            return limit_waiting(replace(blocked, gate=StartGate.AFTER), situation)
    if situation.active >= spec.max_active:
        return limit_waiting(replace(_overlap(spec, situation), gate=StartGate.OVERLAP), situation)
    return Start(outcome=Outcome.RAN, because="not blocked")


def limit_waiting(start: Start, situation: Situation) -> Start:
    """Return the decision, or SKIPPED if too many windows wait already."""
    if start.outcome is not Outcome.WAITING or situation.waiting < MAX_WAITING:
        return start
    because = f"{start.because}, and {situation.waiting} windows are already waiting"
    return replace(start, outcome=Outcome.SKIPPED, because=because, to_cancel=0)


def _wait_for_other(after: After, other: UpstreamWindow, now: datetime) -> Start | None:
    """Return why the upstream job keeps this one from starting; None if it does not."""
    if after.within_seconds is not None:
        if other.succeeded_at is not None and now - other.succeeded_at <= timedelta(seconds=after.within_seconds):
            return None
        because = f"{after.job} has not succeeded in the last {after.within_seconds:g} s"
        return Start(outcome=Outcome.WAITING, because=because)
    if other.window_at is None:
        because = f"{after.job} does not exist or has no window at or before this one"
        return Start(outcome=Outcome.SKIPPED, because=because)
    window = f"{after.job}'s window {other.window_at:%Y-%m-%dT%H:%M:%SZ}"
    if other.run_state in _SATISFYING:
        return None
    if other.run_state in FINAL_RUN:
        return Start(outcome=Outcome.SKIPPED, because=f"{window} ended {other.run_state}")
    if other.run_state is None and other.outcome not in {None, Outcome.WAITING, Outcome.RAN}:
        return Start(outcome=Outcome.SKIPPED, because=f"{window} did not run: {other.outcome}")
    return Start(outcome=Outcome.WAITING, because=f"{window} has not finished")


def _overlap(spec: ScheduleSpec, situation: Situation) -> Start:
    going = "1 run is" if situation.active == 1 else f"{situation.active} runs are"
    because = f"{going} active, the limit is {spec.max_active}"
    match spec.overlap:
        case Overlap.SKIP:
            return Start(outcome=Outcome.SKIPPED, because=because)
        case Overlap.QUEUE:
            return Start(outcome=Outcome.WAITING, because=because)
        case Overlap.CANCEL_RUNNING:
            if situation.has_newer:
                return Start(outcome=Outcome.SKIPPED, because=f"{because}, replaced by a newer window")
            to_cancel = max(0, situation.active - spec.max_active + 1 - situation.stopping)
            return Start(outcome=Outcome.WAITING, because=f"{because}: cancelling the oldest", to_cancel=to_cancel)
