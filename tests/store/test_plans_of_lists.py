"""Query plans of lists of runs: along an index, a page at a time, whatever the planner's statistics were (ADR 0012)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import asyncpg
import pytest

from mainspring.core.model.run import RunState
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.front import RunFilter
from mainspring.store.postgres import jobs as postgres_jobs
from mainspring.store.postgres import lists as postgres_lists
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql import job_statements, run_lists
from mainspring.store.sql.lists import Listing
from mainspring.store.sqlite import jobs as sqlite_jobs
from mainspring.store.sqlite import lists as sqlite_lists
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import HOUR, UNHURRIED, Leader, a_job, a_run, ended
from tests.store.test_plans import multiply, pages_of, pages_of_list

S = RunState
MIDNIGHT = datetime(2025, 3, 1, tzinfo=UTC)
DAYS = 90

WAYS = {
    "runs_of_job (job_id=? AND id>? AND id<?)": (RunFilter(job="a"), ["job_1", "job_2"]),
    "runs_of_schedule (schedule_id=? AND id>? AND id<?)": (RunFilter(schedule_id="s", states=(S.FAILED,)), None),
    "runs_unsuccessful (state=? AND id>? AND id<?)": (RunFilter(states=(S.FAILED,), job="a"), None),
    "runs_unsuccessful_of_tenant (tenant=? AND state=? AND id>? AND id<?)": (
        RunFilter(states=(S.FAILED, S.PARTIAL), tenant="a", created_since=MIDNIGHT), None,
    ),
    "runs_of_tenant (<expr>>? AND <expr><?)": (RunFilter(tenant="a", before="run_1"), None),
}  # fmt: skip


@pytest.mark.parametrize("table", ["runs", "runs_history"])
@pytest.mark.parametrize("mode", WAYS)
async def test_sqlite_lists_runs_along_the_index_of_their_filter(mode: str, table: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    wanted, jobs = WAYS[mode]
    name, _, condition = mode.replace("runs_", f"{table}_", 1).partition(" ")

    sql, parameters = run_lists.runs(wanted, 20, jobs, sqlite_lists.DIALECT)
    plan = await store._read(lambda db: find(db, f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())

    (of,) = [parent for _, parent, _, step in plan if step.endswith(f"INDEX {name} {condition}")]
    assert [step for _, parent, _, step in plan if parent == of and "TEMP B-TREE" in step] == [], (
        "it is in order already"
    )
    await store.close()


def test_sqlite_counts_the_days_of_a_job_in_an_index_that_has_all_of_it() -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)

    parameters: list[str | datetime] = ['["job_1"]', MIDNIGHT, MIDNIGHT]
    steps = [step[3] for step in find(store._writer, f"EXPLAIN QUERY PLAN {sqlite_jobs._JOB_DAYS}", parameters)]

    assert "SEARCH runs USING COVERING INDEX runs_history_of_job (job_id=?)" in steps
    assert "SEARCH runs USING INDEX runs_of_job (job_id=?)" in steps


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def reader(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection with the settings of the store's readers."""
    connection = await open_connection(postgres_url, Limits())
    yield connection
    await connection.close(timeout=5)


async def history_of(other: Connection, days: int) -> None:
    """Create partitions for this number of days of history."""
    for number in range(days):
        day = date(2025, 3, 1) + timedelta(days=number)
        await other.execute(
            f"""CREATE TABLE runs_history_{day:%Y%m%d} PARTITION OF runs_history
                FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"""
        )


def listed(wanted: RunFilter, jobs: list[str] | None = None) -> Listing:
    """PostgreSQL's plan of a list of runs."""
    return run_lists.runs(wanted, 20, jobs, postgres_lists.DIALECT)


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_page_looks_at_few_pages_of_each_day_of_history(
    postgres_url: str, other: Connection, reader: Connection, statistics: str
) -> None:
    """50,000 runs of one job and tenant in 90 days of history, as many in `runs`, and a few of others."""
    store = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    await history_of(other, DAYS)
    leader = await Leader.of(store)
    busy, rare = [await store.insert_job(a_job(tenant=tenant)) for tenant in ("busy", "rare")]
    flood, few, failed = (
        a_run(tenant="busy", job_id=busy.id),
        a_run(tenant="rare", job_id=rare.id),
        a_run(tenant="busy"),
    )
    await leader.adopt(flood, few, failed)
    over = [ended(flood), ended(few), ended(failed, state=S.FAILED)]
    await leader.commit(runs=over)
    await multiply(other, "runs", flood.id, id="id || '-' || n")
    await leader.commit(archived=[flood.id, few.id, failed.id])
    bulk_operation = f"timestamptz '2025-03-01' + n % {DAYS} * interval '1 day'"
    await multiply(other, "runs_history", flood.id, id="id || '-' || n", ended_at=bulk_operation)
    if statistics == "new":
        await other.execute("ANALYZE")

    most = 20 * 3 + DAYS * 4 + 60
    for wanted, jobs in (
        (RunFilter(), None),
        (RunFilter(before=f"{flood.id}-25"), None),
        (RunFilter(tenant="rare"), None),
        (RunFilter(tenant="busy", before=f"{flood.id}-25"), None),
        (RunFilter(tenant="busy", job="report", before=f"{flood.id}-25"), [busy.id]),
        (RunFilter(tenant="rare", job="report"), [rare.id]),
        (RunFilter(states=(S.FAILED,)), None),
        (RunFilter(tenant="rare", states=(S.FAILED,)), None),
        (RunFilter(schedule_id="sched_1"), None),
    ):
        assert await pages_of_list(reader, listed(wanted, jobs)) < most, wanted
    since = MIDNIGHT + timedelta(days=DAYS - 1)
    assert await pages_of_list(reader, listed(RunFilter(tenant="rare", created_since=since))) < 40
    days = f"'{{{rare.id}}}', '2025-03-01', '2025-06-01'"
    assert await pages_of(reader, postgres_jobs._JOB_DAYS, days) < DAYS * 4
    assert await pages_of(reader, job_statements.TASK_STATES, f"'{few.id}'") < 60
    await store.close()
