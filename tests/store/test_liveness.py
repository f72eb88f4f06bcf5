"""The second watch over workers: heartbeats recorded by servers, by the store's clock."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mainspring.core.model.batch import WorkerRow
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from tests.store.builders import DAY, HOUR, NOW, Leader


def a_worker(id: str, **changes: Any) -> WorkerRow:
    """A worker whose last heartbeat is old."""
    values: dict[str, Any] = {
        "id": id, "shard": "main", "offer": '{"cpu_millis":1000}', "labels": "{}", "zone": "z1", "version": "1.0",
        "status": "ready", "since": NOW, "last_heartbeat_at": NOW,
    }  # fmt: skip
    return WorkerRow(**(values | changes))


async def test_workers_that_were_heard_of_have_the_stores_time_which_is_returned(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1"), a_worker("w2"), a_worker("w3")])
    before = await store.time()

    at = await store.record_heartbeats("main", ["w1", "w3", "unknown"])

    assert before <= at <= await store.time()
    assert await store.list_workers("main", "", 10) == [
        a_worker("w1", last_heartbeat_at=at), a_worker("w2"), a_worker("w3", last_heartbeat_at=at)
    ]  # fmt: skip


async def test_nobody_heard_of_is_only_the_time(store: Store) -> None:
    before = await store.time()

    assert before <= await store.record_heartbeats("main", []) <= await store.time()


async def test_a_worker_of_another_shard_is_not_noted(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1")])

    await store.record_heartbeats("other", ["w1"])

    assert await store.list_workers("main", "", 10) == [a_worker("w1")]


async def test_unheard_are_workers_that_were_last_heard_of_at_least_so_long_ago(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    rows = [
        a_worker("w1", last_heartbeat_at=now - 2 * HOUR),
        a_worker("w2", last_heartbeat_at=now - 3 * HOUR, status="suspect", hold="cordoned", hold_why="ann: disk"),
        a_worker("w3", last_heartbeat_at=now),
    ]
    await leader.commit(workers=rows)

    assert await store.silent_workers("main", HOUR, 10, HOUR) == [rows[1], rows[0]]
    assert await store.silent_workers("main", HOUR, 1, HOUR) == [rows[1]]
    assert await store.silent_workers("other", HOUR, 10, HOUR) == []


async def test_unheard_are_neither_lost_nor_gone(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1", status="lost"), a_worker("w2", status="gone"), a_worker("w3")])

    assert [worker.id for worker in await store.silent_workers("main", HOUR, 10, HOUR)] == ["w3"]


async def test_a_worker_that_was_heard_of_is_no_longer_unheard(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1"), a_worker("w2")])

    await store.record_heartbeats("main", ["w1"])

    assert [worker.id for worker in await store.silent_workers("main", HOUR, 10, HOUR)] == ["w2"]


async def test_workers_are_pruned_when_they_have_been_lost_or_gone_for_so_long(store: Store) -> None:
    leader = await Leader.of(store)
    now = await store.time()
    rows = [
        a_worker(f"{status} {days}", status=status, since=now - days * DAY)
        for status in ("expected", "gone", "lost", "ready", "suspect")
        for days in (1, 40)
    ]
    await leader.commit(workers=rows)

    pruned = await store.prune("workers", 30 * DAY)

    assert (pruned.rows, pruned.more) == (2, False)
    left = {worker.id for worker in await store.list_workers(None, "", 100)}
    assert left == {row.id for row in rows} - {"gone 40", "lost 40"}


@pytest.mark.parametrize("store", ["postgres"], indirect=True)
async def test_who_notes_workers_never_waits_for_a_batch_that_writes_them(store: Store) -> None:
    """Two writers that wait for each other's rows would end in a deadlock."""
    assert isinstance(store, PostgresStore)
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1"), a_worker("w2")])
    async with store._maintenance.connection() as connection:
        await connection.execute("BEGIN")
        await connection.execute("UPDATE workers SET status = 'lost' WHERE id = 'w1'")

        at = await store.record_heartbeats("main", ["w1", "w2"])

        await connection.execute("COMMIT")
    assert await store.list_workers("main", "", 10) == [
        a_worker("w1", status="lost"), msgspec.structs.replace(a_worker("w2"), last_heartbeat_at=at)
    ]  # fmt: skip
