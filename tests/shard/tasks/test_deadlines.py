"""Deadlines of runs: alerts, and escalation (PLC-11)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mainspring.core.fairness.quotas import P0Grant
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind
from mainspring.core.model.job import JobSpec
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import events as happened
from mainspring.shard.events import PauseRun, ReopenTask, ResumeRun
from mainspring.shard.tasks.deadlines import MAX_EXAMINED, run_forecast
from mainspring.shard.turn import MAX_DEADLINE_CHECKS
from tests.shard.jobs import chain, job, task, wide
from tests.shard.world import World

P0, P1, P2 = Priority
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def told(world: World, run: Run | None = None) -> list[tuple[AlertKind, bool]]:
    """Deadline alerts, and whether they were resolved; one per id."""
    rows = {row.id: row for row in world.ledger.outbox if row.kind == OUTBOX_KIND}
    alerts = [msgspec.json.decode(row.payload, type=Alert) for row in rows.values()]
    mine = [alert for alert in alerts if run is None or alert.details.get("run") == run.id]
    return [(alert.kind, alert.resolved) for alert in mine if alert.kind in (AT_RISK, LATE)]


def summary(world: World, kind: AlertKind) -> str:
    """Summary of the first alert of a kind."""
    alerts = [msgspec.json.decode(row.payload, type=Alert) for row in world.ledger.outbox if row.kind == OUTBOX_KIND]
    return next(alert.summary for alert in alerts if alert.kind is kind)


AT_RISK, LATE = AlertKind.RUN_AT_RISK, AlertKind.RUN_LATE


def guaranteed_tenants(seconds: float, *, usual: float | None = 60.0, **fields: Any) -> JobSpec:
    """A job of two tasks in sequence with these usual durations."""
    return job(
        task("a", expected_seconds=usual), task("b", "a", expected_seconds=usual), finish_within_seconds=seconds,
        **fields,
    )  # fmt: skip


def granted(tenant: str, until: datetime | None = None) -> SharingRules:
    """A tenant may have P0."""
    return SharingRules(grants={tenant: P0Grant(tenant=tenant, by="ann", why="", since=THEN, until=until)})


def test_a_run_is_at_risk_without_slack_and_late_after_its_deadline(world: World) -> None:
    """There is no capacity: two tasks of 60 s with a deadline in 300 s, so the first has to start within 180 s."""
    run = world.submit(guaranteed_tenants(300.0), priority=P1)
    assert run.finish_by == THEN + timedelta(seconds=300)

    world.advance(180)
    assert (told(world), world.run().at_risk_at) == ([], None)

    world.advance(1)
    assert told(world) == [(AT_RISK, False)]
    assert world.run().at_risk_at == THEN + timedelta(seconds=181)
    assert summary(world, AT_RISK) == (
        "job is at risk: deadline 2026-01-01T00:05:00Z is in 1m 59s; the remaining tasks usually take 2m 00s; "
        "priority stays P1: acme has no P0 grant"
    )

    world.advance(118)
    assert told(world) == [(AT_RISK, False)]
    world.advance(1)
    assert told(world) == [(AT_RISK, False), (LATE, False)]
    world.advance(100)
    assert len(told(world)) == 2


def test_alerts_are_resolved_when_the_run_ends(world: World) -> None:
    run = world.submit(guaranteed_tenants(100.0))
    assert told(world) == [(AT_RISK, False)]
    world.register("w1")
    world.run_through("a")
    world.run_through("b")
    assert told(world) == [(AT_RISK, False), (AT_RISK, True)]
    assert world.run(run).at_risk_at is not None


def test_both_alerts_of_a_late_run_are_resolved_when_it_ends(world: World) -> None:
    world.submit(guaranteed_tenants(130.0))
    world.advance(131)
    world.register("w1")
    world.run_through("a")
    world.run_through("b")
    assert told(world) == [(AT_RISK, False), (LATE, False), (AT_RISK, True), (LATE, True)]


def test_a_run_that_ends_on_time_raises_no_alert(world: World) -> None:
    world.submit(guaranteed_tenants(1_000.0))
    world.register("w1")
    world.run_through("a")
    world.run_through("b")
    world.advance(1_000)
    assert told(world) == []


def test_finished_tasks_do_not_count_as_remaining(world: World) -> None:
    """With `a` done there is time until 240 s."""
    world.register("w1")
    world.submit(guaranteed_tenants(300.0))
    world.run_through("a")
    world.submit(job(task("other")), priority=P0)
    world.give_back("b")
    world.start("other")
    world.advance(239, heard=["w1"])
    assert told(world) == []
    world.advance(2, heard=["w1"])
    assert told(world) == [(AT_RISK, False)]


def test_a_long_running_task_raises_an_alert_before_the_run_is_late(world: World) -> None:
    """It takes 60 s and not 300: then a tenth more of that is expected of it."""
    world.register("w1")
    world.submit(job(task("a", expected_seconds=60.0), finish_within_seconds=300.0))
    world.start("a")
    world.advance(271, heard=["w1"])
    assert told(world) == []
    world.advance(4, heard=["w1"])
    assert told(world) == [(AT_RISK, False)]


def test_durations_learned_in_the_meantime_count(world: World) -> None:
    """Nothing is known of `a` when the run arrives; then another run of it takes 200 s."""
    world.register("w1")
    other = world.submit(job(task("a")))
    world.start("a")
    run = world.submit(job(task("a"), finish_within_seconds=400.0))
    world.advance(200, heard=["w1"])
    assert outlook(world, run) is None
    world.succeed("a", of=other)
    assert outlook(world, run) == 200.0
    world.give_back("a", of=run)
    world.advance(110)
    assert told(world) == [(AT_RISK, False)]


def outlook(world: World, run: Run) -> float | None:
    """The forecast of a run."""
    mine = world.shard.memory.runs[run.id]
    assert mine.run.finish_by is not None
    return run_forecast(world.shard.memory, mine, mine.run.finish_by, world.now).left_seconds


def test_unknown_durations_raise_no_alert_until_the_run_is_late(world: World) -> None:
    world.submit(guaranteed_tenants(300.0, usual=None))
    world.advance(299)
    assert told(world) == []
    world.advance(1)
    assert told(world) == [(LATE, False)]


def test_a_submitted_run_may_have_its_own_deadline(world: World) -> None:
    run = world.put_in_intake(guaranteed_tenants(10_000.0))
    run.finish_by = THEN + timedelta(seconds=90)
    world.settle(world.arrival(run))
    assert world.run(run).finish_by == THEN + timedelta(seconds=90)
    assert told(world) == [(AT_RISK, False)]


def test_a_run_at_risk_is_escalated_one_level_with_a_reason(world: World) -> None:
    run = world.submit(guaranteed_tenants(100.0), priority=P2)
    assert (world.run(run).priority, world.task("a").priority) == (P1, P1)
    assert world.run(run).because.startswith("escalated from P2 to P1: deadline 2026-01-01T00:01:40Z")
    (entry,) = [entry for batch in world.batches for entry in batch.audit]
    assert (entry.action, entry.actor, entry.object, entry.tenant) == ("escalate_run", "shard", run.id, "acme")
    assert (entry.before, entry.after) == ('{"priority":"P2"}', '{"priority":"P1"}')
    world.advance(110)
    assert world.run(run).priority is P1


def test_it_overtakes_what_was_before_it(world: World) -> None:
    first = world.submit(job(task("first")), priority=P2)
    world.advance(1)
    world.submit(guaranteed_tenants(100.0), priority=P2)
    world.register("w1")
    assert world.names(TaskState.ASSIGNED) == ["a"]
    assert world.task("first", first).state is TaskState.QUEUED


@pytest.mark.parametrize(
    ("rules", "scheduler_settings", "became"),
    [
        (SharingRules(), SchedulerSettings(), P1),
        (granted("other"), SchedulerSettings(), P1),
        (granted("acme"), SchedulerSettings(), P0),
        (granted("acme", until=THEN), SchedulerSettings(), P1),
        (SharingRules(), SchedulerSettings(p0_needs_grant=0), P0),
        (granted("acme"), SchedulerSettings(escalate_at_risk=0), P1),
    ],
    ids=["no grant", "another's", "granted", "no longer", "none is needed", "switched off"],
)
def test_escalation_to_p0_needs_a_grant(
    world: World, rules: SharingRules, scheduler_settings: SchedulerSettings, became: Priority
) -> None:
    world.settle(happened.SettingsChanged(scheduler_settings=scheduler_settings))
    world.rule(rules)
    assert world.submit(guaranteed_tenants(100.0), priority=P1).priority is became
    assert told(world) == [(AT_RISK, False)]


def test_a_job_may_disable_escalation(world: World) -> None:
    assert world.submit(guaranteed_tenants(100.0, escalate=False), priority=P2).priority is P2
    assert told(world) == [(AT_RISK, False)]


def test_a_paused_run_is_not_checked(world: World) -> None:
    run = world.submit(guaranteed_tenants(300.0), priority=P2)
    world.action(PauseRun)
    world.advance(400)
    assert (told(world), world.run(run).priority) == ([], P2)
    world.action(ResumeRun)
    world.advance(60)
    assert (told(world), world.run(run).priority) == ([(LATE, False)], P2)


def test_a_resumed_run_is_checked_again(world: World) -> None:
    run = world.submit(guaranteed_tenants(1_000.0), priority=P2)
    world.action(PauseRun)
    world.advance(900)
    world.action(ResumeRun)
    world.advance(60)
    assert (told(world), world.run(run).priority) == ([(AT_RISK, False)], P1)


def test_a_new_leader_repeats_no_alert_and_no_escalation(world: World) -> None:
    world.rule(granted("acme"))
    run = world.submit(guaranteed_tenants(100.0), priority=P2)
    for _ in range(3):
        world.new_leader()
        world.rule(granted("acme"))
        world.advance(10)
    assert (told(world), world.run(run).priority) == ([(AT_RISK, False)], P1)
    world.advance(70)
    world.new_leader()
    world.advance(1)
    assert told(world) == [(AT_RISK, False), (LATE, False)]


def test_a_new_leader_detects_risk_from_stored_durations(world: World) -> None:
    """`usual` is part of the definition here; what matters is that the timer is there again."""
    world.submit(guaranteed_tenants(300.0))
    world.new_leader()
    world.advance(181)
    assert told(world) == [(AT_RISK, False)]


def test_a_restarted_run_is_checked_again(world: World) -> None:
    world.register("w1")
    run = world.submit(job(task("a", expected_seconds=60.0, max_attempts=1), finish_within_seconds=1_000.0))
    world.start("a")
    world.fail("a")
    assert world.run(run).state is RunState.FAILED
    world.advance(900, heard=["w1"])
    world.submit(job(task("other")))
    world.start("other")
    world.action(ReopenTask, run, task="a")
    world.advance(41, heard=["w1"])
    assert told(world) == [(AT_RISK, False)]


def test_a_large_run_is_forecast_as_a_whole(world: World) -> None:
    spec = msgspec.structs.replace(wide(MAX_EXAMINED + 1), finish_within_seconds=300.0)
    world.shard.memory.durations.record("acme", "job", "", 200.0, life=0.0)
    run = world.submit(spec, priority=P2)
    assert outlook(world, run) == 200.0
    assert told(world) == []


def test_a_run_without_a_deadline_has_no_timer(world: World) -> None:
    world.submit(chain("a", "b"))
    assert world.shard.memory.timers.at.next_due() is None


def test_checks_due_at_once_are_spread_over_turns(world: World) -> None:
    """All are due at once, and each has as many tasks as are checked one by one."""
    tasks = [task(f"t{number}", expected_seconds=60.0) for number in range(MAX_EXAMINED)]
    count = MAX_DEADLINE_CHECKS // MAX_EXAMINED + 2
    for _ in range(count):
        world.submit(job(*tasks, finish_within_seconds=300.0), priority=P1)
    world.advance(241)
    assert 0 < len(told(world)) < count
    world.advance(0.1)
    assert told(world) == [(AT_RISK, False)] * count
