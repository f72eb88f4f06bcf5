"""Tables partitioned by day on PostgreSQL: partitions are created in advance, and dropped as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import asyncpg
import pytest

from mainspring.protocol.errors import Unavailable
from mainspring.store.postgres import partitions as postgres_days
from mainspring.store.postgres.connection.connection_pool import Connection, Limits
from mainspring.store.postgres.partitions import BY_DAY, MAX_ROWS_TO_MOVE
from mainspring.store.postgres.store import PostgresStore
from tests.store.builders import DAY, HOUR, UNHURRIED, Leader, a_run, a_transition, an_attempt, ended
from tests.store.conftest import look

AGE = 30 * DAY


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a separate database."""
    opened = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    yield opened
    await opened.close()


@pytest.fixture
async def admin(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


async def days(store: PostgresStore, table: str) -> set[str]:
    """The days of a table's partitions, without the default one."""
    found = await look(store, f"SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = '{table}'::regclass")
    return {name.removeprefix(f"{table}_") for (name,) in found} - {"default"}


async def rows_by_partition(store: PostgresStore, table: str) -> dict[str, int]:
    """The number of rows of each partition."""
    found = await look(store, f"SELECT tableoid::regclass::text, count(*) FROM {table} GROUP BY 1")
    return {name.removeprefix(f"{table}_"): rows for name, rows in found}


def named(instant: datetime) -> str:
    return f"{instant:%Y%m%d}"


async def make_day(admin: Connection, table: str, instant: datetime) -> None:
    """Create a partition of a past day, which `prepare_days` does not do."""
    start = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    await admin.execute(
        f"""CREATE TABLE {table}_{named(instant)} PARTITION OF {table}
            FOR VALUES FROM ('{start.isoformat()}') TO ('{(start + DAY).isoformat()}')"""
    )


async def test_a_row_of_a_day_that_was_not_made_goes_to_the_default_partition(store: PostgresStore) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())

    await leader.commit(transitions=[a_transition(task, at=await store.time() + 1000 * DAY)])

    assert await rows_by_partition(store, "transitions") == {"default": 2}


async def test_prepare_days_makes_today_and_the_days_ahead_in_every_table_by_day(store: PostgresStore) -> None:
    now = await store.time()

    await store.prepare_days(2)

    for table in BY_DAY:
        assert await days(store, table.table) == {named(now + ahead * DAY) for ahead in range(3)}


async def test_servers_that_start_together_wait_for_the_one_that_makes_the_days(
    postgres_url: str, admin: Connection
) -> None:
    """The first migration may take long without a failure; the short lock timeout applies to later ones."""
    store = await PostgresStore.connect(postgres_url, limits=Limits(lock=0.01))
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
    try:
        await admin.execute("BEGIN")
        await admin.execute("SELECT pg_advisory_xact_lock($1)", postgres_days._LOCK)
        starting = asyncio.create_task(store.prepare_days(1))
        while not await admin.fetchval(waiting):
            assert not starting.done(), starting
        await admin.execute("SELECT pg_sleep(0.1)")
        await admin.execute("COMMIT")
        await starting
        assert await days(store, "transitions") == {named(await store.time() + ahead * DAY) for ahead in range(2)}

        await admin.execute("BEGIN; LOCK TABLE transitions_default")
        with pytest.raises(Unavailable):
            await store.prepare_days(2)
        await admin.execute("ROLLBACK")
    finally:
        await store.close()


async def test_rows_go_to_their_day(store: PostgresStore) -> None:
    leader = await Leader.of(store)
    await store.prepare_days(1)
    now = await store.time()
    (task,) = await leader.adopt(a_run())
    await leader.commit(transitions=[a_transition(task, at=now), a_transition(task, at=now + DAY)])

    found = await rows_by_partition(store, "transitions")

    assert found == {"default": 1, named(now): 1, named(now + DAY): 1}


async def test_rows_in_the_default_partition_move_when_their_day_is_made(store: PostgresStore) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    (task,) = await leader.adopt(a_run())
    await leader.commit(
        transitions=[a_transition(task, at=now + ahead * DAY) for ahead in range(4)],
        attempts=[an_attempt(task, ended_at=now)],
    )

    await store.prepare_days(2)

    assert await rows_by_partition(store, "transitions") == {
        "default": 2,  # that of the adoption, and one further ahead
        **{named(now + ahead * DAY): 1 for ahead in range(3)},
    }
    assert await rows_by_partition(store, "attempts") == {named(now): 1}


async def test_a_day_with_too_many_rows_in_the_default_partition_stays_there(
    store: PostgresStore, admin: Connection
) -> None:
    await admin.execute(
        f"""INSERT INTO late_results SELECT 'a', 'o', NULL, NULL, clock_timestamp()
            FROM generate_series(1, {MAX_ROWS_TO_MOVE + 1})"""
    )
    now = await store.time()

    await store.prepare_days(1)

    assert await days(store, "late_results") == {named(now + DAY)}
    assert await days(store, "transitions") == {named(now), named(now + DAY)}


async def test_prune_drops_whole_days(store: PostgresStore, admin: Connection) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    old, young = now - AGE - 2 * DAY, now - AGE + 2 * DAY
    for instant in (old, young):
        for table in ("transitions", "runs_history", "tasks_history"):
            await make_day(admin, table, instant)
        run = a_run()
        (task,) = await leader.adopt(run)
        await leader.commit(
            transitions=[a_transition(task, at=instant)] * 3, runs=[ended(run, ended_at=instant)], archived=[run.id]
        )

    pruned = await store.prune("transitions", AGE)
    assert (pruned.days, pruned.rows, pruned.more) == (1, 2, False)  # two rows in the default partition
    assert await days(store, "transitions") == {named(young)}
    pruned = await store.prune("history", AGE)
    assert (pruned.days, pruned.rows, pruned.more) == (2, 0, False)
    assert await days(store, "runs_history") == await days(store, "tasks_history") == {named(young)}


async def test_a_day_is_dropped_only_when_all_of_it_is_old(store: PostgresStore, admin: Connection) -> None:
    now = await store.time()
    border = now - AGE  # at most half of this day is old
    await make_day(admin, "transitions", border)

    await store.prune("transitions", AGE)

    assert await days(store, "transitions") == {named(border)}


async def test_of_a_dropped_day_what_belongs_to_a_run_that_is_not_final_stays(
    store: PostgresStore, admin: Connection
) -> None:
    leader = await Leader.of(store)
    old = await store.time() - AGE - 2 * DAY
    await make_day(admin, "transitions", old)
    await make_day(admin, "attempts", old)
    over, going_on = a_run(), a_run()
    first, second = await leader.adopt(over, going_on)
    attempt = an_attempt(second, ended_at=old)
    await leader.commit(
        transitions=[a_transition(task, at=old) for task in (first, second)],
        attempts=[an_attempt(first, ended_at=old), attempt],
        runs=[ended(over)],
    )

    await store.prune("transitions", AGE)
    await store.prune("attempts", AGE)

    assert await days(store, "transitions") == await days(store, "attempts") == set()
    assert await look(store, f"SELECT task_id FROM transitions WHERE at = '{old.isoformat()}'") == [(second.id,)]
    assert [found.id for found in await store.find_attempts([attempt.id])] == [attempt.id]


async def test_many_old_days_are_dropped_a_few_at_a_time(store: PostgresStore, admin: Connection) -> None:
    now = await store.time()
    for number in range(12):
        await make_day(admin, "transitions", now - AGE - timedelta(days=2 + number))

    first = await store.prune("transitions", AGE)
    second = await store.prune("transitions", AGE)

    assert (first.days, first.more, second.days, second.more) == (10, True, 2, False)
