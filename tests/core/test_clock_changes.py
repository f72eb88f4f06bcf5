"""The description of a clock change matches what happens then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mainspring.core.schedules.clock_changes import next_change
from mainspring.core.schedules.triggers import CronTrigger, IntervalTrigger, count_windows, next_window

AUTUMN = datetime(2026, 11, 16, tzinfo=UTC)
FORWARD = "clocks go forward on Sun 28 Mar 2027 at 02:00, to 03:00"
BACK = "clocks go back on Sun 31 Oct 2027 at 03:00, to 02:00"
SPRING = datetime(2027, 4, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "now", "sentence"),
    [
        ("30 2 * * *", AUTUMN, f"{FORWARD}: windows from 02:00 to 03:00 fire once, at 03:00"),
        ("*/20 * * * *", AUTUMN, f"{FORWARD}: windows from 02:00 to 03:00 don't exist and don't fire"),
        ("30 2 * * *", SPRING, f"{BACK}: windows from 02:00 to 03:00 fire once, the first time"),
        ("*/20 * * * *", SPRING, f"{BACK}: windows from 02:00 to 03:00 fire twice"),
    ],
)
def test_a_change_that_affects_the_trigger_is_described(cron: str, now: datetime, sentence: str) -> None:
    change = next_change(CronTrigger(cron=cron, timezone="Europe/Paris"), now)

    assert change is not None
    assert change.sentence == sentence


def test_the_description_matches_the_windows() -> None:
    named, paced = (CronTrigger(cron=cron, timezone="Europe/Paris") for cron in ("30 2 * * *", "*/20 * * * *"))
    forward, back = next_change(named, AUTUMN), next_change(named, SPRING)

    assert forward is not None
    assert back is not None
    day = timedelta(hours=12)
    assert next_window(named, forward.at - day) == forward.at
    assert count_windows(paced, forward.at - day, forward.at + day) == 24 * 3
    assert count_windows(named, back.at - day, back.at + day) == 1
    assert next_window(named, back.at - day) == back.at - timedelta(minutes=30)
    assert count_windows(paced, back.at - timedelta(hours=1, seconds=1), back.at + timedelta(minutes=59)) == 6


@pytest.mark.parametrize(
    "trigger",
    [
        CronTrigger(cron="30 5 * * *", timezone="Europe/Paris"),
        CronTrigger(cron="30 2 * * mon-fri", timezone="Europe/Paris"),
        CronTrigger(cron="30 2 * * *", timezone="Asia/Tokyo"),
        IntervalTrigger(every_seconds=60),
    ],
)
def test_a_change_that_does_not_affect_the_trigger_is_not_described(trigger: CronTrigger | IntervalTrigger) -> None:
    assert next_change(trigger, AUTUMN) is None


def test_a_past_change_is_not_described_again() -> None:
    trigger = CronTrigger(cron="30 2 * * *", timezone="Europe/Paris")
    first = next_change(trigger, AUTUMN)

    assert first is not None
    second = next_change(trigger, first.at)
    assert second is not None
    assert second.at == datetime(2027, 10, 31, 1, tzinfo=UTC)
