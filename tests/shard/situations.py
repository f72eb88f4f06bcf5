"""Situations in which a task waits, or does not end: each returns the name of the task."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from mainspring.core.explain.diagnosis import STALE_SECONDS
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.quotas import Ceiling
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import FailurePolicy
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from tests.shard.diagnoses import settled
from tests.shard.groups import allow, grant, in_group
from tests.shard.jobs import GIB, chain, cores, job, task, wide
from tests.shard.mass_failures import Storm
from tests.shard.preemption_scenes import full_of_p2, given, running
from tests.shard.sharing_rules import freeze, group, quota, rules, submit
from tests.shard.world import World

P0, P1, P2 = Priority


def known(world: World, tenant: str, name: str, seconds: float = 60.0) -> None:
    for _ in range(5):
        world.shard.memory.durations.record(tenant, "job", name, seconds, life=world.shard.memory.shard_time)


def _busy(world: World, amount: float, priority: Priority = P1, name: str = "busy") -> None:
    """A task holds cores, usually for a minute."""
    known(world, f"of_{name}", name)
    running(world, name, priority, resources=cores(amount))


def beats(world: World, seconds: float) -> None:
    """Let time pass, with heartbeats of all workers."""
    world.advance(seconds, heard=list(world.workers))


# not ready


def upstream(world: World) -> str:
    """It waits for `a`, which usually takes a minute."""
    settled(world, w1=1)
    known(world, "acme", "a")
    world.submit(chain("a", "it"))
    world.start("a")
    return "it"


def in_vain(world: World) -> str:
    """Its upstream task fails before the others end."""
    settled(world, w1=8)
    tasks = task("a", max_attempts=1), task("b"), task("it", "a", "b")
    world.submit(job(*tasks, on_failure=FailurePolicy.FAIL_AFTER_ALL))
    world.start("a", "b")
    world.fail("a")
    return "it"


def given_up(world: World) -> str:
    """It was cancelled because of a failure."""
    settled(world, w1=8)
    tasks = task("a", max_attempts=1), task("b"), task("it", "a")
    world.submit(job(*tasks, on_failure=FailurePolicy.FAIL_AFTER_ALL))
    world.start("a", "b")
    world.fail("a")
    return "it"


def failed_once(world: World) -> str:
    """Its next attempt is delayed."""
    settled(world, w1=1)
    world.given_running("it", on="w1", max_attempts=4, retry_delay_seconds=30.0)
    world.fail("it")
    return "it"


def much_fails(world: World) -> str:
    """The circuit breaker of its job is open."""
    storm = Storm(world, workers=1, cores=25)
    storm.submit(wide(60, FailurePolicy.FAIL_AFTER_ALL, max_attempts=1), runs=1)
    storm.seconds(1, lambda _: '{"type":"ValueError","message":"no such column"}')
    return "t59"


def probe_succeeds(world: World) -> None:
    """Let time pass until the circuit breaker closes."""
    _until(world, lambda: not world.ledger.breakers)


def comes_back(world: World) -> None:
    """Let time pass until the delayed task is placed."""
    _until(world, lambda: world.task("t59").worker_id is not None)


def _until(world: World, is_so: Callable[[], bool]) -> None:
    """Let time pass and placed tasks succeed, until a condition holds."""
    for _ in range(700):
        if is_so():
            return
        beats(world, 1)
        if not is_so():
            world.run_through(*world.names(TaskState.ASSIGNED))
    raise AssertionError("it does not come to that")


def put_off(world: World) -> str:
    """The circuit breaker has closed, and delayed tasks come back at their own time."""
    much_fails(world)
    probe_succeeds(world)
    return "t59"


# rules


def frozen(world: World) -> str:
    """Its job is frozen."""
    settled(world, w1=8)
    world.rule(rules(freeze(FreezeKind.JOB, "acme/job")))
    world.submit(job(task("it")))
    return "it"


def frozen_for_a_minute(world: World) -> str:
    """Everything is frozen for a minute."""
    settled(world, w1=8)
    world.rule(rules(freeze(FreezeKind.ALL, until=world.now + timedelta(minutes=1))))
    world.submit(job(task("it")))
    return "it"


def paused(world: World) -> str:
    """Its run is paused, and only that holds it."""
    settled(world, w1=1)
    run = world.submit(job(task("a"), task("it")))
    world.action(happened.PauseRun, run, why="warehouse move")
    world.run_through("a")
    return "it"


def over_quota(world: World) -> str:
    """Two cores of three are in use, and two are requested."""
    settled(world, w1=8)
    world.rule(rules(quota("acme", guaranteed=1, burst=2)))
    known(world, "acme", "busy")
    world.submit(job(task("busy", resources=cores(2))))
    world.start("busy")
    world.submit(job(task("it", resources=cores(2))))
    return "it"


def over_memory(world: World) -> str:
    """Its tenant uses an odd amount of memory, which can't be written in a few digits."""
    settled(world, w1=8)
    row = quota("acme")
    burst = Ceiling(memory_bytes=2 * GIB)
    world.rule(rules(replace(row, quota=replace(row.quota, burst=burst))))
    world.submit(job(task("busy", resources=Resources(1_000, 700_500_001))))
    world.start("busy")
    world.submit(job(task("it", resources=Resources(1_000, 1_900_000_001))))
    return "it"


def too_many_tasks(world: World) -> str:
    """Its tenant may have one task at a time."""
    settled(world, w1=8)
    world.rule(rules(quota("acme", max_tasks=1)))
    world.submit(job(task("busy")))
    world.start("busy")
    world.submit(job(task("it")))
    return "it"


def group_is_full(world: World) -> str:
    """Its group allows one, and `busy` runs."""
    settled(world, w1=8)
    world.rule(rules(group("db", 1)))
    known(world, "acme", "busy")
    world.submit(job(in_group("busy")))
    grant(world)
    world.start("busy")
    world.submit(job(in_group("it")))
    return "it"


def rate_is_used(world: World) -> str:
    """Its group allows one start per minute."""
    settled(world, w1=8)
    world.rule(rules(group("db", 1, per_seconds=60)))
    world.submit(job(in_group("busy")))
    allow(world, 1, more_in=60)
    world.start("busy")
    world.submit(job(in_group("it")))
    world.turn()
    return "it"


def rate_goes_on(world: World) -> None:
    """A minute passes, and the store allows one more."""
    beats(world, 60)
    allow(world, 1, more_in=60)


# room


def full(world: World) -> str:
    """Three of four cores are in use, and two are requested."""
    settled(world, w1=4)
    _busy(world, 3)
    given(world, "it", P1, resources=cores(2))
    return "it"


def kept(world: World) -> str:
    """The same, with a reservation: that would be free for it if it requested less."""
    name = full(world)
    beats(world, 13)
    assert world.task(name).reserved is not None
    return name


def no_worker_with_the_label(world: World) -> str:
    """No worker has its label."""
    settled(world, w1=4)
    given(world, "it", P1, labels={"gpu": "a100"})
    return "it"


def no_worker_in_the_zone(world: World) -> str:
    """No worker is in its zone."""
    settled(world, w1=4)
    given(world, "it", P1, zone="eu-1")
    return "it"


def cordoned(world: World) -> str:
    """The only worker that has its label is cordoned."""
    world.register("w1", labels={"gpu": "a100"})
    settled(world)
    world.settle(happened.CordonWorker(worker="w1", by="ann", why="new disk"))
    given(world, "it", P1, labels={"gpu": "a100"})
    return "it"


def too_big(world: World) -> str:
    """Eight cores are requested, and the largest worker has four."""
    settled(world, w1=4)
    given(world, "it", P1, resources=cores(8))
    return "it"


def in_pieces(world: World) -> str:
    """Two workers have a core free each, and two are requested."""
    for name in ("w1", "w2"):
        world.register(name, cores=2, labels={"name": name})
        known(world, f"of_on-{name}", f"on-{name}")
        running(world, f"on-{name}", P2, prefer={"name": name})
        beats(world, 6)
    given(world, "it", P1, resources=cores(2))
    return "it"


def outranked(world: World) -> str:
    """A task of higher priority goes first."""
    settled(world, w1=1)
    _busy(world, 1)
    known(world, "first", "first10")
    given(world, "it", P2)
    submit(world, "first", 1, P1)
    return "it"


def first_is_done(world: World) -> None:
    """The tasks before it end."""
    world.succeed("busy")
    world.run_through("first10")


def beyond_its_share(world: World) -> str:
    """Its tenant uses everything, another one nothing."""
    settled(world, w1=2)
    for number in range(3):
        known(world, "big", f"big1{number}")
    submit(world, "big", 3, P1)
    world.start("big10", "big11")
    submit(world, "small", 1, P1)
    return "big12"


def made_room(world: World) -> str:
    """It was preempted for a P0, which runs."""
    full_of_p2(world)
    known(world, "of_high", "high")
    world.stop("low")
    world.start("high")
    return "low"


def makes_room(world: World) -> str:
    """It is being preempted for a P0."""
    full_of_p2(world)
    return "low"


# the scheduler


def waits(world: World) -> str:
    """There is no capacity; the state may be old."""
    settled(world, w1=1)
    world.submit(job(task("a"), task("it")))
    return "it"


def store_is_slow(world: World) -> str:
    """Less important work waits for the store."""
    settled(world, w1=1)
    world.settle(happened.StoreLagged(hold=P2))
    given(world, "it", P2)
    return "it"


def forgotten(world: World) -> str:
    """The scheduler has no record of a cause, for longer than a turn ever takes."""
    settled(world, w1=1)
    world.submit(job(task("a"), task("it")))
    queues = world.shard.memory.queues
    queues.unpark(list(queues.parked))
    world.now += timedelta(seconds=STALE_SECONDS + 30)
    return "it"
