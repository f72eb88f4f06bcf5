"""Query plans: rows are found by an index, whatever the planner's statistics were (ADR 0012)."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec.structs import replace

from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.front import DecisionFilter, RunFilter, TaskFilter
from mainspring.store.ports.store import IdempotencyKey, IntakeRequest
from mainspring.store.postgres import batch as postgres_batch
from mainspring.store.postgres import lists as postgres_lists
from mainspring.store.postgres import queries as postgres_queries
from mainspring.store.postgres import submission as postgres_submission
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection
from mainspring.store.postgres.rows import as_json
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql import lists as listing
from mainspring.store.sql import run_lists
from mainspring.store.sqlite import admin as sqlite_admin
from mainspring.store.sqlite import audit as sqlite_audit
from mainspring.store.sqlite import lists as sqlite_lists
from mainspring.store.sqlite import queries as sqlite_queries
from mainspring.store.sqlite import schedule_evaluation as sqlite_evaluation
from mainspring.store.sqlite import sharing as sqlite_sharing
from mainspring.store.sqlite import submission as sqlite_submission
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import (
    HOUR,
    NOW,
    UNHURRIED,
    Leader,
    a_change,
    a_decision,
    a_run,
    a_transition,
    an_attempt,
    an_outgoing,
    ended,
)


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


@pytest.fixture
async def reader(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection with the settings of the store's readers."""
    connection = await open_connection(postgres_url, Limits())
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize("table", ["fresh", "empty and analyzed"])
async def test_changes_are_found_by_their_key_whatever_the_planner_knew(
    store: PostgresStore, postgres_url: str, table: str
) -> None:
    if table != "fresh":
        admin = await asyncpg.connect(postgres_url)
        await admin.execute("VACUUM ANALYZE tasks")
        await admin.execute("VACUUM ANALYZE runs")
        await admin.close()
    writer = await open_connection(postgres_url, Limits(), writer=True)
    await writer.execute(f"PREPARE change_tasks AS {postgres_batch._TASKS}")
    await writer.execute(f"PREPARE change_runs AS {postgres_batch._RUNS}")
    await writer.execute(f"PREPARE change_all AS {postgres_batch._SMALL}")

    change_all = "change_all('main', 1, 1, 1, '[]', '[]', '[]', '{}', '{}', '[]', '[]', 0, 0)"
    for name, statement in (
        ("tasks", "change_tasks('main', '[]', '{}', '{}')"),
        ("runs", "change_runs('main', '[]')"),
        ("tasks", change_all),
        ("runs", change_all),
    ):
        plan = "\n".join(row[0] for row in await writer.fetch(f"EXPLAIN EXECUTE {statement}"))
        assert f"Bitmap Index Scan on {name}_pkey" in plan, plan
        assert plan.index("Function Scan") < plan.index(f"Bitmap Index Scan on {name}_pkey"), plan
    await writer.close()


async def pages_of(connection: Connection, query: str, args: str) -> int:
    """Number of pages that a query reads, which determines its time."""
    await connection.execute(f"PREPARE q AS {query}")
    plan = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE q({args})")
    await connection.execute("DEALLOCATE q")
    top = json.loads(plan)[0]["Plan"]
    return int(top["Shared Hit Blocks"] + top["Shared Read Blocks"])


async def multiply(connection: Connection, table: str, row: str, *, key: str = "id", **changes: str) -> None:
    """Fill a table with 50,000 copies of the row with this key; `n` in changed columns is the number of the copy."""
    names = await connection.fetch(
        "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 ORDER BY attnum", table
    )
    columns = ", ".join(changes.get(name, f'"{name}"') for (name,) in names)
    await connection.execute(
        f"""INSERT INTO {table} OVERRIDING SYSTEM VALUE
            SELECT {columns} FROM {table}, generate_series(1, 50000) AS n WHERE {key} = '{row}'"""
    )


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_runs_are_made_by_looking_up_keys_and_jobs(
    store: PostgresStore, other: Connection, postgres_url: str, statistics: str
) -> None:
    """Submissions have generic plans, which must be fast for any number of keys, jobs and runs."""
    by_key = await open_connection(postgres_url, Limits(), by_key=True)
    run = a_run()
    await store.insert_runs([run], IdempotencyKey(tenant="acme", key="k", body_hash="h"))
    await multiply(other, "runs", run.id, id="'run_' || n")
    await other.execute(
        """INSERT INTO idempotency
           SELECT tenant, 'k' || n, body_hash, run_ids, at FROM idempotency, generate_series(1, 50000) AS n"""
    )
    await multiply(other, "jobs", run.job_id, id="'job_' || n", name="'name' || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    job = await other.fetchval("SELECT id FROM jobs WHERE name = 'name7'")
    runs = as_json([replace(a_run(), job_id=job)])
    for query, args in (
        (postgres_submission._INSERT_RUNS, f"'{runs}', '{{{job},unknown}}', '[]'"),
        (postgres_submission._INSERT_RUNS, f"'{runs}', '{{{job}}}', '[]'"),
        (postgres_submission._NEW_KEYS, "'{acme,acme}', '{k7,new}', '{h,h}', '{run_1,run_2}'"),
        (postgres_submission._USES, "'{acme,acme}', '{k7,unknown}'"),
    ):
        assert await pages_of(by_key, query, args) < 80, query
    await by_key.close()


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_tenant_with_many_waiting_runs_does_not_slow_the_others(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    runs = [a_run(tenant=tenant) for tenant in ("a", "m", "z")]
    await store.insert_runs(runs)
    await multiply(other, "runs", runs[0].id, id="id || '-' || n", tenant="'flood'")
    if statistics == "new":
        await other.execute("ANALYZE runs")

    assert [waiting.tenant for waiting in await store.waiting("main", 10)] == ["a", "flood", "m", "z"]
    assert len(await store.intake("main", [IntakeRequest(a_run().priority, "z", 10)])) == 1
    assert await pages_of(reader, postgres_queries._WAITING, "'main', '{0,1,2}', '', 10") < 120
    assert await pages_of(reader, postgres_queries._INTAKE, "'main', '{1,1,1}', '{a,z,flood}', '{5,5,5}'") < 60
    assert await pages_of(reader, postgres_queries._NEXT_START, "'main'") < 20


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_what_is_over_does_not_slow_what_is_not(
    store: PostgresStore, postgres_url: str, other: Connection, reader: Connection, statistics: str
) -> None:
    leader = await Leader.of(store)
    over, going_on = a_run(), a_run()
    first, second = await leader.adopt(over, going_on)
    attempt, outgoing = an_attempt(first), an_outgoing()
    await leader.commit(
        runs=[ended(over)],
        tasks=[a_change(first, attempt_id="att_0"), a_change(second, attempt_id="att_1")],
        attempts=[attempt],
        outbox=[outgoing],
    )
    await store.delivered([outgoing.id])
    await multiply(other, "runs", over.id, id="id || '-' || n", ended_at="ended_at + n * interval '1 s'")
    await multiply(other, "tasks", first.id, id="id || n", attempt_id="'att-' || n")
    await multiply(other, "attempts", attempt.id, id="id || n")
    await multiply(other, "outbox", outgoing.id, seq="n + 10", id="id || n")
    await leader.commit(outbox=[an_outgoing()])
    if statistics == "new":
        await other.execute("ANALYZE")

    maintenance = await open_connection(postgres_url, Limits(), maintenance=True)
    for number, query in enumerate(postgres_queries._LOAD):
        assert await pages_of(maintenance, query, "'main'") < 40, number
    for number, query in enumerate(postgres_queries._LOAD_RUN):
        assert await pages_of(maintenance, query, f"'{going_on.id}'") < 40, number
    await maintenance.close()
    assert await pages_of(reader, postgres_queries._FIND_ATTEMPTS, "'{att_1,att-7,att_unknown}'") < 60
    assert await pages_of(reader, postgres_queries._ENDED_RUNS, "'main', '1 hour', 5") < 60
    assert await pages_of(reader, postgres_queries._TAKE_OUTGOING, "'h', 5, '1 hour'") < 60


SQLITE = sqlite_lists.DIALECT
LISTS = {
    "runs_1 (id>? AND id<?)": run_lists.runs(RunFilter(before="run_1"), 20, None, SQLITE),
    "runs_active": run_lists.runs(RunFilter(states=(RunState.RUNNING,)), 20, None, SQLITE),
    "tasks_1 (id>? AND id<?)": listing.tasks(TaskFilter(run_id="run_1"), 20, SQLITE),
    "tasks_attempt": listing.tasks(TaskFilter(worker="w1"), 20, SQLITE),
    "tasks_1 (id>?)": listing.tasks(TaskFilter(states=(TaskState.FAILED,)), 20, SQLITE),
    "attempts_of_task": listing.Listing(listing.attempts_of(), ["task_1"]),
    "transitions_of_task": listing.Listing(listing.transitions_of(), ["task_1"]),
    "(shard=? AND (batch_no,ordinal)>(?,?))": listing.Listing(listing.TRANSITIONS_AFTER, ["main", 1, 1, 20]),
    "jobs_2 ((tenant,name)>(?,?))": listing.jobs(None, "a/b", 20),
    "decisions_by_time (at<?)": listing.decisions(DecisionFilter(), (NOW, "dec_1"), 20),
    "decisions_of_task (task_id=?)": listing.decisions(DecisionFilter(task_id="task_1"), None, 20),
    "decisions_of_run (run_id=? AND at<?)": listing.decisions(DecisionFilter(run_id="run_1"), (NOW, "dec_1"), 20),
    "decisions_of_worker (worker_id=?)": listing.decisions(DecisionFilter(worker="w1"), None, 20),
    "decisions_of_tenant (tenant=?)": listing.decisions(DecisionFilter(tenant="a"), None, 20),
}


@pytest.mark.parametrize("mode", LISTS)
async def test_sqlite_lists_along_an_index(mode: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)

    sql, parameters = LISTS[mode]
    plan = await store._read(lambda db: find(db, f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())

    assert mode in "\n".join(step for *_, step in plan), plan
    await store.close()


LARGE = (
    "runs", "tasks", "attempts", "transitions", "runs_history", "tasks_history", "schedules", "fires", "events",
    "audit", "audit_heads", "webhook_deliveries", "rate_usage", "limit_shares", "failure_counts", "decisions",
)  # fmt: skip


def test_no_query_reads_a_large_table_from_end_to_end() -> None:
    """Check that each statement of a call of the port finds its rows by an index."""
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
    statements = {
        name: value
        for module in (sqlite_queries, sqlite_submission, sqlite_evaluation, sqlite_audit, sqlite_admin, sqlite_sharing)
        for name, value in vars(module).items()
        if isinstance(value, str) and re.match(r"\s*(SELECT|WITH|UPDATE)", value) and name.startswith("_")
    }
    assert len(statements) > 30

    for name, statement in statements.items():
        plan = explain(store._writer, statement)
        scans = [
            step for step in plan if re.match(rf"SCAN ({'|'.join(LARGE)}|r|t)\b(?!.*USING (COVERING )?INDEX)", step)
        ]
        assert not scans, f"{name}: {plan}"


def explain(db: sqlite3.Connection, statement: str) -> list[str]:
    """SQLite's plan of a statement."""
    marks = [int(mark) for mark in re.findall(r"\?(\d+)", statement)]
    arguments = [None] * (max(marks) if marks else statement.count("?"))
    return [step[3] for step in db.execute(f"EXPLAIN QUERY PLAN {statement}", arguments)]


async def pages_of_list(connection: Connection, wanted: listing.Listing) -> int:
    """Number of pages that a list reads."""
    return await pages_of(connection, wanted.sql, ", ".join(f"'{value}'" for value in wanted.parameters))


def list_of_tasks(**wanted: object) -> listing.Listing:
    """PostgreSQL's plan of a list of tasks."""
    return listing.tasks(TaskFilter(**wanted), 20, postgres_lists.DIALECT)  # type: ignore[arg-type]


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_lists_look_only_at_what_they_show(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    """50,000 ended runs of another tenant, with their tasks, attempts and transitions."""
    leader = await Leader.of(store)
    over, going_on = a_run(tenant="flood"), a_run(tenant="a")
    first, second = await leader.adopt(over, going_on)
    attempt = an_attempt(first)
    await leader.commit(
        runs=[ended(over)],
        tasks=[
            a_change(first, state=TaskState.SUCCEEDED),
            a_change(second, state=TaskState.RUNNING, attempt_id="att_1", worker_id="w1"),
        ],
        attempts=[attempt, an_attempt(second)],
        transitions=[a_transition(first, because="multiply"), a_transition(second)],
    )
    await multiply(other, "runs", over.id, id="id || '-' || n")
    await multiply(other, "tasks", first.id, id="id || n")
    await multiply(other, "attempts", attempt.id, id="id || n", task_id="task_id || n")
    await multiply(
        other, "transitions", "multiply", key="because", batch_no="n + 10", task_id="task_id || n", because="'copy'"
    )
    if statistics == "new":
        await other.execute("ANALYZE")

    for wanted in (
        RunFilter(),
        RunFilter(tenant="a"),
        RunFilter(tenant="flood", before=f"{over.id}-7"),
        RunFilter(states=(RunState.RUNNING, RunState.PAUSED)),
    ):
        assert await pages_of_list(reader, run_lists.runs(wanted, 20, None, postgres_lists.DIALECT)) < 90, wanted
    assert await pages_of_list(reader, list_of_tasks()) < 90
    assert await pages_of_list(reader, list_of_tasks(run_id=going_on.id)) < 20
    assert await pages_of_list(reader, list_of_tasks(worker="w1")) < 20
    assert await pages_of_list(reader, list_of_tasks(states=(TaskState.RUNNING,), tenant="a")) < 20
    assert await pages_of_list(reader, list_of_tasks(states=(TaskState.QUEUED, TaskState.RUNNING))) < 20
    assert await pages_of(reader, postgres_lists._ATTEMPTS_OF, f"'{second.id}'") < 20
    assert await pages_of(reader, postgres_lists._TRANSITIONS_OF, f"'{second.id}'") < 20
    assert await pages_of(reader, listing.TRANSITIONS_AFTER, "'main', 400, 0, 20") < 40


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_long_log_of_decisions_is_looked_at_where_it_is_asked_about(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    """50,000 decisions about a task of another tenant, and one to find."""
    await store.prepare_days(2)
    leader = await Leader.of(store)
    over, going_on = a_run(tenant="flood"), a_run(tenant="a")
    first, second = await leader.adopt(over, going_on)
    now = await store.time()
    many = a_decision(first, at=now, worker_id="w2")
    await leader.commit(decisions=[many, a_decision(second, at=now)])
    await multiply(other, "decisions", many.id, id="id || '-' || n", at="at + n * interval '1 us'")
    if statistics == "new":
        await other.execute("ANALYZE")

    for wanted in (
        DecisionFilter(),
        DecisionFilter(task_id=second.id),
        DecisionFilter(run_id=going_on.id),
        DecisionFilter(tenant="a"),
        DecisionFilter(worker="w1"),
        DecisionFilter(tenant="flood", task_id=first.id),
    ):
        for before in (None, (now, many.id)):
            assert await pages_of_list(reader, listing.decisions(wanted, before, 20)) < 120, wanted
