"""Convert rows of schedules, events, alerts and failures to API views."""

from __future__ import annotations

import msgspec

from mainspring.core.model.batch import BreakerRow, DurationRow
from mainspring.core.model.task import Task
from mainspring.core.schedules.schedule_json import encode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import describe_trigger
from mainspring.protocol.rest.schedules import (
    AlertView,
    BackfillSummary,
    BreakerView,
    ChangeView,
    DeadLetterView,
    DurationView,
    EventView,
    FireView,
    ScheduleView,
)
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.schedules import AlertRow, BackfillRow, EventRow, FireRow, ScheduleChange, ScheduleRow

_NULL = msgspec.Raw(b"null")


def schedule_view(row: ScheduleRow, *, with_definition: bool = False) -> ScheduleView:
    """Convert a schedule."""
    spec = msgspec.json.decode(row.spec, type=ScheduleSpec)
    definition = msgspec.Raw(encode_schedule(row.spec)) if with_definition else msgspec.UNSET
    return ScheduleView(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        job=row.job,
        version=row.version,
        state=_state(row),
        because=row.because,
        trigger=describe_trigger(spec.trigger),
        next_at=row.next_at,
        planned_through=row.planned_through,
        waiting=row.has_waiting_windows,
        pool=row.pool,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        definition=definition,
    )


def fire_view(row: FireRow) -> FireView:
    """Convert a fire."""
    return msgspec.convert(row, FireView, from_attributes=True)


def change_view(row: ScheduleChange) -> ChangeView:
    """Convert a change of a schedule."""
    return ChangeView(
        at=row.at, action=row.action, by=row.by, why=row.why, version=row.version, before=definition(row.before),
        after=definition(row.after),
    )  # fmt: skip


def backfill_summary(row: BackfillRow) -> BackfillSummary:
    """Convert a backfill."""
    return BackfillSummary(
        id=row.id, schedule_id=row.schedule_id, since=row.since, before=row.before, max_parallel=row.max_parallel,
        again=row.again, wanted=row.windows, by=row.by, why=row.why, created_at=row.created_at,
    )  # fmt: skip


def event_view(row: EventRow) -> EventView:
    """Convert a received event."""
    return EventView(
        tenant=row.tenant, source=row.source, id=row.id, type=row.type, subject=row.subject, at=row.at,
        received_at=row.received_at, fires=row.fires, document=msgspec.Raw(row.document),
    )  # fmt: skip


def alert_view(row: AlertRow) -> AlertView:
    """Convert an alert."""
    return AlertView(
        id=row.id, key=row.key, kind=row.kind, severity=row.severity, tenant=row.tenant, summary=row.summary,
        details=msgspec.Raw(row.details), opened_at=row.opened_at, last_at=row.last_at, count=row.count,
        resolved_at=row.resolved_at,
    )  # fmt: skip


def duration_view(row: DurationRow) -> DurationView:
    """Convert duration statistics."""
    return DurationView(
        task=row.task, count=row.count, p50_seconds=row.p50_seconds, p90_seconds=row.p90_seconds,
        p99_seconds=row.p99_seconds, updated_at=row.updated_at,
    )  # fmt: skip


def breaker_view(row: BreakerRow) -> BreakerView:
    """Convert an open circuit."""
    return BreakerView(
        pool=row.shard, kind=row.kind, subject=row.subject, because=row.because, opened_at=row.opened_at,
        probed_at=row.probed_at,
    )  # fmt: skip


def dead_letter_view(task: Task, run: ListedRun) -> DeadLetterView:
    """Convert a dead letter."""
    return DeadLetterView(
        task_id=task.id, run_id=task.run_id, tenant=task.tenant, job=run.job_name, task=task.name,
        label=task.origin.label if task.origin is not None else "", state=task.state, because=task.because,
        tries=task.tries, ended_at=task.ended_at or task.since, in_history=run.in_history,
        error=_NULL if task.error is None else msgspec.Raw(task.error),
    )  # fmt: skip


def _state(row: ScheduleRow) -> str:
    if row.deleted_at is not None:
        return "deleted"
    if not row.enabled:
        return "disabled"
    return "paused" if row.paused else "active"


def definition(spec: str | None) -> msgspec.Raw:
    """Return the public definition of a stored schedule; null if there is none."""
    return _NULL if spec is None else msgspec.Raw(encode_schedule(spec))
