"""Recent workers may come back: their resources are not reported as never available."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.core.explain.diagnosis import ExpectedKind
from mainspring.core.model.task import TaskState
from mainspring.core.model.worker import Worker
from mainspring.shard import events as happened
from mainspring.shard.state.recent_workers import MAX_RECENT_WORKERS, RecentWorkers
from tests.shard.diagnoses import settled, why
from tests.shard.jobs import cores, job, task
from tests.shard.world import World

S = TaskState


def _one_of_two_is_lost(world: World) -> None:
    """The only worker with an A100, and the only large one, falls silent; w2 stays."""
    world.register("w1", cores=8, labels={"gpu": "a100"})
    settled(world, w2=1)
    world.advance(16, heard=["w2"])
    assert list(world.shard.memory.workers) == ["w2"]


@pytest.mark.parametrize("needs", [{"labels": {"gpu": "a100"}}, {"resources": cores(4)}])
def test_resources_of_a_recent_worker_are_not_reported_as_never_available(world: World, needs: dict[str, Any]) -> None:
    _one_of_two_is_lost(world)
    world.submit(job(task("train", **needs)))

    found = why(world, "train")
    assert "w1 offered it until 00:00:21 UTC" in found.verdict
    assert found.expected is not None
    assert found.expected.kind is ExpectedKind.UNKNOWN
    assert "w1 offered it until 00:00:21 UTC" in found.expected.basis

    world.reconnect("w1")
    assert world.task("train").worker_id == "w1"


def test_resources_that_no_recent_worker_had_are_reported_as_never_available(world: World) -> None:
    _one_of_two_is_lost(world)
    world.submit(job(task("train", labels={"gpu": "h100"})))

    expected = why(world, "train").expected
    assert expected is not None
    assert expected.kind is ExpectedKind.NEVER


def test_a_worker_gone_for_a_day_is_forgotten(world: World) -> None:
    _one_of_two_is_lost(world)
    world.submit(job(task("train", labels={"gpu": "a100"})))
    world.now += timedelta(days=1, seconds=1)

    expected = why(world, "train").expected
    assert expected is not None
    assert expected.kind is ExpectedKind.NEVER


def test_a_worker_that_shut_down_may_come_back(world: World) -> None:
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    world.settle(world.say(happened.WorkerGone, "w1"))
    world.submit(job(task("train", labels={"gpu": "a100"})))

    assert "w1 offered it until" in why(world, "train").verdict


def test_recent_workers_survive_a_reload_within_the_term(world: World) -> None:
    _one_of_two_is_lost(world)
    world.reload()
    world.submit(job(task("train", labels={"gpu": "a100"})))

    assert "w1 offered it until" in why(world, "train").verdict


def test_a_new_leader_remembers_workers_that_do_not_register(world: World) -> None:
    """w1 held nothing: only its row says that it was there."""
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    row = world.ledger.workers["w1"]
    world.new_leader()
    world.reconnect("w2")
    world.advance(16, heard=["w2"])
    world.settle(happened.WorkerSilent(row=row))
    world.submit(job(task("train", labels={"gpu": "a100"})))

    assert "w1 offered it until" in why(world, "train").verdict


def test_a_new_leader_knows_the_leases_of_a_worker_that_does_not_register(world: World) -> None:
    """w1 ran it, and was lost with the leader."""
    world.register("w1", labels={"gpu": "a100"})
    settled(world, w2=1)
    world.submit(job(task("train", labels={"gpu": "a100"}, max_attempts=3)))
    world.start("train")
    world.new_leader()
    world.reconnect("w2")
    world.advance(120, heard=["w2"])

    assert world.task("train").state is S.QUEUED
    assert "w1 offered it until" in why(world, "train").verdict


def test_the_number_of_recent_workers_is_bounded(world: World) -> None:
    recent_workers = RecentWorkers()
    for number in range(MAX_RECENT_WORKERS + 1):
        recent_workers.note(Worker(id=f"w{number}", session="s"), world.now)

    names = [one.worker.id for one in recent_workers.recent(world.now)]
    assert (len(names), names[0], names[-1]) == (MAX_RECENT_WORKERS, f"w{MAX_RECENT_WORKERS}", "w1")
