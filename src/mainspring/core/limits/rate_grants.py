"""At most so many in each period, for the cluster as a whole (ADM-4, PLC-12).

Whoever wants to use a limit takes an allowance first: some of it, durably, before any is used. A take counts for one
period from its moment on, so that no stretch of time as long as a period ever has more than the limit, whoever took it,
and when the next can be had is known. What was taken is to be used within
`KEPT_PART` of a period, and is lost after that: what is used in any period is then at most so much more than the limit.

Of a limit that many take from, takes that are close together are kept as one, at the moment of the last of them: it
counts for a little longer, and never for less than a period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

import msgspec
from msgspec.structs import replace

from mainspring.core.schedules.time_zones import EPOCH

MOST_TAKES = 64
"""So many are kept as they are. Beyond that, those of each stretch of a period are one."""
STRETCHES = 32
"""A period has so many: what is kept as one counts for at most a thirty-second of a period longer."""


KEPT_PART = 0.1
"""The part of a period for which what was taken may be kept before it is used."""


class Take(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """So many were taken at this moment."""

    at: datetime
    amount: int


class Wish(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Somebody would like to take from a limit."""

    limit: str
    most: int
    """In each period."""
    per_seconds: float
    wanted: int


class Allowance(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was granted of a wish."""

    limit: str
    granted: int
    more_at: datetime | None
    """When the next one can be had, if all of it is taken now; None: more can be had at once."""
    wait_seconds: float = 0.0
    """How far from the moment of the take that is, for whoever has another clock than the store."""
    left: int = 0
    """How many more could have been had at once."""


class LimitRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was taken from a limit. The fields are the columns of `limits`, in the same order."""

    limit: str
    takes: tuple[Take, ...]
    """The oldest first."""
    counts_until: datetime
    """After this nothing of it counts any more."""


def allow(wish: Wish, takes: Sequence[Take], now: datetime, at: datetime | None = None) -> Allowance:
    """What can be granted now. `takes` are those that still count, or a few more, the oldest first.

    `at` is the time of what is taken, if that is later.
    """
    counting = _counting(takes, wish, now)
    free = max(0, wish.most - sum(take.amount for take in counting))
    granted = max(0, min(wish.wanted, free))
    more_at = _more_at(wish, counting, granted, at or now)
    wait = 0.0 if more_at is None else (more_at - now).total_seconds()
    return Allowance(
        limit=wish.limit, granted=granted, more_at=more_at, wait_seconds=max(0.0, wait), left=free - granted
    )


def take(
    wishes: Sequence[Wish], limits: Mapping[str, LimitRow], now: datetime, at: datetime | None = None
) -> tuple[list[Allowance], list[LimitRow]]:
    """What can be granted of each wish, in order, and the limits that are others by it.

    `at` is the time of what is taken, for whoever does not know that of the store to the moment: one that can't be over
    yet. `now` must have come already.
    """
    answers: list[Allowance] = []
    changed: dict[str, LimitRow] = {}
    for wish in wishes:
        row = changed.get(wish.limit) or limits[wish.limit]
        answer = allow(wish, row.takes, now, at)
        answers.append(answer)
        if answer.granted:
            changed[wish.limit] = _taken(row, wish, answer.granted, now, at or now)
    return answers, list(changed.values())


def _counting(takes: Sequence[Take], wish: Wish, now: datetime) -> list[Take]:
    period = timedelta(seconds=wish.per_seconds)
    return [take for take in takes if take.at + period > now]


def _more_at(wish: Wish, counting: Sequence[Take], granted: int, at: datetime) -> datetime | None:
    """When one more fits beside what counts, with what is granted and counts from `at` on."""
    together = sum(take.amount for take in counting) + granted
    if together < wish.most:
        return None
    period = timedelta(seconds=wish.per_seconds)
    for take in counting:
        together -= take.amount
        if together < wish.most:
            return take.at + period
    return at + period


def _taken(row: LimitRow, wish: Wish, amount: int, now: datetime, at: datetime) -> LimitRow:
    """The limit with one more take, and without those that count no more."""
    period = timedelta(seconds=wish.per_seconds)
    counting = _counting(row.takes, wish, now)
    # A clock may be set back; the order of the takes stays.
    at = max([at, *(take.at for take in counting[-1:])])
    takes = _joined([*counting, Take(at, amount)], period)
    return replace(row, takes=tuple(takes), counts_until=max(row.counts_until, at + period))


def _joined(takes: list[Take], period: timedelta) -> list[Take]:
    """The same takes, or if there are too many, one for each stretch of time that has some.

    Stretches have fixed borders: a take is never moved beyond the end of its own, however often this is done.
    """
    if len(takes) <= MOST_TAKES:
        return takes
    stretch = max(period / STRETCHES, timedelta.resolution)
    return [
        Take(some[-1].at, sum(take.amount for take in some))
        for some in (list(group) for _, group in groupby(takes, key=lambda take: (take.at - EPOCH) // stretch))
    ]
