"""Deadlines of runs, and the forecast whether they will be met (PLC-11).

    now ──────── slack ────────►│ latest start │──── remaining ────────►│ finish_by

The remaining time is the longest path through the tasks that have not ended, each with its usual duration: the 90th
percentile of its latest ones. It assumes unlimited capacity, so it gives the latest time at which the next task has to
start, not when it will.

1. A task without known durations counts as 0: the remaining time is then a lower bound. If no task has known durations,
   there is no forecast.
2. A task that exceeds its usual duration has a tenth of its elapsed time still to go: something always remains until
   it ends. Checks at the intervals of `DeadlineForecast` find a run at risk before it is late, within hundredths of a
   second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from mainspring.core.lifecycle.duration_stats import percentile
from mainspring.core.model.task import Priority
from mainspring.core.text.durations import format_seconds

USUAL_PERCENTILE = 0.9
"""Percentile of the latest durations that is the usual one."""
OVERRUN = 0.1
"""A task that exceeds its usual duration is expected to take this fraction of its elapsed time longer."""
MIN_CHECK_SECONDS = 1.0
_MIN_CHECK_FLOOR_SECONDS = 0.01
_FRACTION_OF_REMAINING = 0.005


class DeadlineForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Forecast of a run with a deadline."""

    finish_by: datetime
    at: datetime
    left_seconds: float | None
    """Usual time that the remaining tasks take; None: unknown."""
    unknown: int = 0
    """Number of remaining tasks without known durations: the remaining time is a lower bound."""
    path: tuple[int, ...] = ()
    """Positions of the tasks on the longest path, in order."""

    @property
    def latest_start_at(self) -> datetime | None:
        """Return when the remaining tasks have to start at the latest."""
        return None if self.left_seconds is None else self.finish_by - timedelta(seconds=self.left_seconds)

    @property
    def slack_seconds(self) -> float | None:
        """Return how long the run can wait; below zero: it is at risk."""
        start = self.latest_start_at
        return None if start is None else (start - self.at).total_seconds()

    @property
    def is_at_risk(self) -> bool:
        """Return whether it will be late unless tasks are faster than usual."""
        slack = self.slack_seconds
        return slack is not None and slack < 0

    def seconds_to_next_check(self) -> float:
        """Return when to check again: when half of the slack is gone, so that durations learned meanwhile count.

        A run just in time may stay so for long: it is checked every second, or at a small fraction of the remaining
        time, unless it would be late by then.
        """
        ahead = (self.finish_by - self.at).total_seconds()
        slack = ahead if self.slack_seconds is None else max(0.0, self.slack_seconds)
        least = MIN_CHECK_SECONDS
        if self.left_seconds is not None:
            least = max(least, self.left_seconds * _FRACTION_OF_REMAINING)
            least = min(least, max(_MIN_CHECK_FLOOR_SECONDS, self.left_seconds / 2))
        return min(ahead, max(slack / 2, least))


def deadline_for(
    within_seconds: float, *, window_at: datetime | None, created_at: datetime, start_at: datetime
) -> datetime:
    """Return the deadline of a run whose job has `finish_within_seconds`.

    It counts from the window. A run created after that deadline (a backfill, a missed window) counts from its start, as
    a run without a window does.
    """
    within = timedelta(seconds=within_seconds)
    if window_at is not None and window_at + within > created_at:
        return window_at + within
    return start_at + within


def usual_seconds(samples: Sequence[float], expected: float | None) -> float | None:
    """Return the usual duration of a task: from its latest durations, or else from its definition."""
    return percentile(sorted(samples), USUAL_PERCENTILE) if samples else expected


def remaining_seconds(usual: float | None, *, elapsed: float | None = None, delay: float = 0.0) -> float | None:
    """Return the remaining time of a task: its usual duration after a delay if it has not started, else the rest."""
    if usual is None:
        return None
    return delay + usual if elapsed is None else max(usual - elapsed, OVERRUN * elapsed)


def forecast_deadline(
    left: Mapping[int, float | None], children: Callable[[int], Iterable[int]], *, finish_by: datetime, now: datetime
) -> DeadlineForecast:
    """Forecast a run: `left` has the remaining time of each open position."""
    known = {position: seconds or 0.0 for position, seconds in left.items()}
    unknown = sum(seconds is None for seconds in left.values())
    if unknown == len(left):
        return DeadlineForecast(finish_by=finish_by, at=now, left_seconds=None, unknown=unknown)
    tails, follows = _longest_tails(known, children)
    first = max(tails, key=lambda position: (tails[position], -position))
    path = [first]
    while follows[path[-1]] is not None:
        path.append(follows[path[-1]] or 0)
    return DeadlineForecast(finish_by=finish_by, at=now, left_seconds=tails[first], unknown=unknown, path=tuple(path))


def _longest_tails(
    left: Mapping[int, float], children: Callable[[int], Iterable[int]]
) -> tuple[dict[int, float], dict[int, int | None]]:
    """Return the time from the start of each position to the end of all below it, and which of them is next.

    A graph may be as deep as it has tasks: nothing recurses. Edges that lead back are ignored: tasks that were replaced
    since may have some.
    """
    tails: dict[int, float] = {}
    follows: dict[int, int | None] = {}
    entered: set[int] = set()
    for start in left:
        waiting = [start]
        while waiting:
            position = waiting[-1]
            below = [child for child in children(position) if child in left]
            if position not in entered:
                entered.add(position)
                waiting += [child for child in below if child not in entered]
                continue
            waiting.pop()
            if position not in tails:
                longest = max((child for child in below if child in tails), key=tails.__getitem__, default=None)
                follows[position] = longest
                tails[position] = left[position] + (tails[longest] if longest is not None else 0.0)
    return tails, follows


def higher_priority(priority: Priority, *, may_have_p0: bool) -> Priority | None:
    """Return the priority that a run at risk is raised to; None if its tenant may have no higher one."""
    if priority is Priority.P0 or (priority is Priority.P1 and not may_have_p0):
        return None
    return Priority(priority - 1)


def format_risk(outlook: DeadlineForecast) -> str:
    """Describe why a run is at risk."""
    ahead = max(0.0, (outlook.finish_by - outlook.at).total_seconds())
    at_least = "at least " if outlook.unknown else ""
    return (
        f"deadline {format_instant(outlook.finish_by)} is in {format_seconds(ahead)}; "
        f"the remaining tasks usually take {at_least}{format_seconds(outlook.left_seconds or 0.0)}"
    )


def format_instant(at: datetime) -> str:
    """Format an instant as RFC 3339 in UTC."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
