"""Parameters that are computed from the window of a run (TRG-4)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from msgspec.structs import replace

from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.schedule_spec import (
    MAX_COMPUTED,
    Condition,
    ScheduleSpec,
    check_schedule,
    compute_params,
)
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    Expected,
    IntervalTrigger,
    OnceTrigger,
    Trigger,
)
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Refused
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, an_event

HOUR = timedelta(hours=1)
PARIS = CronTrigger(cron="0 2 * * *", timezone="Europe/Paris")
TOKYO = Expected(cron="0 9 * * *", timezone="Asia/Tokyo")
LATE = datetime(2026, 6, 30, 23, 30, tzinfo=UTC)
DAY = {"day": "{{ scheduled_for | date }}"}


def params_of(desk: FakeServer) -> dict[str, object]:
    """The parameters of the latest run."""
    return msgspec.json.decode(desk.runs[-1].params, type=dict[str, object])


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (PARIS, "2026-07-01T01:30:00+02:00"),
        (CronTrigger(cron="0 * * * *"), "2026-06-30T23:30:00+00:00"),
        (IntervalTrigger(every_seconds=1800), "2026-06-30T23:30:00+00:00"),
        (OnceTrigger(at=LATE), "2026-06-30T23:30:00+00:00"),
        (EventTrigger(type="x"), "2026-06-30T23:30:00+00:00"),
        (EventTrigger(type="x", expected=TOKYO), "2026-07-01T08:30:00+09:00"),
    ],
)
def test_the_window_is_formatted_in_the_zone_of_its_trigger(trigger: Trigger, text: str) -> None:
    spec = ScheduleSpec(
        name="a",
        job="etl",
        trigger=trigger,
        computed={"at": "{{ scheduled_for }}", "day": "d {{ scheduled_for|date }}"},
    )
    assert compute_params(spec, LATE) == {"at": text, "day": f"d {text[:10]}"}


def test_computed_parameters_override_static_ones_and_yield_to_the_users() -> None:
    desk = FakeServer(a_spec(computed=DAY | {"x": "x"}, params=msgspec.Raw(b'{"day": "never", "n": 1}')))
    desk.due(NOON + HOUR)
    assert params_of(desk) == {"day": "2026-01-01", "x": "x", "n": 1}
    desk.trigger(NOON + 1.5 * HOUR, TriggerCommand(by="ann", params='{"day": ["mine"]}'))
    assert params_of(desk) == {"day": ["mine"], "x": "x", "n": 1}


def test_a_repeated_window_has_its_own_day_and_not_todays() -> None:
    desk = FakeServer(a_spec(computed=DAY), created_at=NOON)
    window = NOON - timedelta(days=3)
    desk.trigger(NOON + 0.5 * HOUR, TriggerCommand(by="ann", window_at=window))
    assert params_of(desk) == {"day": "2025-12-29"}
    desk.backfill(NOON + 0.6 * HOUR, BackfillCommand(since=window - HOUR, before=window, by="ann"))
    assert params_of(desk) == {"day": "2025-12-29"}


def test_the_event_is_added_to_computed_parameters() -> None:
    desk = FakeServer(a_spec(EventTrigger(type="orders.ready"), computed=DAY))
    desk.receive(NOON + HOUR, an_event(1, NOON + HOUR))
    assert params_of(desk)["day"] == "2026-01-01"
    assert params_of(desk)["event"]["id"] == "e1"  # type: ignore[index]


def test_the_condition_sees_computed_parameters() -> None:
    first, second = Condition(expression="params.day == '2026-01-01'"), Condition(expression="params.day == 'x'")
    for condition, outcome in ((first, Outcome.RAN), (second, Outcome.CONDITION_FALSE)):
        desk = FakeServer(a_spec(computed=DAY, condition=condition))
        desk.due(NOON + HOUR)
        assert desk.outcomes() == [outcome]


def test_a_window_whose_parameters_fail_is_skipped_with_the_reason() -> None:
    """The schedule continues: the next window may succeed."""
    desk = FakeServer(a_spec(computed={"day": f"{{{{ scheduled_for{'|plus_days(1000000)' * 3} }}}}"}))
    decision = desk.due(NOON + HOUR)
    assert desk.outcomes() == [Outcome.SKIPPED]
    assert desk.latest().because.startswith("computed parameters failed: day: ")
    assert (desk.row.paused, desk.row.next_at, decision.runs) == (False, NOON + 2 * HOUR, ())
    with pytest.raises(Refused, match="params"):
        desk.trigger(NOON + HOUR, TriggerCommand(by="ann"))
    desk.trigger(NOON + HOUR, TriggerCommand(by="ann", params='{"day": "2026-01-01"}'))
    assert params_of(desk) == {"day": "2026-01-01"}


def test_parameters_stay_within_their_size() -> None:
    desk = FakeServer(a_spec(computed={f"p{number}": "x" * 16_000 for number in range(20)}))
    desk.due(NOON + HOUR)
    assert "262144 bytes" in desk.latest().because


@pytest.mark.parametrize(
    ("computed", "where", "why"),
    [
        ({"day": "{{ scheduled_for | yesterdy }}"}, "computed.day", "did you mean yesterday?"),
        ({"day": "{{ window }}"}, "computed.day", "uses undefined window; available: scheduled_for"),
        ({"day": "{{ scheduled_for"}, "computed.day", "is not closed"),
        ({"day": "{% if x %}"}, "computed.day", "statements"),
        ({"day": "{{ scheduled_for.day }}"}, "computed.day", "undefined"),
        ({"day": "{{ scheduled_for|plus_days('x') }}"}, "computed.day", "whole number of days"),
        ({"": "x"}, "computed['']", "1 to 128"),
        ({"a\0": "x"}, "computed", "1 to 128"),
        ({"a": "x\ud800"}, "computed.a", "surrogate"),
        ({f"p{number}": "x" for number in range(MAX_COMPUTED + 1)}, "computed", f"limit of {MAX_COMPUTED}"),
    ],
)
def test_an_invalid_template_is_refused(computed: dict[str, str], where: str, why: str) -> None:
    [fault] = check_schedule(replace(a_spec(), computed=computed), NOON)
    assert fault.where.startswith(where)
    assert why in fault.why


def test_a_valid_template_is_accepted_and_defaults_are_not_stored() -> None:
    assert check_schedule(a_spec(PARIS, computed=DAY), NOON) == []
    assert b"computed" not in msgspec.json.encode(a_spec())
