"""Actions of users on schedules (TRG-9, TRG-11). Pure, and called under the lock of the schedule's row.

    new_schedule              its first row
    change, pause, resume, delete
    trigger_now, backfill     windows that a user asks for

1. Due windows are planned before anything changes: an action takes away no window that was due (I-31).
2. `planned_through` moves to the instant from which windows count again, and never back: nothing from before is fired
   (I-34). Only at creation can an earlier instant be given.
3. A window that is run again gets a new generation. Existing generations were read before; if the schedule has changed
   since then (`ScheduleVersion`), nothing is decided, and the caller has to read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.schedule_rows import (
    MAX_OPEN_FIRES,
    BackfillRow,
    EvaluationBatch,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
)
from mainspring.core.schedules.backfill import MAX_LISTED, Backfill, BackfillCommand, plan_backfill
from mainspring.core.schedules.evaluate import decide_open, plan_due, skip_waiting
from mainspring.core.schedules.evaluation import Context, Evaluation, evaluate_each
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.time_zones import EPOCH, LAST_YEAR
from mainspring.core.schedules.triggers import EventTrigger, previous_window
from mainspring.core.schedules.windows import ON_TIME, Outcome, plan
from mainspring.protocol.errors import Conflict, Fault, Refused, VersionMismatch, refusal

MAX_BACKFILLED = 800
"""Limit of backfilled windows of one schedule that are waiting or running."""
MAX_PARALLEL = 100
MAX_DAYS_SINCE = 366
_FAR = datetime(LAST_YEAR, 1, 1, tzinfo=UTC)


class ScheduleVersion(NamedTuple):
    """State of a schedule when its fires were read, for optimistic locking."""

    updated_at: datetime
    planned_through: datetime


class TriggerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """Request to run a schedule now."""

    window_at: datetime | None = None
    """The window to run; None: now."""
    params: str | None = None
    """Merged over those of the schedule, as a JSON object."""
    by: str
    why: str = ""
    past: tuple[FireRow, ...] = ()
    """All fires of that window."""


def version_of(row: ScheduleRow) -> ScheduleVersion:
    """Return the mark of a schedule's row."""
    return ScheduleVersion(row.updated_at, row.planned_through)


def new_schedule(
    id: str,
    tenant: str,
    spec: ScheduleSpec,
    *,
    pool: str,
    by: str,
    why: str = "",
    now: datetime,
    since: datetime | None = None,
    paused: bool = False,
) -> tuple[ScheduleRow, ScheduleChange]:
    """Create the first row of a schedule, and the record of its creation. The definition has been validated.

    Windows from `since` (validated as well) on count as missed. A schedule created `paused` plans none, not even a
    window that would be due at once.
    """
    text = msgspec.json.encode(spec).decode()
    row = ScheduleRow(
        id=id, tenant=tenant, name=spec.name, job=spec.job, version=1, spec=text, pool=pool, enabled=spec.enabled,
        enabled_since=now, planned_through=since or now, created_at=now, created_by=by, updated_at=now, updated_by=by,
        paused=paused, because=_format_reason("paused", by, why) if paused else "",
    )  # fmt: skip
    row = _follow_spec(row, spec, since or now)
    return row, ScheduleChange(schedule_id=id, at=now, action="created", by=by, why=why, version=1, after=text)


def change(evaluation: Evaluation, spec: ScheduleSpec, *, by: str, why: str = "", version: int | None = None) -> None:
    """Replace the definition of a schedule, which has been validated; the same definition changes nothing.

    A schedule that was disabled by failures stays disabled until it is resumed.
    """
    text = msgspec.json.encode(spec).decode()
    before, was = evaluation.row.spec, evaluation.spec
    _check_version(evaluation, version)
    if spec.name != was.name:
        raise Refused("the schedule has 1 fault", [Fault("name", f"can't be changed: it is {was.name}")])
    if text == before:
        return
    _evaluate_due_windows(evaluation)
    row = evaluation.row
    enabled = spec.enabled and (row.enabled or not was.enabled)
    if enabled and not row.enabled:
        row = replace(row, enabled_since=evaluation.now, because=row.because if row.paused else "")
    row = replace(row, spec=text, version=row.version + 1, job=spec.job, enabled=enabled)
    evaluation.update(_follow_spec(row, spec, evaluation.now))
    evaluation.action("updated", by=by, why=why, before=before, after=text)
    if not spec.enabled:
        skip_waiting(evaluation, _format_reason("the schedule was disabled", by, why))


def pause(evaluation: Evaluation, *, by: str, why: str = "") -> None:
    """Stop planning windows and starting waiting ones. Idempotent."""
    if evaluation.row.paused:
        return
    _evaluate_due_windows(evaluation)
    evaluation.update(replace(evaluation.row, paused=True, next_at=None, because=_format_reason("paused", by, why)))
    evaluation.action("paused", by=by, why=why)


def resume(evaluation: Evaluation, *, by: str, why: str = "") -> None:
    """Resume after a pause or after failures. Windows missed meanwhile don't run; waiting ones are decided."""
    row, spec = evaluation.row, evaluation.spec
    if not spec.enabled:
        raise Conflict("the schedule is disabled in its definition; change the definition")
    if row.enabled and not row.paused:
        return
    since = row.enabled_since if row.enabled else evaluation.now
    resumed = replace(row, enabled=True, paused=False, because="", enabled_since=since)
    evaluation.update(_follow_spec(resumed, spec, evaluation.now))
    evaluation.action("resumed" if row.enabled else "enabled", by=by, why=why)
    _resolve_alerts(evaluation, f"{row.name} was resumed by {by}")
    decide_open(evaluation)


def delete(evaluation: Evaluation, *, by: str, why: str = "", version: int | None = None) -> None:
    """Delete a schedule. Its history stays readable, its runs continue."""
    _check_version(evaluation, version)
    _evaluate_due_windows(evaluation)
    skip_waiting(evaluation, "the schedule was deleted")
    because = _format_reason("deleted", by, why)
    evaluation.update(replace(evaluation.row, deleted_at=evaluation.now, next_at=None, because=because))
    evaluation.action("deleted", by=by, why=why, before=evaluation.row.spec)
    _resolve_alerts(evaluation, f"{evaluation.row.name} was deleted by {by}")


def trigger_now(
    evaluation_batch: EvaluationBatch, context: Context, command: TriggerCommand, *, read: ScheduleVersion
) -> list[ScheduleDecision]:
    """Run a schedule now, or for a past window, regardless of other runs. Empty if it changed since `read`."""
    if command.window_at is not None and _has_moved(evaluation_batch, read):
        return []

    def step(evaluation: Evaluation) -> None:
        _check_params(command.params)
        _evaluate_due_windows(evaluation)
        _require_capacity(evaluation, MAX_OPEN_FIRES - len(evaluation.waiting) - len(evaluation.active), 1)
        because = _format_reason("triggered", command.by, command.why)
        if command.window_at is None:
            fire = evaluation.new_fire(evaluation.free_instant(evaluation.now), because)
        else:
            fire = _rerun_window(evaluation, command.window_at, command.past)
        fire = replace(fire, by=command.by, params=command.params)
        fault = evaluation.params_fault(fire)
        if fault is not None:
            raise _refuse("params", fault)
        for refused in evaluation.route().faults:
            raise _refuse(refused.where, refused.why)
        evaluation.start(fire, because)
        evaluation.action("triggered", by=command.by, why=command.why)

    return evaluate_each(evaluation_batch, context, step)


def check_since(since: datetime, now: datetime) -> datetime:
    """Return the instant, in UTC, from which windows of a new schedule count. Raises Refused if it is invalid.

    Slightly in the future counts as now: clocks of clients differ from the store's.
    """
    if since.tzinfo is None:
        raise _refuse("since", "must have a time zone")
    if since > now + ON_TIME:
        raise _refuse("since", f"is in the future (now: {now:%Y-%m-%dT%H:%M:%SZ})")
    if since < now - timedelta(days=MAX_DAYS_SINCE):
        raise _refuse("since", f"must be within {MAX_DAYS_SINCE} days")
    return min(since, now).astimezone(UTC)


def check_window(window_at: datetime) -> datetime:
    """Return a window named by a user, in UTC. Raises Refused if it is invalid."""
    if window_at.tzinfo is None:
        raise _refuse("window_at", "must have a time zone")
    if not EPOCH <= window_at < _FAR:
        raise _refuse("window_at", "must be between 1970 and 9989")
    return window_at.astimezone(UTC)


def backfill(
    evaluation_batch: EvaluationBatch,
    context: Context,
    command: BackfillCommand,
    past: Sequence[FireRow],
    *,
    id: str,
    read: ScheduleVersion,
) -> tuple[list[ScheduleDecision], Backfill | None]:
    """Run past windows, oldest first; return the decisions and the plan. Empty if it changed since `read`."""
    made: list[Backfill] = []
    if _has_moved(evaluation_batch, read):
        return [], None

    def step(evaluation: Evaluation) -> None:
        _evaluate_due_windows(evaluation)
        rows = {(fire.window_at, fire.generation): fire for fire in (*past, *evaluation.decided())}
        planned = plan_backfill(evaluation.spec, command, rows.values(), evaluation.now)
        wanted = [window for window in planned.windows if window.is_wanted]
        if planned.total > len(planned.windows):
            raise _refuse("since", f"the range has {planned.total} windows; the limit is {MAX_LISTED}")
        waiting = sum(fire.backfill_id is not None for fire in (*evaluation.waiting, *evaluation.active))
        _require_capacity(evaluation, MAX_BACKFILLED - waiting, len(wanted))
        row = BackfillRow(
            **asdict(command), id=id, schedule_id=evaluation.row.id, tenant=evaluation.row.tenant,
            windows=len(wanted), created_at=evaluation.now,
        )  # fmt: skip
        evaluation.add_backfill(row)
        for window in wanted:
            earlier = rows.get((window.window_at, window.generation - 1))
            repeats = None if earlier is None else earlier.run_id
            fire = evaluation.new_fire(window.window_at, "backfilled")
            fire = replace(fire, generation=window.generation, backfill_id=id, by=command.by, repeats=repeats)
            evaluation.waiting.append(fire)
        evaluation.action("backfilled", by=command.by, why=command.why)
        decide_open(evaluation)
        made.append(planned)

    decisions = evaluate_each(evaluation_batch, context, step)
    return decisions, made[0] if made else None


def check_backfill(command: BackfillCommand) -> None:
    """Raise Refused if the request is invalid."""
    faults = [
        Fault(where, "must have a time zone")
        for where, at in (("since", command.since), ("before", command.before))
        if at.tzinfo is None
    ]
    if not faults and command.since >= command.before:
        faults.append(Fault("before", "must be later than since"))
    if not 1 <= command.max_parallel <= MAX_PARALLEL:
        faults.append(Fault("max_parallel", f"must be from 1 to {MAX_PARALLEL}"))
    if faults:
        raise refusal("the backfill has", faults)


def _check_version(evaluation: Evaluation, expected: int | None) -> None:
    if expected is not None and expected != evaluation.row.version:
        raise VersionMismatch(f"the schedule is at version {evaluation.row.version}, not {expected}")


def _evaluate_due_windows(evaluation: Evaluation) -> None:
    plan_due(evaluation)
    decide_open(evaluation)


def _follow_spec(row: ScheduleRow, spec: ScheduleSpec, since: datetime) -> ScheduleRow:
    """Derive the row's columns from its definition, from an instant on."""
    planned_through = max(row.planned_through, since)
    going = row.enabled and not row.paused
    return replace(
        row,
        event_type=spec.trigger.type if isinstance(spec.trigger, EventTrigger) else "",
        after_job="" if spec.after is None else spec.after.job,
        planned_through=planned_through,
        next_at=plan(spec, planned_through=planned_through, now=since).next_at if going else None,
    )


def _rerun_window(evaluation: Evaluation, window_at: datetime, past: Sequence[FireRow]) -> FireRow:
    """Create a new generation of a past window, with what the latest one had."""
    decided = [fire for fire in evaluation.decided() if fire.window_at == window_at]
    known = sorted([*past, *decided], key=lambda one: one.generation)
    if not known:
        if window_at > evaluation.now:
            raise _refuse("window_at", "is in the future")
        if previous_window(evaluation.spec.trigger, window_at) != window_at:
            raise _refuse("window_at", "is not a window of this schedule")
        return evaluation.new_fire(window_at, "")
    latest = known[-1]
    if latest.outcome is Outcome.WAITING:
        raise Conflict(f"the window is already waiting: {latest.because}")
    ran = [fire.run_id for fire in known if fire.run_id is not None]
    return replace(
        evaluation.new_fire(window_at, ""), generation=latest.generation + 1, repeats=ran[-1] if ran else None,
        event=latest.event, flagged=latest.flagged,
    )  # fmt: skip


def _has_moved(evaluation_batch: EvaluationBatch, read: ScheduleVersion) -> bool:
    return any(version_of(case.schedule) != read for case in evaluation_batch.cases)


def _require_capacity(evaluation: Evaluation, capacity: int, wanted: int) -> None:
    if evaluation.case.job is None:
        raise Conflict(f"job {evaluation.row.job} does not exist")
    if wanted > capacity:
        raise Conflict(f"only {max(0, capacity)} more windows of this schedule are allowed, not {wanted}")


def _check_params(params: str | None) -> None:
    faults = Faults()
    if params is not None:
        validate_job.check_params(params, Limits(), faults)
    if faults.total():
        raise Refused("invalid parameters", faults.all())


def _resolve_alerts(evaluation: Evaluation, over: str) -> None:
    """Resolve the open alerts about the schedule."""
    for kind, severity in (
        (AlertKind.SCHEDULE_DISABLED, Severity.HIGH),
        (AlertKind.SCHEDULE_FAILING, Severity.WARNING),
        (AlertKind.EVENT_REJECTED, Severity.HIGH),
    ):
        evaluation.alert(kind, severity, over, evaluation.now.isoformat(), resolved=True)


def _format_reason(what: str, by: str, why: str) -> str:
    return f"{what} by {by}{f': {why}' if why else ''}"


def _refuse(where: str, why: str) -> Refused:
    return Refused(f"{where} {why}", [Fault(where, why)])
