"""Warn about, then disable, a schedule whose runs keep failing (TRG-10)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from mainspring.core.model.run import RunState
from mainspring.core.schedules.schedule_spec import ScheduleSpec

WARN_AT = 3
FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT})


class Verdict(StrEnum):
    """The consequence of a failure streak."""

    OK = "ok"
    WARN = "warn"
    DISABLE = "disable"


def count_failures(newest_first: Iterable[RunState]) -> int:
    """Count consecutive failures, newest first. A success ends the streak; other states are ignored.

    Counting from the runs each time makes it idempotent to process a run's end twice.
    """
    failures = 0
    for state in newest_first:
        if state is RunState.SUCCEEDED:
            break
        failures += state in FAILURES
    return failures


def assess(spec: ScheduleSpec, failures: int) -> Verdict:
    """Assess the consecutive failures since the schedule was last enabled: earlier ones were dealt with."""
    if spec.max_consecutive_failures is not None and failures >= spec.max_consecutive_failures:
        return Verdict.DISABLE
    return Verdict.WARN if failures >= WARN_AT else Verdict.OK
