"""Cordon, drain, evict, uncordon (WRK-9)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import AttemptEnd, Priority, StopKind, TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.core.placement.feasibility import ObstacleKind, obstacles
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionReply, ActionStatus
from mainspring.shard.events import CordonWorker, DrainWorker, EvictWorker, UncordonWorker, WorkerAction
from tests.shard.jobs import short, task, wide
from tests.shard.world import World

S = TaskState


def ask(world: World, kind: type[WorkerAction], worker: str, why: str = "") -> ActionReply:
    """Have something done to a worker; returns the answer."""
    request_id = 1_000 + len(world.batches)
    world.settle(kind(worker=worker, by="ann", why=why, request_id=request_id))
    return world.answers[request_id]


def test_a_cordoned_worker_keeps_what_it_has_and_gets_nothing_new(world: World) -> None:
    world.register("w1", cores=2)
    first = world.given_run(task("first"))

    assert ask(world, CordonWorker, "w1", "new kernel").reply is ActionStatus.DONE

    second = world.given_run(task("second"))
    assert world.task("second").state is S.QUEUED
    world.run_through("first", of=first)
    assert world.recalls("w1") == []
    assert world.task("second", second).state is S.QUEUED


def test_a_cordon_is_in_the_row_and_in_the_diagnosis(world: World) -> None:
    world.register("w1")

    ask(world, CordonWorker, "w1", "new kernel")

    row = world.ledger.workers["w1"]
    assert (row.status, row.hold, row.hold_why) == ("ready", "cordoned", "new kernel (ann)")
    run = world.given_run(task("a"))
    shape = world.shard.memory.runs[run.id].job.shapes[0]
    [found] = obstacles(shape, world.shard.memory.workers["w1"])
    assert (found.kind, found.detail) == (ObstacleKind.CORDONED, "w1 is cordoned (new kernel (ann))")


@pytest.mark.parametrize("kind", [CordonWorker, DrainWorker, EvictWorker])
def test_waiting_tasks_are_placed_at_once_after_uncordon(world: World, kind: type[WorkerAction]) -> None:
    world.register("w1")
    ask(world, kind, "w1")
    world.given_run(task("a"))

    assert ask(world, UncordonWorker, "w1").reply is ActionStatus.DONE

    assert world.task("a").worker_id == "w1"
    assert world.ledger.workers["w1"].hold == ""


def test_draining_recalls_unstarted_tasks_only(world: World) -> None:
    world.register("w1")
    run = world.submit(wide(3, expected_seconds=0.01))
    world.start("t0")
    (_, waits) = world.holder("t1")
    (_, waits_too) = world.holder("t2")

    assert ask(world, DrainWorker, "w1").reply is ActionStatus.DONE

    assert sorted(world.recalls("w1")) == sorted([waits, waits_too])
    assert world.stops("w1") == []
    world.give_back("t1", "t2")
    assert world.states(run) == {"t0": S.RUNNING, "t1": S.QUEUED, "t2": S.QUEUED}
    world.succeed("t0")
    assert world.states(run) == {"t0": S.SUCCEEDED, "t1": S.QUEUED, "t2": S.QUEUED}


def test_a_task_that_starts_before_its_recall_continues(world: World) -> None:
    """Draining asks for nothing that runs."""
    world.register("w1")
    world.given_run(task("a"))
    ask(world, DrainWorker, "w1")

    world.start("a")

    assert world.stops("w1") == []
    assert world.task("a").stop is None


def test_an_evicted_task_is_requeued_and_the_attempt_does_not_count(world: World) -> None:
    """STA-8: asked to stop, with a grace period; QUEUED once it is gone."""
    world.given_running("a", on="w1", max_attempts=1)
    (_, attempt) = world.holder("a")

    assert ask(world, EvictWorker, "w1", "disk fails").reply is ActionStatus.DONE

    assert world.stops("w1") == [(attempt, 30.0)]
    stop = world.task("a").stop
    assert stop is not None
    assert (stop.kind, stop.by) == (StopKind.EVICT, "ann")
    world.stop("a")
    assert world.task("a").state is S.QUEUED
    assert world.task("a").tries == 0
    assert world.ledger.attempts[attempt].end is AttemptEnd.STOPPED
    world.register("w2")
    assert world.task("a").worker_id == "w2"


def test_an_evicted_task_whose_worker_is_lost_meanwhile_was_not_lost(world: World) -> None:
    """RTY-5: it was to stop anyway, and does not count as a loss."""
    world.given_running("a", on="w1")
    ask(world, EvictWorker, "w1", "disk fails")

    world.advance(seconds=16)

    assert world.task("a").state is S.QUEUED
    assert (world.task("a").losses, world.task("a").tries) == (0, 0)


def test_a_task_that_starts_before_its_eviction_is_stopped(world: World) -> None:
    """Recalled while it waits, asked to stop once it runs."""
    world.register("w1")
    world.given_run(task("a"))
    (_, attempt) = world.holder("a")
    ask(world, EvictWorker, "w1")
    assert world.recalls("w1") == [attempt]

    world.start("a")

    assert [one for one, _ in world.stops("w1")] == [attempt]


def test_an_eviction_does_not_override_a_cancel_or_timeout(world: World) -> None:
    """STA-8: it had its time, and was to end."""
    world.register("w1", cores=2)
    run = world.given_run(task("late", timeout_seconds=5.0, max_attempts=1))
    other = world.given_run(task("unwanted"))
    world.start("late", "unwanted")
    world.action(happened.CancelTask, other, task="unwanted")
    world.advance(6, heard=["w1"])

    ask(world, EvictWorker, "w1")
    world.stop("late", of=run)
    world.stop("unwanted", of=other)

    assert world.task("late").state is S.TIMED_OUT
    assert world.task("unwanted").state is S.CANCELLED


@pytest.mark.parametrize(
    ("first", "second", "hold"),
    [
        (CordonWorker, CordonWorker, "cordoned"),
        (DrainWorker, CordonWorker, "draining"),
        (DrainWorker, DrainWorker, "draining"),
        (EvictWorker, EvictWorker, "draining"),
        (UncordonWorker, UncordonWorker, ""),
    ],
)
def test_a_redundant_action_is_reported_as_unchanged(
    world: World, first: type[WorkerAction], second: type[WorkerAction], hold: str
) -> None:
    """Asked twice, nothing changes the second time."""
    world.given_running("a", on="w1")
    ask(world, first, "w1")
    before = len([row for batch in world.batches for row in batch.workers])

    answer = ask(world, second, "w1")

    assert answer.reply is ActionStatus.ALREADY
    assert answer.detail == f"w1 is {hold or 'not cordoned'}"
    assert len([row for batch in world.batches for row in batch.workers]) == before


def test_a_cordoned_worker_can_be_drained_and_a_drained_one_evicted(world: World) -> None:
    """Each asks for more than the one before."""
    world.given_running("a", on="w1")

    assert ask(world, CordonWorker, "w1").reply is ActionStatus.DONE
    assert ask(world, DrainWorker, "w1").reply is ActionStatus.DONE
    assert ask(world, EvictWorker, "w1").reply is ActionStatus.DONE

    assert world.ledger.workers["w1"].hold == "draining"
    assert len(world.stops("w1")) == 1


def test_an_unknown_worker_is_not_found(world: World) -> None:
    for kind in (CordonWorker, DrainWorker, EvictWorker, UncordonWorker):
        assert ask(world, kind, "ghost").reply is ActionStatus.NOT_FOUND
    assert world.ledger.workers == {}


@pytest.mark.parametrize("again", ["reconnects", "new leader", "memory loaded again", "lost and back"])
def test_a_cordon_survives_reconnects_and_leaders(world: World, again: str) -> None:
    """It is in the row: only a person takes it away."""
    world.register("w1")
    ask(world, CordonWorker, "w1", "new kernel")

    match again:
        case "reconnects":
            world.reconnect("w1")
        case "new leader":
            world.new_leader()
            world.reconnect("w1")
        case "memory loaded again":
            world.reload()
        case _:
            world.advance(seconds=20)
            assert world.ledger.workers["w1"].status == WorkerStatus.LOST
            world.reconnect("w1")
    world.given_run(task("a"))

    assert world.task("a").state is S.QUEUED
    assert world.ledger.workers["w1"].hold_why == "new kernel (ann)"
    ask(world, UncordonWorker, "w1")
    assert world.task("a").worker_id == "w1"


def test_a_disconnected_worker_can_be_uncordoned(world: World) -> None:
    """Its row is known, and keeps its details."""
    world.register("w1", cores=3)
    ask(world, CordonWorker, "w1")
    world.new_leader()
    before = world.ledger.workers["w1"]

    assert ask(world, UncordonWorker, "w1").reply is ActionStatus.DONE

    after = world.ledger.workers["w1"]
    assert (after.hold, after.offer) == ("", before.offer)
    assert ask(world, UncordonWorker, "w1").reply is ActionStatus.NOT_FOUND


def test_a_worker_that_is_expected_can_be_drained(world: World) -> None:
    """LIV-6: it holds work according to the rows, and learns it when it registers."""
    world.register("w1")
    world.given_run(task("a"))
    (_, attempt) = world.holder("a")
    world.new_leader()

    assert ask(world, DrainWorker, "w1").reply is ActionStatus.DONE
    world.reconnect("w1")

    assert world.recalls("w1") == [attempt]


def test_the_rest_of_a_group_is_not_recalled_from_a_cordoned_worker(world: World) -> None:
    """PLC-10: the capacity could not be used."""
    world.register("w1")
    world.given_run(*(short(f"t{number}") for number in range(3)))
    ask(world, CordonWorker, "w1")

    world.submit(wide(1), priority=Priority.P0)

    assert world.recalls("w1") == []


def test_a_rejected_action_gets_a_reply(world: World) -> None:
    world.register("w1")

    world.reject(CordonWorker(worker="w1", by="ann", request_id=7), "a bug")

    assert world.answers[7].reply is ActionStatus.REFUSED
    assert world.ledger.rejected[0].subject == "w1"
