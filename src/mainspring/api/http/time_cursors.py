"""Cursors of lists that are ordered by time, where many rows may have the same time.

A cursor (`TimeCursor`) is the time of the last row, and the number of returned rows of that time: the next page starts
at that time and skips them. Where rows of one time are ordered by id, the cursor is the time and the id
(`read_position`).
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
_MAX_SKIP = 100_000
_R = TypeVar("_R")
_V = TypeVar("_V")


class TimeCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Position in a list, latest rows first."""

    at: datetime | None = None
    skip: int = 0

    @classmethod
    def read(cls, cursor: str) -> TimeCursor:
        """Parse a cursor; an empty one is the beginning. Raises Refused."""
        if not cursor:
            return cls()
        at, skip = run_views.read_cursor(cursor, 2)
        try:
            position = cls(at=datetime.fromisoformat(at), skip=int(skip))
        except ValueError:
            position = cls()
        if position.at is None or position.at.tzinfo is None or not 0 < position.skip <= _MAX_SKIP:
            raise _unknown()
        return position

    def before(self, asked: datetime | None) -> datetime | None:
        """Return the upper bound of rows: the cursor, or `asked` if it is earlier."""
        own_bound = None if self.at is None else self.at + _INSTANT
        return min(filter(None, (own_bound, asked)), default=None)

    def page(
        self, rows: Sequence[_R], limit: int, time_of: Callable[[_R], datetime], view: Callable[[_R], _V]
    ) -> Page[_V]:
        """Build a page from rows of which `limit + skip` were read."""
        shown = rows[self.skip :]
        if len(shown) < limit:
            return Page(items=[view(row) for row in shown])
        last = time_of(rows[-1])
        skip = sum(time_of(row) == last for row in rows)
        return Page(items=[view(row) for row in shown], next_cursor=run_views.make_cursor(last.isoformat(), str(skip)))


def read_position(cursor: str) -> tuple[datetime, str] | None:
    """Parse the time and id of a cursor; None for the beginning. Raises Refused."""
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
    return refusal("the request has 1 fault", "query:cursor", "is not a cursor of this list")
