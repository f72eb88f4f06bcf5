"""Real processes on a real PostgreSQL: kill -9, SIGSTOP past the lease, clean stop ('Must show' 6; HA-1, HA-2)."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from mainspring.app.build import POOL
from mainspring.core.lifecycle.states import is_allowed
from mainspring.core.model.task import TaskState
from mainspring.store.postgres.store import PostgresStore
from tests.e2e.processes import DEADLINE_SECONDS, hosts
from tests.submission import submit

MANY = pytest.mark.parametrize("many", [2_000, pytest.param(5_000, marks=pytest.mark.soak)])
"""Total runs; the host is disturbed once a tenth of them have been created."""


@asynccontextmanager
async def submitted(url: str, runs: int) -> AsyncIterator[tuple[PostgresStore, list[str], asyncpg.Connection]]:
    """A migrated store with this many runs in intake, and a connection to query the rows."""
    store = await PostgresStore.connect(url)
    rows = await asyncpg.connect(url)
    try:
        await store.ensure_shard(POOL)
        yield store, [run.id for run in await submit(store, runs)], rows
    finally:
        await rows.close()
        await store.close()


async def until(rows: asyncpg.Connection, query: str, *arguments: object) -> None:
    """Poll until a query returns true, for a bounded time."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not await rows.fetchval(query, *arguments):  # noqa: ASYNC110 - another process can't be waited on
            await asyncio.sleep(0.05)  # tidy: sleeps because another process can't be waited on


async def check_all_ended_once(rows: asyncpg.Connection, runs: list[str]) -> None:
    """Every task ended exactly once, and its history has no gap."""
    await until(rows, "SELECT count(*) = $1 FROM runs WHERE state = 'SUCCEEDED'", len(runs))
    assert await rows.fetchval("SELECT count(*) FROM tasks WHERE state = 'SUCCEEDED'") == len(runs)
    assert await rows.fetchval("SELECT count(*) FROM attempts WHERE \"end\" = 'succeeded'") == len(runs)
    history: dict[str, list[asyncpg.Record]] = {}
    query = 'SELECT task_id, seq, start, "end" FROM transitions ORDER BY task_id, seq'
    for record in await rows.fetch(query):
        history.setdefault(record["task_id"], []).append(record)
    assert len(history) == len(runs)
    for path in history.values():
        assert [step["seq"] for step in path] == list(range(1, len(path) + 1))
        before: TaskState | None = None
        for step in path:
            assert (TaskState(step["start"]) if step["start"] else None) is before
            assert is_allowed(before, TaskState(step["end"]))
            before = TaskState(step["end"])
        assert before is TaskState.SUCCEEDED


async def epoch(rows: asyncpg.Connection) -> int:
    return int(await rows.fetchval("SELECT epoch FROM shards WHERE id = $1", POOL))


@MANY
async def test_a_second_host_takes_over_from_a_killed_one_without_loss_or_duplicates(
    postgres_url: str, many: int
) -> None:
    async with submitted(postgres_url, many) as (_, runs, rows), hosts() as start:
        first = await start(postgres_url)
        await first.says("leads")
        second = await start(postgres_url)
        await until(rows, "SELECT count(*) > $1 FROM runs WHERE state = 'SUCCEEDED'", many // 10)
        first.signal(signal.SIGKILL)
        await second.says("leads")
        assert await epoch(rows) == 2
        await check_all_ended_once(rows, runs)


@MANY
async def test_a_host_suspended_past_its_lease_writes_nothing_on_resume(postgres_url: str, many: int) -> None:
    async with submitted(postgres_url, many) as (_, runs, rows), hosts() as start:
        first = await start(postgres_url)
        await first.says("leads")
        second = await start(postgres_url)
        await until(rows, "SELECT count(*) > $1 FROM runs WHERE state = 'SUCCEEDED'", many // 10)
        first.signal(signal.SIGSTOP)
        await second.says("leads")
        batch_of_take_over = await rows.fetchval("SELECT batch_no FROM terms WHERE epoch = 2")
        first.signal(signal.SIGCONT)
        await check_all_ended_once(rows, runs)
        of_the_first = """SELECT count(*) FROM transitions
                          WHERE batch_no > $1 AND ("by" LIKE $2 || '%' OR because LIKE 'placed on ' || $2 || '%')"""
        assert await rows.fetchval(of_the_first, batch_of_take_over, f"w{first.pid}-") == 0
        assert await epoch(rows) == 2


async def test_a_clean_stop_releases_the_lease_at_once(
    postgres_url: str,
) -> None:
    async with submitted(postgres_url, 1) as (_, _, rows), hosts() as start:
        first = await start(postgres_url)
        await first.says("leads")
        second = await start(postgres_url)
        first.signal(signal.SIGTERM)
        assert await first.ended() == 0
        free = "SELECT epoch = 2 OR lease_until <= clock_timestamp() FROM shards WHERE id = $1"
        assert await rows.fetchval(free, POOL), "it left without releasing its lease"
        await second.says("leads")
