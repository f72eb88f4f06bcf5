"""Backfill: run past windows of a schedule on request (TRG-9)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from mainspring.core.model.schedule_rows import FireRow
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.start_policy import Start
from mainspring.core.schedules.time_zones import EPOCH, INSTANT
from mainspring.core.schedules.triggers import count_windows, next_window
from mainspring.core.schedules.windows import Outcome

_NOT_RUN = frozenset({Outcome.SKIPPED, Outcome.LATE, Outcome.CONDITION_FALSE})


MAX_LISTED = 1_000
"""Limit of windows that a dry run lists."""


class BackfillCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Request to run past windows."""

    since: datetime
    before: datetime
    max_parallel: int = 1
    again: bool = False
    by: str
    why: str = ""


class BackfillWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One window of the range."""

    window_at: datetime
    is_wanted: bool
    """Whether it is to run; otherwise it has run or is waiting."""
    generation: int
    """The generation that it runs as, or the one that it has."""


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a backfill: shown by a dry run, executed otherwise."""

    windows: tuple[BackfillWindow, ...]
    """In order of time, at most `limit`."""
    total: int
    """Number of windows in the range."""


def plan_backfill(
    spec: ScheduleSpec, command: BackfillCommand, past: Iterable[FireRow], now: datetime, *, limit: int = MAX_LISTED
) -> Backfill:
    """Plan the windows from `since` up to `before`, excluding the future and everything before 1970.

    `past` has all fires of the range that have a row of their own. Windows that ran or are waiting are excluded unless
    `again` is set. Skipped and late windows run. A window with a row of its own runs as its next generation; one that
    was only counted in a collapsed row runs as the first.
    """
    latest = {fire.window_at: fire for fire in sorted(past, key=lambda one: one.generation)}
    after = max(command.since, EPOCH) - INSTANT
    until = min(max(command.before, EPOCH) - INSTANT, now)
    windows: list[BackfillWindow] = []
    window = next_window(spec.trigger, after)
    while window is not None and window <= until and len(windows) < limit:
        known = latest.get(window)
        is_wanted = known is None or command.again or known.outcome in _NOT_RUN
        generation = 0 if known is None else known.generation
        windows.append(BackfillWindow(window_at=window, is_wanted=is_wanted, generation=generation + is_wanted))
        window = next_window(spec.trigger, window)
    return Backfill(windows=tuple(windows), total=count_windows(spec.trigger, after, until))


def decide_backfilled(active: int, max_parallel: int) -> Start:
    """Decide whether a backfilled window starts now. Lateness, upstream jobs and overlap don't apply to backfills.

    `active` counts the unfinished runs of the backfill. Ask for the oldest window first.
    """
    if active >= max_parallel:
        return Start(outcome=Outcome.WAITING, because=f"{active} of {max_parallel} parallel runs are active")
    return Start(outcome=Outcome.RAN, because="backfilled")
