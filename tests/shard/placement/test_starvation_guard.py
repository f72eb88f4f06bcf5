"""Reservations for tasks that are larger than what becomes free at a time (PLC-6)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import Priority, TaskState
from tests.shard.jobs import cores, job, task
from tests.shard.preemption_scenes import asked_to_go
from tests.shard.sharing_rules import promise, running, submit
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def test_a_large_task_is_not_starved_by_small_ones(world: World) -> None:
    """Each second a small task ends, and another would take its place."""
    world.register("w1", cores=2)
    running(world, "small", 20, P1)
    submit(world, "large", 1, P1, resources=cores(2))

    until_it_starts(world, "large10")

    assert asked_to_go(world) == set()


def test_a_large_task_is_not_starved_by_small_ones_of_its_own_tenant(world: World) -> None:
    world.register("w1", cores=2)
    running(world, "mine", 20, P1)
    world.submit(job(task("large", resources=cores(2))), tenant="mine", priority=P1)

    until_it_starts(world, "large")


@pytest.mark.parametrize("guaranteed_tenants", [{"large": 1.0}, {"large": 1.0, "small": 1.0}])
def test_a_large_task_beyond_the_guarantee_of_its_tenant_is_not_starved(
    world: World, guaranteed_tenants: dict[str, float]
) -> None:
    promise(world, **guaranteed_tenants)
    world.register("w1", cores=2)
    running(world, "small", 20, P1)
    submit(world, "large", 1, P1, resources=cores(2))

    until_it_starts(world, "large10")


def until_it_starts(world: World, name: str) -> None:
    """Each second one task ends, and placed tasks start; for 12 seconds at most."""
    for _ in range(12):
        world.advance(1, heard=["w1"])
        world.succeed(world.names(S.RUNNING)[0])
        world.start(*world.names(S.ASSIGNED))
        if world.task(name).state is S.RUNNING:
            return
    raise AssertionError(f"{name} is starved")


def waits_for_two_cores(world: World) -> None:
    """A P2 of two cores with a reservation on the only worker, of which one core is free by now."""
    world.register("w1", cores=2)
    running(world, "small", 2, P2)
    submit(world, "large", 1, P2, resources=cores(2))
    world.advance(6, heard=["w1"])
    kept = world.task("large20").reserved
    assert kept is not None
    assert kept.yields
    world.succeed("small20")
    assert world.names(S.ASSIGNED) == []


def test_a_reservation_of_a_large_task_is_not_given_to_its_peers(world: World) -> None:
    waits_for_two_cores(world)

    submit(world, "other", 3, P2)
    assert world.names(S.ASSIGNED) == []

    world.succeed("small21")
    assert world.names(S.ASSIGNED) == ["large20"]


@pytest.mark.parametrize("priority", [P0, P1])
def test_a_higher_priority_takes_the_reservation_at_once(world: World, priority: Priority) -> None:
    """Nothing was preempted for it: strict priority goes first. It does not wait again for a new reservation."""
    waits_for_two_cores(world)
    kept = world.task("large20").reserved

    submit(world, "high", 1, priority)

    assert world.names(S.ASSIGNED) == [f"high{priority}0"]
    assert world.task("large20").reserved not in (None, kept)


def test_at_most_one_starvation_reservation_per_priority(world: World) -> None:
    for worker in ("w1", "w2"):
        world.register(worker, cores=2)
    running(world, "small", 4, P2)
    for tenant in ("a", "b", "c"):
        submit(world, tenant, 2, P2, resources=cores(2))

    world.advance(20, heard=["w1", "w2"])

    assert len([one for one in world.ledger.tasks.values() if one.reserved is not None]) == 1


def test_a_task_that_fits_no_worker_gets_no_reservation(world: World) -> None:
    world.register("w1", cores=2)
    running(world, "small", 2, P2)
    submit(world, "huge", 1, P2, resources=cores(3))

    world.advance(20, heard=["w1"])

    assert world.task("huge20").reserved is None
