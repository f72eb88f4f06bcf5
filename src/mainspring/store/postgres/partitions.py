"""Tables by day: making days ahead, dropping them when they are old.

A day is a partition `table_YYYYMMDD` from midnight to midnight UTC. Rows of a day that was not made in time are in the
default partition; when the day is made, they move into it. When a day is dropped, what must stay of it (because its
run is not final) moves to the default partition, where old rows are deleted in chunks as they become free to go.

Locks: a new day is attached, which only those wait for who write into the default partition. Dropping one needs the
whole table for a moment, so everything slow is done before. Whoever can't have a lock within a second gives up
(Unavailable) and comes back.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

from mainspring.store.ports.store import Pruned
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.sql.pruning import CHUNK, Prunable, prunable

_PRUNABLE = prunable(run_ids="(SELECT unnest(x.run_ids) AS id)")
BY_DAY = tuple(table for tables in _PRUNABLE.values() for table in tables if table.by_day)

MAX_ROWS_TO_MOVE = 100_000
"""A day with more rows than this in the default partition stays there: moving them would hold up too many."""

MAX_DAYS_PER_CALL = 10

_LOCK = 0x6D61696E_64617973
"""The advisory lock of whoever makes or drops days ("maindays")."""

_DAYS = """
    SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = $1::text::regclass ORDER BY c.relname
"""


async def prepare_days(connection: Connection, ahead: int) -> None:
    """Make today and the days ahead, where they are missing."""
    async with transaction(connection):
        today = (await _now(connection)).date()
        wanted = [today + timedelta(days=days) for days in range(ahead + 1)]
        missing = [(table, day) for table in BY_DAY for day in await _missing(connection, table, wanted)]
        if not missing:
            return
        await connection.execute("SET LOCAL lock_timeout = 0")  # another server may be making them: wait for it
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        await connection.execute("SET LOCAL lock_timeout TO DEFAULT")
        for table, day in missing:
            if day in await _missing(connection, table, [day]):  # nobody else has made it meanwhile
                await _make_day(connection, table, day)


async def prune(connection: Connection, what: str, age: timedelta) -> Pruned:
    """Drop whole days that are older than `age`, and a chunk of old rows that are in no day."""
    async with transaction(connection):
        before = await _now(connection) - age
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        rows = days = 0
        more = False
        for table in _PRUNABLE[what]:
            if table.by_day:
                old = [day for day in await _days(connection, table) if _midnight(day + timedelta(days=1)) <= before]
                for day in old[:MAX_DAYS_PER_CALL]:
                    await _drop_day(connection, table, day)
                days += len(old[:MAX_DAYS_PER_CALL])
                more = more or len(old) > MAX_DAYS_PER_CALL
            rows += await _delete_chunk(connection, table, before, CHUNK - rows)
    return Pruned(what=what, rows=rows, days=days, more=more or rows == CHUNK)


async def _now(connection: Connection) -> datetime:
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return now.astimezone(UTC)


async def _days(connection: Connection, table: Prunable) -> list[date]:
    names = [row["relname"] for row in await connection.fetch(_DAYS, table.table)]
    matches = (re.fullmatch(rf"{table.table}_(\d{{8}})", name) for name in names)
    return [date.fromisoformat(match[1]) for match in matches if match]


async def _missing(connection: Connection, table: Prunable, wanted: list[date]) -> list[date]:
    there = set(await _days(connection, table))
    return [day for day in wanted if day not in there]


async def _make_day(connection: Connection, table: Prunable, day: date) -> None:
    name, default = _partition(table, day), f"{table.table}_default"
    start, end = _midnight(day), _midnight(day + timedelta(days=1))
    of_the_day = f"{table.at} >= '{start.isoformat()}' AND {table.at} < '{end.isoformat()}'"
    await connection.execute(f"LOCK TABLE {default} IN ACCESS EXCLUSIVE MODE")
    astray = f"SELECT count(*) FROM (SELECT 1 FROM {default} WHERE {of_the_day} LIMIT $1) AS rows"
    if await connection.fetchval(astray, MAX_ROWS_TO_MOVE + 1) > MAX_ROWS_TO_MOVE:
        return
    await connection.execute(f"""
        CREATE TABLE {name} (LIKE {table.table} INCLUDING ALL);
        WITH astray AS (DELETE FROM {default} WHERE {of_the_day} RETURNING *) INSERT INTO {name} SELECT * FROM astray;
        ALTER TABLE {table.table} ATTACH PARTITION {name}
            FOR VALUES FROM ('{start.isoformat()}') TO ('{end.isoformat()}');
    """)


async def _drop_day(connection: Connection, table: Prunable, day: date) -> None:
    name = _partition(table, day)
    if table.unless:
        await connection.execute(
            f"CREATE TEMPORARY TABLE staying_{name} ON COMMIT DROP AS SELECT * FROM {name} x WHERE {table.unless}"
        )
    await connection.execute(f"ALTER TABLE {table.table} DETACH PARTITION {name}")
    if table.unless:
        await connection.execute(f"INSERT INTO {table.table} SELECT * FROM staying_{name}")
    await connection.execute(f"DROP TABLE {name}")


async def _delete_chunk(connection: Connection, table: Prunable, before: datetime, most: int) -> int:
    name = f"{table.table}_default" if table.by_day else table.table
    unless = f"AND NOT {table.unless}" if table.unless else ""
    status = await connection.execute(
        f"""DELETE FROM {name} WHERE ctid = ANY(ARRAY(
                SELECT ctid FROM {name} x WHERE x.{table.at} < $1 {unless} ORDER BY x.{table.at} LIMIT $2))""",
        before, most,
    )  # fmt: skip
    return int(status.rpartition(" ")[2])


def _partition(table: Prunable, day: date) -> str:
    return f"{table.table}_{day:%Y%m%d}"


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
