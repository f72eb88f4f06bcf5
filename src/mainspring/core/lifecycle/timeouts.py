"""Time limits of a task: soft limit, hard limit, stall limit (LIV-2, LIV-4).

    hard    `timeout_seconds`, else three times `expected_seconds`, else a day. The task is stopped.
    soft    `soft_timeout_seconds`, else twice `expected_seconds`, else never. An alert is sent.
    stall   `stall_seconds`, else 10 min for a task that reports progress. The task is stopped.

The day and the 10 minutes are settings (`core/model/settings.py`).

Limits derived from `expected_seconds` are never shorter than 30 s: a task of 10 ms that takes 30 ms is not late, its
machine is busy (docs/adr/0020). `RetryState.limit_seconds`, left by earlier attempts, replaces the hard limit.
"""

from __future__ import annotations

from mainspring.core.model.job import TaskSpec
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import RetryState

MIN_DERIVED_SECONDS = 30.0
MAX_SECONDS = 366 * 86_400.0
MAX_EXTENSION_FACTOR = 10.0
"""Maximum of extended limits, as a multiple of the hard limit."""
_TIMEOUT_GROWTH_FACTOR = 1.5


def hard_limit(spec: TaskSpec, trail: RetryState | None, scheduler_settings: SchedulerSettings) -> float:
    """Return the hard limit of an attempt, in seconds."""
    if trail is not None and trail.limit_seconds is not None:
        return trail.limit_seconds
    return defined_hard_limit(spec, scheduler_settings)


def defined_hard_limit(spec: TaskSpec, scheduler_settings: SchedulerSettings) -> float:
    """Return the hard limit according to the definition."""
    if spec.timeout_seconds is not None:
        return spec.timeout_seconds
    if spec.expected_seconds is not None:
        return max(3 * spec.expected_seconds, MIN_DERIVED_SECONDS)
    return scheduler_settings.hard_limit_seconds


def limits(
    spec: TaskSpec, trail: RetryState | None, scheduler_settings: SchedulerSettings
) -> tuple[float | None, float]:
    """Return the soft and the hard limit. The soft limit is None if there is none below the hard limit."""
    soft, hard = spec.soft_timeout_seconds, hard_limit(spec, trail, scheduler_settings)
    if soft is None:
        if spec.expected_seconds is None:
            return None, hard
        soft = max(2 * spec.expected_seconds, MIN_DERIVED_SECONDS)
    return (soft if soft < hard else None), hard


def stall_limit(spec: TaskSpec, scheduler_settings: SchedulerSettings) -> float:
    """Return the maximum time without progress."""
    return spec.stall_seconds if spec.stall_seconds is not None else scheduler_settings.stall_seconds


def after_timeout(spec: TaskSpec, trail: RetryState | None, scheduler_settings: SchedulerSettings) -> float:
    """Return the hard limit of the attempt after a timeout."""
    wanted = hard_limit(spec, trail, scheduler_settings) * _TIMEOUT_GROWTH_FACTOR
    return _bounded(spec, trail, wanted, scheduler_settings)


def extended(
    spec: TaskSpec, trail: RetryState | None, scheduler_settings: SchedulerSettings, *, elapsed: float, seconds: float
) -> float:
    """Return the hard limit of an attempt that asks for `seconds` more from now: never lower than before."""
    return _bounded(spec, trail, elapsed + seconds, scheduler_settings)


def _bounded(spec: TaskSpec, trail: RetryState | None, wanted: float, scheduler_settings: SchedulerSettings) -> float:
    most = min(MAX_EXTENSION_FACTOR * defined_hard_limit(spec, scheduler_settings), MAX_SECONDS)
    return max(hard_limit(spec, trail, scheduler_settings), min(wanted, most))
