"""Groups: a number of tasks at a time or per period, across jobs (PLC-12)."""

from __future__ import annotations

import pytest

from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from mainspring.shard.effects import RequestShare
from mainspring.shard.placement import concurrency_groups
from tests.shard.groups import LIMIT, began, counted, grant, in_group, used
from tests.shard.jobs import chain, job, task, wide
from tests.shard.sharing_rules import group, rules
from tests.shard.world import World

S = TaskState
P0, P1, P2 = Priority


def test_tasks_wait_for_their_group_and_others_don_t(world: World) -> None:
    """PLC-12: across jobs; nothing starts before the store has granted it."""
    world.rule(rules(group("db", 2)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a"), in_group("b"), task("free")))
    world.submit(job(in_group("c")))
    assert world.names(S.ASSIGNED) == ["free"]
    assert world.limit_requests[-1] == RequestShare(LIMIT, 2, 0)

    grant(world)
    assert sorted(world.names(S.ASSIGNED)) == ["a", "b", "free"]

    world.run_through("a")
    assert world.task("c").state is S.ASSIGNED
    assert world.limit_requests == []


def test_an_undefined_group_limits_nothing(world: World) -> None:
    world.register("w1", cores=10)
    world.submit(job(*(in_group(f"t{n}") for n in range(5))))
    world.submit(counted("a"))

    assert world.names(S.QUEUED) == []
    assert used(world) == 6


def test_a_group_defined_later_counts_running_tasks(world: World) -> None:
    """Three have leases already: nothing starts until there are fewer than the limit."""
    world.register("w1", cores=10)
    first = world.submit(job(*(in_group(f"t{n}") for n in range(3))))

    world.rule(rules(group("db", 2)))
    world.submit(job(in_group("next")))
    grant(world)
    world.run_through("t0", of=first)
    assert world.task("next").state is S.QUEUED
    world.run_through("t1", of=first)
    assert world.task("next").state is S.ASSIGNED


def test_a_dropped_group_releases_all_tasks(world: World) -> None:
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a"), in_group("b")))
    runs = [world.submit(counted("x")) for _ in range(3)]
    grant(world)

    world.rule(rules())

    assert world.names(S.QUEUED) == []
    assert began(*runs, world=world) == [True, True, True]


def test_p0_waits_for_a_group_too_and_comes_first(world: World) -> None:
    """PLC-12: a database does not get faster for a P0."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    first = world.submit(job(in_group("first")))
    grant(world)
    world.submit(job(in_group("low")), priority=P2)
    world.submit(job(in_group("high")), priority=P0)
    assert world.task("high").state is S.QUEUED

    world.run_through("first", of=first)

    assert (world.task("high").state, world.task("low").state) == (S.ASSIGNED, S.QUEUED)


def test_a_full_group_does_not_block_other_tasks(world: World) -> None:
    """PLC-4: the shape is parked, and no end of a lease but one of the group wakes it."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=3)
    world.submit(job(in_group("a")))
    grant(world)
    world.submit(job(in_group("b")))
    world.submit(wide(4))
    why = next(iter(world.shard.memory.queues.parked.values()))
    assert why == concurrency_groups.describe(world.shard.memory.rules.groups[LIMIT])

    world.run_through("t0")

    assert world.task("b").state is S.QUEUED
    assert world.task("t2").state is S.ASSIGNED


def test_a_run_counts_from_its_first_task_to_its_end(world: World) -> None:
    """PLC-12: also between its tasks, and with many at once."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    spec = job(task("a"), task("b"), task("c", "a", "b"), groups=("db",))
    first, second = world.submit(spec), world.submit(spec)
    grant(world)
    assert began(first, second, world=world) == [True, False]

    world.run_through("a", "b", of=first)
    assert began(first, second, world=world) == [True, False]
    world.run_through("c", of=first)
    assert began(second, world=world) == [True]
    assert used(world) == 1


def test_runs_that_are_not_admitted_do_not_block_other_runs_of_the_queue(world: World) -> None:
    """The tasks have one shape: only those of the group are blocked."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    runs = [world.submit(counted("x")) for _ in range(3)]
    other = world.submit(wide(3))
    grant(world)

    assert began(*runs, world=world) == [True, False, False]
    assert set(world.states(other).values()) == {S.ASSIGNED}


def test_runs_are_admitted_by_priority_and_age(world: World) -> None:
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    first = world.submit(counted("x"))
    grant(world)
    older, newer, urgent = (world.submit(counted("x")) for _ in range(3))
    world.action(happened.ChangePriority, urgent, priority=P0)

    for expected in (urgent, older, newer):
        (now,) = [run for run in (first, older, newer, urgent) if began(run, world=world) == [True]]
        world.run_through("x", of=now)
        assert began(expected, world=world) == [True]


def test_a_run_that_is_not_admitted_can_be_cancelled(world: World) -> None:
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    first, second, third = (world.submit(counted("x")) for _ in range(3))
    grant(world)

    world.action(happened.CancelRun, second)
    world.run_through("x", of=first)

    assert world.states(second) == {"x": S.CANCELLED}
    assert began(third, world=world) == [True]


@pytest.mark.parametrize("how", ["reload", "new_leader"])
def test_admitted_runs_are_known_from_the_rows(world: World, how: str) -> None:
    """HA-3: in the middle of a run without leases; the grant is in the rows as well."""
    world.rule(rules(group("db", 2)))
    world.register("w1", cores=10)
    first = world.submit(job(*chain("a", "b").tasks, groups=("db",)))
    grant(world)
    world.start("a", of=first)
    world.fail("a", of=first)
    waiting = [world.submit(counted("x")) for _ in range(2)]
    grant(world)
    assert began(first, *waiting, world=world) == [False, True, False]

    getattr(world, how)()
    world.reconnect("w1")
    world.settle()

    assert used(world) == 2
    assert began(first, *waiting, world=world) == [False, True, False]
    world.run_through("x", of=waiting[0])
    assert began(waiting[1], world=world) == [True]


def test_a_restarted_run_has_to_be_admitted_again(world: World) -> None:
    """A manual retry: its slot has been reused."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    spec = job(task("a", max_attempts=1), task("b", "a"), groups=("db",))
    first, second = world.submit(spec), world.submit(spec)
    grant(world)
    world.start("a", of=first)
    world.fail("a", of=first)
    assert began(second, world=world) == [True]

    world.action(happened.RetryRun, first)
    assert began(first, world=world) == [False]
    world.new_leader()
    world.reconnect("w1")
    world.settle()
    assert began(first, world=world) == [False]

    world.run_through("a", "b", of=second)
    assert began(first, world=world) == [True]


def test_a_task_in_two_groups_waits_for_both(world: World) -> None:
    world.rule(rules(group("db", 1), group("api", 1)))
    world.register("w1", cores=10)
    both = job(task("both", groups=("db", "api")))
    world.submit(job(task("api", groups=("api",))))
    world.submit(both)
    for _ in range(4):
        grant(world)
    assert (world.task("both").state, world.task("api").state) == (S.QUEUED, S.ASSIGNED)

    world.run_through("api")
    for _ in range(4):
        grant(world)
    assert world.task("both").state is S.ASSIGNED


def test_a_task_whose_run_counts_by_a_group_is_not_counted_again(world: World) -> None:
    """It would wait for itself for ever."""
    world.rule(rules(group("db", 1)))
    world.register("w1", cores=10)
    world.submit(job(in_group("a"), in_group("b"), groups=("db",)))
    grant(world)

    assert (used(world), world.names(S.QUEUED)) == (1, [])


def test_tasks_and_runs_count_by_one_limit(world: World) -> None:
    """PLC-12: a run has one slot, and a task of another job the other."""
    world.rule(rules(group("db", 2)))
    world.register("w1", cores=10)
    run = world.submit(counted("x"))
    world.advance(1, heard=["w1"])
    world.submit(job(in_group("a"), in_group("b")))
    for _ in range(3):
        grant(world)
    assert used(world) == 2

    world.run_through("x", of=run)
    assert world.names(S.QUEUED) == []
