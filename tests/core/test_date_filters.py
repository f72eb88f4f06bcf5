"""Date filters in expressions: on text alone, independent of the clock."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.expressions.engine import Values, evaluate, render
from mainspring.protocol.errors import ExpressionFailed


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2026-11-16", "2026-11-16"),
        ("2026-11-16T00:15:00+01:00", "2026-11-16"),
        ("2026-11-16T23:59:59.123456Z", "2026-11-16"),
        ("2024-02-29 06:30", "2024-02-29"),
        ("0001-01-01T00:00:00-00:44:30", "0001-01-01"),
    ],
)
def test_the_date_is_that_of_the_times_own_zone(text: str, day: str) -> None:
    assert evaluate("params|date", {"params": text}) == day


@given(day=st.dates(date(1900, 1, 1), date(2200, 1, 1)), days=st.integers(-30_000, 30_000))
def test_days_are_added_by_the_calendar(day: date, days: int) -> None:
    values: Values = {"params": {"at": f"{day}T06:30:00+02:00", "days": days}}
    assert evaluate("params.at|plus_days(params.days)", values) == (day + timedelta(days=days)).isoformat()
    assert evaluate("params.at|tomorrow|yesterday == params.at|date", values) is True
    assert evaluate("params.at|yesterday|plus_days(2) == params.at|tomorrow", values) is True


def test_date_filters_work_in_templates() -> None:
    text = "from {{ scheduled_for | yesterday }} to {{ scheduled_for|date }}"
    assert render(text, {"scheduled_for": "2026-03-01T00:00:00+00:00"}) == "from 2026-02-28 to 2026-03-01"


@pytest.mark.parametrize(
    "value",
    ["", "soon", "2026-02-29", "2026-13-01", "2026-11-16T24:00:00Z", "2026-11-16T06:30:00+1:00", "20261116",
     "2026-11-16\n", "٢٠٢٦-11-16", "0000-01-01", 20261116, None, True, ["2026-11-16"], {"day": "2026-11-16"}],
)  # fmt: skip
@pytest.mark.parametrize("filter", ["date", "yesterday", "tomorrow", "plus_days(1)"])
def test_an_invalid_time_fails(value: object, filter: str) -> None:
    with pytest.raises(ExpressionFailed, match="needs a time such as"):
        evaluate(f"params|{filter}", {"params": value})  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("'2026-11-16'|plus_days('1')", "whole number of days"),
        ("'2026-11-16'|plus_days(1.5)", "whole number of days"),
        ("'2026-11-16'|plus_days(true)", "whole number of days"),
        ("'2026-11-16'|plus_days(9999999999999999999999)", "days"),
        ("'2026-11-16'|plus_days(-1000001)", "from -1000000 to 1000000"),
        ("'9999-12-31'|tomorrow", "years 1 to 9999"),
        ("'0001-01-01'|yesterday", "years 1 to 9999"),
        ("'2026-11-16'|plus_days", "does not fit"),
    ],
)
def test_days_out_of_range_fail(expression: str, why: str) -> None:
    with pytest.raises(ExpressionFailed, match=why):
        evaluate(expression, {})
