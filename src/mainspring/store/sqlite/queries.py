"""What the SQLite adapter does inside a transaction, apart from writing batches: each function is one call of the port.

The first argument is the connection, in a transaction that the caller began; `now` is the store's time as SQLite keeps
it (microseconds since 1970).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, RecordedAttempt, Task
from mainspring.store.ports.store import IntakeRequest, ShardRow, ShardRows, Term, Waiting
from mainspring.store.sql import statements
from mainspring.store.sql.loading import Loader, unless_moving
from mainspring.store.sql.schedule_evaluation import PUT_OFF
from mainspring.store.sql.sharing_statements import KEPT_FAILURE_COUNTS
from mainspring.store.sql.unreadable_rows import UNREADABLE
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.rows import instant, refuse_nul

_MICROSECOND = timedelta(microseconds=1)
GIVEN = "IN (SELECT value FROM json_each(?1))"
"""True of what is listed, as JSON, in the first parameter."""


def sqlite(statement: str) -> str:
    """A shared statement, with its parameters as SQLite writes them."""
    return statement.replace("$", "?")


# leases


def ensure_shard(db: sqlite3.Connection, shard: str) -> None:
    """Make a shard known."""
    refuse_nul([shard])
    db.execute("INSERT INTO shards VALUES (?, '', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING", (shard,))


def shards(db: sqlite3.Connection) -> list[ShardRow]:
    """All shards."""
    return rows.SHARDS.readable_structs(db.execute(statements.SHARDS))


_TERM = sqlite(statements.TERM)
_TAKE = """
    UPDATE shards SET leader = ?2, epoch = epoch + 1, nonce = ?3, ttl = ?4, lease_until = ?5 + ?4
    WHERE id = ?1 AND lease_until <= ?5 AND NOT EXISTS (SELECT 1 FROM terms WHERE shard = ?1 AND nonce = ?3)
"""
_APPEND_TERM = """
    INSERT INTO terms (shard, epoch, nonce, batch_no, granted_at, holder)
    SELECT id, epoch, nonce, batch_no, ?2, leader FROM shards WHERE id = ?1
"""


def campaign(db: sqlite3.Connection, shard: str, holder: str, nonce: int, ttl: timedelta, now: int) -> Term | None:
    """Take the lead of a shard, if it is free."""
    refuse_nul([holder])
    if db.execute(_TAKE, (shard, holder, nonce, ttl // _MICROSECOND, now)).rowcount == 1:
        db.execute(_APPEND_TERM, (shard, now))
    found = db.execute(_TERM, (shard, nonce)).fetchone()
    return found and rows.TERMS.struct(found)


def release(db: sqlite3.Connection, term: Term, now: int) -> None:
    """End a lease. The nonce goes with it, so that the term is over for good."""
    db.execute(
        "UPDATE shards SET leader = '', nonce = 0, lease_until = ?4 WHERE id = ?1 AND epoch = ?2 AND nonce = ?3",
        (term.shard, term.epoch, term.nonce, now),
    )


# memory

_ACTIVE_RUNS = f"SELECT id FROM runs WHERE shard = ?1 AND {statements.ACTIVE}"
_LOAD_RUNS = f"SELECT {rows.RUNS.select()} FROM runs WHERE shard = ?1 AND {statements.ACTIVE} ORDER BY id"
_LOAD_TASKS = f"""
    SELECT {rows.TASKS.select("tasks")} FROM ({_ACTIVE_RUNS}) AS active CROSS JOIN tasks
    WHERE {statements.tasks_of("active.id")} ORDER BY tasks.run_id, tasks.position
"""
_LOAD_JOBS = f"""
    SELECT {rows.JOBS.select()} FROM jobs
    WHERE id IN (SELECT job_id FROM runs WHERE shard = ?1 AND {statements.ACTIVE}) ORDER BY id
"""
_LOAD_BULK_OPERATIONS = f"""
    SELECT {rows.BULK_OPERATIONS.select()} FROM bulk_operations WHERE run_id IN ({_ACTIVE_RUNS})
    ORDER BY run_id, parent, generation, kind
"""
_LOAD_CHECKPOINTS = f"""
    SELECT {rows.CHECKPOINTS.select()} FROM checkpoints WHERE run_id IN ({_ACTIVE_RUNS}) ORDER BY task_id
"""
_LOAD_WORKERS = f"SELECT {rows.WORKERS.select()} FROM workers WHERE shard = ?1 AND hold <> '' ORDER BY id"
_LOAD_BREAKERS = f"SELECT {rows.BREAKERS.select()} FROM breakers WHERE shard = ?1 ORDER BY kind, subject"
_LOAD_DURATIONS = f"""
    SELECT {rows.DURATIONS.select()} FROM durations WHERE shard = ?1
    ORDER BY updated_at DESC, tenant, job, task LIMIT {statements.MAX_DURATIONS}
"""
_LOAD_SHARES = f'SELECT {rows.SHARES.select()} FROM limit_shares WHERE holder = ?1 ORDER BY "limit"'
_LOAD_FAILURE_COUNTS = (
    f"SELECT {rows.FAILURE_COUNTS.select()} FROM failure_counts WHERE shard = ?1 AND since > ?2 ORDER BY since, tenant"
)
_LOAD = (
    _LOAD_RUNS, _LOAD_TASKS, _LOAD_JOBS, _LOAD_BULK_OPERATIONS, _LOAD_CHECKPOINTS, _LOAD_WORKERS, _LOAD_BREAKERS,
    _LOAD_DURATIONS, _LOAD_SHARES, _LOAD_FAILURE_COUNTS,
)  # fmt: skip
_RUN = f"SELECT {rows.RUNS.select()} FROM runs WHERE id = ?1"
_RUN_TASKS = f"SELECT {rows.TASKS.select()} FROM tasks WHERE {statements.tasks_of('?1')} ORDER BY position"
_RUN_JOB = f"SELECT {rows.JOBS.select()} FROM jobs WHERE id = (SELECT job_id FROM runs WHERE id = ?1)"
_RUN_BULK_OPERATIONS = (
    f"SELECT {rows.BULK_OPERATIONS.select()} FROM bulk_operations WHERE run_id = ?1 ORDER BY parent, generation, kind"
)
_RUN_CHECKPOINTS = f"SELECT {rows.CHECKPOINTS.select()} FROM checkpoints WHERE run_id = ?1 ORDER BY task_id"
_LOAD_RUN = (_RUN, _RUN_TASKS, _RUN_JOB, _RUN_BULK_OPERATIONS, _RUN_CHECKPOINTS)

_LOADER = Loader(
    rows.RUNS, rows.TASKS, rows.JOBS, rows.BULK_OPERATIONS, rows.CHECKPOINTS, rows.WORKERS, rows.BREAKERS,
    rows.DURATIONS,
    rows.SHARES, rows.FAILURE_COUNTS,
)  # fmt: skip


def load(db: sqlite3.Connection, shard: str, now: int) -> ShardRows:
    """All active work of a shard."""
    return _shard_rows(db, _LOAD, shard, now - KEPT_FAILURE_COUNTS // _MICROSECOND)


def load_run(db: sqlite3.Connection, run_id: str) -> ShardRows:
    """One run with what belongs to it."""
    return unless_moving(_shard_rows(db, _LOAD_RUN, run_id))


def _shard_rows(db: sqlite3.Connection, queries: Sequence[str], key: str, since: int = 0) -> ShardRows:
    # By name: only one of the queries has the second.
    return _LOADER.shard_rows(*(db.execute(query, {"1": key, "2": since}) for query in queries))


def jobs(db: sqlite3.Connection, ids: Sequence[str]) -> list[JobRow]:
    """Definitions by id."""
    found = db.execute(f"SELECT {rows.JOBS.select()} FROM jobs WHERE id {GIVEN} ORDER BY id", (json.dumps(ids),))
    return rows.JOBS.readable_structs(found)


_FIND_ENDED = f'SELECT id, task_id, worker_id, "end" FROM attempts WHERE id {GIVEN} ORDER BY id'
_FIND_CURRENT = f"""
    SELECT attempt_id, id, worker_id, NULL FROM tasks
    WHERE attempt_id {GIVEN} AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.id = attempt_id) ORDER BY attempt_id
"""


def find_attempts(db: sqlite3.Connection, ids: Sequence[str]) -> list[RecordedAttempt]:
    """Attempts by id, those that are over and those that are current."""
    given = (json.dumps(ids),)
    return rows.RECORDED.structs([*db.execute(_FIND_ENDED, given), *db.execute(_FIND_CURRENT, given)])


# intake

_FIRST_TENANT = f"SELECT min(runs.tenant) FROM runs WHERE shard = ?1 AND priority = ?2 AND {statements.IN_INTAKE}"
# A loose index scan: from each tenant it jumps to the next one, so that it costs as much for a tenant with a million
# runs as for one with a single run.
_WAITING = f"""
    WITH RECURSIVE tenants(tenant) AS (
        SELECT ({_FIRST_TENANT} AND runs.tenant > ?3)
        UNION ALL
        SELECT ({_FIRST_TENANT} AND runs.tenant > tenants.tenant) FROM tenants WHERE tenants.tenant IS NOT NULL
    )
    SELECT tenant FROM tenants
    WHERE tenant IS NOT NULL AND ?5 >= (
        SELECT min(start_at) FROM runs
        WHERE shard = ?1 AND priority = ?2 AND runs.tenant = tenants.tenant AND {statements.IN_INTAKE})
    LIMIT ?4
"""
_INTAKE = f"""
    SELECT {rows.RUNS.select()} FROM runs
    WHERE shard = ?1 AND priority = ?2 AND tenant = ?3 AND {statements.IN_INTAKE} AND start_at <= ?5
    ORDER BY start_at, id LIMIT ?4
"""
_NEXT_START = f"SELECT min(start_at) FROM runs WHERE shard = ?1 AND {statements.DELAYED} AND start_at > ?2"


def waiting(db: sqlite3.Connection, shard: str, limit: int, after: str, now: int) -> list[Waiting]:
    """Who has intake."""
    return [
        Waiting(priority, tenant)
        for priority in Priority
        for (tenant,) in db.execute(_WAITING, (shard, int(priority), after, limit, now))
    ]


def intake(db: sqlite3.Connection, shard: str, wants: Sequence[IntakeRequest], now: int) -> list[Run]:
    """The oldest waiting runs of some tenants."""
    return [
        run
        for want in wants
        for run in _LOADER.intake(
            db.execute(_INTAKE, (shard, int(want.priority), want.tenant, want.runs, now))
        )
    ]  # fmt: skip


def next_start(db: sqlite3.Connection, shard: str, now: int) -> datetime | None:
    """When the next delayed run is due."""
    (start_at,) = db.execute(_NEXT_START, (shard, now)).fetchone()
    return None if start_at is None else instant(start_at)


# runs

_RUN_ANYWHERE = f"{_RUN} UNION ALL SELECT {rows.RUNS.select()} FROM runs_history WHERE id = ?1"
_TASKS_ANYWHERE = f"""
    SELECT * FROM (
        SELECT {rows.TASKS.select()} FROM tasks WHERE {statements.tasks_of("?1")}
        UNION ALL SELECT {rows.TASKS.select()} FROM tasks_history WHERE run_id = ?1
    ) ORDER BY position
"""


def run(db: sqlite3.Connection, run_id: str) -> Run | None:
    """One run, also from history."""
    found = db.execute(_RUN_ANYWHERE, (run_id,)).fetchone()
    return found and rows.RUNS.struct(found)


def tasks(db: sqlite3.Connection, run_id: str) -> list[Task]:
    """The tasks of one run, also from history."""
    return rows.TASKS.structs(db.execute(_TASKS_ANYWHERE, (run_id,)))


# outbox

_TAKE_OUTGOING = f"""
    SELECT {rows.OUTBOX.select("o")} FROM outbox o
    WHERE o.delivered_at IS NULL AND o.due_at <= ?3 AND (o.held_until IS NULL OR o.held_until <= ?3 OR o.holder = ?1)
      AND NOT EXISTS (SELECT 1 FROM outbox p WHERE p.key = o.key AND p.delivered_at IS NULL AND p.seq < o.seq)
    ORDER BY o.due_at, o.seq LIMIT ?2
"""


def claim_outbox(db: sqlite3.Connection, holder: str, limit: int, lease: timedelta, now: int) -> list[OutboxRow]:
    """Take what is due, one row of each key."""
    refuse_nul([holder])
    taken, faults = rows.OUTBOX.readable(db.execute(_TAKE_OUTGOING, (holder, limit, now)).fetchall(), "id")
    UNREADABLE.log("outbox", faults)
    for row_id in faults:
        postpone(db, row_id, PUT_OFF, "it can't be read", now)
    held_until = now + lease // _MICROSECOND
    db.executemany(
        "UPDATE outbox SET holder = ?, held_until = ? WHERE id = ?", [(holder, held_until, row.id) for row in taken]
    )
    return taken


def delivered(db: sqlite3.Connection, ids: Sequence[str], now: int) -> None:
    """Mark rows that have reached their receiver."""
    db.execute(
        f"UPDATE outbox SET delivered_at = ?2, holder = NULL WHERE id {GIVEN} AND delivered_at IS NULL",
        (json.dumps(ids), now),
    )


def postpone(db: sqlite3.Connection, id: str, delay: timedelta, fault: str, now: int) -> None:
    """Give a row back for later. Those behind it can't go before it, and are put off with it."""
    refuse_nul([fault])
    due_at = now + delay // _MICROSECOND
    db.execute(
        """UPDATE outbox SET due_at = ?2, holder = NULL, held_until = NULL, tries = tries + 1, fault = ?3
           WHERE id = ?1 AND delivered_at IS NULL""",
        (id, due_at, fault),
    )
    db.execute(
        """UPDATE outbox SET due_at = ?2
           WHERE key = (SELECT key FROM outbox WHERE id = ?1) AND delivered_at IS NULL AND due_at < ?2""",
        (id, due_at),
    )


# sweeps

_ENDED_RUNS = f"""
    SELECT id FROM runs WHERE shard = ?1 AND ended_at <= ?2 AND state IN ({statements.FINAL_STATES})
    ORDER BY ended_at, id LIMIT ?3
"""


def ended_runs(db: sqlite3.Connection, shard: str, age: timedelta, limit: int, now: int) -> list[str]:
    """Final runs that ended some time ago."""
    return [run_id for (run_id,) in db.execute(_ENDED_RUNS, (shard, now - age // _MICROSECOND, limit))]
