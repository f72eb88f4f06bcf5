"""After any sequence of events, windows are neither missed nor doubled (TRG-4, I-30, I-31, I-35)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.run import RunState
from mainspring.core.schedules import schedule_actions
from mainspring.core.schedules.schedule_spec import Missed, Overlap, ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger, IntervalTrigger, count_windows, next_window
from mainspring.core.schedules.windows import Outcome
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec

SECOND = timedelta(seconds=1)
DAY = timedelta(days=1)


def covered(desk: FakeServer) -> list[tuple[datetime, datetime, int]]:
    """First window, last window and count of each planned fire."""
    planned = [fire for fire in desk.sorted_fires() if fire.generation == 1 and not fire.by]
    return [(fire.window_at, fire.last_window_at, fire.count) for fire in planned]


def check_covered(desk: FakeServer, spec: ScheduleSpec, since: datetime) -> None:
    """Every window since then, up to the planned-through instant, is in exactly one fire."""
    at = since
    for first, last, count in covered(desk):
        assert next_window(spec.trigger, at) == first
        assert count_windows(spec.trigger, at, last) == count
        at = last
    assert count_windows(spec.trigger, at, desk.row.planned_through) == 0


@given(
    every=st.integers(1, 7200),
    steps=st.lists(
        st.tuples(st.sampled_from(["due", "due", "sweep", "end", "trigger"]), st.integers(-20_000, 40_000)), max_size=30
    ),
    overlap=st.sampled_from(Overlap),
    missed=st.sampled_from(Missed),
    catch_up=st.integers(0, 4),
)
def test_windows_are_neither_missed_nor_doubled(
    every: int, steps: list[tuple[str, int]], overlap: Overlap, missed: Missed, catch_up: int
) -> None:
    """Evaluations may be split and repeated, and the clock may change."""
    spec = a_spec(
        IntervalTrigger(every_seconds=every), overlap=overlap, missed=missed, max_catch_up_windows=catch_up,
        max_consecutive_failures=None,
    )  # fmt: skip
    desk, now, latest = FakeServer(spec), NOON, NOON
    for what, seconds in steps:
        now += seconds * SECOND
        latest = max(latest, now)
        match what:
            case "due":
                desk.due(now)
            case "sweep":
                desk.sweep(now)
            case "trigger":
                desk.trigger(now, schedule_actions.TriggerCommand(by="ann"))
            case _:
                if desk.case().active:
                    desk.end(RunState.FAILED, now)
    check_covered(desk, spec, NOON)
    desk.due(latest)
    check_covered(desk, spec, NOON)
    assert desk.row.planned_through <= latest
    assert count_windows(spec.trigger, desk.row.planned_through, latest) == 0
    keys = [(run.window_at, run.submitted_by) for run in desk.runs]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("cron", ["0 2 * * *", "*/5 * * * *", "* * * * * *"])
def test_a_month_away_is_a_handful_of_rows(cron: str) -> None:
    """TRG-5: the latest three run, oldest first, as catch-ups; the others are one row."""
    desk = FakeServer(a_spec(CronTrigger(cron=cron, timezone="Europe/Paris"), max_active=9))
    desk.due(NOON + 30 * DAY + 90 * SECOND)
    fires = desk.sorted_fires()
    assert len(fires) <= 5
    caught_up = [fire for fire in fires if fire.is_catch_up]
    assert [fire.outcome for fire in caught_up] == [Outcome.RAN] * 3
    assert [run.window_at for run in desk.runs] == [fire.window_at for fire in fires if fire.run_id is not None]
    check_covered(desk, a_spec(CronTrigger(cron=cron, timezone="Europe/Paris")), NOON)


def test_a_clock_a_day_ahead_and_back_doubles_nothing() -> None:
    """Windows that ran too early stay as they are, and nothing is due until that day has passed."""
    spec = a_spec(CronTrigger(cron="0 * * * *"), max_active=99, max_catch_up_windows=100)
    desk = FakeServer(spec)
    desk.due(NOON + DAY)
    runs = len(desk.runs)
    for hour in range(25):
        desk.due(NOON + hour * DAY / 24)
        desk.sweep(NOON + hour * DAY / 24)
    assert len(desk.runs) == runs == 24
    desk.due(NOON + 25 * DAY / 24)
    check_covered(desk, spec, NOON)
    assert desk.row.planned_through == NOON + 25 * DAY / 24
