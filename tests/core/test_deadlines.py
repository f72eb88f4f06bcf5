"""Deadlines of runs: remaining time, risk and escalation (PLC-11)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.deadlines import (
    DeadlineForecast,
    deadline_for,
    forecast_deadline,
    format_risk,
    higher_priority,
    remaining_seconds,
    usual_seconds,
)
from mainspring.core.model.task import Priority

NOW = datetime(2026, 1, 1, 2, 0, tzinfo=UTC)
P0, P1, P2 = Priority
Edges = dict[int, list[int]]


def after(seconds: float) -> datetime:
    """So long from now."""
    return NOW + timedelta(seconds=seconds)


def look(left: dict[int, float | None], edges: Edges, *, ahead: float = 100.0) -> DeadlineForecast:
    """Forecast these tasks."""
    return forecast_deadline(left, lambda position: edges.get(position, []), finish_by=after(ahead), now=NOW)


def test_the_longest_path_counts() -> None:
    outlook = look({0: 10.0, 1: 50.0, 2: 5.0, 3: 20.0}, {0: [1, 2], 1: [3], 2: [3]})
    assert (outlook.left_seconds, outlook.path) == (80.0, (0, 1, 3))
    assert (outlook.latest_start_at, outlook.slack_seconds, outlook.is_at_risk) == (after(20), 20.0, False)


def test_ended_tasks_are_not_on_the_path() -> None:
    assert look({1: 50.0, 3: 20.0}, {0: [1, 2], 1: [3], 2: [3]}).left_seconds == 70.0


def test_a_run_is_at_risk_once_the_remaining_time_exceeds_the_time_to_its_deadline() -> None:
    assert not look({0: 100.0}, {}).is_at_risk
    assert look({0: 100.1}, {}).is_at_risk


def test_unknown_durations_give_a_lower_bound() -> None:
    outlook = look({0: 70.0, 1: None}, {0: [1]}, ahead=60.0)
    assert (outlook.left_seconds, outlook.unknown, outlook.is_at_risk) == (70.0, 1, True)
    assert format_risk(outlook) == (
        "deadline 2026-01-01T02:01:00Z is in 1m 00s; the remaining tasks usually take at least 1m 10s"
    )


def test_there_is_no_forecast_without_known_durations() -> None:
    outlook = look({0: None, 1: None}, {0: [1]}, ahead=0.5)
    assert (outlook.left_seconds, outlook.slack_seconds, outlook.latest_start_at) == (None, None, None)
    assert not outlook.is_at_risk


def test_the_usual_duration_is_the_90th_percentile() -> None:
    assert usual_seconds([float(number) for number in range(10, 0, -1)], expected=99.0) == 9.0
    assert usual_seconds([], expected=99.0) == 99.0
    assert usual_seconds([], expected=None) is None


def test_a_running_task_has_its_rest_left_or_a_tenth_of_its_elapsed_time() -> None:
    assert remaining_seconds(60.0) == 60.0
    assert remaining_seconds(60.0, delay=30.0) == 90.0
    assert remaining_seconds(60.0, elapsed=20.0) == 40.0
    assert remaining_seconds(60.0, elapsed=600.0) == 60.0
    assert remaining_seconds(None, elapsed=600.0) is None


@pytest.mark.parametrize(
    ("window", "created", "start", "by"),
    [
        (None, 0, 0, 3600),
        (None, 0, 900, 4500),
        (-60, 0, 0, 3540),
        (-3600, 0, 0, 3600),
        (-86_400, 0, 30, 3630),
    ],
    ids=["from its start", "from a later start", "from its window", "its time is over", "a backfill"],
)
def test_deadline_of_a_run(window: int | None, created: int, start: int, by: int) -> None:
    window_at = None if window is None else after(window)
    promised = deadline_for(3600.0, window_at=window_at, created_at=after(created), start_at=after(start))
    assert promised == after(by)


@pytest.mark.parametrize(
    ("priority", "may_have_p0", "higher"),
    [(P2, False, P1), (P2, True, P1), (P1, False, None), (P1, True, P0), (P0, True, None)],
)
def test_priority_is_raised_by_one_and_only_as_far_as_allowed(
    priority: Priority, may_have_p0: bool, higher: Priority | None
) -> None:
    assert higher_priority(priority, may_have_p0=may_have_p0) is higher


def test_a_graph_may_be_as_deep_as_it_has_tasks() -> None:
    left: dict[int, float | None] = dict.fromkeys(range(5_000), 1.0)
    assert look(left, {position: [position + 1] for position in range(4_999)}).left_seconds == 5_000.0


def test_edges_that_lead_back_are_ignored() -> None:
    assert look({0: 1.0, 1: 2.0}, {0: [1], 1: [0]}).left_seconds == 3.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[int, float | None], Edges]:
    """Tasks with what is left of them, if that is known, and edges from lower to higher positions."""
    count = draw(st.integers(1, 12))
    seconds = st.one_of(st.none(), st.floats(0, 1_000))
    left = {position: draw(seconds) for position in range(count) if draw(st.booleans()) or position == 0}
    edges = {
        position: [child for child in range(position + 1, count) if draw(st.booleans())] for position in range(count)
    }
    return left, edges


@given(graphs())
def test_the_remaining_time_is_that_of_the_longest_path(
    graph: tuple[dict[int, float | None], Edges],
) -> None:
    left, edges = graph
    outlook = look(left, edges)
    if outlook.left_seconds is None:
        assert all(seconds is None for seconds in left.values())
        return

    def longest(position: int) -> float:
        below = [longest(child) for child in edges.get(position, []) if child in left]
        return (left[position] or 0.0) + max(below, default=0.0)

    assert outlook.left_seconds == pytest.approx(max(longest(position) for position in left))
    assert outlook.left_seconds == pytest.approx(sum(left[position] or 0.0 for position in outlook.path))
    assert all(later in edges[earlier] for earlier, later in zip(outlook.path, outlook.path[1:], strict=False))


@given(
    usual=st.floats(0.05, 10_000), within=st.floats(0.1, 20_000), waits=st.floats(0, 20_000), is_running=st.booleans()
)
def test_checks_at_the_given_intervals_find_a_run_at_risk_before_it_is_late(
    usual: float, within: float, waits: float, is_running: bool
) -> None:
    """A task waits, then runs and does not end, or never starts."""
    at, looks = NOW, 0
    while True:
        running_for = (at - NOW).total_seconds() - waits
        elapsed = running_for if is_running and running_for >= 0 else None
        outlook = forecast_deadline(
            {0: remaining_seconds(usual, elapsed=elapsed)}, lambda _: (), finish_by=after(within), now=at
        )
        if outlook.is_at_risk:
            break
        at += timedelta(seconds=outlook.seconds_to_next_check())
        looks += 1
        assert looks < 2_000
    assert at < after(within)


def test_a_run_just_in_time_is_not_checked_constantly() -> None:
    """A task of an hour is running, without slack: that does not change."""
    assert look({0: 3_600.0}, {}, ahead=3_600.0).seconds_to_next_check() == 18.0
    assert look({0: 60.0}, {}, ahead=60.0).seconds_to_next_check() == 1.0
    assert look({0: 1.0}, {}, ahead=1.0).seconds_to_next_check() == 0.5
    assert look({0: 0.001}, {}, ahead=0.001).seconds_to_next_check() == 0.001
