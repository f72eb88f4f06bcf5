"""Schedule definitions: validation, and the windows that follow (TRG-1, TRG-3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from mainspring.core.schedules.schedule_spec import After, Condition, Missed, Overlap, ScheduleSpec, check_schedule
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    IntervalTrigger,
    ManualTrigger,
    OnceTrigger,
    Trigger,
    count_windows,
    describe_trigger,
    next_window,
    previous_window,
)
from mainspring.protocol.errors import Broken
from tests.core.builders import NOON

HOUR = timedelta(hours=1)
NAIVE = (NOON + HOUR).replace(tzinfo=None)
NIGHTLY = CronTrigger(cron="0 2 * * *", timezone="Europe/Paris")


def faults_of(trigger: Trigger) -> list[tuple[str, str]]:
    """Return the faults of a schedule that has this trigger."""
    spec = ScheduleSpec(name="nightly", job="etl", trigger=trigger)
    return [(fault.where, fault.why) for fault in check_schedule(spec, NOON)]


def test_a_definition_is_read_from_json() -> None:
    """With defaults."""
    trigger = '{"kind": "cron", "cron": "0 2 * * *", "timezone": "Europe/Paris"}'
    text = f'{{"name": "nightly", "job": "etl", "trigger": {trigger}}}'
    spec = msgspec.json.decode(text, type=ScheduleSpec)
    assert spec.trigger == NIGHTLY
    assert (spec.missed, spec.max_catch_up_windows, spec.overlap, spec.max_active) == (Missed.RUN, 3, Overlap.QUEUE, 1)
    assert (spec.max_consecutive_failures, spec.max_delay_seconds, spec.jitter_seconds) == (5, None, None)
    assert msgspec.json.decode(msgspec.json.encode(spec), type=ScheduleSpec) == spec
    assert check_schedule(spec, NOON) == []


def test_every_fault_is_reported() -> None:
    """Not only the first."""
    spec = ScheduleSpec(
        name="No Name",
        job="etl",
        trigger=CronTrigger(cron="61 24 * * *", timezone="Mars/Olympus"),
        max_catch_up_windows=-1,
        max_delay_seconds=0,
        jitter_seconds=-1,
        max_active=0,
        max_consecutive_failures=0,
        after=After(job="etl", within_seconds=float("nan")),
    )
    assert [fault.where for fault in check_schedule(spec, NOON)] == [
        "name", "trigger.timezone", "trigger.cron", "trigger.cron", "max_catch_up_windows", "jitter_seconds",
        "max_active", "max_consecutive_failures", "max_delay_seconds", "after.job", "after.within_seconds",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("trigger", "where", "why"),
    [
        (CronTrigger(cron="61 * * * *"), "trigger.cron", "minute: 61 is not from 0 to 59"),
        (CronTrigger(cron="0 0 30 2 *"), "trigger.cron", "cron expression never matches"),
        (CronTrigger(cron="* *"), "trigger.cron", "has 2 fields; it needs 5 "),
        (CronTrigger(cron="@daily", timezone="Paris"), "trigger.timezone", "'Paris' is not an IANA time zone"),
        (IntervalTrigger(every_seconds=0), "trigger.every_seconds", "must be from 1 to 31622400"),
        (IntervalTrigger(every_seconds=60, anchor_at=NAIVE), "trigger.anchor_at", "must have a time zone"),
        (OnceTrigger(at=NOON), "trigger.at", "is in the past (now: 2026-01-01T12:00:00Z)"),
        (OnceTrigger(at=NAIVE), "trigger.at", "must have a time zone"),
        (EventTrigger(type=""), "trigger.type", "must have 1 to 256 printable characters"),
    ],
)
def test_an_invalid_trigger_is_refused(trigger: Trigger, where: str, why: str) -> None:
    """The field and the reason."""
    [(found, because)] = faults_of(trigger)
    assert found == where
    assert because.startswith(why)


@pytest.mark.parametrize(
    ("condition", "where", "why"),
    [
        (Condition(), "condition", "must have an expression, or file_exists, or both"),
        (
            Condition(expression="output.rows > 0"),
            "condition.expression",
            "uses undefined output; available: params and",
        ),
        (Condition(expression="params.rows >"), "condition.expression", "can't be parsed"),
        (Condition(file_exists="data/ready"), "condition.file_exists", "must be an absolute path"),
        (Condition(file_exists="/data\n"), "condition.file_exists", "must be an absolute path"),
        (Condition(file_exists="/" + 4096 * "a"), "condition.file_exists", "must be an absolute path"),
    ],
)
def test_an_invalid_condition_is_refused(condition: Condition, where: str, why: str) -> None:
    """TRG-8: the field and the reason."""
    [fault] = check_schedule(ScheduleSpec(name="nightly", job="etl", trigger=NIGHTLY, condition=condition), NOON)
    assert fault.where == where
    assert fault.why.startswith(why)


def test_valid_conditions() -> None:
    """One of the two, or both."""
    for condition in (
        Condition(expression="params.rows > 0 and window > '2026'"),
        Condition(file_exists="/data/ready"),
        Condition(expression="params.rows > 0", file_exists="/data/ready"),
    ):
        spec = ScheduleSpec(name="nightly", job="etl", trigger=NIGHTLY, condition=condition)
        assert check_schedule(spec, NOON) == []


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (b"[]", "must be an object"),
        (b'{"a":1,"a":2}', "more than once"),
        (b'{"a":"\\u0000"}', "contains NUL"),
        (b'{"a":"' + 300_000 * b"x" + b'"}', "is larger than 262144 bytes"),
    ],
)
def test_invalid_parameters_are_refused(params: bytes, why: str) -> None:
    """They go to every run."""
    [fault] = check_schedule(ScheduleSpec(name="n", job="etl", trigger=NIGHTLY, params=msgspec.Raw(params)), NOON)
    assert fault.where.startswith("params")
    assert why in fault.why


def test_a_schedule_may_fire_every_second() -> None:
    """A storm is valid; its effect is bounded (tests/core/test_schedule_evaluation.py)."""
    for trigger in (CronTrigger(cron="* * * * * *"), IntervalTrigger(every_seconds=1)):
        assert faults_of(trigger) == []


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (CronTrigger(cron="30 5 * * 1-5", timezone="Europe/Paris"), "every weekday at 05:30 (Europe/Paris)"),
        (IntervalTrigger(every_seconds=900), "every 15 minutes"),
        (IntervalTrigger(every_seconds=3600), "every hour"),
        (IntervalTrigger(every_seconds=90), "every 90 seconds"),
        (OnceTrigger(at=NOON + HOUR), "once at 2026-01-01T13:00:00+00:00"),
        (EventTrigger(type="orders.ready"), "on events of type orders.ready"),
        (ManualTrigger(), "on request"),
    ],
)
def test_valid_triggers_and_their_descriptions(trigger: Trigger, words: str) -> None:
    """No faults, and readable."""
    assert faults_of(trigger) == []
    assert describe_trigger(trigger) == words


@pytest.mark.parametrize(
    ("trigger", "following", "current"),
    [
        (NIGHTLY, "2026-01-02T01:00Z", "2026-01-01T01:00Z"),
        (IntervalTrigger(every_seconds=7200), "2026-01-01T14:00Z", "2026-01-01T12:00Z"),
        (IntervalTrigger(every_seconds=7200, anchor_at=NOON + 99 * HOUR), "2026-01-01T13:00Z", "2026-01-01T11:00Z"),
        (OnceTrigger(at=NOON + HOUR), "2026-01-01T13:00Z", None),
        (OnceTrigger(at=NOON), None, "2026-01-01T12:00Z"),
        (EventTrigger(type="x"), None, None),
        (ManualTrigger(), None, None),
    ],
)
def test_windows_around_noon(trigger: Trigger, following: str | None, current: str | None) -> None:
    """The next is after an instant, the previous may be at it."""
    after, until = next_window(trigger, NOON), previous_window(trigger, NOON)
    assert after == (following and datetime.fromisoformat(following))
    assert until == (current and datetime.fromisoformat(current))
    assert count_windows(trigger, NOON - 24 * HOUR, NOON) == (
        12 if isinstance(trigger, IntervalTrigger) else until is not None
    )


def test_windows_are_in_utc() -> None:
    """Independent of the zone of the trigger's definition."""
    at = (NOON + HOUR).astimezone(timezone(timedelta(hours=5)))
    for trigger in (OnceTrigger(at=at), IntervalTrigger(every_seconds=3600, anchor_at=at)):
        window = next_window(trigger, NOON)
        assert window is not None
        assert window.isoformat() == "2026-01-01T13:00:00+00:00"
    last = OnceTrigger(at=datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))
    assert next_window(last, NOON) is None


def test_intervals_end_with_the_calendar() -> None:
    """No computation fails there."""
    trigger = IntervalTrigger(every_seconds=86_400)
    assert next_window(trigger, datetime.max.replace(tzinfo=UTC)) is None


def test_a_zone_that_this_machine_lacks_is_an_error() -> None:
    """The schedule was valid when it was created elsewhere."""
    with pytest.raises(Broken, match="Mars/Olympus"):
        next_window(CronTrigger(cron="@daily", timezone="Mars/Olympus"), NOON)
