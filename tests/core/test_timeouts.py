"""Time limits of tasks (LIV-2, LIV-4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle import timeouts
from mainspring.core.model.job import TaskSpec
from mainspring.core.model.settings import DEFAULTS, SchedulerSettings
from mainspring.core.model.task import RetryState


@pytest.mark.parametrize(
    ("spec", "soft", "hard"),
    [
        (TaskSpec(name="a"), None, 86_400),
        (TaskSpec(name="a", expected_seconds=100), 200, 300),
        (TaskSpec(name="a", expected_seconds=15), 30, 45),
        (TaskSpec(name="a", expected_seconds=12), 30, 36),
        (TaskSpec(name="a", expected_seconds=0.01), None, 30),
        (TaskSpec(name="a", timeout_seconds=5), None, 5),
        (TaskSpec(name="a", timeout_seconds=5, expected_seconds=100), None, 5),
        (TaskSpec(name="a", soft_timeout_seconds=4, timeout_seconds=5), 4, 5),
        (TaskSpec(name="a", soft_timeout_seconds=4), 4, 86_400),
    ],
)
def test_limits_are_set_or_derived_from_the_expected_duration(spec: TaskSpec, soft: float | None, hard: float) -> None:
    """LIV-4: two and three times the expected duration; without one a day, and no alert before."""
    assert timeouts.limits(spec, None, DEFAULTS) == (soft, hard)


def test_the_retry_state_replaces_the_hard_limit() -> None:
    """The soft limit is unchanged, and applies once it is below the hard limit."""
    spec = TaskSpec(name="a", timeout_seconds=5, expected_seconds=40)
    assert timeouts.limits(spec, None, DEFAULTS)[0] is None
    longer = RetryState(limit_seconds=100.0)
    assert timeouts.limits(spec, longer, DEFAULTS) == (80, 100)


def test_the_default_stall_limit_is_ten_minutes() -> None:
    """LIV-2."""
    assert timeouts.stall_limit(TaskSpec(name="a"), DEFAULTS) == 600
    assert timeouts.stall_limit(TaskSpec(name="a", stall_seconds=7), DEFAULTS) == 7


def test_missing_limits_come_from_the_settings() -> None:
    """OPS-5: limits of the definition take precedence."""
    scheduler_settings = SchedulerSettings(hard_limit_seconds=60.0, stall_seconds=5.0)
    silent, said = TaskSpec(name="a"), TaskSpec(name="a", timeout_seconds=7.0, stall_seconds=8.0)
    assert (
        timeouts.hard_limit(silent, None, scheduler_settings),
        timeouts.stall_limit(silent, scheduler_settings),
    ) == (60, 5)
    assert (timeouts.hard_limit(said, None, scheduler_settings), timeouts.stall_limit(said, scheduler_settings)) == (
        7,
        8,
    )


@given(
    timeout=st.floats(0.1, timeouts.MAX_SECONDS),
    asked=st.lists(st.floats(0, 1e12), min_size=1, max_size=20),
)
def test_an_extension_is_never_shorter_and_at_most_ten_times_the_limit(timeout: float, asked: list[float]) -> None:
    """LIV-4: however often it is asked for, or granted after a timeout."""
    spec, trail = TaskSpec(name="a", timeout_seconds=timeout), RetryState()
    for number, seconds in enumerate(asked):
        before = timeouts.hard_limit(spec, trail, DEFAULTS)
        if number % 2:
            limit = timeouts.after_timeout(spec, trail, DEFAULTS)
        else:
            limit = timeouts.extended(spec, trail, DEFAULTS, elapsed=before / 2, seconds=seconds)
        assert before <= limit <= max(timeout, min(10 * timeout, timeouts.MAX_SECONDS))
        trail = RetryState(limit_seconds=limit)
