"""What the PostgreSQL adapter does on a connection, apart from writing batches: each function is one call of the port.

A function of one statement is a transaction by itself; one of several begins and ends its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, RecordedAttempt, Task
from mainspring.store.ports.store import IntakeRequest, ShardRow, ShardRows, Term, Waiting
from mainspring.store.postgres import rows
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.sql import statements
from mainspring.store.sql.loading import Loader, unless_moving
from mainspring.store.sql.schedule_evaluation import PUT_OFF
from mainspring.store.sql.sharing_statements import KEPT_FAILURE_COUNTS
from mainspring.store.sql.unreadable_rows import UNREADABLE

NOW = "statement_timestamp()"
"""The store's time, where the planner must be able to look it up in an index."""

SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction in which several statements see the same moment."""


def interval(length: timedelta) -> str:
    """A length of time, as SQL."""
    return f"interval '{length.total_seconds():f} seconds'"


# leases

_TAKE = """
    WITH taken AS (
        UPDATE shards SET leader = $2, epoch = epoch + 1, nonce = $3, ttl = $4, lease_until = clock_timestamp() + $4
        WHERE id = $1 AND lease_until <= clock_timestamp() AND nonce <> $3
          AND NOT EXISTS (SELECT 1 FROM terms WHERE shard = $1 AND nonce = $3)
        RETURNING id, epoch, nonce, batch_no, leader
    )
    INSERT INTO terms (shard, epoch, nonce, batch_no, granted_at, holder)
    SELECT id, epoch, nonce, batch_no, clock_timestamp(), leader FROM taken
    RETURNING shard, epoch, nonce, batch_no, granted_at
"""


async def ensure_shard(connection: Connection, shard: str) -> None:
    """Make a shard known."""
    await connection.execute(
        """INSERT INTO shards (id, leader, epoch, lease_until, batch_no, nonce, ttl)
           VALUES ($1, '', 0, 'epoch', 0, 0, '0') ON CONFLICT (id) DO NOTHING""",
        shard,
    )


async def shards(connection: Connection) -> list[ShardRow]:
    """All shards."""
    return rows.SHARDS.readable_structs(await connection.fetch(statements.SHARDS))


async def campaign(connection: Connection, shard: str, holder: str, nonce: int, ttl: timedelta) -> Term | None:
    """Take the lead of a shard, if it is free. One statement decides, so that two takers can't both be told yes."""
    taken = await connection.fetchrow(_TAKE, shard, holder, nonce, ttl)
    found = taken or await connection.fetchrow(statements.TERM, shard, nonce)
    return rows.TERMS.struct(found) if found else None


async def release(connection: Connection, term: Term) -> None:
    """End a lease. The nonce goes with it, so that the term is over for good."""
    await connection.execute(
        """UPDATE shards SET leader = '', nonce = 0, lease_until = clock_timestamp()
           WHERE id = $1 AND epoch = $2 AND nonce = $3""",
        term.shard, term.epoch, term.nonce,
    )  # fmt: skip


async def time(connection: Connection) -> datetime:
    """The server's time."""
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return now


# memory

_ACTIVE_RUNS = f"SELECT id FROM runs WHERE shard = $1 AND {statements.ACTIVE}"
_LOAD = (
    f"SELECT {rows.RUNS.select()} FROM runs WHERE shard = $1 AND {statements.ACTIVE} ORDER BY id",
    # OFFSET 0 keeps the planner from joining with all tasks that are over: a look-up per run costs 15 µs.
    f"""SELECT {rows.TASKS.select("found")} FROM ({_ACTIVE_RUNS}) AS active
        CROSS JOIN LATERAL (SELECT * FROM tasks WHERE {statements.tasks_of("active.id")} OFFSET 0) AS found
        ORDER BY found.run_id, found.position""",
    f"""SELECT {rows.JOBS.select()} FROM jobs
        WHERE id IN (SELECT job_id FROM runs WHERE shard = $1 AND {statements.ACTIVE}) ORDER BY id""",
    f"""SELECT {rows.BULK_OPERATIONS.select()} FROM bulk_operations WHERE run_id IN ({_ACTIVE_RUNS})
        ORDER BY run_id, parent, generation, kind""",
    f"SELECT {rows.CHECKPOINTS.select()} FROM checkpoints WHERE run_id IN ({_ACTIVE_RUNS}) ORDER BY task_id",
    f"SELECT {rows.WORKERS.select()} FROM workers WHERE shard = $1 AND hold <> '' ORDER BY id",
    f"SELECT {rows.BREAKERS.select()} FROM breakers WHERE shard = $1 ORDER BY kind, subject",
    f"""SELECT {rows.DURATIONS.select()} FROM durations WHERE shard = $1
        ORDER BY updated_at DESC, tenant, job, task LIMIT {statements.MAX_DURATIONS}""",
    f'SELECT {rows.SHARES.select()} FROM limit_shares WHERE holder = $1 ORDER BY "limit"',
    f"""SELECT {rows.FAILURE_COUNTS.select()} FROM failure_counts
        WHERE shard = $1 AND since > {NOW} - {interval(KEPT_FAILURE_COUNTS)} ORDER BY since, tenant""",
)
_LOAD_RUN = (
    f"SELECT {rows.RUNS.select()} FROM runs WHERE id = $1",
    f"SELECT {rows.TASKS.select()} FROM tasks WHERE {statements.tasks_of('$1')} ORDER BY position",
    f"SELECT {rows.JOBS.select()} FROM jobs WHERE id = (SELECT job_id FROM runs WHERE id = $1)",
    f"SELECT {rows.BULK_OPERATIONS.select()} FROM bulk_operations WHERE run_id = $1 ORDER BY parent, generation, kind",
    f"SELECT {rows.CHECKPOINTS.select()} FROM checkpoints WHERE run_id = $1 ORDER BY task_id",
)


_LOADER = Loader(
    rows.RUNS, rows.TASKS, rows.JOBS, rows.BULK_OPERATIONS, rows.CHECKPOINTS, rows.WORKERS, rows.BREAKERS,
    rows.DURATIONS,
    rows.SHARES, rows.FAILURE_COUNTS,
)  # fmt: skip


async def load(connection: Connection, shard: str) -> ShardRows:
    """All active work of a shard."""
    return await _shard_rows(connection, shard, _LOAD)


async def load_run(connection: Connection, run_id: str) -> ShardRows:
    """One run with what belongs to it."""
    return unless_moving(await _shard_rows(connection, run_id, _LOAD_RUN))


async def _shard_rows(connection: Connection, key: str, queries: tuple[str, ...]) -> ShardRows:
    async with transaction(connection, SNAPSHOT):
        found = [await connection.fetch(query, key) for query in queries]
    return _LOADER.shard_rows(*found)


async def jobs(connection: Connection, ids: Sequence[str]) -> list[JobRow]:
    """Definitions by id."""
    query = f"SELECT {rows.JOBS.select()} FROM jobs WHERE id = ANY($1::text[]) ORDER BY id"
    return rows.JOBS.readable_structs(await connection.fetch(query, ids))


_FIND_ATTEMPTS = """
    WITH ended AS MATERIALIZED (SELECT id, task_id, worker_id, "end" FROM attempts WHERE id = ANY($1::text[]))
    SELECT id, task_id, worker_id, "end" FROM ended
    UNION ALL
    SELECT attempt_id, id, worker_id, NULL FROM tasks
    WHERE attempt_id = ANY($1::text[]) AND attempt_id NOT IN (SELECT id FROM ended)
"""


async def find_attempts(connection: Connection, ids: Sequence[str]) -> list[RecordedAttempt]:
    """Attempts by id, those that are over and those that are current."""
    return rows.RECORDED.structs(await connection.fetch(_FIND_ATTEMPTS, ids))


# intake

_FIRST_OF_NEXT = f"""
    SELECT runs.tenant, runs.start_at FROM runs
    WHERE shard = $1 AND runs.priority = p.priority AND {statements.IN_INTAKE} AND runs.tenant > {{after}}
    ORDER BY runs.tenant, runs.start_at LIMIT 1
"""
# A loose index scan: from each tenant it jumps to the first run of the next one, so that it costs as much for a tenant
# with a million runs as for one with a single run. 1,000 tenants take 9 ms, and 16 in two steps each, as in SQLite.
_WAITING = f"""
    SELECT p.priority, found.tenant FROM unnest($2::bigint[]) AS p (priority)
    CROSS JOIN LATERAL (
        WITH RECURSIVE tenants(tenant, start_at) AS (
            ({_FIRST_OF_NEXT.format(after="$3")})
            UNION ALL
            SELECT following.* FROM tenants
            CROSS JOIN LATERAL ({_FIRST_OF_NEXT.format(after="tenants.tenant")}) AS following
        )
        SELECT tenant FROM tenants WHERE start_at <= {NOW} LIMIT $4
    ) AS found
    ORDER BY p.priority, found.tenant COLLATE "C"
"""
_INTAKE = f"""
    SELECT {rows.RUNS.select("found")}
    FROM unnest($2::bigint[], $3::text[], $4::bigint[]) WITH ORDINALITY AS want (priority, tenant, runs, location)
    CROSS JOIN LATERAL (
        SELECT * FROM runs
        WHERE shard = $1 AND priority = want.priority AND tenant = want.tenant AND {statements.IN_INTAKE}
          AND start_at <= {NOW}
        ORDER BY start_at, id LIMIT want.runs
    ) AS found
    ORDER BY want.location, found.start_at, found.id
"""
_NEXT_START = f"SELECT min(start_at) FROM runs WHERE shard = $1 AND {statements.DELAYED} AND start_at > {NOW}"


async def waiting(connection: Connection, shard: str, limit: int, after: str) -> list[Waiting]:
    """Who has intake."""
    found = await connection.fetch(_WAITING, shard, list(Priority), after, limit)
    return [Waiting(Priority(priority), tenant) for priority, tenant in found]


async def intake(connection: Connection, shard: str, wants: Sequence[IntakeRequest]) -> list[Run]:
    """The oldest waiting runs of some tenants."""
    priorities = [want.priority for want in wants]
    tenants = [want.tenant for want in wants]
    numbers = [want.runs for want in wants]
    return _LOADER.intake(await connection.fetch(_INTAKE, shard, priorities, tenants, numbers))


async def next_start(connection: Connection, shard: str) -> datetime | None:
    """When the next delayed run is due."""
    start_at: datetime | None = await connection.fetchval(_NEXT_START, shard)
    return start_at


# runs

_RUN_IN_HISTORY = f"SELECT {rows.RUNS.select()} FROM runs_history WHERE id = $1"
_TASKS_IN_HISTORY = f"SELECT {rows.TASKS.select()} FROM tasks_history WHERE run_id = $1 ORDER BY position"


async def run(connection: Connection, run_id: str) -> Run | None:
    """One run, also from history."""
    found = await connection.fetchrow(_LOAD_RUN[0], run_id) or await connection.fetchrow(_RUN_IN_HISTORY, run_id)
    return rows.RUNS.struct(found) if found else None


async def tasks(connection: Connection, run_id: str) -> list[Task]:
    """The tasks of one run, also from history."""
    async with transaction(connection, SNAPSHOT):
        found = [*await connection.fetch(_TASKS_IN_HISTORY, run_id), *await connection.fetch(_LOAD_RUN[1], run_id)]
    return sorted(rows.TASKS.structs(found), key=lambda task: task.position)


# outbox

_TAKE_OUTGOING = f"""
    WITH due AS (
        SELECT seq FROM outbox o
        WHERE delivered_at IS NULL AND due_at <= {NOW} AND (held_until IS NULL OR held_until <= {NOW} OR holder = $1)
          AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.key = o.key AND p.delivered_at IS NULL AND p.seq < o.seq)
        ORDER BY due_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED
    ), taken AS (
        UPDATE outbox SET holder = $1, held_until = clock_timestamp() + $3 FROM due WHERE outbox.seq = due.seq
        RETURNING outbox.*
    )
    SELECT {rows.OUTBOX.select()} FROM taken ORDER BY due_at, seq
"""
_POSTPONE = """
    WITH late AS (
        UPDATE outbox
        SET due_at = clock_timestamp() + $2, holder = NULL, held_until = NULL, tries = tries + 1, fault = $3
        WHERE id = $1 AND delivered_at IS NULL RETURNING seq, key, due_at
    )
    UPDATE outbox SET due_at = late.due_at FROM late
    WHERE outbox.key = late.key AND outbox.seq <> late.seq AND outbox.delivered_at IS NULL
      AND outbox.due_at < late.due_at
"""


async def claim_outbox(connection: Connection, holder: str, limit: int, lease: timedelta) -> list[OutboxRow]:
    """Take what is due, one row of each key."""
    taken, faults = rows.OUTBOX.readable(await connection.fetch(_TAKE_OUTGOING, holder, limit, lease), "id")
    UNREADABLE.log("outbox", faults)
    for row_id in faults:
        await postpone(connection, row_id, PUT_OFF, "it can't be read")
    return taken


async def delivered(connection: Connection, ids: Sequence[str]) -> None:
    """Mark rows that have reached their receiver."""
    await connection.execute(
        """UPDATE outbox SET delivered_at = clock_timestamp(), holder = NULL
           WHERE id = ANY($1::text[]) AND delivered_at IS NULL""",
        ids,
    )


async def postpone(connection: Connection, id: str, delay: timedelta, fault: str) -> None:
    """Give a row back for later. Those behind it can't go before it, and are put off with it."""
    await connection.execute(_POSTPONE, id, delay, fault)


# sweeps

_ENDED_RUNS = f"""
    SELECT id FROM runs WHERE shard = $1 AND ended_at <= {NOW} - $2::interval AND state IN ({statements.FINAL_STATES})
    ORDER BY ended_at, id LIMIT $3
"""


async def ended_runs(connection: Connection, shard: str, age: timedelta, limit: int) -> list[str]:
    """Final runs that ended some time ago."""
    return [row["id"] for row in await connection.fetch(_ENDED_RUNS, shard, age, limit)]
