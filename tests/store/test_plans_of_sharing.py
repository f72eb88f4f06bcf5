"""Query plans of limits and of waiting runs: only the requested rows are read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from mainspring.protocol.clock import SystemClock
from mainspring.store.postgres import batch as postgres_batch
from mainspring.store.postgres import limits as postgres_limits
from mainspring.store.postgres import sharing as postgres_sharing
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql import sharing_statements as statements
from mainspring.store.sqlite import batch as sqlite_batch
from mainspring.store.sqlite import queries as sqlite_queries
from mainspring.store.sqlite import sharing as sqlite_sharing
from mainspring.store.sqlite.queries import sqlite
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import HOUR, UNHURRIED, Leader, a_run
from tests.store.sharing_builders import a_request, a_tally
from tests.store.test_plans import explain, multiply, pages_of


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a separate database."""
    opened = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    yield opened
    await opened.close()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_runs_in_intake_are_counted_along_their_index_and_no_further_than_asked(
    store: PostgresStore, other: Connection, postgres_url: str, statistics: str
) -> None:
    run = a_run(tenant="flood")
    await store.insert_runs([run])
    await multiply(other, "runs", run.id, id="id || '-' || n")
    await other.execute("VACUUM runs")
    if statistics == "new":
        await other.execute("ANALYZE runs")

    maintenance = await open_connection(postgres_url, Limits(), maintenance=True)
    await maintenance.execute("BEGIN")
    await maintenance.execute(postgres_sharing._ALONG_AN_INDEX)
    assert await pages_of(maintenance, postgres_sharing._WAITING_RUNS, "'main', 100, '{0,1,2}'") < 60
    await maintenance.execute(f"PREPARE q AS {postgres_sharing._WAITING_RUNS}")
    plan = await maintenance.fetchval("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE q('main', 1000000, '{0,1,2}')")
    await maintenance.execute("ROLLBACK")
    await maintenance.close(timeout=5)
    assert "Index Only Scan" in json.dumps(plan), plan
    assert {priority.name: runs for priority, runs in (await store.count_intake("main", 70_000)).items()} == {
        "P0": 0, "P1": 50_001, "P2": 0,
    }  # fmt: skip


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_many_limits_cost_those_nothing_who_take_from_one(
    store: PostgresStore, other: Connection, postgres_url: str, statistics: str
) -> None:
    """50,000 limits in use, with as many holders."""
    leader = await Leader.of(store)
    await store.take_rate_grants([a_request(limit="flood")])
    await store.take_share(leader.term, "held", 5, 1)
    await multiply(other, "rate_usage", "flood", key='"limit"', limit="'flood' || n")
    await multiply(other, "limit_shares", "held", key='"limit"', limit="'held' || n", holder="'shard' || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    reader = await open_connection(postgres_url, Limits())
    for query, args in (
        (postgres_sharing._SHARES, "'{held7,unknown}'"),
        (statements.SHARES_OF_LIMIT, "'held7'"),
        (statements.DROP_SHARES, "'held7'"),
    ):
        assert await pages_of(reader, query, args) < 40, query
    await reader.close()
    by_key = await open_connection(postgres_url, Limits(), by_key=True)
    taken = """'[{"limit": "flood7", "takes": [], "counts_until": "2026-11-16T12:00:00Z"}]'"""
    seen = await other.fetchval('SELECT takes FROM rate_usage WHERE "limit" = $1', "flood7")
    soon = "clock_timestamp() + interval '0.9 s'"
    for query, args in (
        (postgres_limits._LOCK, "'{flood7,held,unknown}'"),
        (postgres_limits._TAKEN_AT_ONCE, f"{taken}, '{{flood7}}', ARRAY['{seen}'], {soon}"),
        (postgres_limits._TAKEN, taken),
        (postgres_limits._NEW_LIMITS, "'{new}'"),
    ):
        assert await pages_of(by_key, query, args) < 40, query
    await by_key.close()


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_batch_finds_its_shares_and_old_tallies_by_their_keys(
    store: PostgresStore, other: Connection, postgres_url: str, statistics: str
) -> None:
    leader = await Leader.of(store)
    await store.take_share(leader.term, "held", 5, 1)
    await leader.commit(failure_counts=[a_tally(since=await store.time())])
    await multiply(other, "limit_shares", "held", key='"limit"', limit="'held' || n", holder="'shard' || n")
    await multiply(other, "failure_counts", "acme", key="tenant", tenant="'t' || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    writer = await open_connection(postgres_url, Limits(), writer=True)
    assert await pages_of(writer, postgres_batch._SHARES, "'main', '{held,unknown}', '{0,0}', '{1,0}'") < 40
    assert await pages_of(writer, postgres_batch._OLD_FAILURE_COUNTS, "'main'") < 40
    await writer.close()


SQLITE = {
    "runs USING INDEX runs_intake (shard=? AND priority=?)": sqlite_sharing._WAITING_RUNS,
    "rate_usage USING INDEX sqlite_autoindex_rate_usage_1 (limit=?)": sqlite_sharing._LIMITS,
    "limit_shares USING INDEX sqlite_autoindex_limit_shares_1 (limit=?)": sqlite_sharing._SHARES,
    "limit_shares USING INDEX sqlite_autoindex_limit_shares_1 (limit=? AND holder=?)": sqlite_batch._SHARES,
    "limit_shares USING INDEX shares_of_holder (holder=?)": sqlite_queries._LOAD_SHARES,
    "failure_counts USING INDEX sqlite_autoindex_failure_counts_1 (shard=? AND since>?)": (
        sqlite_queries._LOAD_FAILURE_COUNTS
    ),
    "failure_counts USING INDEX sqlite_autoindex_failure_counts_1 (shard=? AND since<?)": (
        sqlite_batch._OLD_FAILURE_COUNTS
    ),
    "limit_shares USING INDEX sqlite_autoindex_limit_shares_1 (limit=?) ": sqlite(statements.SHARES_OF_LIMIT),
}


@pytest.mark.parametrize("mode", SQLITE)
async def test_sqlite_looks_up_by_an_index(mode: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)

    steps = "\n".join(explain(store._writer, SQLITE[mode]))

    assert mode.strip() in steps, steps
    await store.close()
