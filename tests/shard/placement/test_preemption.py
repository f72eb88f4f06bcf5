"""Preemption by a P0: victims, and what they become (PLC-6)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import AttemptEnd, Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.jobs import cores, job, short, task, wide
from tests.shard.preemption_scenes import asked_to_go, full_of_p2, given, room, running, tune
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def test_a_p0_preempts_a_p2_with_a_grace_period(world: World) -> None:
    full_of_p2(world)
    _, attempt = world.holder("low")

    assert world.stops("w1") == [(attempt, 30.0)]
    assert world.task("low").state is S.RUNNING
    assert room(world, "high") is not None

    world.stop("low")
    assert world.task("high").worker_id == "w1"
    assert world.task("low").state is S.QUEUED
    assert room(world, "high") is None
    assert not world.shard.memory.workers["w1"].reserved


def test_the_victims_history_names_the_preemptor_and_the_attempt_does_not_count(world: World) -> None:
    full_of_p2(world)
    world.stop("low")

    low, run = world.task("low"), world.task("high").run_id
    assert low.because == f"preempted for high of of_high/job (tenant of_high, P0, run {run})"
    assert (low.tries, low.losses) == (0, 0)
    assert [row.end for row in world.ledger.attempts.values()] == [AttemptEnd.STOPPED]


def test_the_stop_request_names_the_preemptor_in_the_batch_of_its_reservation(world: World) -> None:
    full_of_p2(world)

    (batch,) = [batch for batch in world.batches if any(change.task.stop is not None for change in batch.tasks)]
    (low,) = [change.task for change in batch.tasks]
    (high,) = batch.new_tasks
    assert low.stop is not None
    assert low.stop.for_task == high.id
    assert high.reserved is not None


def test_the_grace_is_a_setting(world: World) -> None:
    tune(world, preemption_grace_seconds=7.0)
    full_of_p2(world)

    assert [grace for _, grace in world.stops("w1")] == [7.0]


def test_a_reservation_is_kept_from_tasks_that_arrive_later(world: World) -> None:
    """Many P2 and P1 wait for the same core."""
    full_of_p2(world)
    world.submit(wide(20), tenant="flood", priority=P2)
    world.submit(wide(20), tenant="usual", priority=P1)

    world.stop("low")

    assert world.task("high").state is S.ASSIGNED
    assert len(world.names(S.ASSIGNED)) == 1


def test_a_ready_reservation_is_not_given_to_others(world: World) -> None:
    """Two cores are needed: the first is free long before the second."""
    world.register("w1", cores=2)
    running(world, "a", P2)
    running(world, "b", P2)
    given(world, "high", P0, resources=cores(2))
    world.submit(wide(20), tenant="flood", priority=P1)
    assert asked_to_go(world) == {"a", "b"}

    world.stop("a")
    assert world.names(S.ASSIGNED) == []
    world.stop("b")
    assert world.names(S.ASSIGNED) == ["high"]


def test_no_task_is_preempted_twice(world: World) -> None:
    full_of_p2(world)

    world.advance(20, heard=["w1"])

    assert len(world.stops("w1")) == 1


@pytest.mark.parametrize("priority", [P1, P2])
def test_p1_and_p2_preempt_nothing(world: World, priority: Priority) -> None:
    world.register("w1")
    running(world, "low", P2)

    given(world, "other", priority)
    world.advance(30, heard=["w1"])

    assert asked_to_go(world) == set()


def test_no_priority_preempts_itself(world: World) -> None:
    world.register("w1")
    running(world, "first", P0)

    given(world, "second", P0)
    world.advance(30, heard=["w1"])

    assert asked_to_go(world) == set()


def test_p1_is_preempted_only_if_no_p2_is_feasible(world: World) -> None:
    """The P2 is on another worker, has run for longer, and is the larger of the two."""
    world.register("w1", cores=2)
    running(world, "two", P2, resources=cores(2))
    world.register("w2")
    running(world, "one", P1)

    given(world, "high", P0)
    assert asked_to_go(world) == {"two"}

    given(world, "next", P0, resources=cores(1.5))
    assert asked_to_go(world) == {"two"}

    given(world, "last", P0)
    assert asked_to_go(world) == {"two"}, "there is room for both where the P2 was"


def test_p1_is_preempted_if_no_p2_helps(world: World) -> None:
    world.register("w1", labels={"disk": "ssd"})
    running(world, "one", P1)
    world.register("w2")
    running(world, "two", P2)

    given(world, "high", P0, labels={"disk": "ssd"})

    assert asked_to_go(world) == {"one"}


def test_the_fewest_leases_with_the_least_lost_work_are_preempted(world: World) -> None:
    world.register("w1", cores=4)
    for name, size in (("old", 1), ("large", 2)):
        running(world, name, P2, resources=cores(size))
        world.advance(5, heard=["w1"])
    running(world, "young", P2)

    given(world, "one", P0)
    assert asked_to_go(world) == {"young"}

    given(world, "two", P0, resources=cores(2))
    assert asked_to_go(world) == {"young", "large"}


def test_a_checkpoint_reduces_the_lost_work(world: World) -> None:
    world.register("w1", cores=2)
    running(world, "saved", P2)
    world.advance(5, heard=["w1"])
    running(world, "young", P2)
    world.advance(5, heard=["w1"])
    _, attempt = world.holder("saved")
    world.settle(world.say(happened.CheckpointSaved, "w1", attempt=attempt, document='{"at": 5}'))

    given(world, "high", P0)

    assert asked_to_go(world) == {"saved"}


def test_nothing_is_preempted_in_vain(world: World) -> None:
    """All of the P2 would not be enough."""
    world.register("w1", cores=4)
    running(world, "low", P2)
    running(world, "same", P0, resources=cores(2))

    given(world, "high", P0, resources=cores(3))
    world.advance(10, heard=["w1"])

    assert asked_to_go(world) == set()


def test_capacity_that_is_being_released_is_awaited(world: World) -> None:
    world.register("w1", cores=2)
    leaving = running(world, "leaving", P2)
    running(world, "staying", P2)
    world.action(happened.CancelRun, leaving)

    given(world, "high", P0)
    world.submit(wide(5), tenant="flood", priority=P1)
    assert asked_to_go(world) == set()

    world.stop("leaving")
    assert world.names(S.ASSIGNED) == ["high"]


def test_several_tasks_of_a_queue_each_get_a_reservation(world: World) -> None:
    world.register("w1", cores=3)
    world.submit(wide(3), tenant="flood", priority=P2)
    world.start("t0", "t1", "t2")

    high = world.submit(job(task("a"), task("b")), tenant="urgent", priority=P0)

    assert len(asked_to_go(world)) == 2
    for name in sorted(asked_to_go(world)):
        world.stop(name)
    assert world.states(high) == {"a": S.ASSIGNED, "b": S.ASSIGNED}


def test_a_task_that_joins_such_a_queue_gets_its_own_reservation(world: World) -> None:
    world.register("w1", cores=3)
    world.submit(wide(3), tenant="flood", priority=P2)
    world.start("t0", "t1", "t2")

    for name in ("a", "b"):
        world.submit(job(task(name)), tenant="urgent", priority=P0)

    assert len(asked_to_go(world)) == 2


def test_the_first_ready_reservation_goes_to_the_oldest_task(world: World) -> None:
    """PLC-4: first come, first served, also among tasks with a reservation."""
    for worker in ("w1", "w2"):
        world.register(worker)
    world.submit(wide(2), tenant="flood", priority=P2)
    world.start("t0", "t1")
    for name in ("first", "second"):
        world.submit(job(task(name)), tenant="urgent", priority=P0)
        world.advance(1, heard=["w1", "w2"])
    second = room(world, "second")
    assert second is not None

    (there,) = [name for name in ("t0", "t1") if world.task(name).worker_id == second.worker]
    world.stop(there)

    assert world.names(S.ASSIGNED) == ["first"]
    left = room(world, "second")
    assert left is not None
    assert left.worker != second.worker, "they have exchanged their reservations"
    (other,) = {"t0", "t1"} - {there}
    world.stop(other)
    assert world.names(S.ASSIGNED) == ["first", "second"]


def test_p0_of_another_tenant_with_the_same_request_gets_capacity(world: World) -> None:
    """One queue is skipped with the other; both may preempt."""
    world.register("w1", cores=2)
    world.submit(wide(2), tenant="flood", priority=P2)
    world.start("t0", "t1")

    runs = [world.put_in_intake(job(task(name)), tenant=name, priority=P0) for name in ("a", "b")]
    world.settle(*(world.arrival(run) for run in runs))

    assert len(asked_to_go(world)) == 2


# the victims


def test_the_checkpoint_is_handed_on(world: World) -> None:
    """Must show 5, as far as a shard is concerned: it continues elsewhere from its checkpoint."""
    full_of_p2(world)
    _, attempt = world.holder("low")
    world.settle(world.say(happened.CheckpointSaved, "w1", attempt=attempt, document='{"row": 7}'))
    world.stop("low")

    world.register("w2")

    (sent,) = world.workers["w2"].told[-1].group  # type: ignore[union-attr]
    assert (sent.name, sent.checkpoint, sent.number) == ("low", '{"row": 7}', 2)


def test_a_victim_that_ends_on_its_own_is_final(world: World) -> None:
    full_of_p2(world)

    world.succeed("low")

    assert world.task("low").state is S.SUCCEEDED
    assert world.task("high").state is S.ASSIGNED


def test_an_unstarted_victim_is_recalled_and_records_the_preemptor(world: World) -> None:
    world.register("w1")
    given(world, "low", P2)
    _, attempt = world.holder("low")

    given(world, "high", P0)
    assert world.recalls("w1") == [attempt]
    world.give_back("low")

    trail = world.task("low").trail
    assert trail is not None
    assert trail.preempted_for is not None
    assert trail.preempted_for.task == world.task("high").id
    assert world.task("high").state is S.ASSIGNED


def test_a_group_is_recalled_and_its_running_task_may_end(world: World) -> None:
    """PLC-10: a recall costs no process; the running task is short."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(4))), tenant="low", priority=P2)
    world.start("s0")

    given(world, "high", P0)

    assert len(world.recalls("w1")) == 3
    assert asked_to_go(world) == set()
    assert room(world, "high") is not None
    world.give_back("s1", "s2", "s3")
    world.succeed("s0")
    assert world.task("high").state is S.ASSIGNED


def test_a_late_running_task_of_a_group_is_stopped(world: World) -> None:
    world.register("w1")
    world.submit(job(*(short(f"s{n}", timeout_seconds=600) for n in range(4))), tenant="low", priority=P2)
    world.start("s0")
    given(world, "high", P0)
    world.give_back("s1", "s2", "s3")

    world.advance(70, heard=["w1"])

    assert asked_to_go(world) == {"s0"}


def test_a_victim_that_is_cancelled_ends(world: World) -> None:
    full_of_p2(world)
    world.action(happened.CancelRun, world.run(world.task("low").run_id))

    world.stop("low")

    assert world.task("low").state is S.CANCELLED
    assert world.task("high").state is S.ASSIGNED
