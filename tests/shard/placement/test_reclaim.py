"""Reclaiming a guarantee, and defragmentation (PLC-5, PLC-9)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.core.fairness.capacity_bookings import Booking
from mainspring.core.model.task import Priority, TaskState
from tests.shard.jobs import cores, job, short
from tests.shard.preemption_scenes import asked_to_go, tune
from tests.shard.sharing_rules import promise, quota, rules, running, submit
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def let_go(world: World) -> None:
    """End everything that was asked to stop."""
    world.stop(*sorted(asked_to_go(world)))


def use(world: World, tenant: str) -> float:
    """Cores used by a tenant."""
    found = world.shard.memory.leases.use.get(tenant)
    return 0 if found is None else found.cpu_millis / 1000


# a guarantee


def test_no_more_is_reclaimed_than_the_quota_allows_to_start(world: World) -> None:
    """Capacity reclaimed for a second task would lie idle: nothing is stopped without a gain."""
    world.register("w1", cores=2)
    running(world, "other", 2, P2)
    world.rule(rules(quota("owner", guaranteed=2, max_tasks=1)))

    submit(world, "owner", 2, P1)

    assert len(asked_to_go(world)) == 1


def test_the_recalled_rest_of_a_group_is_not_lasting_usage(world: World) -> None:
    """What is left to the other tenant is all that it is promised: it is not to go, too."""
    world.register("w1", cores=2)
    promise(world, owner=2, other=1)
    running(world, "other", 1, P2)
    group = world.submit(job(*[short(f"g{number}") for number in range(4)]), tenant="other", priority=P2)
    world.start("g0")
    assert world.states(group) == {"g0": S.RUNNING, "g1": S.ASSIGNED, "g2": S.ASSIGNED, "g3": S.ASSIGNED}

    submit(world, "owner", 2, P1)

    assert world.task("owner10").reserved is not None, "the group's room is free soon"
    assert asked_to_go(world) == set()


@pytest.mark.parametrize("priority", [P1, P2])
def test_a_tenant_reclaims_its_guarantee_and_no_more(world: World, priority: Priority) -> None:
    promise(world, owner=2)
    world.register("w1", cores=4)
    running(world, "other", 6, P2)

    submit(world, "owner", 4, priority)
    assert len(asked_to_go(world)) == 2

    let_go(world)
    assert use(world, "owner") == 2
    world.advance(10, heard=["w1"])
    assert asked_to_go(world) == set()
    assert (use(world, "owner"), use(world, "other")) == (2, 2)


def test_the_guarantee_is_restored_within_one_grace_period(world: World) -> None:
    promise(world, owner=2)
    world.register("w1", cores=4)
    running(world, "other", 6, P2)

    submit(world, "owner", 2, P1)

    kills = {one.stop.kill_at for one in world.ledger.tasks.values() if one.stop is not None}
    assert [(at - world.now).total_seconds() for at in kills] == [30]
    victims = asked_to_go(world)
    assert use(world, "owner") == 0

    world.advance(30, heard=["w1"])
    world.stop(*sorted(victims))
    world.start("owner10", "owner11")

    assert {world.task(name).state for name in victims} == {S.QUEUED}
    assert {world.task(name).state for name in ("owner10", "owner11")} == {S.RUNNING}
    assert (use(world, "owner"), use(world, "other")) == (2, 2)


def test_burst_p2_is_reclaimed_before_p1_and_p0_never(world: World) -> None:
    promise(world, owner=4)
    world.register("w1", cores=4)
    running(world, "other", 1, P0)
    running(world, "other", 2, P1)
    running(world, "other", 1, P2)

    submit(world, "owner", 1, P2)
    assert asked_to_go(world) == {"other20"}

    submit(world, "owner", 3, P1)
    world.advance(5, heard=["w1"])
    assert asked_to_go(world) == {"other20", "other10", "other11"}


def test_no_tenant_falls_below_its_guarantee(world: World) -> None:
    """`other` is one core above its three, and gives up one core."""
    promise(world, owner=4, other=3)
    world.register("w1", cores=4)
    running(world, "other", 4, P2)

    submit(world, "owner", 4, P1)
    world.advance(5, heard=["w1"])
    assert len(asked_to_go(world)) == 1

    let_go(world)
    world.advance(100, heard=["w1"])
    assert asked_to_go(world) == set()
    assert (use(world, "owner"), use(world, "other")) == (1, 3)


def test_a_lease_partly_within_the_guarantee_stays(world: World) -> None:
    """A task of three cores, of which one is beyond the guarantee."""
    promise(world, owner=1, other=2)
    world.register("w1", cores=3)
    running(world, "other", 1, P2, resources=cores(3))

    submit(world, "owner", 1, P1)
    world.advance(10, heard=["w1"])

    assert asked_to_go(world) == set()


def test_two_tenants_do_not_reclaim_from_each_other_for_ever(world: World) -> None:
    """Both have a guarantee of everything: the tenant that uses its guarantee keeps it."""
    promise(world, one=2, two=2)
    world.register("w1", cores=2)
    running(world, "one", 4, P1)

    submit(world, "two", 4, P1)
    for _ in range(5):
        world.advance(30, heard=["w1"])
        let_go(world)

    assert (use(world, "one"), use(world, "two")) == (2, 0)


def test_a_tenant_above_its_guarantee_reclaims_nothing(world: World) -> None:
    promise(world, owner=1)
    world.register("w1", cores=3)
    running(world, "owner", 1, P1)
    running(world, "other", 2, P2)

    submit(world, "owner", 1, P1)
    world.advance(30, heard=["w1"])

    assert asked_to_go(world) == set()


def test_reclaimed_capacity_is_not_given_to_a_higher_priority(world: World) -> None:
    """A P2 within its guarantee reclaims from a P1 on burst, which would otherwise take it back at once."""
    promise(world, owner=1)
    world.register("w1")
    running(world, "other", 1, P1)
    submit(world, "owner", 1, P2)
    assert asked_to_go(world) == {"other10"}

    let_go(world)

    assert (use(world, "owner"), use(world, "other")) == (1, 0)
    world.start("owner20")
    world.advance(100, heard=["w1"])
    assert asked_to_go(world) == set()


def test_a_new_guarantee_counts_for_waiting_tasks(world: World) -> None:
    world.register("w1", cores=2)
    running(world, "other", 3, P2)
    submit(world, "owner", 1, P2)
    assert asked_to_go(world) == set()

    promise(world, owner=1)
    world.advance(2, heard=["w1"])

    assert len(asked_to_go(world)) == 1


def test_a_p0_preempts_burst_usage_before_guaranteed_usage(world: World) -> None:
    """The one that is guaranteed would lose less."""
    promise(world, safe=1)
    world.register("w1", cores=2)
    running(world, "burst", 1, P2)
    world.advance(10, heard=["w1"])
    running(world, "safe", 1, P2)

    submit(world, "urgent", 1, P0)

    assert asked_to_go(world) == {"burst20"}


@pytest.mark.parametrize("new_leader", [False, True])
def test_a_change_of_leader_does_not_affect_reclaiming(world: World, new_leader: bool) -> None:
    promise(world, owner=2)
    world.register("w1", cores=4)
    running(world, "other", 6, P2)
    submit(world, "owner", 2, P1)
    victims = asked_to_go(world)

    if new_leader:
        world.new_leader()
    else:
        world.reload()
    world.reconnect("w1")
    world.advance(5, heard=["w1"])
    assert asked_to_go(world) == victims

    let_go(world)
    assert (use(world, "owner"), use(world, "other")) == (2, 2)


# moving


def fragment(world: World) -> None:
    """Two workers of two cores, a P2 of one core on each."""
    world.register("w1", cores=2)
    running(world, "a", 1, P2)
    running(world, "filler", 1, P2)
    world.register("w2", cores=2)
    running(world, "b", 1, P2)
    world.succeed("filler20")
    assert world.task("a20").worker_id != world.task("b20").worker_id


def test_a_p1_that_fits_the_pool_but_no_worker_has_p2_moved(world: World) -> None:
    """PLC-9."""
    tune(world, defragment=1)
    fragment(world)

    submit(world, "large", 1, P1, resources=cores(2))
    (moved,) = asked_to_go(world)
    world.stop(moved)

    assert world.task("large10").state is S.ASSIGNED
    assert world.task(moved).state is S.ASSIGNED
    assert world.task(moved).because == f"placed on {world.task(moved).worker_id}"


def test_defragmentation_is_off_by_default(world: World) -> None:
    fragment(world)

    submit(world, "large", 1, P1, resources=cores(2))

    assert asked_to_go(world) == set()


@pytest.mark.parametrize(("priority", "size"), [(P2, 2), (P1, 3)])
def test_nothing_is_moved_for_p2_or_for_what_does_not_fit_anyway(world: World, priority: Priority, size: int) -> None:
    tune(world, defragment=1)
    fragment(world)

    submit(world, "large", 1, priority, resources=cores(size))

    assert asked_to_go(world) == set()


def test_a_task_that_fits_no_other_worker_is_not_moved(world: World) -> None:
    tune(world, defragment=1)
    for worker in ("w1", "w2"):
        world.register(worker, cores=2, labels={"name": worker})
        running(world, worker, 1, P2, labels={"name": worker})

    submit(world, "large", 1, P1, resources=cores(2))

    assert asked_to_go(world) == set()


# bookings


def test_booked_capacity_is_reclaimed_when_it_begins_and_not_guaranteed_after_its_end(world: World) -> None:
    """`owner` has booked two cores from 00:10 on, with five minutes of lead; `other` has all on burst (PLC-11)."""
    nightly = Booking(
        name="nightly", cron="10 0 * * *", zone="UTC", seconds=60, lead_seconds=300, guaranteed=cores(2)
    )  # fmt: skip
    world.register("w1", cores=4)
    running(world, "other", 4, P2)
    world.rule(rules(replace(quota("owner"), bookings=(nightly,))))
    submit(world, "owner", 4, P2)

    world.advance(299, heard=["w1"])
    assert asked_to_go(world) == set()

    world.advance(1, heard=["w1"])
    assert len(asked_to_go(world)) == 2
    let_go(world)
    world.start("owner20", "owner21")

    world.advance(360, heard=["w1"])
    assert world.shard.memory.rules.quota("owner", world.now).guaranteed == cores(0)
    assert asked_to_go(world) == set()
    assert use(world, "owner") == 2
