"""A run gets another priority, and with it all of its tasks that are not over (OPS-1, PLC-4)."""

from __future__ import annotations

import pytest

from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CancelRun, ChangePriority, ReopenTask
from tests.shard.jobs import chain, cores, job, short, task, wide
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def test_waiting_tasks_move_to_the_queue_of_the_new_priority(world: World) -> None:
    late = world.submit(job(task("late")), priority=P2)
    world.submit(job(task("usual")), priority=P1)

    answered = world.action(ChangePriority, late, priority=P0)
    world.register("w1")

    assert (answered.reply, answered.detail) == (ActionStatus.DONE, "from P2 to P0")
    assert world.names(S.ASSIGNED) == ["late"]
    assert (world.run(late).priority, world.task("late").priority) == (P0, P0)


def test_a_moved_task_has_the_position_by_its_age(world: World) -> None:
    """First come, first served, whatever its priority was in between."""
    runs = []
    for name, priority in (("a", P1), ("b", P2), ("c", P1), ("d", P2), ("e", P1)):
        runs.append(world.submit(job(task(name)), priority=priority))
        world.advance(1)
    for run in (runs[3], runs[1]):
        world.action(ChangePriority, run, priority=P1)

    world.register("w1")
    for name in ("a", "b", "c", "d", "e"):
        assert world.names(S.ASSIGNED) == [name]
        world.run_through(name)


def test_its_shape_does_not_matter_for_its_place(world: World) -> None:
    first = world.submit(job(task("first")), priority=P2)
    world.advance(1)
    world.submit(job(task("second", resources=cores(0.5))), priority=P1)
    world.action(ChangePriority, first, priority=P1)

    world.register("w1")

    assert world.names(S.ASSIGNED) == ["first"]


def test_a_reverted_change_leaves_everything_unchanged(world: World) -> None:
    run = world.submit(wide(3))
    world.action(ChangePriority, run, priority=P2)
    world.action(ChangePriority, run, priority=P1)

    world.register("w1", cores=3)

    assert set(world.states().values()) == {S.ASSIGNED}
    world.run_through("t0", "t1", "t2")
    assert world.run().state is RunState.SUCCEEDED


def test_running_tasks_continue_and_their_children_get_the_new_priority(world: World) -> None:
    world.register("w1")
    world.submit(chain("a", "b"))
    world.start("a")
    _, attempt = world.holder("a")

    world.action(ChangePriority, priority=P0)

    assert world.holder("a") == ("w1", attempt)
    assert [world.task(name).priority for name in ("a", "b")] == [P0, P0]
    assert world.shard.memory.leases[world.task("a").lease_id or ""].priority is P0


def test_final_tasks_keep_their_priority_until_they_are_retried(world: World) -> None:
    world.register("w1")
    world.submit(chain("a", "b"))
    world.run_through("a")

    world.action(ChangePriority, priority=P2)
    assert [world.task(name).priority for name in ("a", "b")] == [P1, P2]

    world.action(ReopenTask, task="a")
    assert world.task("a").priority is P2


def test_a_large_run_is_changed_in_parts_and_a_new_leader_continues(world: World) -> None:
    run = world.submit(wide(60))
    with world.rows_per_turn(10):
        batch = world.turn(world.asked(ChangePriority, run, priority=P0))
        assert [(spread.kind, spread.total) for spread in batch.bulk_operations] == [
            (BulkOperationKind.REPRIORITIZE, 60)
        ]
        assert 0 < len(batch.tasks) < 60
        world.new_leader()
        world.settle()

    assert {one.priority for one in world.ledger.tasks.values()} == {P0}
    assert not world.ledger.bulk_operations
    world.register("w1", cores=60)
    assert set(world.states().values()) == {S.ASSIGNED}


def test_tasks_created_later_have_the_new_priority(world: World) -> None:
    run = world.put_in_intake(wide(60))
    with world.rows_per_turn(10):
        world.turn(world.arrival(run))
        world.settle(world.asked(ChangePriority, run, priority=P0))

    assert {one.priority for one in world.ledger.tasks.values()} == {P0}


def test_a_run_in_intake_gets_the_new_priority(world: World) -> None:
    run = world.put_in_intake(chain("a"))
    arrival = world.arrival(run)

    answered = world.action(ChangePriority, run, priority=P0)
    assert (answered.reply, world.run().priority, world.run().adopted_at) == (ActionStatus.DONE, P0, None)
    assert world.action(ChangePriority, run, priority=P0).reply is ActionStatus.ALREADY

    world.settle(arrival)
    assert world.task("a").priority is P0


def test_an_equal_priority_is_reported_as_unchanged(world: World) -> None:
    world.submit(chain("a"))

    answered = world.action(ChangePriority, priority=P1)

    assert (answered.reply, answered.detail) == (ActionStatus.ALREADY, "the run already has priority P1")
    assert not world.batches[-1].rows()


def test_a_final_run_can_not_change_its_priority(world: World) -> None:
    world.submit(chain("a"))
    world.action(CancelRun)

    answered = world.action(ChangePriority, priority=P0)

    assert (answered.reply, "the run is CANCELLED" in answered.detail) == (ActionStatus.REFUSED, True)


@pytest.mark.parametrize("reload", [True, False])
def test_a_run_that_is_cancelled_meanwhile_ends(world: World, reload: bool) -> None:
    run = world.submit(wide(40))
    with world.rows_per_turn(5):
        world.turn(world.asked(ChangePriority, run, priority=P0))
        if reload:
            world.reload()
        world.settle(world.asked(CancelRun, run))

    assert world.run().state is RunState.CANCELLED


def test_a_group_has_the_priority_of_its_remaining_tasks(world: World) -> None:
    """Otherwise a P0 that looks for P2 victims would not find it."""
    urgent, late = (world.submit(job(short(name)), priority=P1) for name in ("urgent", "late"))
    for number in range(20):
        world.submit(job(short(f"more-{number}")), priority=P1)
    world.register("w1")
    world.action(ChangePriority, late, priority=P2)
    (lease,) = world.shard.memory.leases.values()
    assert lease.priority is P1

    for name in [one.name for one in lease.members.values() if one.name != "late"]:
        world.run_through(name)

    assert world.task("urgent", urgent).state is S.SUCCEEDED
    assert world.shard.memory.leases[lease.id].priority is P2
