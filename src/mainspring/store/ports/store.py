"""What the rest of Mainspring may ask of a store. The docstrings are the contract; tests/store has a test per sentence.

Promises that hold for every method:

1. It is one transaction: all of it or nothing.
2. It raises Unavailable if the store can't be reached, is too slow for the adapter's deadline, or its answer was lost;
   then it can't be known whether it was carried out, and the same call may be repeated without harm.
3. No method decides anything about a task or run, and no time but the store's own is compared with a lease.
4. Lists are bounded by an argument, or by the size of one shard's active work.

A term is one leadership of one shard: (shard, epoch, nonce). The epoch counts up; the nonce is drawn by the taker, so
that a store that lost its last moments and hands the same epoch out again still tells the two apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from mainspring.core.admission.intake import IntakeRequest as IntakeRequest  # noqa: PLC0414 - a part of this port
from mainspring.core.admission.intake import Waiting as Waiting  # noqa: PLC0414 - a part of this port
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import (
    Batch,
    BreakerRow,
    BulkOperation,
    Checkpoint,
    DurationRow,
    FailureCountRow,
    OutboxRow,
    WorkerRow,
)
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import RecordedAttempt, Task
from mainspring.protocol.errors import KeyReused
from mainspring.store.ports.admin import Audit, SettingOverrides, Tenants, Webhooks
from mainspring.store.ports.artifacts import Artifacts
from mainspring.store.ports.front import Cluster, Lists, Liveness, Tokens
from mainspring.store.ports.schedules import Alerts, DeadLetters, Events, Schedules
from mainspring.store.ports.schedules import IdempotencyKey as IdempotencyKey  # noqa: PLC0414 - a part of this port
from mainspring.store.ports.sharing import Rules, SharedLimits
from mainspring.store.ports.terms import Term as Term  # noqa: PLC0414 - a part of this port
from mainspring.store.ports.workers import WorkerIdentities


class ShardRow(msgspec.Struct, frozen=True, kw_only=True):
    """A shard and who leads it."""

    id: str
    leader: str
    epoch: int
    lease_until: datetime
    batch_no: int


class ShardRows(msgspec.Struct, frozen=True, kw_only=True):
    """What a new leader needs: adopted runs that are not final, all their tasks, their jobs, open bulk operations."""

    runs: list[Run]
    tasks: list[Task]
    """Ordered by run, then position."""
    jobs: list[JobRow]
    bulk_operations: list[BulkOperation]
    checkpoints: list[Checkpoint] = []
    """The latest of each task of these runs that has one."""
    workers: list[WorkerRow] = []
    """Those of the shard that are cordoned or draining; `load_run` leaves them out."""
    breakers: list[BreakerRow] = []
    """Those of the shard that are open; `load_run` leaves them out."""
    durations: list[DurationRow] = []
    """Of the shard, the 20,000 that were updated last; `load_run` leaves them out."""
    shares: list[ShareRow] = []
    """Parts of limits that the shard holds, by limit; `load_run` leaves them out."""
    failure_counts: list[FailureCountRow] = []
    """Those of the shard whose part began in the latest 65 minutes, by time and tenant; `load_run` leaves them out."""
    unreadable: dict[str, str] = {}
    """Runs of which something can't be read, and what: nothing but perhaps their own row is among the others."""


class KeyedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run, and the caller's key for it."""

    run: Run
    key: IdempotencyKey
    audit: AuditEntry | None = None
    """Written unless the answer is KeyReused."""


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a sweep took away."""

    what: str
    rows: int
    """Rows deleted one by one; those of days that were dropped whole are not counted."""
    days: int = 0
    more: bool = False
    """There is more to take: call again."""


class Leases(Protocol):
    """For `host/host.py` and the loop."""

    async def ensure_shard(self, shard: str) -> None:
        """Make a shard known, led by nobody. Does nothing if it is known."""
        ...

    async def shards(self) -> list[ShardRow]:
        """All shards, by id."""
        ...

    async def campaign(self, shard: str, holder: str, nonce: int, ttl: timedelta) -> Term | None:
        """Take the lead of a shard whose lease is over, by the store's clock, or was released; None if it is not over.

        Adds 1 to the epoch, records nonce and holder, appends the term to `terms`, and starts a lease of `ttl`, for
        which every commit of the term renews it. Repeated with the nonce of the current term, it returns that term
        again, as it is now. A nonce serves one term: with that of an older one it gives None.
        """
        ...

    async def commit(self, term: Term, number: int, batch: Batch) -> datetime:
        """Make batch `number` of this term true, whole or not at all; return the store's time.

        Renews the shard's lease. Raises Fenced, having written nothing, if the term (shard, epoch, nonce) is over, or
        if `number` does not follow the last written one. A batch that had been written changes nothing and answers
        like the first time. Raises Rejected, having written nothing, if the store refuses the content: a NUL or half a
        surrogate pair in a text, a number beyond 64 bits, a task whose id does not begin with its run's. Raises
        StaleWrite, having written nothing, if a task's row is not as its change says it was, a new one is there
        already, a run is not in this shard, or one to archive is not final.
        """
        ...

    async def release(self, term: Term) -> None:
        """End the term and its lease at once, so that somebody else can take over. Does nothing if the term is over."""
        ...

    async def time(self) -> datetime:
        """The store's time."""
        ...


class Memory(Protocol):
    """For loading what a shard keeps in memory."""

    async def load(self, shard: str) -> ShardRows:
        """All active work of a shard: runs that are adopted and not final, their tasks, jobs and open
        bulk operations."""
        ...

    async def load_run(self, run_id: str) -> ShardRows:
        """One run that is not in history, whatever its state, with its tasks; nothing if there is no such run.

        A run of which some tasks have moved to history is there already.
        """
        ...

    async def jobs(self, ids: Sequence[str]) -> list[JobRow]:
        """The definitions with these ids; what is unknown is left out."""
        ...

    async def find_attempts(self, ids: Sequence[str]) -> list[RecordedAttempt]:
        """What the rows say of these attempts: current ones of `tasks`, ended ones of `attempts`; others left out."""
        ...


OnWork = Callable[[str, Sequence[Run]], None]
"""Told of work in a shard: its name, and the runs themselves if they are at hand."""


class Intake(Protocol):
    """For `host/intake.py`. A run is in intake while it is not adopted, not held, and its start time has come."""

    async def waiting(self, shard: str, limit: int, after: str = "") -> list[Waiting]:
        """Who has intake, by priority and tenant, at most `limit` tenants of each priority.

        Only tenants whose name sorts behind `after`: with more tenants than `limit`, whoever asks goes round by it.
        """
        ...

    async def intake(self, shard: str, wants: Sequence[IntakeRequest]) -> list[Run]:
        """For each want at most so many runs, oldest start first, in the order of the wants."""
        ...

    async def next_start(self, shard: str) -> datetime | None:
        """When the next run that is not yet in intake will be; None if there is none."""
        ...

    def on_work(self, call: OnWork) -> None:
        """Call `call(shard, runs)` soon after runs were inserted, here or by another process; a hint that may get lost.

        `runs` are those that were inserted here just now, as a read would find them, before whoever inserted them hears
        of it. It has none of other processes and of schedules, nor any that were there already.
        """
        ...


class Submission(Protocol):
    """For whoever makes runs."""

    async def insert_job(self, job: JobRow, audit: AuditEntry | None = None) -> JobRow:
        """Keep a definition for ever. The version is given by the store: one more than the latest of that name.

        A job of the same tenant, name and definition as the latest version is that version: nothing is added. Nor is
        one whose id is there already. A name that was deleted is there again. `created_at` is the store's; the entry is
        written in any case.
        """
        ...

    async def insert_jobs(self, jobs: Sequence[tuple[JobRow, AuditEntry]]) -> list[JobRow]:
        """Keep definitions of different names, each as `insert_job` does: all of them or none."""
        ...

    async def insert_runs(
        self, runs: Sequence[Run], key: IdempotencyKey | None = None, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Make these runs, and answer with their ids when they are durable.

        With a key that was used before, answers with the ids of the first call and makes nothing; raises KeyReused if
        the body was another. A run whose id is there already is not made again. Raises JobMissing, having written
        nothing, if a job of theirs is not in the store: nobody could read what they are to do. Raises Rejected, having
        written nothing, if the store refuses the content.
        """
        ...

    async def insert_keyed(self, requests: Sequence[KeyedRun]) -> list[str | KeyReused]:
        """Make each of these runs unless its key was used before, and answer for each when all are durable.

        The answer is the run's id, or that of the first run that was made under the key, or KeyReused if that had
        another body. Of those with the same key, the first one counts as the one before. Raises JobMissing or Rejected,
        having written nothing, as `insert_runs` does.
        """
        ...

    async def run(self, run_id: str) -> Run | None:
        """One run, also from history."""
        ...

    async def tasks(self, run_id: str) -> list[Task]:
        """The tasks of one run, by position, also from history."""
        ...


class Outbox(Protocol):
    """For `host/outbox/delivery.py`."""

    async def claim_outbox(self, holder: str, limit: int, lease: timedelta) -> list[OutboxRow]:
        """Undelivered rows that are due, the oldest of each key, none of whose key is held by somebody else.

        They are the holder's for `lease`; afterwards anybody may take them again. The holder itself gets what it holds
        again, should it ask.
        """
        ...

    async def delivered(self, ids: Sequence[str]) -> None:
        """These rows have reached their receiver."""
        ...

    async def postpone(self, id: str, delay: timedelta, fault: str) -> None:
        """This row could not be delivered: try it again after `delay`. Those behind it in its key wait with it."""
        ...


class Sweeps(Protocol):
    """For `host/maintenance/sweeper.py` (OPS-7)."""

    async def ended_runs(self, shard: str, age: timedelta, limit: int) -> list[str]:
        """Final runs that ended at least so long ago, oldest first. They are moved by a batch (`Batch.archived`)."""
        ...

    async def prepare_days(self, ahead: int) -> None:
        """Make room for rows of today and the next `ahead` days, where tables are by day."""
        ...

    async def prune(self, what: str, age: timedelta) -> Pruned:
        """Take away what is older than `age` from one of PRUNABLE: whole days where the table is by day, or a chunk
        of at most 1,000 rows. Never touches what belongs to a run that is not final, nor what is undelivered."""
        ...


PRUNABLE = (
    "transitions", "attempts", "history", "idempotency", "outbox", "rejected_events", "workers", "fires", "events",
    "alerts", "schedule_changes", "audit", "webhook_deliveries", "decisions",
)  # fmt: skip


class Store(
    Leases, Memory, Intake, Submission, Lists, Liveness, Cluster, Tokens, Outbox, Sweeps, Schedules, Events, Alerts,
    DeadLetters, Audit, Tenants, SettingOverrides, Webhooks, Rules, SharedLimits, Artifacts,
    WorkerIdentities, Protocol,
):  # fmt: skip
    """All of it. One object, given to whoever needs a part."""

    async def close(self) -> None:
        """Let go of connections and files. Nothing that was promised is lost."""
        ...
