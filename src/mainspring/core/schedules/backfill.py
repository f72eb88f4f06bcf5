"""Past windows of a schedule, to be run by somebody's wish (TRG-9)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.start_policy import Start
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.core.schedules.triggers import count_windows, next_window
from mainspring.core.schedules.windows import Outcome

_INSTANT = timedelta(microseconds=1)
_UNMADE = frozenset({Outcome.SKIPPED, Outcome.LATE, Outcome.CONDITION_FALSE})


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a window: the latest of its fires that is a row of its own."""

    outcome: Outcome
    generation: int


class BackfillWindow(msgspec.Struct, frozen=True, kw_only=True):
    """One window of the range."""

    window_at: datetime
    is_wanted: bool
    """Whether it is to run; otherwise it ran or waits already."""
    generation: int
    """That it is to run as, or that it has."""


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would do. A dry run shows it, the other does it."""

    windows: tuple[BackfillWindow, ...]
    """In order of time, no more than the limit."""
    total: int
    """How many windows the range has."""


def plan_backfill(
    spec: ScheduleSpec,
    *,
    since: datetime,
    before: datetime,
    now: datetime,
    past: Mapping[datetime, Past],
    again: bool = False,
    limit: int,
) -> Backfill:
    """The windows from `since` on and before `before`, none of the future, and none before 1970.

    What ran or waits is left out, unless asked for `again`. What was skipped or late runs. A window that has a row
    already runs as the next generation of it, and one that was only counted in a row of several as the first.
    """
    after = max(since, EPOCH) - _INSTANT
    until = min(max(before, EPOCH) - _INSTANT, now)
    windows: list[BackfillWindow] = []
    window = next_window(spec.trigger, after)
    while window is not None and window <= until and len(windows) < limit:
        known = past.get(window)
        is_wanted = known is None or again or known.outcome in _UNMADE
        generation = 0 if known is None else known.generation
        windows.append(BackfillWindow(window_at=window, is_wanted=is_wanted, generation=generation + is_wanted))
        window = next_window(spec.trigger, window)
    return Backfill(windows=tuple(windows), total=count_windows(spec.trigger, after, until))


def decide_backfilled(active: int, max_parallel: int) -> Start:
    """Whether the run of a backfilled window is made now: no lateness, other job or overlap stops what somebody wants.

    `active` counts the backfill's runs that are not over. Ask for the oldest window first.
    """
    if active >= max_parallel:
        return Start(outcome=Outcome.WAITING, because=f"{active} runs of the backfill are going, {max_parallel} may")
    return Start(outcome=Outcome.RAN, because="backfilled")
