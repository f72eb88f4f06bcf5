"""Forecasts: expected and actual starts, in a mixed load and in single situations."""

from __future__ import annotations

import gc
from datetime import datetime, timedelta

import pytest

from mainspring.core.explain.diagnosis import Expected, ExpectedKind
from mainspring.core.explain.what_if import parse_hypothesis
from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.model.task import Priority
from mainspring.core.model.task import TaskState as S
from mainspring.shard import events as happened
from mainspring.shard.explain import snapshot_copy
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import forecast_start, take_snapshot, what_if
from mainspring.shard.explain.forecast_engine import Forecast
from mainspring.shard.explain.snapshot import memory_of
from tests.shard import jobs, sharing_rules
from tests.shard.diagnoses import picture
from tests.shard.groups import grant, in_group
from tests.shard.mixed_load import MixedLoad
from tests.shard.world import World

LOADS, ASKED = range(1, 6), 52
"""So many in each load: over 200 in all."""


def test_tasks_start_when_they_are_expected_to() -> None:
    """A range is given in at least half of the cases, and at least 80 % of those that are given are true."""
    asked = given = true = 0
    for seed in LOADS:
        said, began = _ask(MixedLoad(seed))
        ranges = {task_id: one for task_id, one in said.items() if one.kind is ExpectedKind.RANGE}
        asked, given = asked + len(said), given + len(ranges)
        true += sum(task_id in began and _is_in(one, began[task_id]) for task_id, one in ranges.items())
    assert asked >= 200
    assert given >= asked / 2
    assert true >= 0.8 * given


def _ask(load: MixedLoad) -> tuple[dict[str, Expected], dict[str, datetime]]:
    """Every 20 s some waiting tasks are forecast: the expected and the actual start of each."""
    load.submit_some(40)
    load.advance(30)
    asked: dict[str, Expected] = {}
    while len(asked) < ASKED:
        waiting = [task.id for task in load.queued() if task.id not in asked]
        for task_id in load.random.sample(waiting, min(8, len(waiting))):
            asked[task_id] = forecast_start(take_snapshot(load.shard.memory, task_id, load.now))
            load.first_starts.pop(task_id, None)
        load.advance(20)
        load.submit_some(2 if len(load.queued()) < 8 else 0)
    load.advance_until(asked, 5_000)
    return asked, load.first_starts


def _is_in(said: Expected, at: datetime) -> bool:
    assert said.earliest is not None
    assert said.latest is not None
    return said.earliest <= at <= said.latest


def test_a_forecast_does_not_change_the_memory() -> None:
    """Snapshots, forecasts and hypotheses change nothing, and share nothing mutable."""
    load = MixedLoad(7)
    load.submit_some(40)
    load.advance(40)
    memory = load.shard.memory
    before = picture(memory)
    for task in load.queued()[:4]:
        snapshot = take_snapshot(memory, task.id, load.now)
        copied = picture(memory_of(snapshot))
        forecast_start(snapshot)
        what_if(snapshot, parse_hypothesis(["priority P0, worker 8, burst 20, unfreeze"]))
        assert picture(memory_of(snapshot)) == copied
    assert picture(memory) == before


def test_the_order_of_tenants_is_forecast(world: World) -> None:
    """PLC-4: the recent usage of each tenant is part of the snapshot."""
    world.register("w1", cores=1)
    for name, tenant in (("short", "a"), ("long", "b")):
        run = world.submit(jobs.job(jobs.task(name)), tenant=tenant)
        world.advance(1 if name == "short" else 60, heard=["w1"])
        world.run_through(name, of=run)
    now = world.submit(jobs.job(jobs.task("now")), tenant="c")
    waiting = [world.submit(jobs.job(jobs.task(f"of-{tenant}")), tenant=tenant) for tenant in ("b", "a")]
    snapshots = [
        take_snapshot(world.shard.memory, world.task(f"of-{run.tenant}", run).id, world.now) for run in waiting
    ]
    orders = [
        memory_of(snapshot).leases.recent_usage[Priority.P1].least_used_first(("b", "a")) for snapshot in snapshots
    ]
    assert orders == [["a", "b"]] * 2

    world.run_through("now", of=now)
    assert [world.task(f"of-{run.tenant}", run).state for run in waiting] == [S.QUEUED, S.ASSIGNED]


def test_the_same_snapshot_gives_the_same_forecast() -> None:
    """Nothing depends on the time of day, or on earlier forecasts."""
    load = MixedLoad(8)
    load.submit_some(40)
    load.advance(40)
    task = load.queued()[-1]
    first = forecast_start(take_snapshot(load.shard.memory, task.id, load.now))
    assert forecast_start(take_snapshot(load.shard.memory, task.id, load.now)) == first


def known(world: World, name: str, *seconds: float) -> None:
    """Record recent durations."""
    for took in seconds:
        world.shard.memory.durations.record("acme", "job", name, took, life=0.0)


def expected(world: World, name: str) -> Expected:
    """When a task is expected to start."""
    return forecast_start(take_snapshot(world.shard.memory, world.task(name).id, world.now))


def test_the_next_in_the_queue_starts_when_the_first_ends(world: World) -> None:
    """`first` usually takes 100 s, and has run for 40."""
    known(world, "first", 100.0)
    world.given_running("first", on="w1")
    world.advance(40, heard=["w1"])
    world.submit(jobs.job(jobs.task("second")))
    said = expected(world, "second")
    assert said.kind is ExpectedKind.RANGE
    assert _is_in(said, world.now + timedelta(seconds=60))
    assert said.latest is not None
    assert said.latest < world.now + timedelta(seconds=100)
    assert "1 running task" in said.basis


def test_an_unknown_duration_gives_no_forecast(world: World) -> None:
    """The duration of `first` is unknown."""
    world.given_running("first", on="w1")
    world.submit(jobs.job(jobs.task("second")))
    said = expected(world, "second")
    assert said.kind is ExpectedKind.UNKNOWN
    assert "1 running task" in said.basis


def test_a_forecast_ends_when_nothing_is_pending(world: World) -> None:
    """The duration of `first` is unknown: repeated checks change nothing."""
    world.given_running("first", on="w1")
    run = world.submit(jobs.job(jobs.task("second")))
    play = Forecast(take_snapshot(world.shard.memory, world.ledger.tasks_of(run.id)[0].id, world.now))
    play.settle()
    assert not play.is_still()
    while not play.is_still():
        assert play.step()
    assert play.turns <= 4


def test_a_reservation_expires_in_a_forecast(world: World) -> None:
    """The durations of the others are unknown; what `small` needs is reserved for `large` until then."""
    world.register("w1", cores=4)
    world.submit(jobs.job(jobs.task("long", resources=jobs.cores(3))))
    world.start("long")
    world.submit(jobs.job(jobs.task("large", resources=jobs.cores(4))))
    for _ in range(8):
        world.advance(1, heard=["w1"])
    room = world.task("large").reserved
    assert room is not None
    world.submit(jobs.job(jobs.task("small", resources=jobs.cores(1))))
    assert world.task("small").worker_id is None
    play = Forecast(take_snapshot(world.shard.memory, world.task("small").id, world.now))
    play.settle()
    while not play.has_started():
        assert not play.is_still()
        assert play.step()
    assert play.now >= room.until


def test_a_task_that_has_run_longer_than_ever_gives_no_forecast(world: World) -> None:
    """`first` usually takes 10 s, and has run for 40."""
    known(world, "first", 9.0, 10.0)
    world.given_running("first", on="w1")
    world.advance(40, heard=["w1"])
    world.submit(jobs.job(jobs.task("second")))
    assert expected(world, "second").kind is ExpectedKind.UNKNOWN


def test_a_task_that_no_worker_could_take_never_starts(world: World) -> None:
    """It requests a GPU that no worker has, and all workers have had time to reconnect."""
    world.register("w1", cores=4)
    world.advance(6, heard=["w1"])
    world.submit(jobs.job(jobs.task("train", labels={"gpu": "a100"})))
    said = expected(world, "train")
    assert said.kind is ExpectedKind.NEVER


def test_a_task_that_no_worker_could_take_may_start_while_workers_may_reconnect(world: World) -> None:
    """After a failover; and then the only matching worker is lost."""
    world.register("w2", labels={"gpu": "a100"})
    world.register("w1", cores=4)
    world.new_leader()
    world.reconnect("w1")
    world.submit(jobs.job(jobs.task("train", labels={"gpu": "a100"})))
    assert expected(world, "train").kind is ExpectedKind.UNKNOWN
    world.reconnect("w2")
    world.advance(16, heard=["w1"])
    world.submit(jobs.job(jobs.task("again", labels={"gpu": "a100"})))
    said = expected(world, "again")
    assert said.kind is ExpectedKind.UNKNOWN
    assert "w2 offered it until" in said.basis


def test_the_last_worker_of_a_large_fleet_is_examined(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    """Only one matches, and it is busy."""
    monkeypatch.setattr(snapshot_copy, "MAX_EXAMINED", 2)
    for name in ("w1", "w2", "w3"):
        world.register(name, labels={"name": name})
    world.advance(6, heard=list(world.workers))
    known(world, "first", 60.0)
    for name in ("first", "second"):
        world.submit(jobs.job(jobs.task(name, labels={"name": "w3"})))
    world.start("first")
    assert expected(world, "second").kind is ExpectedKind.RANGE


def test_a_freeze_with_an_end_is_waited_for(world: World) -> None:
    """Nothing else blocks it."""
    world.register("w1")
    until = world.now + timedelta(seconds=300)
    world.rule(sharing_rules.rules(sharing_rules.freeze(FreezeKind.TENANT, "acme", until=until)))
    world.submit(jobs.job(jobs.task("load")))
    assert _is_in(expected(world, "load"), until)


def test_a_freeze_without_an_end_gives_no_forecast(world: World) -> None:
    """Its end is unknown."""
    world.register("w1")
    world.rule(sharing_rules.rules(sharing_rules.freeze(FreezeKind.ALL)))
    world.submit(jobs.job(jobs.task("load")))
    assert expected(world, "load").kind is ExpectedKind.UNKNOWN


def test_a_group_starts_the_next_when_one_ends(world: World) -> None:
    """One at a time; `a` takes 50 s, and then `b` may start, and then `c`."""
    for name in "abc":
        known(world, name, 50.0)
    world.register("w1", cores=4)
    world.rule(sharing_rules.rules(sharing_rules.group("db", 1)))
    world.submit(jobs.job(*(in_group(name) for name in "abc")))
    grant(world)
    world.start(*[name for name, state in world.states().items() if state == "ASSIGNED"])
    waiting = sorted(name for name, state in world.states().items() if state == "QUEUED")
    first, second = (expected(world, name) for name in waiting)
    assert _is_in(first, world.now + timedelta(seconds=50))
    assert _is_in(second, world.now + timedelta(seconds=100))


def test_a_downstream_task_is_queued_when_it_is_ready(world: World) -> None:
    """`b` of an important run is ready when `a` ends, and goes before the task under diagnosis."""
    known(world, "a", 30.0)
    known(world, "b", 50.0)
    world.register("w1")
    world.submit(jobs.chain("a", "b"), priority=Priority.P1)
    world.start("a")
    world.submit(jobs.job(jobs.task("last")), priority=Priority.P2)
    assert _is_in(expected(world, "last"), world.now + timedelta(seconds=80))


def test_a_queue_of_thousands_is_forecast_from_its_throughput(world: World) -> None:
    """Each takes 10 s, four at a time."""
    known(world, "t", 9.0, 10.0, 11.0)
    world.register("w1", cores=4)
    made = [world.put_in_intake(jobs.job(jobs.task("t"))) for _ in range(900)]
    world.settle(*(world.arrival(run) for run in made))
    last = world.ledger.tasks_of(made[-1].id)[0]
    for attempt, task in list(world.shard.memory.attempts.items()):
        world.turn(world.say(happened.AttemptStarted, task.worker_id or "", attempt=attempt))
    said = forecast_start(take_snapshot(world.shard.memory, last.id, world.now))
    assert said.kind is ExpectedKind.RANGE
    assert _is_in(said, world.now + timedelta(seconds=10 * 900 / 4))
    assert "throughput" in said.basis


def test_of_long_queues_a_few_tasks_are_copied(world: World) -> None:
    """Each one placed in a forecast is replaced by a similar one."""
    world.register("w1", cores=4)
    made = [world.put_in_intake(jobs.job(jobs.task("t"))) for _ in range(900)]
    world.settle(*(world.arrival(run) for run in made))
    last = world.ledger.tasks_of(made[-1].id)[0]
    snapshot = take_snapshot(world.shard.memory, last.id, world.now)
    assert snapshot.coverage.is_long_queue()
    assert len(snapshot.queue) < 20
    assert sum(snapshot.coverage.omitted.values()) + len(snapshot.queue) == 900 - 4


def test_a_forecast_leaves_no_garbage() -> None:
    """For the collector, which would scan the whole memory of the leader."""
    load = MixedLoad(9)
    load.submit_some(40)
    load.advance(40)
    memory, task = load.shard.memory, load.queued()[-1]
    found = diagnose(memory, task.id, load.now)
    assert found is not None
    gc.collect()
    gc.disable()
    try:
        assert advise(found, take_snapshot(memory, task.id, load.now)).suggestions
        assert gc.collect() == 0
    finally:
        gc.enable()
