"""Restart policy of background loops: backoff, and when a loop counts as failing."""

from __future__ import annotations

from mainspring.core.lifecycle.restart_policy import (
    FAILING_AFTER_FAILURES,
    FAILING_AFTER_SECONDS,
    HEALTHY_AFTER_SECONDS,
    MAX_BACKOFF_SECONDS,
    LoopHealth,
)


def failed(times: int, *, ran: float = 0.0) -> tuple[LoopHealth, float]:
    """A loop that fails each time after it ran for so long, and the time of its last failure."""
    health, now = LoopHealth(), 0.0
    for _ in range(times):
        health = health.started(now)
        now += ran
        health = health.failed("broken", now)
        if health.failures < times:
            now += health.backoff_seconds()
    return health, now


def test_the_backoff_doubles_up_to_the_maximum() -> None:
    assert [failed(times)[0].backoff_seconds() for times in range(1, 7)] == [1, 2, 4, 8, 15, 15]
    assert failed(100)[0].backoff_seconds() == MAX_BACKOFF_SECONDS


def test_a_healthy_loop_resets_its_failures() -> None:
    health, now = failed(4)
    health = health.started(now)
    just_before = now + HEALTHY_AFTER_SECONDS - 0.001

    assert health.failed("broken", just_before).failures == 5
    assert health.failed("broken", now + HEALTHY_AFTER_SECONDS).failures == 1


def test_a_loop_is_failing_after_consecutive_failures_until_healthy() -> None:
    health, now = failed(FAILING_AFTER_FAILURES - 1)
    assert not health.is_failing(now)

    health, now = failed(FAILING_AFTER_FAILURES)
    assert health.is_failing(now)
    assert health.started(now).is_failing(now + HEALTHY_AFTER_SECONDS - 0.001)
    assert not health.started(now).is_failing(now + HEALTHY_AFTER_SECONDS)


def test_a_loop_is_failing_once_its_failures_span_a_minute() -> None:
    """One that runs for a while before each failure does not reach the number so soon."""
    health, now = failed(4, ran=20.0)
    assert health.failures < FAILING_AFTER_FAILURES
    assert now >= FAILING_AFTER_SECONDS
    assert health.is_failing(now)


def test_a_single_failure_is_not_failing() -> None:
    health, now = failed(1)
    assert not health.is_failing(now + FAILING_AFTER_SECONDS)


def test_the_maximum_backoff_hides_no_failure() -> None:
    assert MAX_BACKOFF_SECONDS < HEALTHY_AFTER_SECONDS
