"""Checkpoints, and holds of workers: written by batches, loaded with the shard."""

from __future__ import annotations

from typing import Any

import pytest

from mainspring.core.model.batch import Checkpoint
from mainspring.core.model.task import Task
from mainspring.protocol.errors import Fenced, Rejected
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, NOW, Leader, a_run, ended
from tests.store.conftest import look
from tests.store.test_liveness import a_worker


def a_checkpoint(task: Task, document: str = '{"row":1}', **changes: Any) -> Checkpoint:
    """A saved checkpoint."""
    values: dict[str, Any] = {
        "task_id": task.id, "run_id": task.run_id, "attempt_id": "att_1", "document": document, "saved_at": NOW,
    }  # fmt: skip
    return Checkpoint(**(values | changes))


async def test_a_checkpoint_replaces_what_was_saved_before_for_the_same_task(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = await leader.adopt(a_run(), tasks=2)
    await leader.commit(checkpoints=[a_checkpoint(first), a_checkpoint(second)])

    later = a_checkpoint(first, '{"row":2}', attempt_id="att_2", saved_at=NOW + HOUR)
    await leader.commit(checkpoints=[later])

    assert await store.checkpoint(first.id) == later
    assert await store.checkpoint(second.id) == a_checkpoint(second)


async def test_of_two_checkpoints_in_one_batch_the_last_one_counts(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())

    await leader.commit(checkpoints=[a_checkpoint(task, "1"), a_checkpoint(task, "2")])

    assert await store.checkpoint(task.id) == a_checkpoint(task, "2")


async def test_a_task_without_a_checkpoint_has_none(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())

    assert await store.checkpoint(task.id) is None


async def test_a_checkpoint_is_written_with_its_batch_or_not_at_all(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())
    leader.number += 1

    with pytest.raises(Fenced):
        await leader.commit(checkpoints=[a_checkpoint(task)])

    assert await store.checkpoint(task.id) is None


async def test_a_checkpoint_that_no_store_takes_is_rejected(store: Store) -> None:
    leader = await Leader.of(store)
    (task,) = await leader.adopt(a_run())

    with pytest.raises(Rejected):
        await leader.commit(checkpoints=[a_checkpoint(task, "a\0b")])


async def test_load_has_the_checkpoints_of_the_runs_that_it_loads(store: Store) -> None:
    leader = await Leader.of(store)
    going_on, over = a_run(), a_run()
    first, second = await leader.adopt(going_on, over)
    checkpoints = [a_checkpoint(first), a_checkpoint(second)]
    await leader.commit(runs=[ended(over)], checkpoints=checkpoints)

    assert (await store.load("main")).checkpoints == checkpoints[:1]
    assert (await store.load("other")).checkpoints == []
    assert (await store.load_run(over.id)).checkpoints == checkpoints[1:]


async def test_checkpoints_go_when_their_run_moves_to_history(store: Store) -> None:
    leader = await Leader.of(store)
    over, going_on = a_run(), a_run()
    first, second = await leader.adopt(over, going_on)
    await leader.commit(runs=[ended(over)], checkpoints=[a_checkpoint(first), a_checkpoint(second)])

    await leader.commit(archived=[over.id])

    assert await store.checkpoint(first.id) is None
    assert await look(store, "SELECT task_id FROM checkpoints") == [(second.id,)]


async def test_load_has_the_workers_of_the_shard_that_are_held_back(store: Store) -> None:
    leader, other = await Leader.of(store), await Leader.of(store, "other")
    cordoned = a_worker("w2", hold="cordoned", hold_why="ann: its disk is full")
    draining = a_worker("w1", hold="draining", status="suspect")
    await leader.commit(workers=[a_worker("w0"), cordoned, draining])
    await other.commit(workers=[a_worker("w3", shard="other", hold="cordoned")])
    run = a_run()
    await leader.adopt(run)

    assert (await store.load("main")).workers == [draining, cordoned]
    assert (await store.load_run(run.id)).workers == []


async def test_a_worker_that_is_let_go_again_is_not_loaded(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(workers=[a_worker("w1", hold="cordoned", hold_why="ann")])

    await leader.commit(workers=[a_worker("w1")])

    assert (await store.load("main")).workers == []
    assert await store.list_workers("main", "", 5) == [a_worker("w1")]
