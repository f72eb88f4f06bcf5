"""A schedule: when a job runs, as somebody defines it, and the rules of what may be defined (TRG-1 to TRG-12).

    trigger     when               `core/schedules/triggers.py`
    fires       what is due now    `core/schedules/windows.py`
    starts      may it start yet   `core/schedules/start_policy.py`
    backfills   the past, again    `core/schedules/backfill.py`
    streaks     when to stop       `core/schedules/failure_streak.py`
    settling    all of it at work  `core/schedules/evaluate.py`

Whether a schedule is paused, and up to which window it has been planned, is not part of its definition.
When you add a field, add its rule to `check_schedule`.
"""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.expressions import engine as expressions
from mainspring.core.model.task import Priority
from mainspring.core.schedules.triggers import Trigger, check_trigger, say_window
from mainspring.core.text import strict_json
from mainspring.protocol.errors import ExpressionFailed, Fault

MOST_CATCH_UP_WINDOWS = 100
MOST_ACTIVE = 1000
MOST_FAILURES = 1000
LONGEST_DELAY_SECONDS = 366 * 86_400.0
LONGEST_JITTER_SECONDS = 86_400
LONGEST_PATH = 4_096
CONDITION_NAMES = frozenset({"params", "window"})
"""What the condition of a schedule sees."""
MOST_COMPUTED = 50
LONGEST_COMPUTED_NAME = 128
COMPUTED_NAMES = frozenset({"scheduled_for"})
"""What a computed parameter sees."""


class Missed(StrEnum):
    """What becomes of windows that nobody fired in time (TRG-5)."""

    RUN = "run"
    """The latest `max_catch_up_windows` of them run."""
    SKIP = "skip"


class Overlap(StrEnum):
    """What becomes of a window when `max_active` runs are still going (TRG-12)."""

    QUEUE = "queue"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"


class After(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Another job that has to be through first (TRG-8)."""

    job: str
    within_seconds: float | None = None
    """If given, any success of the other that is not older is enough. Otherwise it is the other's run of its latest
    window at or before ours that counts."""


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What must be true for a window to run; otherwise it is skipped, with the reason recorded (TRG-8)."""

    expression: str | None = None
    """Over `params` and `window` (RFC 3339): must give true or false."""
    file_exists: str | None = None
    """A path that a worker of the pool must find."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A definition: stored as JSON, in versions."""

    name: str
    job: str
    trigger: Trigger
    params: msgspec.Raw = msgspec.Raw(b"{}")
    """Of each run, as JSON."""
    computed: dict[str, str] = {}
    """Parameters of each run that are templates over `scheduled_for`: the window, in the zone of the trigger. They go
    over `params`, and what a person says goes over both."""
    priority: Priority = Priority.P1
    enabled: bool = True
    missed: Missed = Missed.RUN
    max_catch_up_windows: int = 3
    max_delay_seconds: float | None = None
    """A run that could not start within so long after its window is skipped."""
    jitter_seconds: int | None = None
    """Spreads the starts over so long; if not given, the server says."""
    overlap: Overlap = Overlap.QUEUE
    max_active: int = 1
    after: After | None = None
    condition: Condition | None = None
    max_consecutive_failures: int | None = 5
    """So many failures in a row disable the schedule; None never does."""


def check_schedule(spec: ScheduleSpec, now: datetime, limits: Limits | None = None) -> list[Fault]:
    """What is wrong with a definition, each with its path; nothing if it can be used."""
    faults = Faults()
    validate_job.check_name(spec.name, "name", faults)
    validate_job.check_name(spec.job, "job", faults)
    check_trigger(spec.trigger, "trigger", now, faults)
    for where, value, least, most in (
        ("max_catch_up_windows", spec.max_catch_up_windows, 0, MOST_CATCH_UP_WINDOWS),
        ("jitter_seconds", spec.jitter_seconds, 0, LONGEST_JITTER_SECONDS),
        ("max_active", spec.max_active, 1, MOST_ACTIVE),
        ("max_consecutive_failures", spec.max_consecutive_failures, 1, MOST_FAILURES),
    ):
        if value is not None and not least <= value <= most:
            faults.add(where, f"must be from {least} to {most}")
    if spec.max_delay_seconds is not None:
        validate_job.check_seconds(spec.max_delay_seconds, "max_delay_seconds", faults, longest=LONGEST_DELAY_SECONDS)
    validate_job.check_params(bytes(spec.params).decode(errors="replace"), limits or Limits(), faults)
    if spec.computed:
        _check_computed(spec, now, faults)
    if spec.after is not None:
        _check_after(spec, spec.after, faults)
    if spec.condition is not None:
        _check_condition(spec.condition, faults)
    return faults.all()


def compute_params(spec: ScheduleSpec, window_at: datetime, given: Container[str] = ()) -> dict[str, str]:
    """The computed parameters of a window, without those that are given otherwise. Raises ExpressionFailed."""
    values = {"scheduled_for": say_window(spec.trigger, window_at)}
    return {name: _render(name, spec.computed[name], values) for name in spec.computed if name not in given}


def _render(name: str, template: str, values: expressions.Values) -> str:
    try:
        return expressions.render(template, values)
    except ExpressionFailed as failed:
        raise ExpressionFailed(f"{expressions.shorten(name)}: {failed}") from None


def _check_computed(spec: ScheduleSpec, now: datetime, faults: Faults) -> None:
    """Each can be read, and made for a window that comes now: what it sees is a time, whichever window it is."""
    if len(spec.computed) > MOST_COMPUTED:
        faults.add("computed", f"there are {len(spec.computed)}, {MOST_COMPUTED} are allowed")
        return
    values = {"scheduled_for": now.isoformat()}
    for name, template in spec.computed.items():
        path = strict_json.path_to("computed", name)
        if not 1 <= len(name) <= LONGEST_COMPUTED_NAME or strict_json.fault_in_text(name) is not None:
            faults.add(path, f"its name must have 1 to {LONGEST_COMPUTED_NAME} characters that can be stored")
            continue
        fault = strict_json.fault_in_text(template) or expressions.check_template(template, COMPUTED_NAMES)
        if fault is None:
            try:
                expressions.render(template, values)
            except ExpressionFailed as failed:
                fault = str(failed)
        if fault is not None:
            faults.add(path, fault)


def _check_after(spec: ScheduleSpec, after: After, faults: Faults) -> None:
    validate_job.check_name(after.job, "after.job", faults)
    if after.job == spec.job:
        faults.add("after.job", "a job can't wait for itself")
    if after.within_seconds is not None:
        validate_job.check_seconds(after.within_seconds, "after.within_seconds", faults, longest=LONGEST_DELAY_SECONDS)


def _check_condition(condition: Condition, faults: Faults) -> None:
    if condition.expression is None and condition.file_exists is None:
        faults.add("condition", "must have an expression, or file_exists, or both")
    if condition.expression is not None:
        fault = expressions.check(condition.expression, CONDITION_NAMES)
        if fault is not None:
            faults.add("condition.expression", fault)
    path = condition.file_exists
    if path is not None and not (path.startswith("/") and path.isprintable() and len(path) <= LONGEST_PATH):
        faults.add(
            "condition.file_exists",
            f"must be a path from / on, of at most {LONGEST_PATH} characters that can be seen",
        )
