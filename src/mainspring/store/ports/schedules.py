"""The part of the store's port for schedules, their fires, events, backfills, and alerts.

The promises at the top of `store/ports/store.py` hold here too. Everything that happens to a schedule is one call of
`evaluate_schedules` (or of `receive_events`, which is the same with events): the store takes some schedules under
lock, hands over
what is known of each, `decide` says what follows, and what it says is written in the same transaction. So a window's
outcome, its run, the schedule's next time and whatever is to be sent appear together or not at all (TRG-4), no rule is
in SQL, and no server leads: any number of them may settle at once.

`decide` is called inside the transaction and may be called again if the transaction has to be repeated: it is a pure
function of its argument. It is given only schedules that are not deleted and can be read: one that can't is complained
about and put off for ten minutes, and none of its windows is lost. Every settling raises, having written nothing,
StaleWrite if a fire would take the place of one that has another run (I-30: a window runs once in each generation),
Conflict if a schedule is to have the name of another, and Broken if a decision is about a schedule that is no case.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Protocol

import msgspec

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.schedule_rows import (
    MAX_ENDED_RUNS,
    MAX_OPEN_FIRES,
    MAX_UPSTREAM_FIRES,
    BackfillRow,
    Decide,
    EndedRun,
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
    UpstreamSchedule,
)
from mainspring.core.model.task import Task
from mainspring.core.schedules.windows import Outcome

__all__ = [
    "MAX_ENDED_RUNS",
    "MAX_OPEN_FIRES",
    "MAX_UPSTREAM_FIRES",
    "BackfillRow",
    "Decide",
    "EvaluationBatch",
    "EventRow",
    "FireRow",
    "ScheduleChange",
    "ScheduleDecision",
    "ScheduleRow",
    "ScheduleSnapshot",
    "UpstreamSchedule",
]


class IdempotencyKey(msgspec.Struct, frozen=True, kw_only=True):
    """The caller's key for what is to be made once, and a digest of the request's body."""

    tenant: str
    key: str
    body_hash: str


class EvaluationResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a settling did."""

    now: datetime
    schedules: int
    """How many were taken. As many as were asked for: there may be more."""
    decisions: tuple[ScheduleDecision, ...] = ()
    replayed_ids: tuple[str, ...] = ()
    """Ids of what was made when the key came first: this time nothing was."""

    def made(self) -> list[str]:
        """Ids of the runs and of the backfills that were made, in this order."""
        runs = [run.id for decision in self.decisions for run in decision.runs]
        return [*runs, *(backfill.id for decision in self.decisions for backfill in decision.backfills)]


class ScheduleFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which schedules are wanted; what is not said does not matter. Deleted ones never are."""

    tenant: str | None = None
    job: str | None = None
    enabled: bool | None = None
    paused: bool | None = None
    after: str = ""
    """Only those whose id sorts behind this one."""


class NewSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that is to be kept, the record of its creation, and what the audit log says of it."""

    row: ScheduleRow
    change: ScheduleChange
    audit: AuditEntry | None = None


class FireFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which fires of one schedule are wanted."""

    schedule_id: str
    outcomes: tuple[Outcome, ...] = ()
    since: datetime | None = None
    """Windows from here on."""
    before: datetime | None = None
    """Windows before this."""
    backfill_id: str | None = None


class AlertRow(msgspec.Struct, frozen=True, kw_only=True):
    """An episode: something that somebody was told of (OBS-6)."""

    id: str
    key: str
    """At most one open episode has it."""
    kind: str
    severity: str
    tenant: str
    summary: str
    details: str
    """JSON."""
    opened_at: datetime
    last_at: datetime
    """When it was last raised."""
    count: int = 1
    """How often it was raised."""
    resolved_at: datetime | None = None


class Schedules(Protocol):
    """For `host/schedules/trigger_loop.py` and the API."""

    async def insert_schedule(self, row: ScheduleRow, change: ScheduleChange, audit: AuditEntry | None = None) -> None:
        """Keep a new schedule. Raises Conflict if its tenant has one of that name."""
        ...

    async def insert_schedules(self, new: Sequence[NewSchedule]) -> None:
        """Keep new schedules: all of them, or none. Raises Conflict as `insert_schedule` does."""
        ...

    async def schedules_named(self, tenant: str, names: Sequence[str]) -> list[ScheduleRow]:
        """Those of a tenant that have one of these names, at most 1,000; none that is deleted."""
        ...

    async def find_schedule(self, tenant: str | None, reference: str) -> ScheduleRow | None:
        """One by its id, or by its name in a tenant. One that is deleted is found by its id only."""
        ...

    async def list_schedules(self, wanted: ScheduleFilter, limit: int) -> list[ScheduleRow]:
        """Schedules by id."""
        ...

    async def next_schedules(self, tenant: str | None, until: datetime, limit: int) -> list[ScheduleRow]:
        """Those whose next window comes before `until`, soonest first."""
        ...

    async def next_due(self) -> datetime | None:
        """When the next schedule is due, by the store's clock; it may be in the past. None: none ever is."""
        ...

    async def evaluate_due(self, limit: int, decide: Decide) -> EvaluationResult:
        """Take schedules that are due (`next_at` is not after the store's time), the most overdue first.

        What somebody else has under lock is left out: nobody waits for anybody.
        """
        ...

    async def evaluate_waiting(self, limit: int, older_than_seconds: float, decide: Decide) -> EvaluationResult:
        """Take schedules with windows that wait and that were not looked at for so long. Leaves out what is locked."""
        ...

    async def evaluate_schedules(
        self,
        ids: Sequence[str],
        decide: Decide,
        audit: AuditEntry | None = None,
        key: IdempotencyKey | None = None,
    ) -> EvaluationResult:
        """Take these schedules, and wait for those that somebody else has. What is not there is left out.

        With a key under which something was ruled before, answers with what was made then, and rules nothing; raises
        KeyReused if that was for another body. The entry, if there is one, is written if anything was ruled, now or
        under the same key before.
        """
        ...

    async def schedules_after(self, jobs: Collection[tuple[str, str]]) -> list[str]:
        """Ids of schedules that wait for one of these jobs (tenant and name) and have windows that wait.

        Some may be left out if very many wait: the sweep finds them.
        """
        ...

    async def unprocessed_run_ends(self, before: datetime, limit: int) -> list[EndedRun]:
        """Runs of fires that ended before then, are not in history, and whose end is not on their fire."""
        ...

    async def fires_of_runs(self, run_ids: Sequence[str]) -> list[FireRow]:
        """The fires that led to these runs, as far as fires did."""
        ...

    async def fires(self, wanted: FireFilter, limit: int) -> list[FireRow]:
        """What became of a schedule's windows, the newest window first, then the latest generation."""
        ...

    async def schedule_changes(self, schedule_id: str, limit: int) -> list[ScheduleChange]:
        """Who did what to a schedule, the latest first."""
        ...

    async def backfills(self, schedule_id: str, limit: int) -> list[BackfillRow]:
        """The latest first."""
        ...


class Events(Protocol):
    """For the API's `/events`."""

    async def receive_events(
        self, tenant: str, events: Sequence[EventRow], decide: Decide, audit: AuditEntry | None = None
    ) -> list[bool]:
        """Keep the events that are new, and settle the tenant's schedules whose `event_type` is one of theirs.

        Waits for schedules that somebody else has. Answers for each event whether it was new; of two with the same key
        in one call the first one counts. `decide` is not called if nothing is new. `received_at` is set by the store;
        what `decide` is given has it. How many fires name an event is kept with it. The entry is written in any case.
        """
        ...

    async def list_events(
        self, tenant: str | None, type: str | None, before: datetime | None, limit: int
    ) -> list[EventRow]:
        """Events by when they came, the latest first."""
        ...


class Alerts(Protocol):
    """For `host/outbox/alert_episodes.py` and the API."""

    async def open_alert(self, row: AlertRow, outgoing: Sequence[OutboxRow]) -> bool:
        """Begin an episode, and write what is to be sent about it; False if one is open under its key.

        Then the one that is open counts one more and takes over the summary, and nothing is sent.
        """
        ...

    async def resolve_alert(
        self, key: str, at: datetime, outgoing: Callable[[AlertRow], Sequence[OutboxRow]]
    ) -> AlertRow | None:
        """End the open episode of a key, and write what is to be sent about it; None if none is open."""
        ...

    async def list_alerts(self, tenant: str | None, is_open: bool | None, before: str, limit: int) -> list[AlertRow]:
        """Episodes by id, the latest first, those behind `before` if it is given."""
        ...


class DeadLetters(Protocol):
    """For the API's dead letters (RTY-5)."""

    async def list_dead_letters(
        self, tenant: str | None, job: str | None, before: tuple[datetime, str] | None, limit: int
    ) -> list[Task]:
        """Tasks that failed for good: FAILED or TIMED_OUT, also of runs in history, without those that were replaced,
        by `ended_at` and id, the latest first, those behind `before`."""
        ...
