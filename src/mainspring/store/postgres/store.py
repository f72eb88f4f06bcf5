"""The store on PostgreSQL, for servers: any number of processes share it.

A shard's batches go through one connection of their own, opened when it is first needed and again after a failure;
everything else shares a few. `store/postgres/connection/connection_pool.py` says what holds for all of them:
every call
has a deadline, and raises nothing but what the port promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Batch, OutboxRow, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import RecordedAttempt, Task
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.protocol.errors import Fenced, KeyReused, StoreUnusable
from mainspring.store.migrations import migrations, outstanding
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
from mainspring.store.postgres import front, queries, submission
from mainspring.store.postgres import partitions as days
from mainspring.store.postgres.admin import PostgresAdmin
from mainspring.store.postgres.batch import write_batch
from mainspring.store.postgres.connection.connection_pool import (
    OLDEST_SERVER,
    Connection,
    Limits,
    Pool,
    open_connection,
    settings_of,
    transaction,
)
from mainspring.store.postgres.list_calls import PostgresLists
from mainspring.store.postgres.schedules import PostgresSchedules
from mainspring.store.postgres.sharing import PostgresSharing
from mainspring.store.postgres.workers import PostgresWorkers
from mainspring.store.sql.idempotency_keys import by_shard

_MIGRATION_LOCK = 0x6D61696E_6D696772
"""The advisory lock of whoever migrates ("mainmigr")."""


class PostgresStore(PostgresSchedules, PostgresLists, PostgresAdmin, PostgresSharing, PostgresWorkers, Store):
    """Remembers in a PostgreSQL database."""

    def __init__(self, url: str, *, clock: Clock, limits: Limits, connections: int) -> None:
        super().__init__(url, clock=clock, limits=limits, connections=connections)
        self._writers: dict[str, Pool] = {}

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        lease: timedelta = timedelta(seconds=5),
        connections: int = 4,
    ) -> PostgresStore:
        """Connect to the store at `url`, migrating it if needed.

        `lease` is the shortest that shards will be led with. Raises StoreUnusable if the time limits don't fit
        into it,
        or if the server or its schema can't be used.
        """
        limits = limits or Limits()
        limits.check(lease)
        store = cls(url, clock=clock or SystemClock(), limits=limits, connections=connections)
        try:
            async with store._maintenance.connection() as connection:
                await _check_server(connection, limits)
                await _migrate(connection)
        except BaseException:
            await store.close()
            raise
        return store

    async def close(self) -> None:
        """Let go of all connections."""
        await self._wakeups.close()
        for pool in [self._pool, self._by_key, self._maintenance, *self._writers.values()]:
            await pool.close()

    async def settings_report(self) -> dict[str, str]:
        """What a benchmark has to print beside its figures: the server's version, and what makes commits durable."""
        names = ["server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"]
        async with self._pool.connection() as connection:
            return dict(await settings_of(connection, names))

    # leases

    async def ensure_shard(self, shard: str) -> None:
        """Make a shard known, led by nobody."""
        await self._call(queries.ensure_shard, shard)

    async def shards(self) -> list[ShardRow]:
        """All shards, by id."""
        return await self._call(queries.shards)

    async def campaign(self, shard: str, holder: str, nonce: int, ttl: timedelta) -> Term | None:
        """Take the lead of a shard whose lease is over."""
        return await self._call(queries.campaign, shard, holder, nonce, ttl)

    async def commit(self, term: Term, number: int, batch: Batch) -> datetime:
        """Make a batch true, whole or not at all, if its term is not over."""
        try:
            async with self._writer(term.shard).connection() as connection:
                return await write_batch(connection, term, number, batch)
        except Fenced:
            await self._stop_writing(term.shard)
            raise

    async def release(self, term: Term) -> None:
        """End a lease at once."""
        await self._call(queries.release, term)
        await self._stop_writing(term.shard)

    async def time(self) -> datetime:
        """The server's time."""
        return await self._call(queries.time)

    # memory

    async def load(self, shard: str) -> ShardRows:
        """All active work of a shard. May take longer than other calls."""
        return await self._call_maintenance(queries.load, shard)

    async def load_run(self, run_id: str) -> ShardRows:
        """One run that is not in history. May take longer than other calls."""
        return await self._call_maintenance(queries.load_run, run_id)

    async def jobs(self, ids: Sequence[str]) -> list[JobRow]:
        """The definitions with these ids."""
        return await self._call(queries.jobs, ids)

    async def find_attempts(self, ids: Sequence[str]) -> list[RecordedAttempt]:
        """What the rows say of these attempts."""
        return await self._call(queries.find_attempts, ids)

    # intake

    async def waiting(self, shard: str, limit: int, after: str = "") -> list[Waiting]:
        """Who has intake, by priority."""
        return await self._call(queries.waiting, shard, limit, after)

    async def intake(self, shard: str, wants: Sequence[IntakeRequest]) -> list[Run]:
        """Runs to adopt, as many as wanted of each tenant."""
        return await self._call(queries.intake, shard, wants)

    async def next_start(self, shard: str) -> datetime | None:
        """When the next delayed run is due."""
        return await self._call(queries.next_start, shard)

    def on_work(self, call: OnWork) -> None:
        """Call `call(shard, runs)` after runs were inserted: here at once, elsewhere within a quarter of a second."""
        self._wakeups.on_work(call)

    # submission

    async def insert_job(self, job: JobRow, audit: AuditEntry | None = None) -> JobRow:
        """Keep a definition as the next version of its name."""
        return await self._call(submission.insert_job, job, audit)

    async def insert_jobs(self, jobs: Sequence[tuple[JobRow, AuditEntry]]) -> list[JobRow]:
        """Keep definitions of different names."""
        return await self._call(submission.insert_jobs, jobs)

    async def insert_runs(
        self, runs: Sequence[Run], key: IdempotencyKey | None = None, audit: Sequence[AuditEntry] = ()
    ) -> list[str]:
        """Make runs, once."""
        ids, made = await self._call_by_key(submission.insert_runs, runs, key, audit)
        self._wakeups.work(by_shard(runs, made))
        return ids

    async def insert_keyed(self, requests: Sequence[KeyedRun]) -> list[str | KeyReused]:
        """Make runs that have a key each, once."""
        ends, made = await self._call_by_key(submission.insert_keyed, requests)
        self._wakeups.work(by_shard((request.run for request in requests), made))
        return ends

    async def run(self, run_id: str) -> Run | None:
        """One run, also from history."""
        return await self._call(queries.run, run_id)

    async def tasks(self, run_id: str) -> list[Task]:
        """The tasks of one run, also from history."""
        return await self._call_maintenance(queries.tasks, run_id)

    # liveness

    async def record_heartbeats(self, shard: str, workers: Sequence[str]) -> datetime:
        """Note that workers were heard of."""
        return await self._call(front.record_heartbeats, shard, workers)

    async def silent_workers(self, shard: str, age: timedelta, limit: int, claimant_age: timedelta) -> list[WorkerRow]:
        """Workers that were not heard of for some time."""
        return await self._call(front.silent_workers, shard, age, limit, claimant_age)

    # cluster

    async def record_server_heartbeat(self, server: ServerRow) -> None:
        """Write a server's row."""
        await self._call(front.record_server_heartbeat, server)

    async def delete_server(self, name: str) -> None:
        """Take a server's row away."""
        await self._call(front.delete_server, name)

    async def servers(self, age: timedelta) -> list[ServerRow]:
        """Servers that were heard of of late."""
        return await self._call(front.servers, age)

    async def setting(self, name: str, default: str) -> str:
        """The value of a setting, which gets one if it has none."""
        return await self._call(front.setting, name, default)

    # tokens

    async def insert_token(self, token: TokenRow, audit: AuditEntry | None = None) -> None:
        """Keep a token."""
        await self._call(front.insert_token, token, audit)

    async def find_token(self, id: str) -> TokenRow | None:
        """A token by its public part."""
        return await self._call(front.find_token, id)

    async def list_tokens(self, tenant: str | None) -> list[TokenRow]:
        """All tokens of a tenant, or of everybody."""
        return await self._call(front.list_tokens, tenant)

    async def revoke_token(self, id: str, audit: AuditEntry | None = None) -> bool:
        """End a token."""
        return await self._call(front.revoke_token, id, audit)

    async def token_used(self, ids: Sequence[str]) -> None:
        """Note that tokens were used."""
        await self._call(front.token_used, ids)

    # outbox

    async def claim_outbox(self, holder: str, limit: int, lease: timedelta) -> list[OutboxRow]:
        """Take what is due to be delivered."""
        return await self._call(queries.claim_outbox, holder, limit, lease)

    async def delivered(self, ids: Sequence[str]) -> None:
        """Mark what has been delivered."""
        await self._call(queries.delivered, ids)

    async def postpone(self, id: str, delay: timedelta, fault: str) -> None:
        """Put off what could not be delivered."""
        await self._call(queries.postpone, id, delay, fault)

    # sweeps

    async def ended_runs(self, shard: str, age: timedelta, limit: int) -> list[str]:
        """Final runs that ended some time ago."""
        return await self._call(queries.ended_runs, shard, age, limit)

    async def prepare_days(self, ahead: int) -> None:
        """Make partitions for today and the days ahead."""
        await self._call_maintenance(days.prepare_days, ahead)

    async def prune(self, what: str, age: timedelta) -> Pruned:
        """Drop days that are old, and a chunk of what is in no day."""
        return await self._call_maintenance(days.prune, what, age)

    # how

    def _writer(self, shard: str) -> Pool:
        if shard not in self._writers:
            open_one = partial(open_connection, self._url, self._limits, writer=True)
            self._writers[shard] = Pool(open_one, 1, self._limits.deadline)
        return self._writers[shard]

    async def _stop_writing(self, shard: str) -> None:
        writer = self._writers.pop(shard, None)
        if writer is not None:
            await writer.close()


async def _check_server(connection: Connection, limits: Limits) -> None:
    """Raises StoreUnusable if the server is too old, or does not keep the limits that a take-over relies on
    (I-25)."""
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise StoreUnusable(f"PostgreSQL {version.major} is too old: it must be {OLDEST_SERVER} or later")
    wanted = {
        "lock_timeout": limits.lock,
        "idle_in_transaction_session_timeout": limits.idle_in_transaction,
        "statement_timeout": limits.long_deadline,
    }
    found = await settings_of(connection, list(wanted))
    for name, seconds in wanted.items():
        if int(found[name]) != round(seconds * 1000):
            raise StoreUnusable(f"{name} is {found[name]} ms, although {seconds:g} s was asked for: is there a proxy?")


async def _migrate(connection: Connection) -> None:
    async with transaction(connection):
        await connection.execute("SET LOCAL lock_timeout = 0")  # somebody else may be migrating: wait for it
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations (version bigint PRIMARY KEY, sha256 text, at timestamptz)"
        )
        done = {row["version"]: row["sha256"] for row in await connection.fetch("SELECT * FROM schema_migrations")}
        for migration in outstanding(migrations("postgres"), done):
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO schema_migrations VALUES ($1, $2, clock_timestamp())", migration.version, migration.sha256
            )
