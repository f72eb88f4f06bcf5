"""The status of a pool."""

from __future__ import annotations

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.pool_status import PoolStatus, QueueStatus, TenantStatus
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority
from mainspring.shard import events as happened
from mainspring.shard.explain import pool_status as pool_status_module
from tests.shard.jobs import cores, job, task, wide
from tests.shard.sharing_rules import freeze, group, pool, quota, rules
from tests.shard.world import World

P0, P1, P2 = Priority


def look(world: World) -> PoolStatus:
    """The current status."""
    return pool_status_module.pool_status(world.shard.memory, world.now)


def tenant(world: World, name: str) -> TenantStatus:
    (found,) = [one for one in look(world).tenants if one.tenant == name]
    return found


def queues(world: World) -> list[tuple[Priority, int, str]]:
    return [(line.priority, line.waiting, line.why) for line in look(world).queues]


def test_the_usage_of_tenants(world: World) -> None:
    """By share, the largest first; fair shares follow from the weights."""
    world.rule(rules(quota("big", weight=3.0, guaranteed=2)))
    world.register("w1", cores=8)
    world.submit(wide(4), tenant="big")
    world.submit(wide(2), tenant="small", priority=P2)

    found = look(world)

    assert (found.workers, found.capacity, found.used) == (1, cores(8), cores(6))
    assert [(one.tenant, one.running, one.share, one.fair_share) for one in found.tenants] == [
        ("big", 4, 0.5, 0.75), ("small", 2, 0.25, 0.25),
    ]  # fmt: skip
    assert [one.is_on_burst for one in found.tenants] == [True, False]
    assert found.queues == []


def test_a_tenant_at_its_quota_names_the_limit(world: World) -> None:
    world.rule(rules(quota("acme", max_tasks=1), quota("other", burst=2)))
    world.register("w1", cores=8)
    world.submit(wide(3))
    world.submit(wide(3), tenant="other")

    assert tenant(world, "acme").queued == {"P1": 2}
    assert tenant(world, "acme").blocked_by == "it has 1 of 1 task at a time"
    assert tenant(world, "other").blocked_by == "it uses 2 cores of 2 cores"
    assert queues(world) == [
        (P1, 2, "it has 1 of 1 task at a time"),
        (P1, 1, "it uses 2 cores of 2 cores"),
    ]


def test_a_tenant_at_its_quota_names_the_limit_without_capacity_too(world: World) -> None:
    """Its queues are parked, but checked nevertheless."""
    world.rule(rules(quota("acme", max_tasks=8)))
    world.register("w1", cores=2)
    world.submit(wide(4))
    assert tenant(world, "acme").blocked_by == ""

    world.rule(rules(quota("acme", max_tasks=2)))

    assert tenant(world, "acme").blocked_by == "it has 2 of 2 tasks at a time"


def test_a_tenant_is_not_held_by_its_quota_while_something_of_it_may_start(world: World) -> None:
    world.rule(rules(quota("acme", burst=2)))
    world.register("w1", cores=1)
    world.submit(wide(2))
    world.submit(job(task("large", resources=cores(3))))

    assert tenant(world, "acme").blocked_by == ""


def test_a_worker_that_does_not_match_is_not_called_full(world: World) -> None:
    """Zones and labels: waiting for capacity would not help."""
    world.rule(rules(pool(zones=("eu-1",))))
    world.register("w1", cores=2, zone="us-1")
    world.submit(job(task("a")))
    assert queues(world) == [(P1, 1, "no worker matches: 1 outside the zones of the pool")]

    world.rule(rules())
    world.submit(job(task("b", zone="mars"), task("c", labels={"disk": "ssd"})))

    assert sorted(why for _, _, why in queues(world)) == [
        "no worker matches: 1 not in zone mars", "no worker matches: 1 without disk=ssd",
    ]  # fmt: skip


def test_fragmentation_differs_from_no_capacity(world: World) -> None:
    """PLC-9: it would fit the pool, and fits no worker."""
    world.register("w1", cores=3)
    world.register("w2", cores=3)
    world.submit(job(*(task(name, resources=Resources(2_000)) for name in "abc")))

    ((_, _, why),) = queues(world)
    assert why.startswith("fragmented: 2 cores")


def test_a_full_worker_differs_from_one_that_does_not_match(world: World) -> None:
    world.register("w1", cores=1, labels={"disk": "ssd"})
    world.register("w2", cores=1)
    world.submit(job(task("a", labels={"disk": "ssd"}), task("b", labels={"disk": "ssd"})))

    assert queues(world) == [(P1, 1, "no worker has capacity: 1 without disk=ssd, 1 full")]


def test_a_freeze_of_a_job_comes_before_a_full_group(world: World) -> None:
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=8)
    world.submit(job(task("a", groups=("db",)), task("b", groups=("db",))))

    world.rule(rules(group("db", 1), freeze(FreezeKind.JOB, "acme/job")))

    assert queues(world) == [(P1, 2, "job acme/job is frozen by ann: maintenance")]


def test_queues_have_reasons(world: World) -> None:
    """Capacity, a freeze; the highest priority first."""
    world.rule(rules(freeze(FreezeKind.JOB, "acme/job"), freeze(FreezeKind.TENANT, "cold")))
    world.register("w1", cores=2)
    world.submit(wide(2), priority=P0)
    world.submit(job(task("a")), tenant="cold", priority=P1)
    world.submit(job(task("b", resources=cores(5))), tenant="other", priority=P2)

    assert queues(world) == [
        (P0, 2, "job acme/job is frozen by ann: maintenance"),
        (P1, 1, "tenant cold is frozen by ann: maintenance"),
        (P2, 1, "no worker matches: 1 too small"),
    ]
    assert tenant(world, "cold").blocked_by == "tenant cold is frozen by ann: maintenance"


def test_a_group_that_is_full_is_named(world: World) -> None:
    world.rule(rules(group("db", 1), group("calls", 5, per_seconds=60)))
    world.register("w1", cores=8)
    world.submit(job(task("a", groups=("db",)), task("b", groups=("calls",))))
    world.submit(job(task("c"), groups=("db",)))

    assert sorted(why for _, _, why in queues(world)) == [
        *["group calls is at its limit of 5 starts per 60 s"], *["group db is at its limit of 1 at a time"] * 2,
    ]  # fmt: skip


def test_a_slow_store_is_reported(world: World) -> None:
    """HA-4."""
    world.settle(happened.StoreLagged(hold=P2))
    world.register("w1")
    world.submit(wide(1), priority=P2)

    assert look(world).dispatch_paused_from is P2
    assert [line.reason for line in look(world).queues] == [Reason.SCHEDULER_LAG]


def test_there_are_at_most_a_thousand_of_each(world: World) -> None:
    """The oldest queues, and the tenants with the largest shares."""
    runs = [world.put_in_intake(job(task("a")), tenant=f"tenant{n:04}") for n in range(1_010)]
    world.settle(*(world.arrival(run) for run in runs))

    found = look(world)

    assert (len(found.tenants), len(found.queues)) == (1_000, 1_000)
    assert isinstance(found.queues[0], QueueStatus)


def test_the_status_of_one_tenant_has_only_its_own_details(world: World) -> None:
    """Regardless of the tenants before it."""
    world.register("w1", cores=2)
    world.submit(wide(3), tenant="big")
    world.submit(wide(4), tenant="small", priority=P2)

    found = pool_status_module.pool_status(world.shard.memory, world.now, "small")

    assert [(one.tenant, one.running, one.fair_share) for one in found.tenants] == [("small", 0, 0.5)]
    assert [(line.tenant, line.waiting) for line in found.queues] == [("small", 4)]
    assert (found.queued, found.used) == ({"P0": 0, "P1": 1, "P2": 4}, cores(2))
    assert pool_status_module.pool_status(world.shard.memory, world.now, "nobody").tenants == []
