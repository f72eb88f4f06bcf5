"""Reservations: when they are released, and that a new leader keeps them (PLC-6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard import events as happened
from mainspring.shard.effects import ActionStatus
from tests.shard.jobs import cores, job, task, wide
from tests.shard.preemption_scenes import asked_to_go, full_of_p2, given, room, running
from tests.shard.sharing_rules import promise, quota, rules
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def cancel(world: World, high: Run) -> None:
    """The winner is cancelled."""
    assert world.reply(happened.CancelRun, high) is ActionStatus.DONE


def pause(world: World, high: Run) -> None:
    """The winner's run is paused."""
    assert world.reply(happened.PauseRun, high) is ActionStatus.DONE


def place_elsewhere(world: World, high: Run) -> None:
    """A worker with capacity registers."""
    world.register("w2")
    assert world.task("high", high).worker_id == "w2"


def cordon(world: World, high: Run) -> None:
    """The worker gets nothing new."""
    world.settle(happened.CordonWorker(worker="w1", by="ann"))


@pytest.mark.parametrize("happens", [cancel, pause, place_elsewhere, cordon])
def test_an_unneeded_reservation_is_released(world: World, happens: Callable[[World, Run], None]) -> None:
    full_of_p2(world)
    high = world.run(world.task("high").run_id)

    happens(world, high)

    assert room(world, "high") is None
    assert not world.shard.memory.workers["w1"].reserved
    assert not world.shard.memory.queues.reserved


def test_a_task_preempted_in_vain_may_use_the_capacity_again(world: World) -> None:
    full_of_p2(world)
    world.action(happened.CancelRun, world.run(world.task("high").run_id))

    world.stop("low")

    assert world.task("low").state is S.ASSIGNED


def test_an_expired_reservation_is_released_and_made_again(world: World) -> None:
    """The victim does not stop, for an unknown reason."""
    full_of_p2(world)
    reserved = room(world, "high")
    assert reserved is not None
    assert (reserved.until - world.now).total_seconds() == 60

    world.advance(59, heard=["w1"])
    assert room(world, "high") == reserved

    world.advance(2, heard=["w1"])
    again = room(world, "high")
    assert again is not None
    assert again.until > reserved.until
    assert len(world.stops("w1")) == 1, "what is going is not asked again"


def test_a_reservation_on_a_lost_worker_moves_to_another(world: World) -> None:
    full_of_p2(world)
    world.register("w2")
    world.advance(1, heard=["w1", "w2"])
    assert world.task("high").worker_id == "w2"

    world.register("w3", cores=2)
    running(world, "wide", P2, resources=cores(2))
    given(world, "next", P0, resources=cores(2))
    reserved = room(world, "next")
    assert reserved is not None
    assert (reserved.worker, reserved.yields) == ("w3", False)
    world.advance(20, heard=["w1", "w2"])

    assert room(world, "next") is None
    assert "w3" not in world.shard.memory.workers
    assert world.task("wide").losses == 0, "what was asked to go, and is gone, is no loss"


def test_a_worker_that_returns_too_small_loses_its_reservations(world: World) -> None:
    world.register("w1", cores=2)
    running(world, "a", P2)
    running(world, "b", P2)
    given(world, "high", P0, resources=cores(2))
    assert room(world, "high") is not None

    world.stop("a")
    world.workers["w1"].offer = Offer(1000, 2**30)
    world.reconnect("w1")

    assert room(world, "high") is None
    assert not world.shard.memory.workers["w1"].reserved


def test_a_changed_priority_releases_the_reservation(world: World) -> None:
    full_of_p2(world)

    world.action(happened.ChangePriority, world.run(world.task("high").run_id), priority=P2)

    assert room(world, "high") is None


def test_a_raised_priority_preempts_for_a_waiting_task(world: World) -> None:
    world.register("w1")
    running(world, "low", P2)
    run = given(world, "late", P1)
    assert asked_to_go(world) == set()

    world.action(happened.ChangePriority, run, priority=P0)

    assert asked_to_go(world) == {"low"}


# more important ones


def test_a_reservation_of_the_lowest_priority_goes_to_the_highest(world: World) -> None:
    """I-62: a P0 that was checked a moment ago, and a P1 that was not, wait for the same."""
    world.register("w1", cores=2)
    running(world, "first", P0, resources=cores(2))
    given(world, "low", P2, resources=cores(2))
    world.advance(6, heard=["w1"])
    assert room(world, "low") is not None
    given(world, "high", P0, resources=cores(2))

    later = world.put_in_intake(job(task("middle", resources=cores(2))), priority=P1)
    world.settle(world.result("first", Outcome.SUCCEEDED), world.arrival(later))

    assert world.names(S.ASSIGNED) == ["high"]


def test_a_pending_reservation_is_exchanged_for_a_ready_one_of_lower_priority(world: World) -> None:
    """I-62: a task was preempted for the P0, and has not stopped yet."""
    world.register("w2", cores=2)
    running(world, "first", P0, resources=cores(2))
    given(world, "large", P2, resources=cores(2))
    world.advance(6, heard=["w2"])
    full_of_p2(world)
    assert [one and one.worker for one in (room(world, "large"), room(world, "high"))] == ["w2", "w1"]

    world.succeed("first")

    assert world.task("high").worker_id == "w2"
    assert not world.shard.memory.workers["w1"].reserved


def test_released_capacity_is_used_in_the_same_turn(world: World) -> None:
    """PLC-4: a tenant skipped because of the reservation is checked again."""
    world.register("w1", cores=2, labels={"disk": "fast"})
    running(world, "first", P1)
    running(world, "second", P1)
    given(world, "large", P1, resources=cores(2))
    world.advance(6, heard=["w1"])
    world.succeed("first")
    given(world, "small", P1, labels={"disk": "fast"})
    assert world.names(S.ASSIGNED) == []

    world.register("w2", cores=2)

    assert (world.task("large").worker_id, world.task("small").worker_id) == ("w2", "w1")


# leaders


def test_a_reservation_transferred_to_an_older_task_is_in_its_row(world: World) -> None:
    """The capacity is free when the tenant may start nothing any more: its holder keeps it, under any leader."""
    world.register("w1")
    running(world, "low", P2)
    older = world.submit(job(task("older")), tenant="owner", priority=P2)
    world.advance(1, heard=["w1"])
    world.submit(job(task("younger")), tenant="owner", priority=P1)
    promise(world, owner=1)
    world.advance(2, heard=["w1"])
    assert room(world, "younger") is not None
    world.action(happened.ChangePriority, older, priority=P1)
    world.rule(rules(quota("owner", guaranteed=1, max_tasks=0)))

    world.stop("low")

    assert world.names(S.ASSIGNED) == []
    assert (room(world, "older") is not None, room(world, "younger")) == (True, None)
    assert list(world.shard.memory.workers["w1"].reserved) == [world.task("older").id]


@pytest.mark.parametrize("load", [World.reload, World.new_leader])
def test_a_new_leader_keeps_the_reservation_without_another_preemption(
    world: World, load: Callable[[World], None]
) -> None:
    full_of_p2(world)
    reserved = room(world, "high")

    load(world)
    world.reconnect("w1")
    world.submit(wide(5), tenant="flood", priority=P1)
    world.advance(5, heard=["w1"])

    assert room(world, "high") == reserved
    assert asked_to_go(world) == {"low"}
    assert len(world.stops("w1")) == 1, "the request that stands is sent again to a new session"
    world.stop("low")
    assert world.names(S.ASSIGNED) == ["high"]


def test_a_new_leader_expects_a_worker_with_only_a_reservation(world: World) -> None:
    """The victim had ended when the leader failed; the worker holds no task in any row."""
    full_of_p2(world)
    world.settle(happened.StoreLagged(hold=P0))
    world.stop("low")
    assert set(world.names(S.QUEUED)) == {"high", "low"}

    world.new_leader()
    assert world.shard.memory.workers["w1"].reserved
    world.advance(20)

    assert room(world, "high") is None
    assert "w1" not in world.shard.memory.workers


def test_a_reservation_keeps_its_expiry_under_a_new_leader(world: World) -> None:
    full_of_p2(world)
    reserved = room(world, "high")
    world.advance(50, heard=["w1"])

    world.new_leader()
    world.reconnect("w1")
    world.advance(11, heard=["w1"])

    assert room(world, "high") != reserved
