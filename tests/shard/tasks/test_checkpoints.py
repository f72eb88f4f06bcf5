"""A task saves something, and finds the last of it on its next attempt, whatever the worker (WRK-7)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import TaskState
from mainspring.core.work.work import digest_of
from mainspring.protocol.wire import Assign, Assignment, Outcome, Progress
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import chain, task
from tests.shard.world import World

S = TaskState


def save(world: World, name: str, document: str) -> None:
    """The running attempt of a task saves something."""
    worker, attempt = world.holder(name)
    world.settle(world.say(happened.CheckpointSaved, worker, attempt=attempt, document=document))


def last_assignment(world: World, worker: str) -> Assignment:
    """The latest assignment of a worker."""
    message = world.said_to(worker, Assign)[-1]
    assert isinstance(message, Assign)
    return message.group[-1]


def test_a_first_attempt_has_no_checkpoint(world: World) -> None:
    world.given_running("a", on="w1")

    assert last_assignment(world, "w1").checkpoint is None


def test_the_next_attempt_gets_the_latest_checkpoint(world: World) -> None:
    """After a failure, on whichever worker."""
    world.given_running("a", on="w1", retry_delay_seconds=1.0)
    save(world, "a", "1")
    save(world, "a", "2")

    world.fail("a")
    world.advance(2, heard=["w1"])

    assert last_assignment(world, "w1").checkpoint == "2"
    assert world.ledger.checkpoints[world.task("a").id].document == "2"


def test_only_the_latest_of_a_turn_is_written(world: World) -> None:
    world.given_running("a", on="w1")
    worker, attempt = world.holder("a")

    batch = world.turn(
        *(world.say(happened.CheckpointSaved, worker, attempt=attempt, document=one) for one in ("1", "2", "3"))
    )

    assert [saved.document for saved in batch.checkpoints] == ["3"]
    assert batch.checkpoints[0].attempt_id == attempt


@pytest.mark.parametrize("lost", ["worker lost", "evicted", "new leader", "memory loaded again"])
def test_a_checkpoint_outlives_its_attempt_its_worker_and_its_leader(world: World, lost: str) -> None:
    world.given_running("a", on="w1")
    save(world, "a", '{"n": 1}')

    if lost == "evicted":
        world.settle(happened.EvictWorker(worker="w1", by="ann"))
        world.stop("a")
    elif lost == "new leader":
        world.new_leader()
        world.reconnect("w1", holds=[])
    elif lost == "memory loaded again":
        world.reload()
    world.advance(16)
    world.register("w2")

    assert last_assignment(world, "w2").checkpoint == '{"n": 1}'


def test_a_manual_retry_continues_from_the_checkpoint(world: World) -> None:
    """Also after the run was final and had left the memory."""
    run = world.given_running("a", on="w1", max_attempts=1)
    save(world, "a", "7")
    world.fail("a")
    assert run.id not in world.shard.memory.runs

    world.action(happened.ReopenTask, run, task="a")

    assert last_assignment(world, "w1").checkpoint == "7"


def test_each_task_gets_its_own_checkpoint(world: World) -> None:
    world.register("w1")
    world.submit(chain("a", "b"))
    world.start("a")
    save(world, "a", "1")

    world.succeed("a")

    assert last_assignment(world, "w1").checkpoint is None


def test_an_attempt_of_another_worker_saves_nothing(world: World) -> None:
    """I-13: the worker gets that verdict."""
    world.given_running("a", on="w1")
    worker, attempt = world.holder("a")
    event = world.say(happened.CheckpointSaved, worker, attempt=attempt, document='"late"')
    world.succeed("a")

    world.settle(event)

    assert world.ledger.checkpoints == {}
    assert world.stops("w1") == [(attempt, 0.0)]


def test_an_invalid_checkpoint_ends_nothing(world: World) -> None:
    """The event is recorded, and the attempt continues; the previous checkpoint is still there."""
    world.given_running("a", on="w1", retry_delay_seconds=1.0)
    save(world, "a", "1")
    worker, attempt = world.holder("a")
    bad = world.say(happened.CheckpointSaved, worker, attempt=attempt, document='"\\u0000"')

    world.settle(happened.EventNotStorable(event=bad, fault="its checkpoint has a NUL character in it"))

    assert world.task("a").state is S.RUNNING
    assert [record.kind for record in world.ledger.rejected] == ["CheckpointSaved"]
    world.settle(world.result("a", Outcome.FAILED))
    world.advance(2, heard=["w1"])
    assert last_assignment(world, "w1").checkpoint == "1"


def test_how_far_an_attempt_is_and_when_it_last_moved(world: World) -> None:
    """LIV-2: kept while the attempt is live, also after a reload."""
    world.given_running("a", on="w1")
    _, attempt = world.holder("a")

    def beat(percent: float, note: str = "") -> None:
        world.advance(5)
        world.settle(world.say(happened.WorkerHeartbeat, "w1", progress=(Progress(attempt, percent, note),)))

    beat(10.0)
    beat(10.0)
    moved = world.shard.memory.attempts.with_progress()[attempt].moved
    assert world.shard.memory.shard_time - moved == pytest.approx(5.0)
    beat(10.0, "x" * 1_000)
    world.reload()
    said = world.shard.memory.attempts.with_progress()[attempt]
    assert (said.percent, len(said.note), said.moved) == (10.0, 200, world.shard.memory.shard_time)

    world.succeed("a")
    beat(20.0)
    assert world.shard.memory.attempts.with_progress() == {}


def test_progress_of_another_workers_attempt_is_ignored(world: World) -> None:
    """I-13."""
    world.given_running("a", on="w1")
    world.given_run(task("b"))
    world.register("w2")
    (_, attempt) = world.holder("a")

    world.settle(world.say(happened.WorkerHeartbeat, "w2", progress=(Progress(attempt, 50.0),)))

    assert world.shard.memory.attempts.with_progress() == {}


# a person saves one


def put(world: World, document: str, expected: str | None = None) -> tuple[ActionStatus, str]:
    """A user replaces the checkpoint of `a`."""
    attempt = world.task("a").attempt_id or "att_1"
    answered = world.action(happened.SaveCheckpoint, task="a", attempt_id=attempt, document=document, expected=expected)
    return answered.reply, answered.detail


def given_saved(world: World) -> None:
    """A running task with the checkpoint 1."""
    world.given_running("a", on="w1", retry_delay_seconds=1.0)
    save(world, "a", "1")


def test_the_next_attempt_gets_a_checkpoint_saved_by_a_person(world: World) -> None:
    given_saved(world)
    world.fail("a")

    assert put(world, "7") == (ActionStatus.DONE, digest_of("7"))
    world.advance(2, heard=["w1"])

    assert last_assignment(world, "w1").checkpoint == "7"


def test_a_checkpoint_is_replaced_only_if_it_is_the_expected_one(world: World) -> None:
    given_saved(world)

    reply, detail = put(world, "2", digest_of("0"))
    assert (reply, digest_of("1") in detail) == (ActionStatus.REFUSED, True)
    assert put(world, "2", "")[0] is ActionStatus.REFUSED
    assert world.ledger.checkpoints[world.task("a").id].document == "1"

    assert put(world, "2", digest_of("1"))[0] is ActionStatus.DONE
    assert world.ledger.checkpoints[world.task("a").id].document == "2"


def test_a_checkpoint_saved_in_the_same_turn_counts(world: World) -> None:
    """Of two writers that read the same, one learns that it has changed."""
    given_saved(world)
    worker, attempt = world.holder("a")
    saves = world.say(happened.CheckpointSaved, worker, attempt=attempt, document="2")
    action = world.asked(
        happened.SaveCheckpoint, task="a", attempt_id=attempt, document="3", expected=digest_of("1")
    )  # fmt: skip

    batch = world.turn(saves, action)

    assert world.answers[action.request_id].reply is ActionStatus.REFUSED
    assert [saved.document for saved in batch.checkpoints] == ["2"]


def test_an_older_attempt_can_not_save_a_checkpoint(world: World) -> None:
    """I-13: such as a process that still runs after its worker was lost."""
    given_saved(world)

    answered = world.action(happened.SaveCheckpoint, task="a", attempt_id="att_older", document="9")

    _, attempt = world.holder("a")
    assert (answered.reply, attempt in answered.detail) == (ActionStatus.REFUSED, True)


def test_no_checkpoint_can_be_expected(world: World) -> None:
    world.given_running("a", on="w1")

    assert put(world, "1", digest_of("1"))[0] is ActionStatus.REFUSED
    assert put(world, "1", "")[0] is ActionStatus.DONE


def test_a_final_task_gets_no_checkpoint(world: World) -> None:
    world.register("w1")
    world.submit(chain("a", "b"))
    world.run_through("a")

    reply, detail = put(world, "1")
    assert (reply, "the task is SUCCEEDED" in detail) == (ActionStatus.REFUSED, True)
    world.run_through("b")
    reply, detail = put(world, "1")
    assert (reply, "the run is SUCCEEDED" in detail) == (ActionStatus.REFUSED, True)
