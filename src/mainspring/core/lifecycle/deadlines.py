"""By when a run is to be over, and whether it can be (PLC-11).

    now ──────── slack ────────►│ latest start │──── what is left ────►│ finish_by

What is left is the longest path through the tasks that are not over, each with its usual duration: nine in ten of the
latest took no longer. It is counted as if there were room for everything, so that it says when the next task has to
start at the latest, and not when it will.

1. A task of which nothing is known counts as nothing: what is left is then at least so much. If nothing is known of
   any task, nothing can be said.
2. What runs for longer than usual has a tenth of that still to go: there is always something left of what is not over,
   and whoever looks as often as `Outlook` says finds a run at risk before it is late, if that is not a matter of
   hundredths of a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from mainspring.core.lifecycle.duration_stats import percentile
from mainspring.core.model.task import Priority
from mainspring.core.text.durations import say_seconds

USUAL_PART = 0.9
"""The usual duration is one that so large a part of the latest did not exceed."""
OVERRUN = 0.1
"""What takes longer than usual is expected to go on for this part of the time that it took."""
LEAST_LOOK_SECONDS = 1.0
_LEAST_OF_ALL_SECONDS = 0.01
_PART_OF_LEFT = 0.005


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said at an instant of a run that is to be over by another."""

    finish_by: datetime
    at: datetime
    left_seconds: float | None
    """What is not over usually takes so long; None: nothing is known of it."""
    unknown: int = 0
    """Of so many open tasks nothing is known: it is at least so long then."""
    path: tuple[int, ...] = ()
    """Positions of the tasks that take so long, one after another."""

    @property
    def latest_start_at(self) -> datetime | None:
        """When what is not over has to go on at the latest."""
        return None if self.left_seconds is None else self.finish_by - timedelta(seconds=self.left_seconds)

    @property
    def slack_seconds(self) -> float | None:
        """How long it can wait; below zero if that is over."""
        start = self.latest_start_at
        return None if start is None else (start - self.at).total_seconds()

    @property
    def is_at_risk(self) -> bool:
        """Whether it will be late if nothing goes faster than usual."""
        slack = self.slack_seconds
        return slack is not None and slack < 0

    def seconds_to_look(self) -> float:
        """When to look again: when half of the slack is gone, so that what is learnt of durations meanwhile counts.

        What runs just in time may do so for long: a second is enough, or a small part of what is left, unless so little
        is left that it would be late by then.
        """
        ahead = (self.finish_by - self.at).total_seconds()
        slack = ahead if self.slack_seconds is None else max(0.0, self.slack_seconds)
        least = LEAST_LOOK_SECONDS
        if self.left_seconds is not None:
            least = max(least, self.left_seconds * _PART_OF_LEFT)
            least = min(least, max(_LEAST_OF_ALL_SECONDS, self.left_seconds / 2))
        return min(ahead, max(slack / 2, least))


def promised_by(
    within_seconds: float, *, window_at: datetime | None, created_at: datetime, start_at: datetime
) -> datetime:
    """By when a run is to be over whose job says within which time.

    That begins with its window. A run that is made when its time is over already (a backfill, a window that was missed)
    has it from its start on, as one without a window has.
    """
    within = timedelta(seconds=within_seconds)
    if window_at is not None and window_at + within > created_at:
        return window_at + within
    return start_at + within


def usual_seconds(samples: Sequence[float], expected: float | None) -> float | None:
    """How long a task usually takes: by its latest durations, or as its definition says; None: nobody knows."""
    return percentile(sorted(samples), USUAL_PART) if samples else expected


def left_of(usual: float | None, *, elapsed: float | None = None, delay: float = 0.0) -> float | None:
    """What is left of a task: all of it if it has not started, after a delay; and of one that has, the rest."""
    if usual is None:
        return None
    return delay + usual if elapsed is None else max(usual - elapsed, OVERRUN * elapsed)


def look_ahead(
    left: Mapping[int, float | None], children: Callable[[int], Iterable[int]], *, finish_by: datetime, now: datetime
) -> Outlook:
    """What can be said of a run: `left` has for each position that is open what is left of it."""
    known = {position: seconds or 0.0 for position, seconds in left.items()}
    unknown = sum(seconds is None for seconds in left.values())
    if unknown == len(left):
        return Outlook(finish_by=finish_by, at=now, left_seconds=None, unknown=unknown)
    tails, follows = _longest_tails(known, children)
    first = max(tails, key=lambda position: (tails[position], -position))
    path = [first]
    while follows[path[-1]] is not None:
        path.append(follows[path[-1]] or 0)
    return Outlook(finish_by=finish_by, at=now, left_seconds=tails[first], unknown=unknown, path=tuple(path))


def _longest_tails(
    left: Mapping[int, float], children: Callable[[int], Iterable[int]]
) -> tuple[dict[int, float], dict[int, int | None]]:
    """How long it takes from the beginning of each position to the end of all below it, and which of them is next.

    A graph may be as deep as it has tasks: nothing recurses. What leads back to where it came from is left out: edges
    from tasks that were replaced since may do so.
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
    """What a run at risk is escalated to; None if there is nothing higher that its tenant may have."""
    if priority is Priority.P0 or (priority is Priority.P1 and not may_have_p0):
        return None
    return Priority(priority - 1)


def say_risk(outlook: Outlook) -> str:
    """Why a run is at risk, in words."""
    ahead = max(0.0, (outlook.finish_by - outlook.at).total_seconds())
    at_least = "at least " if outlook.unknown else ""
    return (
        f"it is to be over by {say_instant(outlook.finish_by)}, in {say_seconds(ahead)}, "
        f"and what is left usually takes {at_least}{say_seconds(outlook.left_seconds or 0.0)}"
    )


def say_instant(at: datetime) -> str:
    """An instant for people and programs."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"
