"""Pages of lists, and their cursors.

    async def list_webhooks(store: Store, paging: PageRequest) -> Page[WebhookView]:
        rows = await store.list_webhooks(paging.after(), paging.limit)
        return paging.page(rows, _view, lambda row: [row.id])

A cursor is the position of the last row, encoded: usually its key. Where rows are ordered by time and id, it is both
(`position`). Where many rows may have the same time, it is the time and the number of returned rows of that time
(`TimeCursor`): the next page starts at that time and skips them.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, TypeVar

import msgspec

from mainspring.api.http.problems import refusal
from mainspring.protocol.errors import Refused
from mainspring.protocol.rest.runs import MAX_PAGE_SIZE, Count, Page

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_SIZE)]
Cursor = Annotated[str, msgspec.Meta(max_length=1_000)]
DEFAULT_PAGE_SIZE = 100
_INSTANT = timedelta(microseconds=1)
_MAX_SKIP = 100_000
_R = TypeVar("_R")
_V = TypeVar("_V")


class PageRequest(msgspec.Struct, frozen=True):
    """The `limit` and the `cursor` of a request for a list."""

    limit: int
    cursor: str

    def after(self) -> str:
        """Return the key of the last row; empty for the beginning. Raises Refused."""
        (after,) = read_cursor(self.cursor, 1)
        return after

    def after_number(self) -> int | None:
        """Return the number of the last row; None for the beginning. Raises Refused."""
        after = self.after()
        if after and not (after.isascii() and after.isdecimal() and len(after) < 10):
            raise unknown_cursor()
        return int(after) if after else None

    def position(self) -> tuple[datetime, str] | None:
        """Return the time and the id of the last row; None for the beginning. Raises Refused."""
        if not self.cursor:
            return None
        time, behind = read_cursor(self.cursor, 2)
        try:
            at = datetime.fromisoformat(time)
        except ValueError:
            raise unknown_cursor() from None
        if at.tzinfo is None:
            raise unknown_cursor()
        return at, behind

    def page(
        self, rows: Sequence[_R], view: Callable[[_R], _V], key: Callable[[_R], Iterable[str]],
        count: Count | None = None,
    ) -> Page[_V]:  # fmt: skip
        """Build a page from at most `limit` rows; `key` returns the position of a row."""
        return Page(items=[view(row) for row in rows], next_cursor=self.next_cursor(rows, key), count=count)

    def next_cursor(self, rows: Sequence[_R], key: Callable[[_R], Iterable[str]]) -> str | None:
        """Return the cursor of the page that follows these rows; None if they are the last ones."""
        return make_cursor(*key(rows[-1])) if rows and len(rows) == self.limit else None


class TimeCursor(msgspec.Struct, frozen=True, kw_only=True):
    """Position in a list, latest rows first."""

    at: datetime | None = None
    skip: int = 0

    @classmethod
    def read(cls, cursor: str) -> TimeCursor:
        """Parse a cursor; an empty one is the beginning. Raises Refused."""
        if not cursor:
            return cls()
        at, skip = read_cursor(cursor, 2)
        try:
            position = cls(at=datetime.fromisoformat(at), skip=int(skip))
        except ValueError:
            position = cls()
        if position.at is None or position.at.tzinfo is None or not 0 < position.skip <= _MAX_SKIP:
            raise unknown_cursor()
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
        return Page(items=[view(row) for row in shown], next_cursor=make_cursor(last.isoformat(), str(skip)))


async def find_in_pages(
    read_page: Callable[[str], Awaitable[Sequence[_R]]], key: Callable[[_R], str], wanted: str
) -> _R | None:
    """Find the row with a key in a list ordered by it, by listing from just before the key."""
    after = wanted[:-1]
    while after <= wanted and (rows := await read_page(after)):
        for row in rows:
            if key(row) == wanted:
                return row
        after = key(rows[-1])
    return None


def make_cursor(*position: str) -> str:
    """Encode a position in a list as an opaque cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def read_cursor(cursor: str, parts: int) -> list[str]:
    """Decode a cursor; empty strings for the beginning. Raises Refused."""
    if not cursor:
        return [""] * parts
    try:
        position = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list[str])
    except (binascii.Error, msgspec.DecodeError, ValueError):
        position = []
    if len(position) != parts or "\0" in "".join(position):
        raise unknown_cursor()
    return position


def unknown_cursor() -> Refused:
    """Return the refusal of a cursor of another list."""
    return refusal("query:cursor", "is not a cursor of this list")
