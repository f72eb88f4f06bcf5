"""The part of the store's port that faces outwards: lists for the API, tokens, servers, and what was heard of workers.

The promises at the top of `store/ports/store.py` hold here too. Nothing in this part is the shard's business: it reads
what commits have written, or keeps what no shard decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import BreakerRow, Checkpoint, DurationRow, WorkerRow
from mainspring.core.model.decisions import Decision, DecisionKind
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Attempt, Priority, Task, TaskState, Transition


class TokenRow(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is kept: never the token itself. The fields are the columns of `tokens`, in the same order."""

    id: str
    """The public part of the token, by which it is looked up."""
    hash: str
    """SHA-256 of the whole token, in hexadecimal."""
    tenant: str
    """Whose work it may see; `*` for everybody's."""
    roles: tuple[str, ...]
    name: str
    """What it is for, for people."""
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class ServerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server that takes part: its name is the `leader` of the shards that it leads."""

    name: str
    address: str
    """Where other servers and workers reach it, such as `http://10.0.0.5:8484`."""
    version: str
    started_at: datetime
    last_heartbeat_at: datetime
    """Written again every few seconds."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are wanted, also of those in history; what is not said does not matter."""

    tenant: str | None = None
    job: str | None = None
    """A job's name, of any version; `*` in it stands for any text."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that the job must have, all of them, by name and value; `*` in a value stands for any text."""
    states: tuple[RunState, ...] = ()
    priority: Priority | None = None
    schedule_id: str | None = None
    created_since: datetime | None = None
    created_before: datetime | None = None
    before: str | None = None
    """Only those behind this id in the list."""
    with_history: bool = True
    """Also those that have moved to history."""


class TaskFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks are wanted, over all runs that are not in history."""

    tenant: str | None = None
    run_id: str | None = None
    states: tuple[TaskState, ...] = ()
    worker: str | None = None
    name: str | None = None
    """`*` in it stands for any text."""
    priority: Priority | None = None
    since_before: datetime | None = None
    """Only those that have been in their state since before then."""
    after: str = ""
    """Only those whose id sorts behind this one."""


class DecisionFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which decisions are wanted; what is not said does not matter."""

    tenant: str | None = None
    """Of whose tasks."""
    task_id: str | None = None
    run_id: str | None = None
    worker: str | None = None
    kind: DecisionKind | None = None
    since: datetime | None = None
    before: datetime | None = None


class JobDay(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the runs of a job that ended on one day, in UTC (OBS-5)."""

    day: datetime
    """Its beginning."""
    states: dict[str, int]
    """How many ended in which state."""
    durations: dict[int, int]
    """How many took about so long, from the first start to the end: `core/lifecycle/duration_histogram.py`."""
    lateness: dict[int, int]
    """How many started about so long after they were due, in the same way."""
    retries: int
    """How often a task of them was tried again."""


class ListedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with its job's name and version."""

    run: Run
    job_name: str
    job_version: int
    in_history: bool = False
    """It has moved to history."""


class TransitionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A transition and its place in the story of its shard."""

    shard: str
    batch_no: int
    ordinal: int
    transition: Transition


class Lists(Protocol):
    """For the API: reading only, and never the shard's business."""

    async def list_runs(self, wanted: RunFilter, limit: int) -> list[ListedRun]:
        """Runs by id, the newest first: ids begin with the time (`protocol/ids.py`)."""
        ...

    async def count_runs(self, wanted: RunFilter, most: int) -> int:
        """How many `list_runs` would list without a limit; no more than `most` are counted. `before` is ignored."""
        ...

    async def find_run(self, run_id: str) -> ListedRun | None:
        """One run with its job's name, also from history."""
        ...

    async def list_tasks(self, wanted: TaskFilter, limit: int) -> list[Task]:
        """Tasks by id, without those of runs in history."""
        ...

    async def count_tasks(self, wanted: TaskFilter, most: int) -> int:
        """How many `list_tasks` would list without a limit; no more than `most` are counted. `after` is ignored."""
        ...

    async def task_states(self, run_id: str, tasks: int) -> dict[str, dict[str, int]]:
        """For each name of a run's tasks, how many are in which state, also of a run in history.

        Tasks that were replaced are not counted. `tasks` is how many the run has: history is looked through only if
        fewer are found outside of it.
        """
        ...

    async def find_task(self, task_id: str) -> Task | None:
        """One task, also from history."""
        ...

    async def attempts_of(self, task_id: str) -> list[Attempt]:
        """The attempts of a task that are over, oldest first, as far as they are kept; at most 1,000, the latest."""
        ...

    async def transitions_of(self, task_id: str) -> list[Transition]:
        """The story of a task, in order, as far as it is kept; at most 1,000 transitions, the latest ones."""
        ...

    async def transitions_after(self, shard: str, batch_no: int, ordinal: int, limit: int) -> list[TransitionRecord]:
        """What happened in a shard after this place of its story, in order: the live stream (OBS-4)."""
        ...

    async def list_decisions(
        self, wanted: DecisionFilter, before: tuple[datetime, str] | None, limit: int
    ) -> list[Decision]:
        """Decisions by time and id, the latest first, those behind `before`; as far as they are kept."""
        ...

    async def list_jobs(self, tenant: str | None, after: str, limit: int) -> list[JobRow]:
        """The latest version of each job, by tenant and name; `after` is `tenant/name` of the last one before.

        Those that are deleted are left out.
        """
        ...

    async def find_job(self, tenant: str, name: str, version: int | None = None) -> JobRow | None:
        """A version of a job, the latest if none is named; also of a name that is deleted."""
        ...

    async def latest_jobs(self, tenant: str, names: Sequence[str]) -> list[JobRow]:
        """The latest version of each job that has one of these names, at most 1,000; also of names that are deleted."""
        ...

    async def job_versions(self, tenant: str, name: str, before: int | None, limit: int) -> list[JobRow]:
        """The versions of a job, the latest first, those below `before` if it is given."""
        ...

    async def delete_job(self, tenant: str, name: str, audit: AuditEntry) -> bool:
        """Delete all versions of a job, softly: lists leave it out, and runs go on. False if there is none.

        Raises Conflict, having written nothing, if a schedule that is not deleted is for this job; it is named.
        """
        ...

    async def job_days(self, tenant: str, job: str, since: datetime, before: datetime) -> list[JobDay]:
        """What became of a job's runs that ended in this time, also of those in history, by day."""
        ...

    async def list_workers(self, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
        """Workers by id, those that are gone or lost included as long as they are kept."""
        ...

    async def checkpoint(self, task_id: str) -> Checkpoint | None:
        """The latest checkpoint of a task, as long as its run is not in history."""
        ...

    async def durations(self, tenant: str, job: str) -> list[DurationRow]:
        """How long the tasks of a job usually take, by name; that of the whole run, without a name, comes first."""
        ...

    async def breakers(self) -> list[BreakerRow]:
        """The circuits that are open, by shard, kind and subject; at most 1,000."""
        ...


class Liveness(Protocol):
    """The second watch over workers: what servers heard, beside the shard's own memory (LIV-1)."""

    async def record_heartbeats(self, shard: str, workers: Sequence[str]) -> datetime:
        """Note for these workers of the shard that they were heard of now, by the store's clock; returns that time.

        One that a batch is just writing may be left out: the batch says when it was heard of.
        """
        ...

    async def silent_workers(self, shard: str, age: timedelta, limit: int, claimant_age: timedelta) -> list[WorkerRow]:
        """Workers that are neither lost nor gone, and were last heard of at least `age` ago, longest ago first.

        Of those that claim their work (`core/model/worker.py`), which may be silent for longer: at least `claimant_age`
        ago.
        """
        ...


class Cluster(Protocol):
    """For servers that share a store."""

    async def record_server_heartbeat(self, server: ServerRow) -> None:
        """Write this server's row, with the store's time in `last_heartbeat_at`."""
        ...

    async def delete_server(self, name: str) -> None:
        """Take a server's row away: it ends."""
        ...

    async def servers(self, age: timedelta) -> list[ServerRow]:
        """Servers that were heard of within `age`, by name; at most 1,000."""
        ...

    async def setting(self, name: str, default: str) -> str:
        """The value of a setting; if it has none, it gets this one, and keeps what the first caller said."""
        ...


class Tokens(Protocol):
    """For who may do what (SEC-2)."""

    async def insert_token(self, token: TokenRow, audit: AuditEntry | None = None) -> None:
        """Keep a token; the same one again changes nothing. Raises Conflict if the id is another token's."""
        ...

    async def find_token(self, id: str) -> TokenRow | None:
        """A token by its public part, whether or not it is still good."""
        ...

    async def list_tokens(self, tenant: str | None) -> list[TokenRow]:
        """All tokens of a tenant, or of everybody, by creation; at most 1,000."""
        ...

    async def revoke_token(self, id: str, audit: AuditEntry | None = None) -> bool:
        """End a token now; False if there is none, or it had been ended. The entry is written if there is one."""
        ...

    async def token_used(self, ids: Sequence[str]) -> None:
        """Note that these tokens were used about now."""
        ...
