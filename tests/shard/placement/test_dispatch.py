"""From the queues to the workers: who, where, and in which order (PLC-1, PLC-3, PLC-4, PLC-7, PLC-10)."""

from __future__ import annotations

import pytest

from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Assign, Outcome
from mainspring.shard import events as happened
from tests.shard.jobs import cores, job, short, task, wide
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def groups(world: World, worker: str) -> list[list[str]]:
    """The names of the tasks in each group that a worker was sent."""
    return [
        [one.name for one in message.group] for message in world.said_to(worker, Assign) if isinstance(message, Assign)
    ]


def placed(world: World, worker: str) -> list[str]:
    """The tasks that a worker was sent, in order."""
    return [name for group in groups(world, worker) for name in group]


def test_priority_is_strict(world: World) -> None:
    """PLC-4: the P0 came last, and is placed first."""
    world.submit(job(task("two")), priority=P2)
    world.submit(job(task("one")), priority=P1)
    world.submit(job(task("zero")), priority=P0)

    world.register("w1")
    world.run_through("zero", "one", "two")

    assert placed(world, "w1") == ["zero", "one", "two"]


def test_within_a_tenant_the_oldest_comes_first(world: World) -> None:
    """PLC-4: first come, first served."""
    for name in ("a", "b", "c", "d"):
        world.submit(job(task(name)))

    world.register("w1")
    world.run_through("a", "b", "c", "d")

    assert placed(world, "w1") == ["a", "b", "c", "d"]


def test_tenants_share_by_usage(world: World) -> None:
    """PLC-4: a flood of one tenant leaves another its half."""
    world.submit(wide(50), tenant="flood")
    world.submit(job(*(task(f"small{n}") for n in range(5))), tenant="small")

    world.register("w1", cores=10)

    names = placed(world, "w1")
    assert sum(name.startswith("small") for name in names) == 5
    assert len(names) == 10


def test_a_tenant_that_uses_more_of_one_resource_waits_for_one_that_uses_less(world: World) -> None:
    """PLC-4: the dominant resource counts. Three cores of `big` weigh as much as three tasks of `tiny`."""
    world.submit(job(*(task(f"big{n}", resources=cores(3)) for n in range(3))), tenant="big")
    world.submit(job(*(task(f"tiny{n}") for n in range(9))), tenant="tiny")

    world.register("w1", cores=6)

    assert sorted(placed(world, "w1")) == ["big0", "tiny0", "tiny1", "tiny2"]


def test_a_shape_that_fits_nowhere_does_not_block_other_shapes(world: World) -> None:
    """PLC-4: the head of the queue does not fit, a later task does."""
    world.register("w1", cores=2)
    world.submit(job(task("huge", resources=cores(64))), priority=P0)
    world.submit(job(task("fits")), priority=P0)
    world.submit(job(task("low")), priority=P2)

    assert world.task("huge").state is S.QUEUED
    assert world.task("fits").state is S.ASSIGNED
    assert world.task("low").state is S.ASSIGNED


def test_a_parked_shape_is_woken_by_a_worker_that_could_take_it(world: World) -> None:
    """A change that could help: a larger worker registers."""
    world.register("w1")
    world.submit(job(task("huge", resources=cores(4))))
    world.register("w2", cores=2)
    assert world.task("huge").state is S.QUEUED

    world.register("w3", cores=4)
    assert world.task("huge").worker_id == "w3"


def test_a_parked_shape_is_woken_when_capacity_is_released(world: World) -> None:
    """A change that could help: a task ends."""
    world.register("w1", cores=2)
    world.submit(job(task("a"), task("b")))
    world.submit(job(task("wide", resources=cores(2))))
    world.run_through("a")
    assert world.task("wide").state is S.QUEUED

    world.run_through("b")
    assert world.task("wide").state is S.ASSIGNED


def test_nothing_is_placed_where_it_does_not_fit(world: World) -> None:
    """PLC-1: a core is free, and not enough memory; cores are free, and no device."""
    world.register("w1", cores=4)
    world.submit(job(task("memory", resources=cores(1).__class__(1000, 64 * 1024**3))))
    world.submit(job(task("device", resources=cores(1).__class__(1000, 1024, 1))))
    assert world.names(S.QUEUED) == ["memory", "device"]

    world.register("w2", gpus=1)
    assert world.task("device").worker_id == "w2"


def test_a_full_worker_gets_nothing_more(world: World) -> None:
    """PLC-1: three cores, three tasks."""
    world.register("w1", cores=3)
    run = world.submit(wide(5))

    assert list(world.states(run).values()).count(S.ASSIGNED) == 3


def test_labels_and_zone_choose_the_worker(world: World) -> None:
    """PLC-3."""
    world.register("plain", cores=4)
    world.register("fast", cores=4, labels={"disk": "ssd"}, zone="eu")
    world.submit(
        job(
            task("label", labels={"disk": "ssd"}),
            task("zone", zone="eu"),
            task("other", labels={"disk": "tape"}),
            task("nowhere", zone="us"),
        )
    )

    assert world.task("label").worker_id == world.task("zone").worker_id == "fast"
    assert world.task("other").state is world.task("nowhere").state is S.QUEUED


def test_the_tightest_fit_is_chosen(world: World) -> None:
    """PLC-2: the large worker is kept free for large tasks."""
    world.register("large", cores=16)
    world.register("small", cores=2)
    world.submit(job(task("a")))

    assert world.task("a").worker_id == "small"


def test_a_refusal_places_the_task_elsewhere_and_is_recorded(world: World) -> None:
    """PLC-7: and the worker gets no such task again until it registers anew."""
    world.register("w1")
    run = world.submit(job(task("a")))
    world.give_back("a", refusal="no python")
    assert world.task("a").state is S.QUEUED
    assert world.task("a").because == "w1 refused it: no python"

    world.register("w2")
    assert world.task("a").worker_id == "w2"
    world.run_through("a")
    assert world.run(run).state is RunState.SUCCEEDED
    assert world.task("a").tries == 1


def test_a_worker_that_registers_again_is_asked_again(world: World) -> None:
    """PLC-7: it may have been fixed."""
    world.register("w1")
    world.submit(job(task("a")))
    world.give_back("a", refusal="no python")
    world.advance(seconds=3, heard=["w1"])
    assert world.task("a").state is S.QUEUED

    world.reconnect("w1")
    assert world.task("a").worker_id == "w1"


def test_a_refusal_concerns_tasks_of_that_shape_only(world: World) -> None:
    """PLC-7."""
    world.register("w1", cores=2)
    world.submit(job(task("a", resources=cores(2))))
    world.give_back("a", refusal="too much")

    world.submit(job(task("b")))

    assert world.task("b").worker_id == "w1"


def test_short_tasks_are_grouped_in_one_lease(world: World) -> None:
    """PLC-10: ten of 10 ms each."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(25))))

    assert groups(world, "w1") == [[f"s{n}" for n in range(10)]]
    assert world.shard.memory.workers["w1"].used == cores(1)
    assert len({world.task(f"s{n}").lease_id for n in range(10)}) == 1


def test_a_group_releases_its_capacity_with_its_last_member(world: World) -> None:
    """I-65: by whatever way its members end."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(4))))
    waiting = world.submit(job(task("next")))
    assert groups(world, "w1") == [["s0", "s1", "s2", "s3"]]

    world.run_through("s0", "s1")
    world.give_back("s3", refusal="no")
    assert world.task("next").state is S.QUEUED
    world.run_through("s2")

    assert world.task("next", waiting).state is S.ASSIGNED


def test_a_member_of_a_group_is_assigned_until_it_is_started(world: World) -> None:
    """PLC-10: they run one after another."""
    world.register("w1")
    run = world.submit(job(*(short(f"s{n}") for n in range(3))))
    world.run_through("s0")
    world.start("s1")

    assert world.states(run) == {"s0": S.SUCCEEDED, "s1": S.RUNNING, "s2": S.ASSIGNED}


def test_short_tasks_are_not_grouped_while_each_has_capacity(world: World) -> None:
    """PLC-10: a group only where more wait than there are places."""
    world.register("w1", cores=4)
    world.submit(job(*(short(f"s{n}") for n in range(4))))

    assert groups(world, "w1") == [["s0"], ["s1"], ["s2"], ["s3"]]


def test_a_group_is_of_one_tenant(world: World) -> None:
    """PLC-10."""
    world.submit(job(*(short(f"a{n}") for n in range(3))), tenant="a")
    world.submit(job(*(short(f"b{n}") for n in range(3))), tenant="b")
    world.register("w1")

    (group,) = groups(world, "w1")
    assert len({name[0] for name in group}) == 1


def test_a_task_not_known_to_be_short_is_not_grouped(world: World) -> None:
    """PLC-10."""
    world.register("w1")
    world.submit(wide(5))

    assert groups(world, "w1") == [["t0"]]


def test_the_rest_of_a_group_is_recalled_for_a_higher_priority(world: World) -> None:
    """PLC-10: only unstarted tasks are returned."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(5))), priority=P2)
    world.start("s0")

    world.submit(job(task("urgent")), priority=P0)
    called = [world.task(f"s{n}").attempt_id for n in range(1, 5)]
    assert world.recalls("w1") == called

    for name in ("s1", "s2", "s3", "s4"):
        world.give_back(name)
    assert world.task("urgent").state is S.QUEUED
    world.succeed("s0")
    assert world.task("urgent").state is S.ASSIGNED
    assert world.names(S.QUEUED) == ["s1", "s2", "s3", "s4"]


def test_a_group_is_not_recalled_for_its_own_priority(world: World) -> None:
    """PLC-6: no priority preempts itself."""
    world.register("w1")
    world.submit(job(*(short(f"s{n}") for n in range(5))), priority=P1)

    world.submit(job(task("same")), priority=P1)

    assert world.recalls("w1") == []


def test_a_single_task_is_not_recalled_for_a_higher_priority(world: World) -> None:
    """PLC-10 speaks of groups; preemption (PLC-6) is for P0."""
    world.register("w1")
    world.submit(job(task("long")), priority=P2)

    world.submit(job(task("usual")), priority=P1)

    assert world.recalls("w1") == []


def test_a_lost_group_requeues_each_member_once(world: World) -> None:
    """LIV-1, I-65: one ran, three waited, one had ended."""
    world.register("w1")
    run = world.submit(job(*(short(f"s{n}") for n in range(5))))
    world.run_through("s0")
    world.start("s1")

    world.advance(seconds=15)

    assert world.states(run) == {"s0": S.SUCCEEDED, **{f"s{n}": S.QUEUED for n in range(1, 5)}}
    assert world.shard.memory.leases.use == {}
    assert [world.task(f"s{n}").losses for n in range(5)] == [0, 1, 0, 0, 0]


@pytest.mark.parametrize(("hold", "held"), [(P2, {"two"}), (P1, {"one", "two"}), (None, set())])
def test_a_slow_store_holds_p2_then_p1_and_never_p0(world: World, hold: Priority | None, held: set[str]) -> None:
    """HA-4."""
    world.register("w1", cores=3)
    world.settle(happened.StoreLagged(hold=hold))
    world.submit(job(task("zero")), priority=P0)
    world.submit(job(task("one")), priority=P1)
    world.submit(job(task("two")), priority=P2)

    assert set(world.names(S.QUEUED)) == held


def test_suspended_priorities_are_placed_when_the_store_has_caught_up(world: World) -> None:
    """HA-4: without an action."""
    world.register("w1")
    world.settle(happened.StoreLagged(hold=P1))
    world.submit(job(task("a")), priority=P2)
    assert world.task("a").state is S.QUEUED

    world.settle(happened.StoreLagged(hold=None))
    assert world.task("a").state is S.ASSIGNED


def test_a_suspended_priority_survives_a_reload_within_the_term(world: World) -> None:
    """HA-4: the store is as slow as before."""
    world.settle(happened.StoreLagged(hold=P2))
    world.submit(job(task("a")), priority=P2)

    world.reload()
    world.register("w1")

    assert world.task("a").state is S.QUEUED


def test_a_worker_that_shrank_gets_nothing_until_it_has_capacity(world: World) -> None:
    """It registered again with less capacity, and still has its tasks."""
    world.register("w1", cores=4)
    run = world.submit(wide(5))
    world.start("t0", "t1", "t2")
    world.workers["w1"].offer = world.workers["w1"].offer.__class__(3000, 3 * 1024**3)
    world.workers["w1"].holds = [world.holder(f"t{n}")[1] for n in range(3)]

    world.reconnect("w1")

    assert list(world.states(run).values()).count(S.QUEUED) == 2


def test_placement_continues_while_a_large_run_is_adopted(world: World) -> None:
    """DAG-9: a P0 does not wait until 1,000 others are created."""
    world.register("w1", cores=100)
    large = world.put_in_intake(wide(1_000), priority=P2)
    urgent = world.put_in_intake(job(task("urgent")), priority=P0)
    with world.rows_per_turn(50):
        world.turn(world.arrival(large))
        world.turn(world.arrival(urgent))

        assert world.task("urgent").state is S.ASSIGNED
        assert len(world.ledger.tasks) < 1_000


def test_free_capacity_is_used_while_a_large_run_is_cancelled(world: World) -> None:
    """A mass cancel is spread, and others are placed beside it."""
    world.register("w1")
    large = world.submit(wide(500))
    world.start("t0", of=large)
    with world.rows_per_turn(20):
        world.turn(world.asked(happened.CancelRun, large))
        world.turn(world.result("t0", Outcome.STOPPED, of=large))
        other = world.put_in_intake(job(task("other")))
        world.turn(world.arrival(other))
        assert world.task("other").state is S.ASSIGNED
        assert S.QUEUED in world.states(large).values()
        world.settle()

    assert world.run(large).state is RunState.CANCELLED
