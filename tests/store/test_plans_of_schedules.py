"""Query plans of schedules, fires and dead letters: only the requested rows are read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import TaskState
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.schedules import FireFilter, ScheduleFilter
from mainspring.store.postgres import schedule_evaluation as postgres_evaluation
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql import schedule_statements as statements
from mainspring.store.sqlite import lists as sqlite_lists
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.builders import HOUR, JOB, NOW, UNHURRIED, Leader, a_run, a_task
from tests.store.schedule_builders import a_fire, a_schedule, given, given_fires
from tests.store.test_plans import multiply, pages_of, pages_of_list


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


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_schedules_that_are_not_due_and_ended_fires_cost_an_evaluation_nothing(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    """50,000 schedules that are not due, and 50,000 old fires of the one that is due."""
    due = a_schedule(event_type="file.arrived", after_job="load", has_waiting_windows=True)
    later = a_schedule(next_at=await store.time() + HOUR, job="load")
    await given(store, due, later)
    over = a_fire(due, outcome=Outcome.RAN, run_id="run_1", run_state=RunState.SUCCEEDED, run_ended_at=NOW)
    waits = a_fire(due, window_at=NOW - HOUR, outcome=Outcome.WAITING)
    await given_fires(store, due, over, waits)
    await multiply(other, "schedules", later.id, id="id || n", name="name || n", job="'another' || n")
    await multiply(
        other, "fires", "run_1", key="run_id", window_at="window_at + n * interval '1 s'", run_id="'run_' || n",
        run_ended_at="run_ended_at + n * interval '1 s'",
    )  # fmt: skip
    if statistics == "new":
        await other.execute("ANALYZE")

    jobs = f"'{{{JOB.tenant}}}', '{{load}}'"
    for query, args, most in (
        (postgres_evaluation._TAKE_DUE, "500", 20),
        (postgres_evaluation._TAKE_WAITING, "500, '1 s'", 20),
        (postgres_evaluation._TAKE_NAMED, f"'{{{due.id}}}'", 20),
        (postgres_evaluation._TAKE_FOR_EVENTS, f"'{JOB.tenant}', '{{file.arrived}}'", 20),
        (postgres_evaluation._OPEN_FIRES, f"'{{{due.id}}}'", 20),
        (postgres_evaluation._ENDS, f"'{{{due.id}}}', '{{{NOW}}}'", 200),
        (postgres_evaluation._LATEST_FIRES, f"'{{{due.id}}}'", 200),
        (postgres_evaluation._LATEST_SUCCESSES, f"'{{{due.id}}}'", 20),
        (postgres_evaluation._LATEST_JOBS, jobs, 20),
        (postgres_evaluation._OLDEST_SCHEDULES, jobs, 20),
    ):
        assert await pages_of(reader, query, args) < most, query
    for wanted in (
        statements.schedules(ScheduleFilter(job="load", tenant=JOB.tenant), 5),
        statements.next_schedules(None, NOW + HOUR, 5),
        statements.fires_of_runs(["run_7"]),
        statements.fires(FireFilter(schedule_id=due.id), 5),
        statements.fires(FireFilter(schedule_id=due.id, before=NOW + 9 * HOUR), 5),
    ):
        assert await pages_of_list(reader, wanted) < 30, wanted
    assert await pages_of(reader, f"{statements.next_due().sql} AND $1", "true") < 20
    after = statements.schedules_after().sql.replace("ORDER BY", "AND $1 ORDER BY")
    assert await pages_of(reader, after, "true") < 20


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_dead_letters_are_found_among_many_that_succeeded(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    leader, run = await Leader.of(store), a_run()
    await store.insert_runs([run])
    over = a_task(run, 0, state=TaskState.SUCCEEDED, ended_at=NOW)
    await leader.commit(new_tasks=[over, a_task(run, 1, state=TaskState.FAILED, ended_at=NOW)])
    await multiply(other, "tasks", over.id, id="id || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    for wanted in (
        statements.dead_letters(None, None, None, 20),
        statements.dead_letters("acme", JOB.name, (NOW + HOUR, "task_9"), 20),
    ):
        assert await pages_of_list(reader, wanted) < 30, wanted


LISTS = {
    "schedules_due": statements.next_schedules(None, NOW, 5),
    "schedules_name": statements.schedule_named("a", "b"),
    "schedules_after": statements.schedules_after(),
    "fires_run": statements.fires_of_runs(["run_1"]),
    "fires_1 (schedule_id=? AND window_at<?)": statements.fires(FireFilter(schedule_id="s", before=NOW), 5),
    "schedule_changes_of": statements.changes("s", 5),
    "backfills_of": statements.backfills("s", 5),
    "events_received": statements.events(None, None, NOW, 5),
    "alerts_1 (id<?)": statements.alerts(None, None, "a", 5),
    "tasks_dead": statements.dead_letters(None, None, None, 5),
    "tasks_history_dead": statements.dead_letters("a", "job", (NOW, "t"), 5),
    "durations_1 (tenant=? AND job=?)": statements.durations("a", "b"),
}


@pytest.mark.parametrize("mode", LISTS)
async def test_sqlite_lists_along_an_index(mode: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)

    sql, parameters = LISTS[mode]
    plan = await store._read(lambda db: sqlite_lists.find(db, f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())

    assert mode in "\n".join(step for *_, step in plan), plan
    await store.close()
