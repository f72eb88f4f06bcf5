"""Cursors of lists that are ordered by a time, where many rows may have the same one.

A cursor (`TimeCursor`) is the time of the last row, and how many rows of that time have been given: whoever asks on
gets the rows from that time on, without those. Where rows of one time are ordered by id, it is the time and the id
(`read_place`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from mainspring.api.http.problems import refusal
from mainspring.api.views import run_views
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.runs import Page

_INSTANT = timedelta(microseconds=1)
_MOST_GIVEN = 100_000
_R = TypeVar("_R")
_V = TypeVar("_V")


class TimeCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where a list goes on: the latest rows first."""

    at: datetime | None = None
    given: int = 0

    @classmethod
    def read(cls, cursor: str) -> TimeCursor:
        """The place that a cursor stands for; the beginning if there is none. Raises Refused."""
        if not cursor:
            return cls()
        at, given = run_views.read_cursor(cursor, 2)
        try:
            place = cls(at=datetime.fromisoformat(at), given=int(given))
        except ValueError:
            place = cls()
        if place.at is None or place.at.tzinfo is None or not 0 < place.given <= _MOST_GIVEN:
            raise _unknown()
        return place

    def before(self, asked: datetime | None) -> datetime | None:
        """Rows must be before this, if whoever asks wants those before `asked`."""
        own = None if self.at is None else self.at + _INSTANT
        return min(filter(None, (own, asked)), default=None)

    def page(
        self, rows: Sequence[_R], limit: int, time_of: Callable[[_R], datetime], view: Callable[[_R], _V]
    ) -> Page[_V]:
        """A page of rows of which `limit + given` were asked for."""
        shown = rows[self.given :]
        if len(shown) < limit:
            return Page(items=[view(row) for row in shown])
        last = time_of(rows[-1])
        given = sum(time_of(row) == last for row in rows)
        return Page(items=[view(row) for row in shown], next_cursor=run_views.make_cursor(last.isoformat(), str(given)))


def read_place(cursor: str) -> tuple[datetime, str] | None:
    """The time and the id that a list by both goes on behind; None for its beginning. Raises Refused."""
    if not cursor:
        return None
    time, behind = run_views.read_cursor(cursor, 2)
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise _unknown()
    return at, behind


def _unknown() -> Refused:
    return refusal("the request has 1 fault", "query:cursor", "is not one that this list gave")
