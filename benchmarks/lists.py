"""Latency of run lists, of one run, and of 30 days of a job, in a small store and in one with a million runs.

    python -m benchmarks.lists --store postgres -o json

The runs have 300 tenants; 1 % are of one job, and 1 % failed. They were created over 30 days; those that ended before
today are in history, which on PostgreSQL has 90 days. Pages have 20 runs.

    page_first_ms, page_deep_ms         the first page of all runs, and the slowest of those at 10, 50 and 99 %
    .._small_ms, .._ratio               the same in the small store, and the ratio of large to small
    pages_ms, pages_small_ms            the slowest page, by filter
    count_ms                            counting up to 10,000 runs, by filter
    job_30_days_ms                      results of the runs of one job, by day
    status_p50_ms, status_p99_ms        GET /runs/{id}, sequentially over HTTP, from a separate server process
    page_http_p50_ms                    GET /runs, the first page, the same way
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import msgspec

from benchmarks.measure import Figures, Meter, durability, milliseconds, run_benchmark
from mainspring.app.build import POOL, open_store
from mainspring.core.model.run import RunState
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.front import RunFilter
from mainspring.store.ports.store import Store
from tests.e2e.cluster import ServerCluster
from tests.postgres import DURABLE, running_postgres
from tests.server_settings import GENEROUS

RUNS, FEW = 1_000_000, 1_000
DAYS, KEPT = timedelta(days=30), timedelta(days=90)
PAGE, COUNTED, ROUNDS, ASKED = 20, 10_000, 15, 400
CURSORS = (0.1, 0.5, 0.99)
FILTERS = {
    "all": RunFilter(),
    "tenant": RunFilter(tenant="t007"),
    "job": RunFilter(tenant="t000", job="nightly"),
    "job_of_any_tenant": RunFilter(job="nightly"),
    "failed": RunFilter(states=(RunState.FAILED,)),
    "tenant_failed": RunFilter(tenant="t007", states=(RunState.FAILED,)),
    "tenant_timed_out": RunFilter(tenant="t007", states=(RunState.TIMED_OUT,)),
    "name": RunFilter(job="job-1*"),
    "label": RunFilter(labels=(("team", "ml"),)),
    "active": RunFilter(states=(RunState.RUNNING, RunState.PAUSED)),
}

_JOBS = """
    INSERT INTO jobs (id, tenant, name, version, definition, labels)
    WITH RECURSIVE numbers (t) AS (SELECT 0 UNION ALL SELECT t + 1 FROM numbers WHERE t < 299)
    SELECT 'job_' || t, {tenant}, CASE t WHEN 0 THEN 'nightly' ELSE 'job-' || (t % 200) END, 1, '{{}}',
        CASE t % 10 WHEN 3 THEN '{{"team":"ml"}}' ELSE '{{}}' END FROM numbers
"""
_RUNS = """
    INSERT INTO {table} (id, shard, tenant, job_id, priority, params, task_count, submitted_by, watched, created_at,
        start_at, state, generation, adopted_at, ended_at, paused, timed_out, because, started_at)
    WITH RECURSIVE up (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < {runs}),
    numbers AS (
        SELECT CAST(n AS bigint) AS n, CAST({first} + n * ({last} - {first}) / {runs} AS bigint) AS ms,
            CASE n % 100 WHEN 0 THEN 0 ELSE n % 300 END AS t
        FROM up
    )
    SELECT {id}, '{pool}', {tenant}, 'job_' || t, 2, '{{"day":"2026-11-15"}}', 3, 'ann', {no}, {made}, {made},
        CASE n * 7919 % 101 WHEN 7 THEN 'FAILED' ELSE 'SUCCEEDED' END, 1, {made}, {ended}, {no}, {no}, 'no task failed',
        {started}
    FROM numbers WHERE ms {side} {cut}
"""
_SQLITE = {
    "tenant": "printf('t%03d', t)", "id": "printf('run_%012x-%016x', ms, n)", "at": "({}) * 1000", "no": "0",
}  # fmt: skip
_POSTGRES = {
    "tenant": "'t' || lpad(t::text, 3, '0')",
    "id": "'run_' || lpad(to_hex(ms), 12, '0') || '-' || lpad(to_hex(n), 16, '0')",
    "at": "to_timestamp(({}) / 1000.0)",
    "no": "false",
}


async def main(kind: str, runs: int) -> Figures:
    """Run the benchmark on one kind of store."""
    async with _filled(kind, FEW) as url, _opened(url) as store:
        small = await _pages(store)
    async with _filled(kind, runs) as url:
        meter = Meter(kind)
        figures = await _of_store(kind, url, runs, small) | await asyncio.to_thread(_of_server, url)
    return figures | {"set": GENEROUS, "foreign_cores": meter.stop().foreign_cores}


async def _of_store(kind: str, url: str, runs: int, small: dict[str, list[float]]) -> Figures:
    """Latencies of the store."""
    async with _opened(url) as store:
        large = await _pages(store)
        now = await store.time()
        return await durability(kind, store) | {
            "runs": runs,
            "page_first_ms": large["all"][0],
            "page_deep_ms": max(large["all"][1:]),
            "page_first_small_ms": small["all"][0],
            "page_deep_small_ms": max(small["all"][1:]),
            "page_first_ratio": round(large["all"][0] / small["all"][0], 1),
            "page_deep_ratio": round(max(large["all"][1:]) / max(small["all"][1:]), 1),
            "pages_ms": {name: max(pages) for name, pages in large.items()},
            "pages_small_ms": {name: max(pages) for name, pages in small.items()},
            "count_ms": {
                name: await _time(lambda wanted=wanted: store.count_runs(wanted, COUNTED))  # type: ignore[misc]
                for name, wanted in FILTERS.items()
            },
            "job_30_days_ms": await _time(lambda: store.job_days("t000", "nightly", now - DAYS, now)),
        }


def _of_server(url: str) -> Figures:
    """Latencies over HTTP, without concurrent requests."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder, ServerCluster(Path(folder), url) as cluster:
        server = cluster.server()
        with server.client() as client:
            client.submit_job({"name": "asked", "tasks": [{"name": "only"}]})
            ids = [client.submit("asked").id for _ in range(ASKED)]
            for run_id in ids:
                client.cancel_run(run_id)  # without workers: so each run has a task, and is finished
            statuses = [_lasts(lambda run_id=run_id: client.run(run_id)) for run_id in ids]  # type: ignore[misc]
            pages = [_lasts(lambda: list(client.runs(limit=PAGE))) for _ in range(ASKED // 4)]
    return {
        "status_p50_ms": milliseconds(statuses[ASKED // 10 :], 50),
        "status_p99_ms": milliseconds(statuses[ASKED // 10 :], 99),
        "page_http_p50_ms": milliseconds(pages[ASKED // 40 :], 50),
    }


def _lasts(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


async def _pages(store: Store) -> dict[str, list[float]]:
    """For each filter, the latency of the first page, and of those at the cursors."""
    now = await store.time()
    at = [None, *(f"run_{_milliseconds(now - share * DAYS):012x}" for share in CURSORS)]
    return {
        name: [
            await _time(lambda wanted=wanted, before=before: store.list_runs(_behind(wanted, before), PAGE))  # type: ignore[misc]
            for before in at
        ]
        for name, wanted in FILTERS.items()
    }


async def _time(ask: Callable[[], Awaitable[object]]) -> float:
    """The median of some rounds, in milliseconds, after a first one."""
    await ask()
    lasted = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await ask()
        lasted.append(time.perf_counter() - began)
    return milliseconds(lasted, 50)


def _behind(wanted: RunFilter, before: str | None) -> RunFilter:
    return msgspec.structs.replace(wanted, before=before)


@asynccontextmanager
async def _filled(kind: str, runs: int) -> AsyncIterator[str]:
    """URL of a store of this kind with this many runs."""
    now = datetime.now(UTC)
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
            path = Path(folder) / "bench.db"
            await (await open_store(f"sqlite:///{path}", SystemClock())).close()
            with closing(sqlite3.connect(path)) as database, database:
                for statement in _statements(_SQLITE, runs, now):
                    database.execute(statement)
            yield f"sqlite:///{path}"
        return
    with running_postgres(DURABLE) as url:
        await (await open_store(url, SystemClock())).close()
        observer = await asyncpg.connect(url)
        for days in range(KEPT.days):
            day = (now - timedelta(days=days)).date()
            await observer.execute(
                f"""CREATE TABLE IF NOT EXISTS runs_history_{day:%Y%m%d} PARTITION OF runs_history
                    FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"""
            )
        for statement in [*_statements(_POSTGRES, runs, now), "VACUUM ANALYZE"]:
            await observer.execute(statement)
        await observer.close()
        yield url


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = await open_store(url, SystemClock())
    try:
        yield store
    finally:
        await store.close()


def _statements(phrases: dict[str, str], runs: int, now: datetime) -> Iterator[str]:
    """SQL that fills a store."""
    instants = {
        "made": phrases["at"].format("ms"),
        "started": phrases["at"].format("ms + 500 + n % 97 * 10"),
        "ended": phrases["at"].format("ms + 2000 + n % 1000 * 600"),
    }
    times = {
        "first": _milliseconds(now - DAYS),
        "last": _milliseconds(now),
        "cut": _milliseconds(now - timedelta(days=1)),
    }
    yield _JOBS.format(**phrases)
    for table, side in (("runs_history", "<"), ("runs", ">=")):
        yield _RUNS.format(table=table, side=side, runs=runs, pool=POOL, **phrases, **instants, **times)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


if __name__ == "__main__":
    run_benchmark(__doc__, main, runs=RUNS)
