"""Rate limits of the whole cluster: at most n in each period (ADM-4, PLC-12).

A user of a limit takes a grant first: some of it, durably, before any is used. A take counts for one period from its
moment on, so that no stretch of a period's length ever has more than the limit in all, and the time of the next grant
is known. A grant must be used within `USABLE_FRACTION` of a period, and expires after that: the use in any period
exceeds the limit by at most that part.

For a busy limit, takes that are close together are merged into one, at the moment of the last of them: it counts for a
little longer, and never for less than a period.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby

import msgspec
from msgspec.structs import replace

from mainspring.core.schedules.time_zones import EPOCH

MAX_TAKES = 64
"""Takes that are stored individually. Beyond that, those of each stretch of a period are merged."""
STRETCHES = 32
"""Stretches per period: a merged take counts for at most a thirty-second of a period longer."""


USABLE_FRACTION = 0.1
"""The fraction of a period within which a grant must be used."""


class Take(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """An amount taken at this moment."""

    at: datetime
    amount: int


class RateRequest(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request to take from a limit."""

    limit: str
    most: int
    """Per period."""
    per_seconds: float
    wanted: int


class RateGrant(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The answer to a request."""

    limit: str
    granted: int
    more_at: datetime | None
    """When the next one is available, if all of it is taken now; None: more is available at once."""
    wait_seconds: float = 0.0
    """Time from the take until then, for callers with another clock than the store."""
    left: int = 0
    """How many more were available at once."""


class LimitRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The amounts taken from a limit. The fields are the columns of `limits`, in the same order."""

    limit: str
    takes: tuple[Take, ...]
    """Oldest first."""
    counts_until: datetime
    """After this none of it counts."""


def allow(request: RateRequest, takes: Sequence[Take], now: datetime, at: datetime | None = None) -> RateGrant:
    """Decide how much of a request is granted now. `takes` are at least those that still count, oldest first.

    `at` is the time of the take, if that is later.
    """
    counting = _counting(takes, request, now)
    free = max(0, request.most - sum(take.amount for take in counting))
    granted = max(0, min(request.wanted, free))
    more_at = _more_at(request, counting, granted, at or now)
    wait = 0.0 if more_at is None else (more_at - now).total_seconds()
    return RateGrant(
        limit=request.limit, granted=granted, more_at=more_at, wait_seconds=max(0.0, wait), left=free - granted
    )


def take(
    requests: Sequence[RateRequest], limits: Mapping[str, LimitRow], now: datetime, at: datetime | None = None
) -> tuple[list[RateGrant], list[LimitRow]]:
    """Grant requests in order; return the grants and the changed limits.

    `at` is the time of the take, for a caller that does not know the store's time exactly: one that can't be past yet.
    `now` must have been reached.
    """
    answers: list[RateGrant] = []
    changed: dict[str, LimitRow] = {}
    for request in requests:
        row = changed.get(request.limit) or limits[request.limit]
        answer = allow(request, row.takes, now, at)
        answers.append(answer)
        if answer.granted:
            changed[request.limit] = _taken(row, request, answer.granted, now, at or now)
    return answers, list(changed.values())


def _counting(takes: Sequence[Take], request: RateRequest, now: datetime) -> list[Take]:
    period = timedelta(seconds=request.per_seconds)
    return [take for take in takes if take.at + period > now]


def _more_at(request: RateRequest, counting: Sequence[Take], granted: int, at: datetime) -> datetime | None:
    """Return when one more fits, given what counts and what is granted from `at` on."""
    together = sum(take.amount for take in counting) + granted
    if together < request.most:
        return None
    period = timedelta(seconds=request.per_seconds)
    for take in counting:
        together -= take.amount
        if together < request.most:
            return take.at + period
    return at + period


def _taken(row: LimitRow, request: RateRequest, amount: int, now: datetime, at: datetime) -> LimitRow:
    """The limit with one more take, and without those that no longer count."""
    period = timedelta(seconds=request.per_seconds)
    counting = _counting(row.takes, request, now)
    # Clocks may go back; the takes stay in order.
    at = max([at, *(take.at for take in counting[-1:])])
    takes = _joined([*counting, Take(at, amount)], period)
    return replace(row, takes=tuple(takes), counts_until=max(row.counts_until, at + period))


def _joined(takes: list[Take], period: timedelta) -> list[Take]:
    """The takes, or if there are too many, one for each stretch of time that has some.

    Stretches have fixed borders: a take is never moved beyond the end of its own, however often this is done.
    """
    if len(takes) <= MAX_TAKES:
        return takes
    stretch = max(period / STRETCHES, timedelta.resolution)
    return [
        Take(some[-1].at, sum(take.amount for take in some))
        for some in (list(group) for _, group in groupby(takes, key=lambda take: (take.at - EPOCH) // stretch))
    ]
