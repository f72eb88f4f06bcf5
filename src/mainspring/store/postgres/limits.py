"""Limits that hold for the cluster, on PostgreSQL: who takes from one, and what locks that needs.

Whoever takes from a limit holds the lock on its row in `rate_usage` while it reads, decides and writes. Of several
limits
the rows are locked in the order of their names, so that nobody waits in a circle; a row that is missing is made before,
in a transaction of its own, because making one in between would break that order.

The time at which something is taken is asked for when the locks are held: no take is older than one that it knows of.

Every request to the API takes from limits before it is answered, and mostly nobody else has meanwhile. So what is
taken
most often is decided by the rows as they were when this server last saw them, and written by one statement, which
changes nothing if they are others by now (1 round trip instead of 4):

1. The time of such a take is a little ahead of the store's, and the statement refuses one that is not: a take counts
   for a little longer than a period, and never for less.
2. What has been taken before is looked at by a time that is never ahead of the store's: it counts as long as it must.
3. If it can't be written, or nothing can be granted by what is known, all is done again under the locks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import asyncpg

from mainspring.core.limits.rate_grants import LimitRow, RateGrant, RateRequest, take
from mainspring.protocol.clock import Clock, StoreTime
from mainspring.protocol.errors import Unavailable
from mainspring.store.postgres import rows
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW, interval
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.sql import sharing_statements as statements

T = TypeVar("T")

AHEAD = timedelta(milliseconds=20)
"""So much ahead is the time of a take that is written at once. A statement that arrives later is too late."""
MIN_PERIODS = 20
"""A period must be at least so many times as long, or what is taken at once would count for far longer than it."""
TOO_FAR_AHEAD = timedelta(seconds=1)
"""A time that is so much ahead was not learned from the clock that the store has now."""
MAX_SEEN = 1_000
"""So many limits are remembered as they were last seen."""

# The time is asked for outside, where a row arrives when its lock is held.
_LOCK = f"""
    SELECT locked.*, clock_timestamp() FROM (
        SELECT {rows.LIMITS.select()} FROM rate_usage WHERE "limit" = ANY($1::text[]) ORDER BY "limit" FOR UPDATE
    ) AS locked
"""
_NEW_LIMITS = f"""
    WITH forgotten AS (
        DELETE FROM rate_usage WHERE "limit" IN ({statements.unused_limits(NOW)} FOR UPDATE SKIP LOCKED)
    )
    INSERT INTO rate_usage ({rows.LIMITS.select()})
    SELECT name, '[]', {NOW} + {interval(statements.NEW_LIMIT_FOR)} FROM unnest($1::text[]) AS name
    ON CONFLICT ("limit") DO NOTHING
"""
_TAKEN = f"""
    UPDATE rate_usage SET takes = u.takes, counts_until = u.counts_until
    FROM ROWS FROM ({from_json("$1", rows.LIMITS)}) AS u WHERE rate_usage."limit" = u."limit"
"""
_TAKEN_AT_ONCE = f"""
    WITH held AS MATERIALIZED (
        SELECT "limit" FROM rate_usage WHERE "limit" = ANY($2::text[]) ORDER BY "limit" FOR UPDATE
    ), taken AS (
        UPDATE rate_usage SET takes = u.takes, counts_until = u.counts_until
        FROM held, ROWS FROM ({from_json("$1", rows.LIMITS)}, unnest($3::text[]))
            AS u ({rows.LIMITS.select()}, was)
        WHERE rate_usage."limit" = held."limit" AND u."limit" = held."limit" AND rate_usage.takes = u.was
            AND clock_timestamp() BETWEEN $4::timestamptz - {interval(TOO_FAR_AHEAD)} AND $4
        RETURNING 1
    )
    SELECT clock_timestamp(), 1 / CASE WHEN (SELECT count(*) FROM taken) = cardinality($2::text[]) THEN 1 ELSE 0 END
"""
"""All of it or nothing: it fails by itself if a row is not as it was seen, and nothing else in it divides."""


class Allowances:
    """Takes from limits for one server, and remembers what it saw of them."""

    def __init__(self, clock: Clock) -> None:
        self._time = StoreTime(clock)
        self._seen: OrderedDict[str, LimitRow] = OrderedDict()

    async def take(self, connection: Connection, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Take what is available of each request."""
        return await self._take_at_once(connection, requests) or await self._take_under_locks(connection, requests)

    async def _take_at_once(self, connection: Connection, requests: Sequence[RateRequest]) -> list[RateGrant] | None:
        """The same by the rows as they were last seen; None, having taken nothing, if that can't be done."""
        seen = {request.limit: self._seen.pop(request.limit, None) for request in requests}
        known = {name: row for name, row in seen.items() if row is not None}
        shortest = timedelta(seconds=min(request.per_seconds for request in requests))
        if len(known) < len(seen) or shortest < MIN_PERIODS * AHEAD:
            return None
        now = self._time.now()
        answers, changed = take(requests, known, now, at=now + AHEAD)
        if len(changed) < len(known):
            return None
        names = [row.limit for row in changed]
        were = [as_json(known[name].takes) for name in names]
        try:
            at = await connection.fetchval(_TAKEN_AT_ONCE, as_json(changed), names, were, now + AHEAD)
        except asyncpg.DivisionByZeroError:
            return None
        self._time.heard(at)
        self._remember(changed)
        return answers

    async def _take_under_locks(self, connection: Connection, requests: Sequence[RateRequest]) -> list[RateGrant]:
        async def decide(limits: Mapping[str, LimitRow], now: datetime) -> list[RateGrant]:
            self._time.heard(now)
            answers, changed = take(requests, limits, now)
            if changed:
                await connection.execute(_TAKEN, as_json(changed))
            latest = {**limits, **{row.limit: row for row in changed}}
            self._remember(latest.values())
            return answers

        return await holding(connection, sorted({request.limit for request in requests}), decide)

    def _remember(self, limits: Iterable[LimitRow]) -> None:
        for row in limits:
            self._seen[row.limit] = row
            self._seen.move_to_end(row.limit)
        while len(self._seen) > MAX_SEEN:
            self._seen.popitem(last=False)


async def holding(
    connection: Connection, names: Sequence[str], work: Callable[[Mapping[str, LimitRow], datetime], Awaitable[T]]
) -> T:
    """Do some work while limits are locked: it is given their rows, and the time at which it had all the locks."""
    for _ in range(2):
        async with transaction(connection):
            found = await connection.fetch(_LOCK, names)
            limits = {row["limit"]: rows.LIMITS.struct(row) for row in found}
            if len(limits) == len(names):
                return await work(limits, max(row["clock_timestamp"] for row in found))
        await connection.execute(_NEW_LIMITS, [name for name in names if name not in limits])
    raise Unavailable("a limit was forgotten just now")
