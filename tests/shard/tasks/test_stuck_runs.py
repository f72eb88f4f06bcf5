"""Stuck runs are found, reported and decided again (DAG-8)."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import TaskState
from mainspring.shard import events as happened
from tests.shard.jobs import chain, job, task
from tests.shard.world import World

S = TaskState


def alerts(world: World) -> list[Alert]:
    """Alerts about stuck runs."""
    told = [msgspec.json.decode(row.payload, type=Alert) for row in world.ledger.outbox if row.kind == OUTBOX_KIND]
    return [alert for alert in told if alert.kind is AlertKind.RUN_STUCK]


def given_stuck(world: World) -> None:
    """`b` could run, and waits for a time that has passed: its timer is lost."""
    world.register("w1")
    run = world.submit(job(task("a", max_attempts=2, retry_delay_seconds=5.0), task("b", "a")))
    world.start("a")
    world.fail("a")
    assert world.task("a").due_at is not None
    world.shard.memory.timers.at.pop_due(1e12, 10)
    assert run.id in world.shard.memory.runs


def pass_time(world: World, minutes: float) -> None:
    """Advance the clock, and check invariants."""
    world.now += timedelta(minutes=minutes)
    world.settle(world.say(happened.WorkerHeartbeat, "w1"))
    world.settle(happened.InvariantsDue())


def test_a_stuck_run_is_reported_after_half_an_hour_and_decided_again(world: World) -> None:
    given_stuck(world)
    pass_time(world, 29)
    assert alerts(world) == []
    assert world.task("a").state is S.PENDING
    pass_time(world, 2)
    (alert,) = alerts(world)
    assert "a waited until 2026-01-01T00:00:0" in alert.summary
    assert "b waits for a (PENDING)" in alert.summary
    assert world.task("a").state is S.ASSIGNED
    world.now += timedelta(seconds=1)
    world.start("a")
    assert [alert.resolved for alert in alerts(world)] == [False, True]
    assert world.run().stuck_at is None


def test_the_stuck_period_is_a_setting(world: World) -> None:
    """OPS-5."""
    given_stuck(world)
    world.settle(happened.SettingsChanged(scheduler_settings=SchedulerSettings(stuck_after_seconds=120.0)))
    pass_time(world, 1.5)
    assert alerts(world) == []
    pass_time(world, 1)
    assert len(alerts(world)) == 1


def test_a_new_leader_resolves_the_alert(world: World) -> None:
    given_stuck(world)
    world.workers["w1"].offer = world.workers["w1"].offer
    pass_time(world, 31)
    assert world.run().stuck_at == world.now
    world.new_leader()
    world.now += timedelta(seconds=1)
    world.reconnect("w1")
    world.start("a")
    assert [alert.resolved for alert in alerts(world)] == [False, True]


def test_a_run_that_waits_for_a_worker_or_a_person_is_not_stuck(world: World) -> None:
    running = world.given_running("a", on="w1")
    waiting = world.submit(chain("x", "y"))
    paused = world.submit(job(task("p")))
    world.action(happened.PauseRun, paused)
    for _ in range(3):
        world.now += timedelta(minutes=20)
        world.settle(happened.InvariantsDue())
    assert alerts(world) == []
    assert {run.id for run in (running, waiting, paused)} <= set(world.ledger.runs)
