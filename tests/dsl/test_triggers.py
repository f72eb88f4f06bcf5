"""Schedules in code become definitions; a plan shows job and schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from mainspring import after, cron, every, job, on_event, once, task
from mainspring.dsl.triggers import Schedule

NOW = datetime(2026, 11, 16, 6, 1, tzinfo=UTC)


@task(retries=1, timeout="10m")
def work(day: str = "") -> str:
    """Do it."""
    return day


@job(schedule=cron("30 5 * * 1-5", tz="Europe/Paris"))
def extract() -> object:
    """The first one."""
    return work()


def _definition(schedule: Schedule, **options: Any) -> dict[str, Any]:
    @job(schedule=schedule, **options)
    def nightly(day: str = "today") -> object:
        return work(day)

    found = nightly.schedule_definition()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("schedule", "trigger"),
    [
        (every("15m"), {"kind": "interval", "every_seconds": 900}),
        (
            every("1d", tz="Europe/Paris"),
            {"kind": "interval", "every_seconds": 86_400, "anchor_at": "1969-12-31T23:00:00Z"},
        ),
        (cron("30 5 * * 1-5", tz="UTC"), {"kind": "cron", "cron": "30 5 * * 1-5", "timezone": "UTC"}),
        (once(NOW), {"kind": "once", "at": "2026-11-16T06:01:00Z"}),
        (
            on_event("orders.ready", filter="event.data.rows > 0"),
            {"kind": "event", "type": "orders.ready", "filter": "event.data.rows > 0"},
        ),
    ],
)
def test_a_trigger_becomes_a_definition(schedule: Schedule, trigger: dict[str, Any]) -> None:
    assert _definition(schedule) == {
        "name": "nightly", "job": "nightly", "trigger": trigger, "params": {"day": "today"}, "priority": "P2",
    }  # fmt: skip


def test_options_are_set_on_the_schedule_or_the_job() -> None:
    at_schedule = every("1h", overlap="skip", catch_up=0, max_delay="10m", jitter="30s", params={"day": "x"}, name="s")
    found = _definition(at_schedule, priority="p1", max_active=2, missed="skip", max_failures=None, overlap="queue")
    assert (found["name"], found["params"], found["priority"]) == ("s", {"day": "x"}, "P1")
    assert (found["overlap"], found["missed"], found["max_active"]) == ("queue", "skip", 2)
    assert (found["max_catch_up_windows"], found["max_delay_seconds"], found["jitter_seconds"]) == (0, 600.0, 30)
    assert found["max_consecutive_failures"] is None
    assert _definition(every("1h"), condition="params.day != ''")["condition"] == {"expression": "params.day != ''"}


def test_the_event_parameter_is_not_required() -> None:
    @job(schedule=on_event("orders.ready"))
    def ordered(event: dict[str, Any], day: str = "today") -> object:
        return work(event["id"])

    found = ordered.schedule_definition()
    assert found is not None
    assert found["params"] == {"day": "today"}


def test_after_uses_the_windows_of_the_other_job() -> None:
    found = _definition(after(extract, within="2h"))
    assert found["trigger"] == {"kind": "cron", "cron": "30 5 * * 1-5", "timezone": "Europe/Paris"}
    assert found["after"] == {"job": "extract", "within_seconds": 7200.0}


def test_a_plan_shows_the_graph_and_the_next_times() -> None:
    @job(schedule=every("15m", tz="Europe/Paris"), tenant="acme", priority="p0")
    def planned(days: list[str] = ["mon"]) -> object:  # noqa: B006 - as users write it
        each = work.map(days)
        return work.named("last").if_(each[0] == "mon")("x")

    plan = planned.plan(now=NOW)
    assert [(one.name, one.needs) for one in plan.tasks] == [("work", ()), ("last", ("work",))]
    assert plan.tasks[1].conditions == {"work": 'output[0] == "mon"'}
    assert [at.minute for at in plan.fires] == [15, 30, 45, 0, 15]
    lines = str(plan).splitlines()
    assert lines[0] == "planned, every 15 minutes, P0, of acme"
    assert lines[1] == '  days = ["mon"]'
    assert lines[2].startswith('  work  for each of params.days|default(["mon"]); retried once; at most 10m 00s;')
    assert lines[-5:][0] == "  next: 2026-11-16 07:15:00 Europe/Paris"
