"""PostgreSQL only: broken connections, lost responses, paused leaders, plans."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from msgspec.structs import replace

from mainspring.core.model.batch import Batch
from mainspring.protocol.errors import Fenced, Rejected, StoreUnusable, Unavailable
from mainspring.store.ports.store import Term
from mainspring.store.postgres import batch as postgres_batch
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection, transaction
from mainspring.store.postgres.store import PostgresStore
from tests.postgres import PostgresServer
from tests.store.builders import (
    HOUR,
    UNHURRIED,
    Leader,
    a_change,
    a_run,
    a_task,
    a_transition,
    adopted,
    an_outgoing,
    new_number,
)
from tests.store.conftest import look
from tests.store.proxy import Proxy, proxied

QUICK = Limits(lock=0.2, idle_in_transaction=0.4, statement=0.8, deadline=1.0)
"""Short timeouts in the same order as in production, so that a test that waits for one is fast."""

SOON = replace(UNHURRIED, lock=QUICK.lock)
"""For tests that wait for a lock, or for no timeout: a busy machine may be slow."""


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a separate database."""
    opened = await PostgresStore.connect(postgres_url, limits=SOON, lease=HOUR)
    yield opened
    await opened.close()


@pytest.fixture
async def behind_proxy(postgres_url: str) -> AsyncIterator[tuple[PostgresStore, Proxy]]:
    """A store that reaches its database through a proxy."""
    with tempfile.TemporaryDirectory(prefix="ms-") as directory:
        async with proxied(postgres_url, Path(directory)) as (url, proxy):
            opened = await PostgresStore.connect(url, limits=UNHURRIED, lease=HOUR)
            yield opened, proxy
            await opened.close()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


async def writer_pid(store: PostgresStore, shard: str = "main") -> int:
    """The server process of the connection that writes a shard's batches."""
    async with store._writers[shard].connection() as connection:
        return connection.get_server_pid()


# lost responses


@pytest.mark.parametrize("kind", ["with rows", "empty"])
async def test_a_batch_whose_answer_was_lost_is_recognized_when_it_is_repeated(
    behind_proxy: tuple[PostgresStore, Proxy], kind: str
) -> None:
    store, proxy = behind_proxy
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    empty = kind == "empty"
    batch = (
        Batch() if empty else Batch(tasks=[a_change(task)], transitions=[a_transition(task)], outbox=[an_outgoing()])
    )
    await leader.commit()  # its statements are prepared by now
    proxy.lose_answer_to = b"E\x00\x00\x00" if empty else b"COMMIT"

    with pytest.raises(Unavailable):
        await store.commit(leader.term, 3, batch)

    assert proxy.answers_lost == 1
    assert [shard.batch_no for shard in await store.shards()] == [3]
    await store.commit(leader.term, 3, batch)
    assert [shard.batch_no for shard in await store.shards()] == [3]
    if not empty:
        assert await store.tasks(task.run_id) == [a_change(task).task]
        assert await look(store, "SELECT count(*) FROM transitions WHERE batch_no = 3") == [(1,)]
        assert len(await store.claim_outbox("h", 10, HOUR)) == 1


async def test_a_submission_whose_answer_was_lost_can_be_repeated(behind_proxy: tuple[PostgresStore, Proxy]) -> None:
    store, proxy = behind_proxy
    run = a_run()
    await store.insert_runs([a_run()])
    proxy.lose_answer_to = run.id.encode()

    with pytest.raises(Unavailable):
        await store.insert_runs([run])

    assert await store.run(run.id) == run
    assert await store.insert_runs([run]) == [run.id]


async def test_a_campaign_whose_answer_was_lost_is_recognized_by_its_nonce(
    behind_proxy: tuple[PostgresStore, Proxy],
) -> None:
    store, proxy = behind_proxy
    await store.ensure_shard("main")
    assert await store.campaign("nowhere", "h1", 6, HOUR) is None
    proxy.lose_answer_to = b"h1"

    with pytest.raises(Unavailable):
        await store.campaign("main", "h1", 7, HOUR)

    term = await store.campaign("main", "h1", 7, HOUR)
    assert term is not None
    assert (term.epoch, term.nonce) == (1, 7)


# silent networks, closed connections


async def test_what_may_take_long_is_not_bound_by_the_deadline_of_others(postgres_url: str) -> None:
    limits = Limits(lock=0.05, idle_in_transaction=0.1, statement=0.15, deadline=0.2)
    store = await PostgresStore.connect(postgres_url, limits=limits)
    long = limits.deadline + 0.1
    assert await store._call_maintenance(Connection.fetchval, "SELECT 1 FROM pg_sleep($1)", long) == 1
    with pytest.raises(Unavailable):
        await store._call(Connection.fetchval, "SELECT 1 FROM pg_sleep($1)", long)
    await store.close()


async def test_a_call_that_gets_no_answer_ends_at_the_deadline(behind_proxy: tuple[PostgresStore, Proxy]) -> None:
    store, proxy = behind_proxy
    leader = await Leader.of(store)
    await leader.commit()
    pools = [store._pool, store._by_key, store._writers["main"]]
    given = [pool._deadline for pool in pools]
    proxy.swallow = True
    for pool in pools:
        pool._deadline = 0.2

    for call in (leader.commit(), store.time(), store.insert_runs([a_run()]), store.waiting("main", 5)):
        async with asyncio.timeout(30):  # every other timeout of this store is longer
            with pytest.raises(Unavailable):
                await call

    proxy.swallow = False
    for pool, deadline in zip(pools, given, strict=True):
        pool._deadline = deadline
    await leader.commit()


async def test_a_connection_that_cant_be_opened_is_unavailable(postgres_url: str) -> None:
    with pytest.raises(Unavailable):
        await PostgresStore.connect("postgresql://postgres@/postgres?host=/nowhere&port=1", limits=QUICK)


async def test_too_many_connections_are_unavailable(postgres_url: str, other: Connection) -> None:
    await other.execute("CREATE ROLE nobody_more LOGIN CONNECTION LIMIT 0")
    try:
        with pytest.raises(Unavailable, match="too many connections"):
            await PostgresStore.connect(postgres_url.replace("postgres@", "nobody_more@"), limits=QUICK)
    finally:
        await other.execute("DROP ROLE nobody_more")


async def test_a_missing_privilege_is_named(postgres_server: PostgresServer, other: Connection) -> None:
    empty = postgres_server.create_database()
    await other.execute("CREATE ROLE reader_only LOGIN")
    try:
        with pytest.raises(StoreUnusable, match="permission denied"):
            await PostgresStore.connect(postgres_server.url(empty).replace("postgres@", "reader_only@"), limits=QUICK)
    finally:
        await other.execute("DROP ROLE reader_only")


async def test_who_waits_too_long_for_a_lock_is_unavailable_and_has_written_nothing(
    store: PostgresStore, other: Connection
) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await store.insert_runs([run])
    async with transaction(other):
        await other.execute("SELECT 1 FROM runs WHERE id = $1 FOR UPDATE", run.id)
        with pytest.raises(Unavailable):
            await leader.commit(runs=[adopted(run)], outbox=[an_outgoing()])

    assert [shard.batch_no for shard in await store.shards()] == [0]
    await leader.commit(runs=[adopted(run)], outbox=[an_outgoing()])


async def test_after_the_server_has_ended_the_connections_new_ones_are_opened(
    store: PostgresStore, other: Connection
) -> None:
    leader = await Leader.of(store)
    await leader.commit()
    before = await writer_pid(store)
    await other.execute(
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE pid <> pg_backend_pid() AND datname = current_database()"""
    )

    with pytest.raises(Unavailable):
        await leader.commit()
    await leader.commit()

    assert await writer_pid(store) != before


async def test_a_rejected_batch_leaves_the_connection_as_it_was(store: PostgresStore) -> None:
    leader = await Leader.of(store)
    run = a_run()
    (task,) = await leader.adopt(run)
    before = await writer_pid(store)

    for parts in (
        {"tasks": [a_change(task, output="\0")]},
        {"tasks": [a_change(task, output="\ud800")]},
        {"new_tasks": [a_task(run, 1, because="\0")]},
        {"new_tasks": [a_task(run, 1, because="\ud800")]},
        {"new_tasks": [a_task(run, 1, losses=2**70)]},
    ):
        with pytest.raises(Rejected):
            await leader.commit(**parts)

    await leader.commit(tasks=[a_change(task)])
    assert await writer_pid(store) == before


async def test_a_batch_that_was_cancelled_in_the_middle_can_be_committed_again(
    postgres_url: str, other: Connection
) -> None:
    store = await PostgresStore.connect(postgres_url)
    leader = await Leader.of(store)
    run = a_run()
    await store.insert_runs([run])
    async with transaction(other):
        await other.execute("SELECT 1 FROM runs WHERE id = $1 FOR UPDATE", run.id)
        commit = asyncio.ensure_future(leader.commit(runs=[adopted(run)], outbox=[an_outgoing()]))
        await blocked(other)
        commit.cancel()
        with pytest.raises(asyncio.CancelledError):
            await commit

    await leader.commit(runs=[adopted(run)], outbox=[an_outgoing()])

    assert await look(store, "SELECT count(*) FROM outbox") == [(1,)]
    await store.close()


# take-over


async def test_a_leader_that_sleeps_inside_a_transaction_blocks_its_successor_for_a_moment_only(
    store: PostgresStore, postgres_url: str
) -> None:
    leader = await Leader.of(store, ttl=timedelta(0))
    sleeper = await open_connection(postgres_url, QUICK, writer=True)
    pid = sleeper.get_server_pid()
    await sleeper.execute("BEGIN")
    fence = (leader.term.shard, leader.term.epoch, leader.term.nonce, 1)
    assert await sleeper.fetchval(postgres_batch.FENCE, *fence) is not None

    # The paused leader has renewed its expired lease in a transaction that it never ends.
    term: Term | None = None
    async with asyncio.timeout(60):
        while term is None:
            try:
                term = await store.campaign("main", "host-2", new_number(), HOUR)
            except Unavailable:
                continue  # the row is locked: that is what lock_timeout is for

    assert term.epoch == 2
    async with asyncio.timeout(30):  # its locks are released a moment before it ends
        while await look(store, f"SELECT 1 FROM pg_stat_activity WHERE pid = {pid}"):
            pass
    sleeper.terminate()
    with pytest.raises(Fenced):
        await leader.commit()


async def test_an_epoch_that_was_handed_out_twice_is_told_apart_by_its_nonce(postgres_server: PostgresServer) -> None:
    """The store is restored from a copy made before the last election, which is lost."""
    original = postgres_server.create_database()
    store = await PostgresStore.connect(postgres_server.url(original), limits=QUICK)
    await store.ensure_shard("main")
    await store.close()
    restored = postgres_server.create_database(template=original)

    before = await PostgresStore.connect(postgres_server.url(original), limits=QUICK)
    zombie = await Leader.of(before)
    await before.close()
    after = await PostgresStore.connect(postgres_server.url(restored), limits=QUICK)
    successor = await Leader.of(after)
    assert zombie.term.epoch == successor.term.epoch

    with pytest.raises(Fenced):
        await after.commit(zombie.term, 1, Batch(outbox=[an_outgoing()]))
    await successor.commit()

    assert await after.claim_outbox("h", 10, HOUR) == []
    await after.close()


async def test_time_limits_that_do_not_fit_into_the_lease_are_refused(postgres_url: str) -> None:
    with pytest.raises(StoreUnusable) as short_lease:
        await PostgresStore.connect(postgres_url, lease=timedelta(seconds=4))
    with pytest.raises(StoreUnusable) as long_lock:
        await PostgresStore.connect(postgres_url, limits=Limits(lock=3.5))
    assert (short_lease.value.reason, long_lock.value.reason) == ("time_limits", "time_limits")


async def test_every_connection_has_the_limits_that_a_take_over_relies_on(store: PostgresStore) -> None:
    leader = await Leader.of(store)
    await leader.commit()

    for pool in (store._pool, store._writers["main"]):
        async with pool.connection() as connection:
            limits = [
                await connection.fetchval(f"SHOW {name}")
                for name in ("lock_timeout", "idle_in_transaction_session_timeout", "statement_timeout")
            ]
            assert limits == ["200ms", "70s", "80s"]


async def test_the_report_for_benchmarks_says_how_durable_commits_are(store: PostgresStore) -> None:
    report = await store.settings_report()

    assert report["fsync"] in {"on", "off"}
    assert set(report) >= {"server_version", "fsync", "synchronous_commit", "full_page_writes"}


async def blocked(connection: Connection) -> None:
    """Return when a session waits for a lock."""
    async with asyncio.timeout(10):
        while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            pass
