"""Clean shutdown of workers, and the second check for those that vanished (WRK-9, LIV-1)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.task import AttemptEnd, TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from mainspring.shard.events import TimerKind
from tests.shard.jobs import task
from tests.shard.world import World

S = TaskState


def test_a_worker_that_leaves_gets_nothing_new_and_finishes_what_it_has(world: World) -> None:
    world.register("w1", cores=2)
    first = world.given_run(task("first"))
    world.settle(world.say(happened.WorkerLeaving, "w1"))

    world.given_run(task("second"))

    assert world.task("second").state is S.QUEUED
    world.run_through("first", of=first)
    assert world.task("first").state is S.SUCCEEDED


def test_a_task_stopped_by_a_leaving_worker_is_requeued_without_a_loss(world: World) -> None:
    """However often a fleet is renewed, a long task does not fail for it."""
    world.register("w1")
    world.given_run(task("long"))
    for number in range(1, 6):
        world.start("long")
        world.settle(world.say(happened.WorkerLeaving, f"w{number}"))
        world.register(f"w{number + 1}")
        world.settle(world.result("long", Outcome.STOPPED))
        now = world.task("long")
        assert (now.worker_id, now.losses, now.tries) == (f"w{number + 1}", 0, 0)

    assert {attempt.end for attempt in world.ledger.attempts.values()} == {AttemptEnd.STOPPED}


def test_a_worker_that_registers_again_is_not_leaving(world: World) -> None:
    """Leaving belongs to a session; it is not a cordon."""
    world.register("w1")
    world.settle(world.say(happened.WorkerLeaving, "w1"))
    world.reload()
    world.given_run(task("a"))
    assert world.task("a").state is S.QUEUED

    world.reconnect("w1")

    assert world.task("a").worker_id == "w1"


def test_a_worker_that_shuts_down_is_forgotten_at_once(world: World) -> None:
    world.register("w1")

    world.settle(world.say(happened.WorkerGone, "w1"))

    assert not world.shard.memory.workers
    assert world.ledger.workers["w1"].status == WorkerStatus.GONE
    assert world.workers["w1"].closed


def test_tasks_left_by_a_worker_are_requeued(world: World) -> None:
    """As if it had registered without them: started tasks are lost, the others are queued again."""
    world.register("w1", cores=2)
    world.given_run(task("ran"))
    world.given_run(task("waited"))
    world.start("ran")
    (_, ran), (_, waited) = world.holder("ran"), world.holder("waited")

    world.settle(world.say(happened.WorkerGone, "w1"))

    assert (world.task("ran").state, world.task("waited").state) == (S.QUEUED, S.QUEUED)
    assert world.task("ran").because == "w1 left without it"
    assert world.ledger.attempts[ran].end is AttemptEnd.LOST
    assert world.ledger.attempts[waited].end is AttemptEnd.RETURNED


def test_a_worker_that_reconnects_often_has_one_silence_timer(world: World) -> None:
    """A timer of an older stay does nothing."""
    for _ in range(5):
        world.register("w1")
        world.settle(world.say(happened.WorkerGone, "w1"))
    world.register("w1")
    world.given_running("a", on="w1")

    world.advance(14)
    assert world.task("a").state is S.RUNNING
    world.advance(1)
    assert world.task("a").state is S.QUEUED
    assert [timer for timer in world.shard.due(world.now) if getattr(timer, "kind", "") is TimerKind.SILENCE] == []


def test_a_shutdown_of_an_older_session_is_ignored(world: World) -> None:
    world.given_running("a", on="w1")
    late = world.say(happened.WorkerGone, "w1")
    world.reconnect("w1")

    world.settle(late)

    assert world.task("a").state is S.RUNNING


# the second watch


def silent_event(world: World, worker: str) -> happened.WorkerSilent:
    """The rows say that a worker has been silent for long."""
    return happened.WorkerSilent(row=world.ledger.workers[worker])


def test_a_worker_without_a_timer_is_marked_lost_by_its_row(world: World) -> None:
    """LIV-1: two independent watches."""
    world.given_running("a", on="w1")
    world.shard.memory.timers.after.pop_due(float("inf"), 1_000)
    world.advance(30)
    assert world.task("a").state is S.RUNNING

    world.settle(silent_event(world, "w1"))

    assert world.task("a").state is S.QUEUED
    assert world.task("a").because == "w1 was silent for 30 s"
    assert world.ledger.workers["w1"].status == WorkerStatus.LOST


def test_a_worker_with_a_recent_heartbeat_is_not_marked_lost_by_its_row(world: World) -> None:
    """I-16: the notes may have failed."""
    world.given_running("a", on="w1")
    world.advance(20, heard=["w1"])

    world.settle(silent_event(world, "w1"))

    assert world.task("a").state is S.RUNNING


def test_a_heartbeat_in_the_same_turn_keeps_a_worker_that_its_row_calls_silent(world: World) -> None:
    """I-16: a turn is open while the previous batch is being written, which may take seconds."""
    world.given_running("a", on="w1")
    world.shard.memory.timers.after.pop_due(float("inf"), 1_000)
    world.advance(30)

    world.turn(silent_event(world, "w1"), world.say(happened.WorkerHeartbeat, "w1"))

    assert world.task("a").state is S.RUNNING
    assert world.ledger.workers["w1"].status == WorkerStatus.READY


def test_a_silent_worker_is_marked_lost_when_events_are_applied_one_at_a_time(world: World) -> None:
    world.given_running("a", on="w1")
    world.shard.memory.timers.after.pop_due(float("inf"), 1_000)
    world.advance(30)

    world.turn_alone(silent_event(world, "w1"))

    assert world.task("a").state is S.QUEUED
    assert world.ledger.workers["w1"].status == WorkerStatus.LOST


def test_a_new_leader_marks_no_worker_lost_before_the_grace_period(world: World) -> None:
    """I-42: only after fifteen seconds of receiving."""
    world.given_running("a", on="w1")
    world.register("w2")
    world.new_leader()
    world.advance(14)

    world.settle(silent_event(world, "w1"), silent_event(world, "w2"))

    assert world.task("a").state is S.RUNNING
    assert world.ledger.workers["w2"].status == WorkerStatus.READY


def test_the_row_of_a_worker_that_never_registered_is_corrected(world: World) -> None:
    """It held nothing, so it was not expected; its cordon stays."""
    world.register("w1", cores=3)
    world.settle(happened.CordonWorker(worker="w1", by="ann"))
    row = world.ledger.workers["w1"]
    world.new_leader()
    world.advance(15)

    world.settle(silent_event(world, "w1"))

    found = world.ledger.workers["w1"]
    assert (found.status, found.hold, found.offer) == (WorkerStatus.LOST, "cordoned", row.offer)
    assert found.last_heartbeat_at == row.last_heartbeat_at


def test_a_stale_row_does_not_undo_an_action(world: World) -> None:
    """The cordon is that of the shard, not that of the stale row."""
    world.register("w1")
    world.settle(happened.DrainWorker(worker="w1", by="ann"))
    world.new_leader()
    event = silent_event(world, "w1")
    world.settle(happened.UncordonWorker(worker="w1", by="ann"))
    world.advance(15)

    world.settle(event)

    assert (world.ledger.workers["w1"].status, world.ledger.workers["w1"].hold) == (WorkerStatus.LOST, "")


@pytest.mark.parametrize("turns", [1, 2])
def test_a_worker_that_registers_while_its_row_is_corrected_is_ready(world: World, turns: int) -> None:
    """In one turn or in two: its row has its state before."""
    world.register("w1")
    world.new_leader()
    world.advance(15)
    event = silent_event(world, "w1")
    worker = world.workers["w1"]
    worker.sessions += 1
    hello = world.say(
        happened.WorkerRegistered, "w1", offer=worker.offer, labels={}, zone="", version="", holds=()
    )  # fmt: skip

    if turns == 1:
        world.turn(event, hello)
    else:
        world.turn(event)
        world.turn(hello)

    assert world.ledger.workers["w1"].status == WorkerStatus.READY


def test_the_row_of_a_lost_worker_has_its_last_heartbeat(world: World) -> None:
    world.register("w1")
    world.advance(4, heard=["w1"])
    heard_at = world.now

    world.advance(15)

    row: WorkerRow = world.ledger.workers["w1"]
    assert row.status == WorkerStatus.LOST
    assert abs(row.last_heartbeat_at - heard_at) < timedelta(seconds=0.01)
