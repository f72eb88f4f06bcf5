"""The store on SQLite: one machine, one process, one file.

One connection writes and checkpoints, on a thread of its own; another one reads, on its own thread too, and never
waits for the first (WAL). A call is one transaction, sent whole to its thread: a hop per statement would cost twenty
times as much. With `run=inline` nothing leaves the caller's thread, which is how the simulator calls it; in memory
there is one connection for everything.

1. `synchronous=FULL`: what was answered survives a loss of power.
2. Nobody else has the file open (`file.py`), and no child of a fork uses it (Broken).
3. The time is that of the clock that was given: a simulator's store has a clock of its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Batch, OutboxRow, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import RecordedAttempt, Task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import KeyReused
from mainspring.store.migrations import Migration, migrations, outstanding
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.ports.store import (
    IdempotencyKey,
    IntakeRequest,
    KeyedRun,
    OnWork,
    Pruned,
    ShardRow,
    ShardRows,
    Store,
    Term,
    Waiting,
)
from mainspring.store.sql.idempotency_keys import by_shard
from mainspring.store.sqlite import front, queries, submission
from mainspring.store.sqlite.admin import SqliteAdmin
from mainspring.store.sqlite.batch import write_batch
from mainspring.store.sqlite.calls import Lane as Lane  # noqa: PLC0414 - for whoever gives a runner
from mainspring.store.sqlite.calls import Runner, Threads, foreign_errors
from mainspring.store.sqlite.calls import inline as inline  # noqa: PLC0414 - one of them
from mainspring.store.sqlite.file import claim
from mainspring.store.sqlite.jobs import add_functions
from mainspring.store.sqlite.list_calls import SqliteLists
from mainspring.store.sqlite.pruning import prune
from mainspring.store.sqlite.rows import instant
from mainspring.store.sqlite.schedules import SqliteSchedules
from mainspring.store.sqlite.sharing import SqliteSharing
from mainspring.store.sqlite.workers import SqliteWorkers


class SqliteStore(SqliteSchedules, SqliteLists, SqliteAdmin, SqliteSharing, SqliteWorkers, Store):
    """Remembers in a file, or in memory for as long as the process lives."""

    def __init__(
        self, writer: sqlite3.Connection, reader: sqlite3.Connection, clock: Clock, run: Runner, claimed: int | None
    ) -> None:
        super().__init__(writer, reader, clock, run)
        self._claimed = claimed

    @classmethod
    def open(cls, path: Path | str, *, clock: Clock, run: Runner | None = None) -> SqliteStore:
        """Open the store at `path`, making or migrating it as needed; ":memory:" makes one that is gone when closed.

        Raises StoreInUse if another process has it, StoreUnusable if it can't be used as it is, StoreDamaged.
        """
        if str(path) == ":memory:":
            connection = _connect(":memory:")
            _migrate(connection, migrations("sqlite"))
            return cls(connection, connection, clock, run or Threads(), None)
        path = Path(path).resolve()
        claimed = claim(path)
        try:
            with foreign_errors(str(path)):
                writer = _connect(str(path))
                writer.execute("PRAGMA journal_mode = WAL")
                writer.execute("PRAGMA synchronous = FULL")
                writer.execute("PRAGMA wal_autocheckpoint = 4000")  # 16 MB: a quarter of the checkpoints
                writer.execute("PRAGMA cache_size = -65536")  # 64 MB
                _migrate(writer, migrations("sqlite"))
                reader = _connect(str(path))
                reader.execute("PRAGMA query_only = ON")
                reader.execute("PRAGMA wal_autocheckpoint = 0")
        except BaseException:
            os.close(claimed)
            raise
        return cls(writer, reader, clock, run or Threads(), claimed)

    async def close(self) -> None:
        """Close the connections, the writer last: whoever is last checkpoints. Then let go of the file."""
        if self._closed:
            return
        self._closed = True
        if self._reader is not self._writer:
            await self._run("read", self._reader.close)
        await self._run("write", self._writer.close)
        if isinstance(self._run, Threads):
            self._run.close()
        if self._claimed is not None:
            os.close(self._claimed)

    def snapshot(self) -> sqlite3.Connection:
        """A copy of all that is stored at this moment. For the simulator: in memory only."""
        copy = sqlite3.connect(":memory:")
        self._writer.backup(copy)
        return copy

    def restore(self, snapshot: sqlite3.Connection) -> None:
        """Go back to a snapshot, as if nothing had been stored since. For the simulator: in memory only.

        By SQLite's backup: after `deserialize`, SQLite 3.40 reads memory that it has given back.
        """
        assert self._reader is self._writer, "only a store in memory can be restored"
        snapshot.backup(self._writer)

    # leases

    async def ensure_shard(self, shard: str) -> None:
        """Make a shard known, led by nobody."""
        await self._write(queries.ensure_shard, shard)

    async def shards(self) -> list[ShardRow]:
        """All shards, by id."""
        return await self._read(queries.shards)

    async def campaign(self, shard: str, holder: str, nonce: int, ttl: timedelta) -> Term | None:
        """Take the lead of a shard whose lease is over."""
        return await self._write(queries.campaign, shard, holder, nonce, ttl, self._now())

    async def commit(self, term: Term, number: int, batch: Batch) -> datetime:
        """Make a batch true, whole or not at all, if its term is not over."""
        now = self._now()
        await self._write(write_batch, term, number, batch, now)
        return instant(now)

    async def release(self, term: Term) -> None:
        """End a lease at once."""
        await self._write(queries.release, term, self._now())

    async def time(self) -> datetime:
        """The time of the clock that was given."""
        self._check_usable()
        return self._clock.wall()

    # memory

    async def load(self, shard: str) -> ShardRows:
        """All active work of a shard."""
        return await self._read(queries.load, shard, self._now())

    async def load_run(self, run_id: str) -> ShardRows:
        """One run that is not in history."""
        return await self._read(queries.load_run, run_id)

    async def jobs(self, ids: Sequence[str]) -> list[JobRow]:
        """The definitions with these ids."""
        return await self._read(queries.jobs, ids)

    async def find_attempts(self, ids: Sequence[str]) -> list[RecordedAttempt]:
        """What the rows say of these attempts."""
        return await self._read(queries.find_attempts, ids)

    # intake

    async def waiting(self, shard: str, limit: int, after: str = "") -> list[Waiting]:
        """Who has intake, by priority."""
        return await self._read(queries.waiting, shard, limit, after, self._now())

    async def intake(self, shard: str, wants: Sequence[IntakeRequest]) -> list[Run]:
        """Runs to adopt, as many as wanted of each tenant."""
        return await self._read(queries.intake, shard, wants, self._now())

    async def next_start(self, shard: str) -> datetime | None:
        """When the next delayed run is due."""
        return await self._read(queries.next_start, shard, self._now())

    def on_work(self, call: OnWork) -> None:
        """Call `call(shard, runs)` after each insertion. Nobody else has the file, so nobody else makes any."""
        self._callbacks.append(call)

    # submission

    async def insert_job(self, job: JobRow, audit: AuditEntry | None = None) -> JobRow:
        """Keep a definition as the next version of its name."""
        return await self._write(submission.insert_job, job, audit, self._now())

    async def insert_jobs(self, jobs: Sequence[tuple[JobRow, AuditEntry]]) -> list[JobRow]:
        """Keep definitions of different names."""
        return await self._write(submission.insert_jobs, jobs, self._now())

    async def insert_runs(
        self, runs: Sequence[Run], key: IdempotencyKey | None = None, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Make runs, once."""
        ids, made = await self._write(submission.insert_runs, runs, key, audit, self._now())
        self._tell(by_shard(runs, made))
        return ids

    async def insert_keyed(self, requests: Sequence[KeyedRun]) -> list[str | KeyReused]:
        """Make runs that have a key each, once."""
        ends, made = await self._write(submission.insert_keyed, requests, self._now())
        self._tell(by_shard((request.run for request in requests), made))
        return ends

    async def run(self, run_id: str) -> Run | None:
        """One run, also from history."""
        return await self._read(queries.run, run_id)

    async def tasks(self, run_id: str) -> list[Task]:
        """The tasks of one run, also from history."""
        return await self._read(queries.tasks, run_id)

    # liveness

    async def record_heartbeats(self, shard: str, workers: Sequence[str]) -> datetime:
        """Note that workers were heard of."""
        return await self._write(front.record_heartbeats, shard, workers, self._now())

    async def silent_workers(self, shard: str, age: timedelta, limit: int, claimant_age: timedelta) -> list[WorkerRow]:
        """Workers that were not heard of for some time."""
        return await self._read(front.silent_workers, shard, age, limit, claimant_age, self._now())

    # cluster

    async def record_server_heartbeat(self, server: ServerRow) -> None:
        """Write a server's row."""
        await self._write(front.record_server_heartbeat, server, self._now())

    async def delete_server(self, name: str) -> None:
        """Take a server's row away."""
        await self._write(front.delete_server, name)

    async def servers(self, age: timedelta) -> list[ServerRow]:
        """Servers that were heard of of late."""
        return await self._read(front.servers, age, self._now())

    async def setting(self, name: str, default: str) -> str:
        """The value of a setting, which gets one if it has none."""
        return await self._write(front.setting, name, default)

    # tokens

    async def insert_token(self, token: TokenRow, audit: AuditEntry | None = None) -> None:
        """Keep a token."""
        await self._write(front.insert_token, token, audit, self._now())

    async def find_token(self, id: str) -> TokenRow | None:
        """A token by its public part."""
        return await self._read(front.find_token, id)

    async def list_tokens(self, tenant: str | None) -> list[TokenRow]:
        """All tokens of a tenant, or of everybody."""
        return await self._read(front.list_tokens, tenant)

    async def revoke_token(self, id: str, audit: AuditEntry | None = None) -> bool:
        """End a token."""
        return await self._write(front.revoke_token, id, audit, self._now())

    async def token_used(self, ids: Sequence[str]) -> None:
        """Note that tokens were used."""
        await self._write(front.token_used, ids, self._now())

    # outbox

    async def claim_outbox(self, holder: str, limit: int, lease: timedelta) -> list[OutboxRow]:
        """Take what is due to be delivered."""
        return await self._write(queries.claim_outbox, holder, limit, lease, self._now())

    async def delivered(self, ids: Sequence[str]) -> None:
        """Mark what has been delivered."""
        await self._write(queries.delivered, ids, self._now())

    async def postpone(self, id: str, delay: timedelta, fault: str) -> None:
        """Put off what could not be delivered."""
        await self._write(queries.postpone, id, delay, fault, self._now())

    # sweeps

    async def ended_runs(self, shard: str, age: timedelta, limit: int) -> list[str]:
        """Final runs that ended some time ago."""
        return await self._read(queries.ended_runs, shard, age, limit, self._now())

    async def prepare_days(self, ahead: int) -> None:
        """Nothing: on SQLite no table is by day."""

    async def prune(self, what: str, age: timedelta) -> Pruned:
        """Take away a chunk of what is old."""
        return await self._write(prune, what, age, self._now())


def _connect(database: str) -> sqlite3.Connection:
    # Lanes keep calls apart, so the connection need not be tied to the thread that made it.
    db = sqlite3.connect(database, isolation_level=None, check_same_thread=False, cached_statements=256)
    add_functions(db)
    return db


def _migrate(db: sqlite3.Connection, known: Sequence[Migration]) -> None:
    db.execute("CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER PRIMARY KEY, sha256 TEXT, at TEXT)")
    done = dict(db.execute("SELECT version, sha256 FROM schema_migrations").fetchall())
    for migration in outstanding(known, done):
        entry = f"INSERT INTO schema_migrations VALUES ({migration.version}, '{migration.sha256}', datetime('now'));"
        try:
            db.executescript(f"BEGIN IMMEDIATE;\n{migration.sql}\n{entry}\nCOMMIT;")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
