"""Schedule definitions and their validation (TRG-1 to TRG-12).

    trigger         when to fire            `core/schedules/triggers.py`
    fires           what is due now         `core/schedules/windows.py`
    start policy    may a window start      `core/schedules/start_policy.py`
    backfill        run past windows        `core/schedules/backfill.py`
    failure streak  when to disable it      `core/schedules/failure_streak.py`
    evaluation      all of it combined      `core/schedules/evaluate.py`

The pause flag and the planned-through instant are not part of a definition.
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
from mainspring.core.schedules.triggers import Trigger, check_trigger, format_window
from mainspring.core.text import strict_json
from mainspring.protocol.errors import ExpressionFailed, Fault

MAX_CATCH_UP_WINDOWS = 100
MAX_ACTIVE = 1000
MAX_FAILURES = 1000
MAX_DELAY_SECONDS = 366 * 86_400.0
MAX_JITTER_SECONDS = 86_400
MAX_PATH_CHARS = 4_096
CONDITION_NAMES = frozenset({"params", "window"})
"""Names available to a schedule's condition."""
MAX_COMPUTED = 50
MAX_COMPUTED_NAME_CHARS = 128
COMPUTED_NAMES = frozenset({"scheduled_for"})
"""Names available to computed parameters."""


class Missed(StrEnum):
    """Policy for windows that were not fired in time (TRG-5)."""

    RUN = "run"
    """Run the latest `max_catch_up_windows` of them."""
    SKIP = "skip"


class Overlap(StrEnum):
    """Policy for a window that is due while `max_active` runs are unfinished (TRG-12)."""

    QUEUE = "queue"
    SKIP = "skip"
    CANCEL_RUNNING = "cancel_running"


class After(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Another job that has to finish first (TRG-8)."""

    job: str
    within_seconds: float | None = None
    """If set, any success of the upstream job that is not older is enough. Otherwise the run of its latest window at or
    before ours counts.
    """


class Condition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Condition for a window to run; otherwise it is skipped and the reason recorded (TRG-8)."""

    expression: str | None = None
    """Over `params` and `window` (RFC 3339); must evaluate to true or false."""
    file_exists: str | None = None
    """A path that must exist on a worker of the pool."""


class ScheduleSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A schedule definition: stored as JSON, in versions."""

    name: str
    job: str
    trigger: Trigger
    params: msgspec.Raw = msgspec.Raw(b"{}")
    """Of each run, as JSON."""
    computed: dict[str, str] = {}
    """Parameters of each run that are templates over `scheduled_for`: the window, in the zone of the trigger. They
    override `params`, and parameters given by a user override both.
    """
    priority: Priority = Priority.P1
    enabled: bool = True
    missed: Missed = Missed.RUN
    max_catch_up_windows: int = 3
    max_delay_seconds: float | None = None
    """A run that could not start within this time after its window is skipped."""
    jitter_seconds: int | None = None
    """Spread starts over this time; None: the server's default."""
    overlap: Overlap = Overlap.QUEUE
    max_active: int = 1
    after: After | None = None
    condition: Condition | None = None
    max_consecutive_failures: int | None = 5
    """Consecutive failures that disable the schedule; None: never."""


def check_schedule(spec: ScheduleSpec, now: datetime, limits: Limits | None = None) -> list[Fault]:
    """Validate a definition: return its faults, each with its path."""
    faults = Faults()
    validate_job.check_name(spec.name, "name", faults)
    validate_job.check_name(spec.job, "job", faults)
    check_trigger(spec.trigger, "trigger", now, faults)
    for where, value, least, most in (
        ("max_catch_up_windows", spec.max_catch_up_windows, 0, MAX_CATCH_UP_WINDOWS),
        ("jitter_seconds", spec.jitter_seconds, 0, MAX_JITTER_SECONDS),
        ("max_active", spec.max_active, 1, MAX_ACTIVE),
        ("max_consecutive_failures", spec.max_consecutive_failures, 1, MAX_FAILURES),
    ):
        validate_job.check_range(value, where, faults, least=least, most=most)
    validate_job.check_seconds(spec.max_delay_seconds, "max_delay_seconds", faults, longest=MAX_DELAY_SECONDS)
    validate_job.check_params(bytes(spec.params).decode(errors="replace"), limits or Limits(), faults)
    if spec.computed:
        _check_computed(spec, now, faults)
    if spec.after is not None:
        _check_after(spec, spec.after, faults)
    if spec.condition is not None:
        _check_condition(spec.condition, faults)
    return faults.all()


def compute_params(spec: ScheduleSpec, window_at: datetime, given: Container[str] = ()) -> dict[str, str]:
    """Compute the parameters of a window, except the given ones. Raises ExpressionFailed."""
    values = {"scheduled_for": format_window(spec.trigger, window_at)}
    return {name: _render(name, spec.computed[name], values) for name in spec.computed if name not in given}


def _render(name: str, template: str, values: expressions.Values) -> str:
    try:
        return expressions.render(template, values)
    except ExpressionFailed as failed:
        raise ExpressionFailed(f"{expressions.shorten(name)}: {failed}") from None


def _check_computed(spec: ScheduleSpec, now: datetime, faults: Faults) -> None:
    """Check that each template parses, and renders for a window now: its only input is a time."""
    if len(spec.computed) > MAX_COMPUTED:
        faults.add("computed", f"{len(spec.computed)} parameters exceed the limit of {MAX_COMPUTED}")
        return
    values = {"scheduled_for": now.isoformat()}
    for name, template in spec.computed.items():
        path = strict_json.path_to("computed", name)
        if not 1 <= len(name) <= MAX_COMPUTED_NAME_CHARS or strict_json.fault_in_text(name) is not None:
            faults.add(path, f"its name must have 1 to {MAX_COMPUTED_NAME_CHARS} storable characters")
            continue
        fault = strict_json.fault_in_text(template) or expressions.check_template(template, COMPUTED_NAMES)
        if fault is None:
            try:
                expressions.render(template, values)
            except ExpressionFailed as failed:
                fault = str(failed)
        faults.add(path, fault)


def _check_after(spec: ScheduleSpec, after: After, faults: Faults) -> None:
    validate_job.check_name(after.job, "after.job", faults)
    if after.job == spec.job:
        faults.add("after.job", "a job can't depend on itself")
    validate_job.check_seconds(after.within_seconds, "after.within_seconds", faults, longest=MAX_DELAY_SECONDS)


def _check_condition(condition: Condition, faults: Faults) -> None:
    if condition.expression is None and condition.file_exists is None:
        faults.add("condition", "must have an expression, or file_exists, or both")
    if condition.expression is not None:
        faults.add("condition.expression", expressions.check(condition.expression, CONDITION_NAMES))
    path = condition.file_exists
    if path is not None and not (path.startswith("/") and path.isprintable() and len(path) <= MAX_PATH_CHARS):
        why = f"must be an absolute path of at most {MAX_PATH_CHARS} printable characters"
        faults.add("condition.file_exists", why)
