"""Event triggers: events that come, and expected ones that don't (TRG-7)."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.run import RunState
from mainspring.core.schedules import schedule_actions
from mainspring.core.schedules.schedule_spec import Condition, Overlap, check_schedule
from mainspring.core.schedules.triggers import EventTrigger, Expected, describe_trigger
from mainspring.core.schedules.windows import Outcome
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, act, an_event

O = Outcome  # noqa: E741 - read as in a table
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
READY = EventTrigger(type="orders.ready")
EXPECTED = EventTrigger(type="orders.ready", expected=Expected(cron="0 * * * *", buffer_seconds=600))


def test_an_event_starts_a_run() -> None:
    """With the event as input, over the parameters of the schedule."""
    desk = FakeServer(a_spec(READY, params=msgspec.Raw(b'{"mode":"full"}')))
    assert (desk.row.event_type, desk.row.next_at) == ("orders.ready", None)
    desk.receive(NOON + SECOND, an_event(1, NOON + SECOND, data={"rows": 3}))
    [run] = desk.runs
    params = msgspec.json.decode(run.params)
    assert (params["mode"], params["event"]["id"], params["event"]["data"]) == ("full", "e1", {"rows": 3})
    assert (desk.latest().window_at, desk.latest().because) == (NOON + SECOND, "event e1")
    assert desk.row.latest_event_at == NOON + SECOND


def test_events_of_one_instant_are_windows_of_their_own() -> None:
    """Events of another type start none."""
    desk = FakeServer(a_spec(READY, max_active=5))
    desk.receive(NOON, an_event(1, NOON), an_event(2, NOON), an_event(3, NOON, type="other"))
    desk.receive(NOON, an_event(4, NOON))
    assert desk.outcomes() == [O.RAN] * 3
    assert [fire.because for fire in desk.sorted_fires()] == ["event e1", "event e2", "event e4"]


@pytest.mark.parametrize(
    ("data", "outcomes", "named"),
    [
        ({"rows": 3}, [O.RAN], "e1"),
        ({"rows": 0}, [], ""),
        ({}, [O.CONDITION_FALSE], "`rows`"),
    ],
)
def test_a_filter_selects(data: object, outcomes: list[Outcome], named: str) -> None:
    """A failed filter is recorded, an excluded event is not."""
    desk = FakeServer(a_spec(EventTrigger(type="orders.ready", filter="event.data.rows > 0")))
    desk.receive(NOON, an_event(1, NOON, data=data))
    assert desk.outcomes() == outcomes
    assert not outcomes or named in desk.latest().because


def test_events_follow_overlap_and_conditions() -> None:
    """Like any other window."""
    desk = FakeServer(a_spec(READY, overlap=Overlap.SKIP, condition=Condition(expression="params.event.data.rows > 1")))
    for number, rows in enumerate((1, 2, 3), start=1):
        desk.receive(NOON + number * SECOND, an_event(number, NOON + number * SECOND, data={"rows": rows}))
    assert desk.outcomes() == [O.CONDITION_FALSE, O.RAN, O.SKIPPED]


def test_a_paused_schedule_ignores_events() -> None:
    """They are not caught up."""
    desk = FakeServer(a_spec(READY))
    desk.settle(NOON, act(schedule_actions.pause, by="ann"))
    desk.receive(NOON + SECOND, an_event(1, NOON + SECOND))
    assert desk.fires == {}


def test_no_event_by_its_time_runs_anyway() -> None:
    """After the buffer, flagged, with no event in the parameters; the next event resolves the alert."""
    desk = FakeServer(a_spec(EXPECTED))
    assert desk.row.next_at == NOON + HOUR + 10 * MINUTE
    assert desk.due(NOON + HOUR + 9 * MINUTE).fires == ()
    desk.due(NOON + HOUR + 10 * MINUTE)
    fire = desk.latest()
    assert (fire.window_at, fire.outcome, fire.flagged, fire.is_catch_up) == (NOON + HOUR, O.RAN, True, False)
    assert msgspec.json.decode(desk.runs[0].params) == {"event": None}
    assert desk.row.next_at == NOON + 2 * HOUR + 10 * MINUTE
    assert desk.alerts(AlertKind.EVENT_MISSING) == [False]
    desk.end(RunState.SUCCEEDED, NOON + HOUR + 20 * MINUTE)
    desk.receive(NOON + HOUR + 30 * MINUTE, an_event(1, NOON + HOUR + 30 * MINUTE))
    assert desk.alerts(AlertKind.EVENT_MISSING) == [False, True]
    desk.receive(NOON + HOUR + 31 * MINUTE, an_event(2, NOON + HOUR + 31 * MINUTE))
    assert desk.alerts(AlertKind.EVENT_MISSING) == [False, True]


@pytest.mark.parametrize(("minute", "is_enough"), [(-61, True), (-40, True), (9, True), (11, False)])
def test_an_event_serves_one_expected_window(minute: int, is_enough: bool) -> None:
    """The one whose period it came in: from the end of the previous buffer to the end of its own."""
    desk = FakeServer(a_spec(EXPECTED, max_active=9), NOON - HOUR - 55 * MINUTE)
    came_at = NOON + minute * MINUTE
    if is_enough:
        desk.receive(came_at, an_event(1, came_at))
    desk.due(NOON + 10 * MINUTE)
    if not is_enough:
        desk.receive(came_at, an_event(1, came_at))
    window = desk.fires.get((NOON, 1))
    assert window is not None
    in_its_time = -50 < minute <= 10
    assert window.flagged != in_its_time
    assert window.outcome is (O.SKIPPED if in_its_time else O.RAN)
    desk.due(NOON + HOUR + 10 * MINUTE)
    following = desk.fires[NOON + HOUR, 1]
    assert following.flagged == (minute <= 10)


def test_windows_that_an_event_is_late_for_are_planned_first() -> None:
    """The server was down: the current event does not hide that none came before."""
    desk = FakeServer(a_spec(EXPECTED, max_active=9))
    now = NOON + 3 * HOUR + 30 * MINUTE
    desk.receive(now, an_event(1, now))
    assert [(fire.flagged, fire.event is None) for fire in desk.sorted_fires()] == [(True, True)] * 3 + [(False, False)]


def test_faults_of_an_event_trigger() -> None:
    """Each fault by its path."""
    bad = EventTrigger(
        type="x", filter="params.rows > 0", expected=Expected(cron="61 * * * *", timezone="Mars", buffer_seconds=-1)
    )
    assert [fault.where for fault in check_schedule(a_spec(bad), NOON)] == [
        "trigger.filter", "trigger.expected.timezone", "trigger.expected.cron", "trigger.expected.buffer_seconds",
    ]  # fmt: skip
    assert check_schedule(a_spec(EXPECTED), NOON) == []
    assert describe_trigger(EXPECTED).startswith("on events of type orders.ready; ")
    assert "600 seconds" in describe_trigger(EXPECTED)
