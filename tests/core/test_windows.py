"""Due windows, and the outcome of each (TRG-4, TRG-5, TRG-6)."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.schedules.schedule_spec import Missed, ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, IntervalTrigger, OnceTrigger, count_windows, next_window
from mainspring.core.schedules.windows import Fire, Outcome, Plan, fire_key, jitter, plan, start_of, upcoming
from tests.core.builders import NOON

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
HOURLY = ScheduleSpec(name="hourly", job="etl", trigger=CronTrigger(cron="0 * * * *"))
STORM = ScheduleSpec(name="storm", job="etl", trigger=CronTrigger(cron="* * * * * *"))


def planned(spec: ScheduleSpec, planned_through: datetime, now: datetime) -> Plan:
    """The plan of a schedule that has been planned before."""
    return plan(spec, planned_through=planned_through, now=now)


def told(fires: tuple[Fire, ...]) -> list[tuple[Outcome, int, int, bool]]:
    """Of each fire: its outcome, the hour of its first window, the number of windows, and whether it is caught up."""
    return [(fire.outcome, fire.window_at.hour, fire.count, fire.is_catch_up) for fire in fires]


def test_a_window_that_is_due_runs() -> None:
    """Once, at its time, and the next is known."""
    found = planned(HOURLY, NOON - HOUR, NOON + SECOND)
    assert told(found.fires) == [(Outcome.RAN, 12, 1, False)]
    assert start_of("sched_1", HOURLY, NOON, NOON + SECOND) == NOON + SECOND
    assert (found.planned_through, found.next_at) == (NOON, NOON + HOUR)
    assert planned(HOURLY, found.planned_through, NOON + 2 * SECOND).fires == ()


def test_nothing_is_due_before_its_time() -> None:
    """Not by a microsecond."""
    found = planned(HOURLY, NOON - HOUR, NOON - timedelta(microseconds=1))
    assert (found.fires, found.planned_through, found.next_at) == ((), NOON - HOUR, NOON)


def test_a_clock_that_goes_ahead_and_back_doubles_nothing() -> None:
    """A day of windows is caught up; then there are no windows until the end of that day."""
    ahead = planned(HOURLY, NOON, NOON + DAY)
    assert ahead.planned_through == NOON + DAY
    back = planned(HOURLY, ahead.planned_through, NOON + HOUR)
    assert (back.fires, back.planned_through, back.next_at) == ((), NOON + DAY, NOON + DAY + HOUR)


def test_the_latest_missed_windows_are_caught_up() -> None:
    """TRG-5: three, oldest first; the others are one row. The one that is due now is none of them."""
    found = planned(HOURLY, NOON - 10 * HOUR, NOON + SECOND)
    assert told(found.fires) == [
        (Outcome.SKIPPED, 3, 6, False),
        (Outcome.RAN, 9, 1, True),
        (Outcome.RAN, 10, 1, True),
        (Outcome.RAN, 11, 1, True),
        (Outcome.RAN, 12, 1, False),
    ]
    assert found.fires[0].last_window_at == NOON - 4 * HOUR
    assert {start_of("sched_1", HOURLY, fire.window_at, NOON + SECOND) for fire in found.fires[1:]} == {NOON + SECOND}


def test_a_window_that_is_a_minute_old_was_missed() -> None:
    """Before that, a failover has not lost it."""
    assert told(planned(HOURLY, NOON - HOUR, NOON + 59 * SECOND).fires) == [(Outcome.RAN, 12, 1, False)]
    assert told(planned(HOURLY, NOON - HOUR, NOON + 60 * SECOND).fires) == [(Outcome.RAN, 12, 1, True)]


def test_missed_windows_may_be_skipped() -> None:
    """All of it, in one row; what is on time runs."""
    spec = msgspec.structs.replace(HOURLY, missed=Missed.SKIP)
    assert told(planned(spec, NOON - 10 * HOUR, NOON + 5 * MINUTE).fires) == [(Outcome.SKIPPED, 3, 10, False)]
    assert told(planned(spec, NOON - 10 * HOUR, NOON + SECOND).fires) == [
        (Outcome.SKIPPED, 3, 9, False),
        (Outcome.RAN, 12, 1, False),
    ]


def test_a_window_beyond_its_delay_is_late() -> None:
    """TRG-5: `max_delay` is checked first, also for windows that would be caught up."""
    spec = msgspec.structs.replace(HOURLY, max_delay_seconds=2 * 3600, max_catch_up_windows=1)
    assert told(planned(spec, NOON - 10 * HOUR, NOON + SECOND).fires) == [
        (Outcome.LATE, 3, 8, False),
        (Outcome.RAN, 11, 1, True),
        (Outcome.RAN, 12, 1, False),
    ]
    found = planned(msgspec.structs.replace(spec, max_catch_up_windows=0), NOON - 10 * HOUR, NOON)
    assert told(found.fires) == [
        (Outcome.LATE, 3, 7, False),
        (Outcome.SKIPPED, 10, 2, False),
        (Outcome.RAN, 12, 1, False),
    ]


def test_a_delay_counts_from_the_end_of_the_jitter() -> None:
    """A run that starts on time is never late."""
    spec = msgspec.structs.replace(HOURLY, max_delay_seconds=10, jitter_seconds=300)
    assert told(planned(spec, NOON - HOUR, NOON + 310 * SECOND).fires) == [(Outcome.RAN, 12, 1, True)]
    assert told(planned(spec, NOON - HOUR, NOON + 311 * SECOND).fires) == [(Outcome.LATE, 12, 1, False)]


def test_a_month_away_is_a_handful_of_rows() -> None:
    """Of a schedule that is due every second: exact to the second, and no row for each."""
    found = planned(STORM, NOON - 30 * DAY, NOON)
    assert [fire.count for fire in found.fires] == [30 * 86_400 - 4, 1, 1, 1, 1]
    assert found.fires[0].last_window_at == NOON - 4 * SECOND
    assert [fire.is_catch_up for fire in found.fires] == [False, True, True, True, False]


def test_a_one_time_window_is_caught_up() -> None:
    """If no server ran at its time."""
    spec = ScheduleSpec(name="once", job="etl", trigger=OnceTrigger(at=NOON))
    found = planned(spec, NOON - DAY, NOON + DAY)
    assert told(found.fires) == [(Outcome.RAN, 12, 1, True)]
    assert found.next_at is None
    assert planned(spec, found.planned_through, NOON + 2 * DAY) == Plan(fires=(), planned_through=NOON, next_at=None)


def test_a_disabled_schedule_plans_nothing() -> None:
    """It has no next window. Resumed, it begins at that instant."""
    spec = msgspec.structs.replace(HOURLY, enabled=False)
    assert planned(spec, NOON - DAY, NOON) == Plan(fires=(), planned_through=NOON - DAY, next_at=None)
    assert upcoming(spec, NOON, 3) == []
    resumed_at = NOON - 30 * MINUTE
    assert told(planned(HOURLY, resumed_at, NOON).fires) == [(Outcome.RAN, 12, 1, False)]


@given(
    every=st.integers(1, 100_000),
    away=st.integers(0, 10**7),
    late=st.integers(0, 10**7),
    catch_up=st.integers(0, 5),
    missed=st.sampled_from(Missed),
    max_delay=st.none() | st.integers(1, 10**6),
)
def test_every_window_is_covered_once(
    every: int, away: int, late: int, catch_up: int, missed: Missed, max_delay: int | None
) -> None:
    """After any time without evaluation: the fires are consecutive, and count all windows."""
    spec = ScheduleSpec(
        name="any", job="etl", trigger=IntervalTrigger(every_seconds=every), missed=missed,
        max_catch_up_windows=catch_up, max_delay_seconds=max_delay,
    )  # fmt: skip
    planned_through, now = NOON - away * SECOND, NOON + late * SECOND
    found = planned(spec, planned_through, now)
    assert sum(fire.count for fire in found.fires) == count_windows(spec.trigger, planned_through, now)
    assert len(found.fires) <= catch_up + 3
    at = planned_through
    for fire in found.fires:
        assert next_window(spec.trigger, at) == fire.window_at
        assert count_windows(spec.trigger, at, fire.last_window_at) == fire.count
        at = fire.last_window_at
    assert (at, found.next_at) == (found.planned_through, next_window(spec.trigger, now))


def test_jitter_is_stable_and_spreads() -> None:
    """TRG-6: the same for a schedule and window wherever it is asked, within its bounds, and not the window itself."""
    spread = {jitter(f"sched_{number}", NOON, 300) for number in range(200)}
    assert len(spread) > 150
    assert timedelta(0) <= min(spread) < 30 * SECOND
    assert 270 * SECOND < max(spread) <= 300 * SECOND
    assert jitter("sched_1", NOON, 300) == jitter("sched_1", NOON.astimezone(), 300)
    assert jitter("sched_1", NOON, 300) != jitter("sched_1", NOON + HOUR, 300)
    assert jitter("sched_1", NOON, 0) == timedelta(0)


def test_the_key_of_a_fire() -> None:
    """TRG-4: the schedule, the window in UTC, and the generation."""
    assert fire_key("sched_1", NOON.astimezone(), 2) == "sched_1@2026-01-01T12:00:00+00:00#2"


def test_upcoming_windows() -> None:
    """As many as asked for."""
    assert upcoming(HOURLY, NOON, 3) == [NOON + HOUR, NOON + 2 * HOUR, NOON + 3 * HOUR]
    once = ScheduleSpec(name="once", job="etl", trigger=OnceTrigger(at=NOON + HOUR))
    assert upcoming(once, NOON, 3) == [NOON + HOUR]
