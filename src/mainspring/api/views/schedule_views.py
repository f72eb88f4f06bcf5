"""Convert rows of schedules and dead letters to API views."""

from __future__ import annotations

import msgspec

from mainspring.api.views.view_of import raw, view_of
from mainspring.core.model.task import Task
from mainspring.core.schedules.schedule_json import encode_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import describe_trigger
from mainspring.protocol.rest.schedules import ChangeView, DeadLetterView, ScheduleView
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.schedules import ScheduleChange, ScheduleRow


def schedule_view(row: ScheduleRow, *, with_definition: bool = False) -> ScheduleView:
    """Convert a schedule."""
    spec = msgspec.json.decode(row.spec, type=ScheduleSpec)
    return view_of(
        ScheduleView, row, state=_state(row), trigger=describe_trigger(spec.trigger), waiting=row.has_waiting_windows,
        definition=definition(row.spec) if with_definition else msgspec.UNSET,
    )  # fmt: skip


def change_view(row: ScheduleChange) -> ChangeView:
    """Convert a change of a schedule."""
    return view_of(ChangeView, row, before=definition(row.before), after=definition(row.after))


def dead_letter_view(task: Task, run: ListedRun) -> DeadLetterView:
    """Convert a dead letter."""
    return view_of(
        DeadLetterView, task, task_id=task.id, job=run.job_name, task=task.name,
        label=task.origin.label if task.origin is not None else "", ended_at=task.ended_at or task.since,
        in_history=run.in_history, error=raw(task.error),
    )  # fmt: skip


def _state(row: ScheduleRow) -> str:
    if row.deleted_at is not None:
        return "deleted"
    if not row.enabled:
        return "disabled"
    return "paused" if row.paused else "active"


def definition(spec: str | None) -> msgspec.Raw:
    """Return the public definition of a stored schedule; null if there is none."""
    return raw(None if spec is None else encode_schedule(spec))
