"""Schedules, fires, events and alerts for tests, and simple evaluations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from mainspring.core.model.schedule_rows import (
    BackfillRow,
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
)
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.ports.store import Store
from tests.store.builders import JOB, NOW, a_run, new_number

MINUTE = timedelta(minutes=1)


def a_schedule(**changes: Any) -> ScheduleRow:
    """A long overdue schedule of the job of all runs."""
    number = new_number()
    values: dict[str, Any] = {
        "id": f"sched_{number:012x}", "tenant": JOB.tenant, "name": f"nightly-{number}", "job": JOB.name, "version": 1,
        "spec": '{"name":"nightly"}', "pool": "main", "enabled_since": NOW, "planned_through": NOW,
        "next_at": NOW + MINUTE,
        "created_at": NOW, "created_by": "ann", "updated_at": NOW, "updated_by": "ann",
    }  # fmt: skip
    return ScheduleRow(**(values | changes))


def a_change_of(schedule: ScheduleRow, **changes: Any) -> ScheduleChange:
    """A recorded change."""
    values: dict[str, Any] = {
        "schedule_id": schedule.id, "at": NOW, "action": "created", "by": "ann", "why": "needed", "version": 1,
        "after": schedule.spec,
    }  # fmt: skip
    return ScheduleChange(**(values | changes))


def a_fire(schedule: ScheduleRow, **changes: Any) -> FireRow:
    """A fire without a run."""
    window_at = changes.get("window_at", NOW)
    values: dict[str, Any] = {
        "schedule_id": schedule.id, "window_at": window_at, "last_window_at": window_at, "outcome": Outcome.SKIPPED,
        "because": "it was missed", "decided_at": NOW,
    }  # fmt: skip
    return FireRow(**(values | changes))


def a_backfill(schedule: ScheduleRow, **changes: Any) -> BackfillRow:
    """A backfill."""
    values: dict[str, Any] = {
        "id": f"fill_{new_number():012x}", "schedule_id": schedule.id, "tenant": schedule.tenant, "since": NOW,
        "before": NOW + MINUTE, "max_parallel": 1, "again": False, "windows": 1, "by": "ann", "why": "",
        "created_at": NOW,
    }  # fmt: skip
    return BackfillRow(**(values | changes))


def an_event(**changes: Any) -> EventRow:
    """A received event."""
    values: dict[str, Any] = {
        "tenant": JOB.tenant, "source": "/files", "id": f"e{new_number()}", "type": "file.arrived", "at": NOW,
        "received_at": NOW,
    }  # fmt: skip
    values |= changes
    document = msgspec.json.encode({name: values[name] for name in ("source", "id", "type")}).decode()
    return EventRow(**({"document": document} | values))


def an_alert(**changes: Any) -> AlertRow:
    """A new alert episode."""
    number = new_number()
    values: dict[str, Any] = {
        "id": f"alert_{number:012x}", "key": f"quarantined:task_{number}", "kind": "quarantined", "severity": "high",
        "tenant": "acme", "summary": "a task is held", "details": "{}", "opened_at": NOW, "last_at": NOW,
    }  # fmt: skip
    return AlertRow(**(values | changes))


async def given(store: Store, *schedules: ScheduleRow) -> None:
    """Insert schedules."""
    for schedule in schedules:
        await store.insert_schedule(schedule, a_change_of(schedule))


async def given_fires(store: Store, schedule: ScheduleRow, *fires: FireRow, **more: Any) -> None:
    """Evaluate a schedule, with these fires as the decision."""
    await store.evaluate_schedules(
        [schedule.id], rule(lambda case: ScheduleDecision(schedule=case.schedule, fires=fires, **more))
    )


def rule(
    decide: Callable[[ScheduleSnapshot], ScheduleDecision],
) -> Callable[[EvaluationBatch], Sequence[ScheduleDecision]]:
    """Evaluate each schedule separately."""
    return lambda evaluation_batch: [decide(case) for case in evaluation_batch.cases]


def fire_once(case: ScheduleSnapshot) -> ScheduleDecision:
    """Run the due window; there is no next one."""
    assert case.schedule.next_at is not None
    assert case.job is not None
    run = a_run(job_id=case.job.id, schedule_id=case.schedule.id, window_at=case.schedule.next_at)
    fire = a_fire(
        case.schedule, window_at=case.schedule.next_at, outcome=Outcome.RAN, because="its time had come", run_id=run.id
    )
    planned = msgspec.structs.replace(case.schedule, planned_through=case.schedule.next_at, next_at=None)
    return ScheduleDecision(schedule=planned, fires=(fire,), runs=(run,))
