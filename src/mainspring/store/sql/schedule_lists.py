"""What both stores answer about schedules, alerts and dead letters alike: a statement, and rows of one struct."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol, TypeVar

import msgspec

from mainspring.core.model.batch import BreakerRow, DurationRow
from mainspring.core.model.schedule_rows import BackfillRow, EndedRun, EventRow, FireRow, ScheduleChange, ScheduleRow
from mainspring.core.model.task import Task
from mainspring.store.ports.schedules import AlertRow, FireFilter, ScheduleFilter
from mainspring.store.sql import schedule_statements as statements
from mainspring.store.sql.lists import Listing

S = TypeVar("S", bound=msgspec.Struct)


class ScheduleLists(Protocol):
    """The parts of the port that only read, on top of what an adapter reads with."""

    async def _listed(self, struct: type[S], wanted: Listing) -> list[S]:
        """The structs that a statement finds."""
        ...

    async def _listed_readable(self, struct: type[S], wanted: Listing) -> list[S]:
        """The structs that a statement finds, without those that can't be read."""
        ...

    async def find_schedule(self, tenant: str | None, reference: str) -> ScheduleRow | None:
        """One by its id, or by its name."""
        found = await self._listed(ScheduleRow, statements.schedule(reference))
        if not found and tenant is not None:
            found = await self._listed(ScheduleRow, statements.schedule_named(tenant, reference))
        return found[0] if found else None

    async def schedules_named(self, tenant: str, names: Sequence[str]) -> list[ScheduleRow]:
        """Those of a tenant that have some names."""
        return await self._listed(ScheduleRow, statements.schedules_named(tenant, names)) if names else []

    async def list_schedules(self, wanted: ScheduleFilter, limit: int) -> list[ScheduleRow]:
        """Schedules by id."""
        return await self._listed(ScheduleRow, statements.schedules(wanted, limit))

    async def next_schedules(self, tenant: str | None, until: datetime, limit: int) -> list[ScheduleRow]:
        """Schedules by when they are due."""
        return await self._listed_readable(ScheduleRow, statements.next_schedules(tenant, until, limit))

    async def next_due(self) -> datetime | None:
        """When the next schedule is due."""
        (due,) = await self._listed(statements.NextDue, statements.next_due())
        return due.next_at

    async def schedules_after(self, jobs: Collection[tuple[str, str]]) -> list[str]:
        """Ids of schedules that wait for some jobs."""
        waiting = await self._listed_readable(statements.WaitingAfter, statements.schedules_after())
        return [one.id for one in waiting if (one.tenant, one.after_job) in jobs]

    async def unprocessed_run_ends(self, before: datetime, limit: int) -> list[EndedRun]:
        """Runs whose end is not on their fire."""
        return await self._listed_readable(EndedRun, statements.unprocessed_run_ends(before, limit))

    async def fires_of_runs(self, run_ids: Sequence[str]) -> list[FireRow]:
        """The fires that led to some runs."""
        return await self._listed(FireRow, statements.fires_of_runs(run_ids)) if run_ids else []

    async def fires(self, wanted: FireFilter, limit: int) -> list[FireRow]:
        """What became of a schedule's windows."""
        return await self._listed(FireRow, statements.fires(wanted, limit))

    async def schedule_changes(self, schedule_id: str, limit: int) -> list[ScheduleChange]:
        """Who did what to a schedule."""
        return await self._listed(ScheduleChange, statements.changes(schedule_id, limit))

    async def backfills(self, schedule_id: str, limit: int) -> list[BackfillRow]:
        """The backfills of a schedule."""
        return await self._listed(BackfillRow, statements.backfills(schedule_id, limit))

    async def list_events(
        self, tenant: str | None, type: str | None, before: datetime | None, limit: int
    ) -> list[EventRow]:
        """Events by when they came."""
        return await self._listed(EventRow, statements.events(tenant, type, before, limit))

    async def list_alerts(self, tenant: str | None, is_open: bool | None, before: str, limit: int) -> list[AlertRow]:
        """Episodes by id."""
        return await self._listed(AlertRow, statements.alerts(tenant, is_open, before, limit))

    async def list_dead_letters(
        self, tenant: str | None, job: str | None, before: tuple[datetime, str] | None, limit: int
    ) -> list[Task]:
        """Tasks that failed for good."""
        return await self._listed(Task, statements.dead_letters(tenant, job, before, limit))

    async def durations(self, tenant: str, job: str) -> list[DurationRow]:
        """How long the tasks of a job usually take."""
        return await self._listed(DurationRow, statements.durations(tenant, job))

    async def breakers(self) -> list[BreakerRow]:
        """The circuits that are open."""
        return await self._listed(BreakerRow, statements.breakers())
