"""May the run of a window start: in time, after the other job, not over one that is still going (TRG-8, TRG-12).

    too late ─────────────────────────────► LATE
    the other job failed, or was skipped ─► SKIPPED     is not through yet ─► WAITING
    `max_active` runs are still going:
        queue ──────────► WAITING
        skip ───────────► SKIPPED
        cancel_running ─► WAITING, and the oldest are asked to stop; SKIPPED if a newer window waits for the same
    else ─────────────────────────────────► RAN

What would wait while MOST_WAITING windows do already is SKIPPED.

The same function decides a window when it is due and again whenever something it waits for may have changed. It counts
on being asked for the oldest window of a schedule first, and on runs that it let start being counted as active.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

import msgspec

from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.schedules.schedule_spec import After, Overlap, ScheduleSpec
from mainspring.core.schedules.windows import Outcome, is_too_late

MOST_WAITING = 100
"""So many windows of a schedule wait in its queue; further ones are skipped. A run that hangs fills no store."""

_SATISFYING = frozenset({RunState.SUCCEEDED, RunState.PARTIAL})


class Other(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the job that a schedule waits for."""

    window_at: datetime | None = None
    """Its latest window at or before ours (`triggers.previous_window`), if it has one."""
    outcome: Outcome | None = None
    """What became of that window; None if it has not been planned yet."""
    run_state: RunState | None = None
    """Of the run of that window, if there is one."""
    succeeded_at: datetime | None = None
    """When a run of it last succeeded, whatever its window."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision depends on besides the schedule."""

    active: int = 0
    """Runs of the schedule that are not over, without those of backfills: they have a limit of their own."""
    stopping: int = 0
    """Those among them that have been asked to stop."""
    waiting: int = 0
    """Older windows of the schedule that wait, without those of backfills."""
    has_newer: bool = False
    """Whether a later window waits or is due as well."""
    other: Other = Other()


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """The decision."""

    outcome: Outcome
    because: str
    to_cancel: int = 0
    """So many of the oldest active runs, that have not been asked yet, are to be asked to stop."""


def decide_start(
    spec: ScheduleSpec, window_at: datetime, situation: Situation, *, now: datetime, default_jitter_seconds: int = 0
) -> Start:
    """Whether the run of a window is made now, later or not at all."""
    if is_too_late(spec, window_at, now, default_jitter_seconds=default_jitter_seconds):
        return Start(outcome=Outcome.LATE, because=f"more than {spec.max_delay_seconds or 0:g} s late")
    if spec.after is not None:
        hindrance = _wait_for_other(spec.after, situation.other, now)
        if hindrance is not None:
            return if_few_wait(hindrance, situation)
    if situation.active >= spec.max_active:
        return if_few_wait(_overlap(spec, situation), situation)
    return Start(outcome=Outcome.RAN, because="nothing is in the way")


def if_few_wait(start: Start, situation: Situation) -> Start:
    """The same decision, unless the window would be one too many that waits."""
    if start.outcome is not Outcome.WAITING or situation.waiting < MOST_WAITING:
        return start
    return Start(outcome=Outcome.SKIPPED, because=f"{start.because}, and {situation.waiting} windows wait already")


def _wait_for_other(after: After, other: Other, now: datetime) -> Start | None:
    """Why the other job keeps this one from starting; nothing if it does not."""
    if after.within_seconds is not None:
        if other.succeeded_at is not None and now - other.succeeded_at <= timedelta(seconds=after.within_seconds):
            return None
        because = f"{after.job} has not succeeded in the last {after.within_seconds:g} s"
        return Start(outcome=Outcome.WAITING, because=because)
    if other.window_at is None:
        return Start(outcome=Outcome.SKIPPED, because=f"{after.job} has no window at or before this one")
    window = f"{after.job}'s window {other.window_at:%Y-%m-%dT%H:%M:%SZ}"
    if other.run_state in _SATISFYING:
        return None
    if other.run_state in FINAL_RUN:
        return Start(outcome=Outcome.SKIPPED, because=f"{window} ended {other.run_state}")
    if other.run_state is None and other.outcome not in {None, Outcome.WAITING, Outcome.RAN}:
        return Start(outcome=Outcome.SKIPPED, because=f"{window} did not run: {other.outcome}")
    return Start(outcome=Outcome.WAITING, because=f"{window} is not through")


def _overlap(spec: ScheduleSpec, situation: Situation) -> Start:
    going = "1 run is" if situation.active == 1 else f"{situation.active} runs are"
    because = f"{going} still going, {spec.max_active} may"
    match spec.overlap:
        case Overlap.SKIP:
            return Start(outcome=Outcome.SKIPPED, because=because)
        case Overlap.QUEUE:
            return Start(outcome=Outcome.WAITING, because=because)
        case Overlap.CANCEL_RUNNING:
            if situation.has_newer:
                return Start(outcome=Outcome.SKIPPED, because=f"{because}, and a newer window takes its place")
            to_cancel = max(0, situation.active - spec.max_active + 1 - situation.stopping)
            return Start(outcome=Outcome.WAITING, because=f"{because}: cancelled to make room", to_cancel=to_cancel)
        case _:
            assert_never(spec.overlap)
