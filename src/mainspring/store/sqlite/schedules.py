"""Schedules, events and alerts on SQLite, as the port has them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.schedule_rows import Decide, EventRow, ScheduleChange, ScheduleRow
from mainspring.store.ports.schedules import AlertRow, EvaluationResult, IdempotencyKey, NewSchedule
from mainspring.store.sql.schedule_evaluation import shards_of
from mainspring.store.sql.schedule_lists import ScheduleLists
from mainspring.store.sqlite import alerts
from mainspring.store.sqlite import schedule_evaluation as evaluation
from mainspring.store.sqlite.calls import Calls


class SqliteSchedules(Calls, ScheduleLists):
    """The parts of the port that are in `store/ports/schedules.py`."""

    async def insert_schedule(self, row: ScheduleRow, change: ScheduleChange, audit: AuditEntry | None = None) -> None:
        """Keep a new schedule."""
        await self._write(evaluation.insert_schedule, row, change, audit, self._now())

    async def insert_schedules(self, new: Sequence[NewSchedule]) -> None:
        """Keep new schedules."""
        await self._write(evaluation.insert_schedules, new, self._now())

    async def evaluate_due(self, limit: int, decide: Decide) -> EvaluationResult:
        """Take schedules that are due."""
        return self._announce(await self._write(evaluation.evaluate_due, limit, decide, self._now()))

    async def evaluate_waiting(self, limit: int, older_than_seconds: float, decide: Decide) -> EvaluationResult:
        """Take schedules with windows that wait."""
        age = timedelta(seconds=older_than_seconds)
        return self._announce(await self._write(evaluation.evaluate_waiting, limit, age, decide, self._now()))

    async def evaluate_schedules(
        self,
        ids: Sequence[str],
        decide: Decide,
        audit: AuditEntry | None = None,
        key: IdempotencyKey | None = None,
    ) -> EvaluationResult:
        """Take these schedules."""
        return self._announce(await self._write(evaluation.evaluate_schedules, ids, decide, audit, key, self._now()))

    async def receive_events(
        self, tenant: str, events: Sequence[EventRow], decide: Decide, audit: AuditEntry | None = None
    ) -> list[bool]:
        """Keep events that are new, and settle who waits for them."""
        are_new, evaluated = await self._write(evaluation.receive_events, tenant, events, decide, audit, self._now())
        self._announce(evaluated)
        return are_new

    async def open_alert(self, row: AlertRow, outgoing: Sequence[OutboxRow]) -> bool:
        """Begin an episode."""
        return await self._write(alerts.open_alert, row, outgoing)

    async def resolve_alert(
        self, key: str, at: datetime, outgoing: Callable[[AlertRow], Sequence[OutboxRow]]
    ) -> AlertRow | None:
        """End an episode."""
        return await self._write(alerts.resolve_alert, key, at, outgoing)

    def _announce(self, evaluated: EvaluationResult) -> EvaluationResult:
        """Let those know who adopt the new runs."""
        self._tell(dict.fromkeys(shards_of(evaluated), ()))
        return evaluated
