"""Tenant order and limits: guarantees, weights, quotas, failure budgets (PLC-4, PLC-5, ADM-5)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Priority, RetryState, TaskState
from mainspring.protocol.wire import Assign
from mainspring.shard.events import CancelRun
from tests.shard.jobs import cores, job, short, task, wide
from tests.shard.sharing_rules import quota, raised, rules
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def tenants_served(world: World, worker: str) -> list[str]:
    """Whose tasks a worker was sent, in order, a group counting once."""
    return [message.group[0].tenant for message in world.said_to(worker, Assign) if isinstance(message, Assign)]


def running(world: World, tenant: str) -> int:
    """Number of leases of a tenant."""
    return world.shard.memory.leases.counts.get(tenant, 0)


def test_a_guarantee_comes_before_burst(world: World) -> None:
    """PLC-5: `small` has the lowest share, and waits until `big` has its guarantee."""
    world.rule(rules(quota("big", guaranteed=4)))
    world.submit(wide(10), tenant="big")
    world.submit(wide(10), tenant="small")

    world.register("w1", cores=6)

    assert tenants_served(world, "w1") == ["big"] * 4 + ["small"] * 2


def test_only_the_guaranteed_resources_count(world: World) -> None:
    """PLC-5: a task that would exceed its tenant's guarantee is on burst, and waits for its share."""
    world.rule(rules(quota("big", guaranteed=2.5)))
    world.submit(wide(10), tenant="big")
    world.submit(wide(10), tenant="small")

    world.register("w1", cores=4)

    assert tenants_served(world, "w1")[:2] == ["big", "big"]
    assert (running(world, "big"), running(world, "small")) == (2, 2)


def one_after_another(world: World, tasks: int, seconds: float = 0.0) -> list[str]:
    """The tenants whose tasks run in the only slot, with a fixed duration."""
    for _ in range(tasks):
        (held,) = world.shard.memory.attempts.values()
        world.advance(seconds, heard=["w1"])
        world.run_through(held.name, of=world.run(held.run_id))
    return tenants_served(world, "w1")[:tasks]


def test_tenants_take_turns_with_one_slot(world: World) -> None:
    """PLC-4: no tenant waits until another one has no work."""
    for tenant in ("a", "b", "c"):
        world.submit(wide(10), tenant=tenant)
    world.register("w1", cores=1)

    assert one_after_another(world, 9) == ["a", "b", "c"] * 3


def test_a_guarantee_smaller_than_a_task_does_not_prevent_turns(world: World) -> None:
    """PLC-4: with one slot a tenant whose guarantee is half a task gets as much as the others."""
    world.rule(rules(quota("a", guaranteed=0.5)))
    for tenant in ("a", "b", "c"):
        world.submit(wide(10), tenant=tenant)
    world.register("w1", cores=1)

    assert Counter(one_after_another(world, 9)) == {"a": 3, "b": 3, "c": 3}


def test_a_weight_counts_with_one_slot(world: World) -> None:
    """PLC-4: a tenant with three times the weight gets three times as many turns."""
    world.rule(rules(quota("three", weight=3.0)))
    for tenant in ("one", "three"):
        world.submit(wide(20), tenant=tenant)
    world.register("w1", cores=1)

    assert Counter(one_after_another(world, 16, seconds=1.0)) == {"three": 12, "one": 4}


def test_with_fewer_slots_than_tenants_each_gets_its_share_over_time(world: World) -> None:
    """PLC-4: by weight, whatever its tasks take."""
    weights = {f"t{number:02d}": 1.0 + number % 4 for number in range(16)}
    lasts = {tenant: 1 + number % 3 for number, tenant in enumerate(weights)}
    world.rule(rules(*(quota(tenant, weight=weight) for tenant, weight in weights.items())))
    for tenant in weights:
        world.submit(wide(300), tenant=tenant)
    world.register("w1", cores=4)
    had, ends = Counter[str](), dict[str, int]()

    for second in range(600):
        attempts = world.shard.memory.attempts
        for held in [held for attempt, held in attempts.items() if ends.get(attempt) == second]:
            had[held.tenant] += lasts[held.tenant]
            world.run_through(held.name, of=world.run(held.run_id))
        for attempt, held in attempts.items():
            ends.setdefault(attempt, second + lasts[held.tenant])
        world.advance(1.0, heard=["w1"])

    whole = had.total() / sum(weights.values())
    assert all(0.9 < had[tenant] / weight / whole < 1.1 for tenant, weight in weights.items()), str(had)


def test_an_idle_tenant_accumulates_no_credit(world: World) -> None:
    """PLC-4: it begins where the others are, and takes turns from then on."""
    for tenant in ("a", "b"):
        world.submit(wide(20), tenant=tenant)
    world.register("w1", cores=1)
    one_after_another(world, 10, seconds=1.0)
    world.submit(wide(20), tenant="late")

    served = Counter(one_after_another(world, 22, seconds=1.0)[10:])
    assert served["late"] <= 5
    assert abs(served["a"] - served["b"]) <= 1


def test_tenants_without_usage_and_guarantee_are_served_in_order(world: World) -> None:
    """PLC-4: after guarantees and before tenants with leases; a weight counts from the first lease on."""
    world.rule(rules(quota("m", guaranteed=1), quota("c", weight=2.0)))
    for tenant in ("z", "b", "m", "c"):
        world.submit(wide(5), tenant=tenant)

    world.register("w1", cores=8)

    assert tenants_served(world, "w1") == ["m", "z", "b", "c", "c", "c", "b", "m"]


def test_a_weight_divides_what_is_spare(world: World) -> None:
    """PLC-4: three to one."""
    world.rule(rules(quota("three", weight=3.0), quota("one", weight=1.0)))
    for name in ("three", "one"):
        world.submit(wide(30), tenant=name)

    world.register("w1", cores=16)

    assert (running(world, "three"), running(world, "one")) == (12, 4)


def test_shares_are_kept_while_work_comes_and_goes(world: World) -> None:
    """PLC-4: released capacity goes to the tenant below its share."""
    world.rule(rules(quota("two", weight=2.0)))
    mine, theirs = world.submit(wide(30), tenant="two"), world.submit(wide(30), tenant="one")
    world.register("w1", cores=9)
    assert (running(world, "two"), running(world, "one")) == (6, 3)

    for _ in range(8):
        for run in (mine, theirs):
            held = [one.name for one in world.ledger.tasks_of(run.id) if one.state is S.ASSIGNED]
            world.run_through(held[0], of=run)
        assert (running(world, "two"), running(world, "one")) == (6, 3)


def test_strict_priority_comes_before_a_guarantee(world: World) -> None:
    """PLC-4: P1 of a tenant without guarantee is placed before P2 of a tenant with one."""
    world.rule(rules(quota("big", guaranteed=4)))
    world.submit(wide(4), tenant="big", priority=P2)
    world.submit(wide(4), tenant="small", priority=P1)

    world.register("w1", cores=4)

    assert tenants_served(world, "w1") == ["small"] * 4


@pytest.mark.parametrize(
    "row", [quota("acme", max_tasks=2), quota("acme", burst=2), quota("acme", guaranteed=1, burst=1)]
)
def test_a_tenant_does_not_exceed_its_quota_despite_free_capacity(world: World, row: object) -> None:
    """ADM-5: a number of tasks; or a number of cores, guaranteed and burst together."""
    world.rule(rules(row))  # type: ignore[arg-type]
    world.register("w1", cores=8)
    world.submit(wide(5))
    world.submit(wide(3), tenant="other")

    assert (running(world, "acme"), running(world, "other")) == (2, 3)

    world.run_through("t0", of=world.run("run_0001"))
    assert running(world, "acme") == 2


def test_p0_is_exempt_from_quotas_but_counts_as_usage(world: World) -> None:
    """PLC-4."""
    world.rule(rules(quota("acme", max_tasks=2)))
    world.register("w1", cores=8)
    world.submit(wide(3), priority=P0)
    later = world.submit(job(task("later")), priority=P1)

    assert running(world, "acme") == 3
    assert world.states(later) == {"later": S.QUEUED}


def test_a_zero_quota_starts_nothing(world: World) -> None:
    """OPS-2: running tasks continue."""
    world.given_running("a", on="w1")
    world.rule(rules(quota("acme", max_tasks=0)))
    run = world.submit(job(task("b")))

    world.run_through("a") if world.task("a").state is S.ASSIGNED else world.succeed("a")

    assert world.states(run) == {"b": S.QUEUED}
    world.rule(rules())
    assert world.states(run) == {"b": S.ASSIGNED}


def test_a_task_larger_than_its_quota_does_not_block_others(world: World) -> None:
    """ADM-5: it can never start; later tasks can."""
    world.rule(rules(quota("acme", burst=2)))
    world.register("w1", cores=8)
    world.submit(job(task("huge", resources=cores(4))))
    world.submit(wide(3))

    assert world.task("huge").state is S.QUEUED
    assert running(world, "acme") == 2


def test_a_large_task_that_waits_for_its_quota_is_not_overtaken_by_small_ones(world: World) -> None:
    """PLC-4: first come, first served, also against its own quota."""
    world.rule(rules(quota("acme", burst=3)))
    world.register("w1", cores=8)
    first = world.submit(wide(2))
    world.submit(job(task("large", resources=cores(2))))
    world.submit(job(task("small")))
    assert world.task("large").state is world.task("small").state is S.QUEUED

    world.run_through("t0", of=first)

    assert world.task("large").state is S.ASSIGNED
    assert world.task("small").state is S.QUEUED


def test_when_the_large_task_that_waited_for_its_quota_is_cancelled_the_next_one_may_start(world: World) -> None:
    """PLC-4: the tenant's next task is another one then."""
    world.rule(rules(quota("acme", burst=3)))
    world.register("w1", cores=8)
    world.submit(wide(2))
    large = world.submit(job(task("large", resources=cores(2))))
    world.submit(job(task("small")))
    assert world.task("small").state is S.QUEUED

    world.action(CancelRun, large)

    assert world.task("small").state is S.ASSIGNED


def test_a_group_of_short_tasks_is_one_of_the_tasks_of_a_quota(world: World) -> None:
    """ADM-5, PLC-10: they share one lease."""
    world.rule(rules(quota("acme", max_tasks=1)))
    world.register("w1")
    run = world.submit(job(*(short(f"s{n}") for n in range(10))))

    assert set(world.states(run).values()) == {S.ASSIGNED}
    assert running(world, "acme") == 1


def test_a_quota_override_expires(world: World) -> None:
    """OPS-2: the timer fires, though nothing else happens."""
    row = quota("acme", max_tasks=1)
    world.rule(rules(raised(row, world.now + timedelta(seconds=10), max_tasks=3)))
    world.register("w1", cores=8)
    run = world.submit(wide(5))
    assert running(world, "acme") == 3

    world.advance(10, heard=["w1"])
    world.run_through("t0", of=run)
    assert running(world, "acme") == 2

    world.run_through("t1", "t2", of=run)
    assert running(world, "acme") == 1


def test_work_continues_when_a_lower_override_expires(world: World) -> None:
    """OPS-2: lower for a while, and back at the end."""
    world.rule(rules(raised(quota("acme"), world.now + timedelta(seconds=10), max_tasks=0)))
    world.register("w1")
    world.submit(job(task("a")))
    world.advance(9, heard=["w1"])
    assert world.task("a").state is S.QUEUED

    world.advance(1, heard=["w1"])
    assert world.task("a").state is S.ASSIGNED


def test_rules_survive_a_reload_within_the_term(world: World) -> None:
    """The reloaded memory has the latest rules."""
    world.rule(rules(quota("acme", max_tasks=1)))
    world.register("w1", cores=4)
    world.submit(wide(3))
    latest, world.rules = world.rules, rules()

    world.reload()
    world.turn()

    assert world.shard.memory.rules == latest
    assert running(world, "acme") == 1


def test_a_new_leader_knows_what_each_tenant_has(world: World) -> None:
    """HA-3: usage and lease counts are derived from the rows."""
    world.rule(rules(quota("acme", max_tasks=2)))
    world.register("w1", cores=4)
    run = world.submit(wide(5))
    world.start("t0", "t1", of=run)
    held = [world.holder(name)[1] for name in ("t0", "t1")]

    world.new_leader()
    world.reconnect("w1", holds=held)

    assert running(world, "acme") == 2


def test_a_new_leader_serves_the_oldest_first(world: World) -> None:
    """PLC-4: queue order is by the time of becoming QUEUED, whatever the position in the run."""
    world.register("w1", cores=1)
    run = world.submit(job(task("late", "gate"), task("gate"), task("early"), task("other")))
    world.advance(5, heard=["w1"])
    world.run_through("gate", of=run)
    held = world.holder("early")[1]

    world.new_leader()
    world.reconnect("w1", holds=[held])
    world.run_through("early", of=run)

    assert world.task("other", of=run).state is S.ASSIGNED
    assert world.task("late", of=run).state is S.QUEUED


def fails(world: World, many: int, tenant: str = "acme") -> None:
    """This number of tasks of a tenant fail permanently, each of another job."""
    for _ in range(many):
        run = world.submit(job(task("bad", max_attempts=1)), tenant=tenant)
        world.start("bad", of=run)
        world.fail("bad", error='{"class":"permanent"}', of=run)


def test_a_tenant_over_its_failure_budget_starts_one_per_second(world: World) -> None:
    """ADM-5: others, and its own P0, are not held by it."""
    world.rule(rules(quota("acme", failures_per_hour=3)))
    world.register("w1", cores=10)
    fails(world, 3)

    world.submit(wide(4, on_failure=FailurePolicy.FAIL_AFTER_ALL))
    world.submit(wide(2), priority=P0)
    world.submit(wide(2), tenant="other")
    assert (running(world, "acme"), running(world, "other")) == (3, 2)

    world.advance(1, heard=["w1"])
    assert running(world, "acme") == 4
    world.advance(2, heard=["w1"])
    assert running(world, "acme") == 6


def test_a_failure_budget_recovers_after_an_hour(world: World) -> None:
    """ADM-5: also after a take-over, which finds the counts in the rows."""
    world.rule(rules(quota("acme", failures_per_hour=2)))
    world.register("w1", cores=10)
    fails(world, 2)
    world.new_leader()
    world.reconnect("w1")
    world.submit(wide(4))
    assert running(world, "acme") == 1

    world.now += timedelta(hours=1)
    world.reconnect("w1", holds=[])
    world.settle()
    assert {one.state for one in world.ledger.tasks_of("run_0003")} == {S.ASSIGNED}


def test_short_tasks_of_a_throttled_tenant_are_not_grouped(world: World) -> None:
    """ADM-5: starts are counted, not leases."""
    world.rule(rules(quota("acme", failures_per_hour=1)))
    world.register("w1")
    fails(world, 1)

    run = world.submit(job(*(short(f"s{n}") for n in range(10))))

    assert list(world.states(run).values()).count(S.ASSIGNED) == 1


def test_a_quota_limits_fan_out(world: World) -> None:
    """ADM-5: the job allows more."""
    world.rule(rules(quota("acme", max_fan_out=2)))
    run = world.submit(job(task("each", for_each="params.many")), params='{"many": 3}')

    assert world.run(run).paused
    assert world.task("each").trail == RetryState(fan_out_limit=(3, 2))
