"""Unreadable rows (F46), and runs too large to be moved at once (OPS-7)."""

from __future__ import annotations

from mainspring.core.admission.intake import IntakeRequest
from mainspring.core.model.task import Priority
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql.statements import ARCHIVED_TASKS_AT_ONCE
from mainspring.store.sqlite.store import SqliteStore
from tests.store.builders import Leader, a_run, ended
from tests.store.conftest import look


async def test_a_row_that_can_not_be_read_names_its_run_and_keeps_nothing_else_from_being_loaded(store: Store) -> None:
    leader = await Leader.of(store)
    damaged, sound = a_run(), a_run()
    tasks = await leader.adopt(damaged, sound, tasks=2)
    await write(store, f"UPDATE tasks SET state = 'MELTED' WHERE id = '{tasks[0].id}'")

    loaded = await store.load("main")

    assert "MELTED" in loaded.unreadable[damaged.id]
    assert set(loaded.unreadable) == {damaged.id}
    assert {task.run_id for task in loaded.tasks} == {sound.id}
    assert {run.id for run in loaded.runs} == {damaged.id, sound.id}


async def test_a_run_that_can_not_be_read_is_left_in_intake_and_the_others_are_given(store: Store) -> None:
    await store.ensure_shard("main")
    damaged, sound = a_run(priority=Priority.P1), a_run(priority=Priority.P1)
    await store.insert_runs([damaged, sound])
    await write(store, f"UPDATE runs SET state = 'MELTED' WHERE id = '{damaged.id}'")

    given = await store.intake("main", [IntakeRequest(Priority.P1, sound.tenant, 10)])

    assert [run.id for run in given] == [sound.id]


async def test_a_large_run_moves_to_history_in_parts_and_can_be_read_all_the_while(store: Store) -> None:
    leader = await Leader.of(store)
    size = ARCHIVED_TASKS_AT_ONCE + 1
    run = a_run(task_count=size)
    tasks = await leader.adopt(run, tasks=size)
    await leader.commit(runs=[ended(run)])

    await leader.commit(archived=[run.id])

    assert await look(store, "SELECT count(*) FROM tasks") == [(1,)]
    assert (await store.load_run(run.id)).runs == []
    assert await store.run(run.id) == ended(run)
    assert len(await store.tasks(run.id)) == size

    await leader.commit(archived=[run.id])

    assert await look(store, "SELECT count(*) FROM tasks") == [(0,)]
    assert await look(store, "SELECT count(*) FROM runs") == [(0,)]
    assert [task.id for task in await store.tasks(run.id)] == [task.id for task in tasks]


async def test_a_run_that_has_moved_can_be_named_again(store: Store) -> None:
    leader = await Leader.of(store)
    run = a_run()
    await leader.adopt(run)
    await leader.commit(runs=[ended(run)], archived=[run.id])

    await leader.commit(archived=[run.id])

    assert await store.run(run.id) == ended(run)


async def write(store: Store, statement: str) -> None:
    """Change rows below the port, as by hand."""
    if isinstance(store, SqliteStore):
        await store._run("write", lambda: store._writer.execute(statement))
        return
    assert isinstance(store, PostgresStore)
    async with store._pool.connection() as connection:
        await connection.execute(statement)
