"""Large work of one run is paced only while other runs wait (DAG-2, DAG-9)."""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.limits.token_bucket import PacedOperation
from mainspring.core.model.job import JobSpec
from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import Priority, TaskState
from mainspring.protocol.wire import Outcome
from mainspring.shard import events as happened
from tests.shard.jobs import fan, job, task, wide
from tests.shard.world import World

S = TaskState
WIDE = 3_500

GROWTH, READINESS = DEFAULTS.pace(PacedOperation.GROWTH), DEFAULTS.pace(PacedOperation.READINESS)


def many(n: int) -> JobSpec:
    """A job that is n tasks."""
    return job(task("part", for_each="params.n"), max_fan_out=n)


def made(world: World) -> int:
    """Number of created fan-out members."""
    return sum(row.name == "part" for row in world.ledger.tasks.values())


def given_others_wait(world: World, priority: Priority = Priority.P1) -> None:
    """A task of another run is queued, and there is no worker."""
    world.submit(job(task("other")), tenant="other", priority=priority)


def test_a_fan_out_is_created_at_once_if_no_other_run_waits(world: World) -> None:
    world.submit(many(WIDE), params=f'{{"n": {WIDE}}}')
    assert made(world) == WIDE


def test_a_fan_out_is_paced_after_a_burst_while_others_wait(world: World) -> None:
    given_others_wait(world)
    world.submit(many(WIDE), params=f'{{"n": {WIDE}}}')
    assert made(world) == GROWTH.burst + 1
    for _ in range(10):
        world.now += timedelta(seconds=0.1)
        world.settle()
    begun = GROWTH.burst + 1 + GROWTH.per_second
    assert begun - 150 <= made(world) <= begun
    assert world.shard.memory.runs, "and it is not over before all are made"


def test_a_second_fan_out_of_the_run_waits_behind_the_first_without_a_turn_after_another(world: World) -> None:
    """L-5: no turn until there are tokens again."""
    given_others_wait(world)
    spec = job(task("part", for_each="params.n"), task("rest", for_each="params.n"), max_fan_out=WIDE)
    world.submit(spec, params=f'{{"n": {WIDE}}}')
    assert not world.shard.has_more()
    world.advance(10)
    assert made(world) == sum(row.name == "rest" for row in world.ledger.tasks.values()) == WIDE


def test_lower_priorities_do_not_cause_pacing(world: World) -> None:
    given_others_wait(world, Priority.P2)
    world.submit(many(WIDE), params=f'{{"n": {WIDE}}}')
    assert made(world) == WIDE


def test_pacing_ends_when_no_other_run_waits(world: World) -> None:
    given_others_wait(world)
    world.submit(many(WIDE), params=f'{{"n": {WIDE}}}')
    world.action(happened.CancelRun, world.run("run_0001"))
    world.advance(1)
    assert made(world) == WIDE


def test_a_new_leader_creates_the_rest_of_deferred_work(world: World) -> None:
    given_others_wait(world)
    world.submit(many(WIDE), params=f'{{"n": {WIDE}}}')
    world.new_leader()
    world.advance(3)
    assert made(world) == WIDE


def test_many_that_become_ready_at_once_are_paced_while_others_wait(world: World) -> None:
    world.register("w1")
    run = world.submit(fan(6_000))
    world.start("first", of=run)
    for _ in range(2):
        given_others_wait(world)
    world.settle(world.result("first", Outcome.SUCCEEDED, of=run))
    assert ready(world) == READINESS.burst, "and one of the others is placed"
    world.now += timedelta(seconds=0.1)
    world.settle()
    assert READINESS.burst < ready(world) <= READINESS.burst + 0.1 * READINESS.per_second
    world.advance(1)
    assert ready(world) == 6_000


def test_an_adoption_is_paced_while_others_wait_and_a_p0_passes_it(world: World) -> None:
    given_others_wait(world)
    world.submit(wide(6_000))
    assert ready(world) == READINESS.burst
    world.register("w1", cores=2)
    urgent = world.submit(job(task("urgent")), tenant="acme", priority=Priority.P0)
    assert world.task("urgent", urgent).state is S.QUEUED
    world.register("w2")
    assert world.task("urgent", urgent).state is S.ASSIGNED
    world.advance(1, heard=["w1", "w2"])
    assert len(world.ledger.tasks) == 6_002


def ready(world: World) -> int:
    """How many tasks are queued or were."""
    return sum(row.state is S.QUEUED and row.name != "other" for row in world.ledger.tasks.values())
