"""A new schedule whose windows count from an earlier instant on (TRG-5, I-34)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from mainspring.core.schedules import schedule_actions as acts
from mainspring.core.schedules.schedule_spec import Missed
from mainspring.core.schedules.triggers import CronTrigger, OnceTrigger
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Refused
from tests.core.builders import NOON
from tests.core.schedule_evaluations import FakeServer, a_spec, act

O = Outcome  # noqa: E741 - read as in a table
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
EVERY_SECOND = CronTrigger(cron="* * * * * *")


def test_windows_since_then_count_as_missed() -> None:
    """Windows at or before it don't, regardless of the catch-up limit."""
    desk = FakeServer(a_spec(max_catch_up_windows=9, max_active=9), NOON, since=NOON - 3 * HOUR)
    assert (desk.row.planned_through, desk.row.next_at) == (NOON - 3 * HOUR, NOON - 2 * HOUR)
    assert (desk.row.enabled_since, desk.row.created_at) == (NOON, NOON)
    desk.due(NOON + SECOND)
    assert [fire.window_at for fire in desk.sorted_fires()] == [NOON - 2 * HOUR, NOON - HOUR, NOON]
    assert [fire.is_catch_up for fire in desk.sorted_fires()] == [True, True, False]
    assert desk.row.next_at == NOON + HOUR


@pytest.mark.parametrize(
    ("fields", "outcomes", "counts"),
    [
        ({}, [O.SKIPPED, O.RAN, O.WAITING, O.WAITING, O.WAITING], [31_622_396, 1, 1, 1, 1]),
        ({"missed": Missed.SKIP}, [O.SKIPPED, O.RAN], [31_622_399, 1]),
        ({"max_delay_seconds": 2.0, "max_active": 9}, [O.LATE, O.RAN, O.RAN, O.RAN], [31_622_397, 1, 1, 1]),
    ],
)
def test_a_year_of_seconds_is_a_handful_of_rows(
    fields: dict[str, object], outcomes: list[Outcome], counts: list[int]
) -> None:
    desk = FakeServer(a_spec(EVERY_SECOND, **fields), NOON, since=NOON - timedelta(days=366))
    desk.due(NOON)
    assert desk.outcomes() == outcomes
    assert [fire.count for fire in desk.sorted_fires()] == counts


def test_a_past_one_time_window_can_be_missed() -> None:
    desk = FakeServer(a_spec(OnceTrigger(at=NOON - HOUR)), NOON, since=NOON - 2 * HOUR)
    desk.due(NOON)
    assert [(fire.window_at, fire.outcome) for fire in desk.sorted_fires()] == [(NOON - HOUR, O.RAN)]


def test_a_disabled_schedule_catches_up_nothing() -> None:
    """Neither now nor when it is enabled."""
    desk = FakeServer(a_spec(enabled=False), NOON, since=NOON - 3 * HOUR)
    assert desk.row.next_at is None
    desk.settle(NOON + SECOND, act(acts.change, a_spec(), by="ann"))
    assert (desk.row.planned_through, desk.outcomes()) == (NOON + SECOND, [])


@pytest.mark.parametrize(
    ("since", "why"),
    [
        (NOON.replace(tzinfo=None), "must have a time zone"),
        (NOON + timedelta(minutes=2), "is in the future"),
        (NOON - timedelta(days=367), "must be within 366 days"),
        (datetime(1960, 1, 1, tzinfo=UTC), "must be within 366 days"),
    ],
)
def test_an_invalid_instant_is_refused(since: datetime, why: str) -> None:
    with pytest.raises(Refused, match=why):
        acts.check_since(since, NOON)


def test_an_instant_slightly_in_the_future_means_now() -> None:
    assert acts.check_since(NOON + 5 * SECOND, NOON) == NOON
    other = acts.check_since((NOON - HOUR).astimezone(timezone(timedelta(hours=5))), NOON)
    assert (other, other.tzinfo) == (NOON - HOUR, UTC)
