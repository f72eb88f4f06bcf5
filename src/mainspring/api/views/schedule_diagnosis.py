"""Read the context of a schedule for its diagnosis (`schedule_diagnosis.py`)."""

from __future__ import annotations

from datetime import datetime

from mainspring.api.services import Services
from mainspring.core.explain.diagnosis import Diagnosis
from mainspring.core.explain.schedule_diagnosis import ScheduleContext, diagnose_schedule
from mainspring.core.model.batch import DurationRow
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import (
    MAX_OPEN_FIRES,
    MAX_UPSTREAM_FIRES,
    BackfillRow,
    FireRow,
    ScheduleChange,
    ScheduleRow,
    UpstreamSchedule,
)
from mainspring.core.schedules.evaluation import decode_spec, key_of
from mainspring.core.schedules.schedule_spec import MAX_ACTIVE, After, ScheduleSpec
from mainspring.core.schedules.triggers import EventTrigger
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.front import RunFilter
from mainspring.store.ports.schedules import FireFilter, ScheduleFilter

_LATEST_CHANGES = 20
_LATEST_BACKFILLS = 100
_LATEST_EVENTS = 20
_STOPS = frozenset({"paused", "disabled"})


async def diagnose_schedule_row(services: Services, row: ScheduleRow, called: str = "") -> Diagnosis:
    """Diagnose a schedule; `called` is another name for it."""
    spec = decode_spec(row)
    waiting = await _fires(services, row, Outcome.WAITING, MAX_OPEN_FIRES) if row.has_waiting_windows else []
    backfill = await _backfill_of(services, row, waiting)
    of_backfill = [] if backfill is None else await _fires_of(services, backfill)
    active = [*await _fires(services, row, Outcome.RAN, MAX_ACTIVE), *of_backfill]
    return diagnose_schedule(
        ScheduleContext(
            schedule=row,
            spec=spec,
            now=await services.store.time(),
            called=called or row.name,
            waiting=tuple(waiting),
            active=tuple({key_of(one): one for one in active if _is_active(one)}.values()),
            latest=await _latest(services, row),
            backfill=backfill,
            backfilled=sum(one.run_state is not None for one in of_backfill),
            other=await _other(services, row.tenant, spec.after),
            events=await _events(services, row, spec),
            stopped=await _stopped(services, row),
            duration=await _duration(services, row),
        )
    )


def _is_active(fire: FireRow) -> bool:
    return fire.run_id is not None and fire.run_state is None


async def _fires(services: Services, row: ScheduleRow, outcome: Outcome, limit: int) -> list[FireRow]:
    """Return its latest fires with this outcome, oldest first."""
    wanted = FireFilter(schedule_id=row.id, outcomes=(outcome,))
    return (await services.store.fires(wanted, limit))[::-1]


async def _latest(services: Services, row: ScheduleRow) -> FireRow | None:
    fires = await services.store.fires(FireFilter(schedule_id=row.id), 1)
    return fires[0] if fires else None


async def _backfill_of(services: Services, row: ScheduleRow, waiting: list[FireRow]) -> BackfillRow | None:
    """Return the backfill of the oldest waiting window, if only backfills wait."""
    if not waiting or any(fire.backfill_id is None for fire in waiting):
        return None
    known = await services.store.backfills(row.id, _LATEST_BACKFILLS)
    return next((one for one in known if one.id == waiting[0].backfill_id), None)


async def _fires_of(services: Services, backfill: BackfillRow) -> list[FireRow]:
    wanted = FireFilter(schedule_id=backfill.schedule_id, backfill_id=backfill.id)
    return await services.store.fires(wanted, MAX_OPEN_FIRES)


async def _other(services: Services, tenant: str, after: After | None) -> UpstreamSchedule | None:
    """Read the schedule that this one waits for, as the evaluation sees it."""
    if after is None:
        return None
    oldest = await services.store.list_schedules(ScheduleFilter(tenant=tenant, job=after.job), 1)
    if not oldest:
        return None
    fires = await services.store.fires(FireFilter(schedule_id=oldest[0].id), MAX_UPSTREAM_FIRES)
    succeeded = RunFilter(tenant=tenant, schedule_id=oldest[0].id, states=(RunState.SUCCEEDED,))
    runs = await services.store.list_runs(succeeded, 1)
    return UpstreamSchedule(schedule=oldest[0], fires=tuple(fires), succeeded_at=runs[0].run.ended_at if runs else None)


async def _events(services: Services, row: ScheduleRow, spec: ScheduleSpec) -> tuple[datetime, ...]:
    if not isinstance(spec.trigger, EventTrigger):
        return ()
    events = await services.store.list_events(row.tenant, spec.trigger.type, None, _LATEST_EVENTS)
    return tuple(event.received_at for event in events)


async def _stopped(services: Services, row: ScheduleRow) -> ScheduleChange | None:
    if row.enabled and not row.paused:
        return None
    changes = await services.store.schedule_changes(row.id, _LATEST_CHANGES)
    return next((change for change in changes if change.action in _STOPS), None)


async def _duration(services: Services, row: ScheduleRow) -> DurationRow | None:
    """Return the duration statistics of whole runs: the first row, which has no task."""
    durations = await services.store.durations(row.tenant, row.job)
    return durations[0] if durations and not durations[0].task else None
