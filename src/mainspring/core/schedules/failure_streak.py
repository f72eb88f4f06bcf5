"""When a schedule that fails again and again is stopped (TRG-10)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from mainspring.core.model.run import RunState
from mainspring.core.schedules.schedule_spec import ScheduleSpec

WARN_AT = 3
FAILURES = frozenset({RunState.FAILED, RunState.TIMED_OUT})


class Verdict(StrEnum):
    """What a row of failures calls for."""

    OK = "ok"
    WARN = "warn"
    DISABLE = "disable"


def count_failures(newest_first: Iterable[RunState]) -> int:
    """How many of the latest runs failed in a row. A success ends it; what is neither is passed over.

    To count from the runs each time, and not to add one for each failure, makes it harmless to hear of an end twice.
    """
    failures = 0
    for state in newest_first:
        if state is RunState.SUCCEEDED:
            break
        failures += state in FAILURES
    return failures


def judge(spec: ScheduleSpec, newest_first: Iterable[RunState]) -> Verdict:
    """What the latest runs call for. Give only those since the schedule was last enabled: the others are dealt with."""
    failures = count_failures(newest_first)
    if spec.max_consecutive_failures is not None and failures >= spec.max_consecutive_failures:
        return Verdict.DISABLE
    return Verdict.WARN if failures >= WARN_AT else Verdict.OK
