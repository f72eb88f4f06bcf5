"""Writing one batch to SQLite, inside a transaction that the caller begins and ends."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import timedelta

from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.batch import Batch, BreakerRow, BulkOperation, OutboxRow, TaskChange
from mainspring.core.model.run import RUN_COLUMNS_OF_THE_SHARD, Run
from mainspring.protocol.errors import Fenced, StaleWrite
from mainspring.store.ports.store import Term
from mainspring.store.sql.sharing_statements import KEPT_FAILURE_COUNTS
from mainspring.store.sql.statements import ARCHIVED_TASKS_AT_ONCE, FINAL_STATES, tasks_of
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.rows import insert_into

_MICROSECOND = timedelta(microseconds=1)


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}" = ?' for name in names)


_FENCE = """
    UPDATE shards SET lease_until = ?5 + ttl, batch_no = ?4
    WHERE id = ?1 AND epoch = ?2 AND nonce = ?3 AND batch_no = ?4 - 1
"""
_POSITION = "SELECT batch_no FROM shards WHERE id = ? AND epoch = ? AND nonce = ?"

_NEW_TASKS = insert_into("tasks", rows.TASKS)
_ATTEMPTS = insert_into("attempts", rows.ATTEMPTS)
_LATE = insert_into("late_results", rows.LATE)
_TRANSITIONS = insert_into("transitions", rows.TRANSITIONS, ("shard", "batch_no", "ordinal"))
_BULK_OPERATIONS = insert_into(
    "bulk_operations",
    rows.BULK_OPERATIONS,
    ending="ON CONFLICT DO UPDATE SET total = excluded.total, done = excluded.done",
)
_DELETE_BULK_OPERATIONS = "DELETE FROM bulk_operations WHERE run_id = ? AND parent = ? AND generation = ? AND kind = ?"
_OUTBOX = insert_into("outbox", rows.OUTBOX, ("due_at",), ending="ON CONFLICT (id) DO NOTHING")
_REJECTED = insert_into("rejected_events", rows.REJECTED, ending="ON CONFLICT (id) DO NOTHING")
_WORKERS = insert_into(
    "workers",
    rows.WORKERS,
    ending="ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in rows.WORKERS.after("id")),
)
_CHECKPOINTS = insert_into(
    "checkpoints",
    rows.CHECKPOINTS,
    ending="ON CONFLICT (task_id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in rows.CHECKPOINTS.after("task_id")),
)
_BREAKERS = insert_into(
    "breakers",
    rows.BREAKERS,
    ending="ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in rows.BREAKERS.after("subject")),
)
_BREAKERS_CLOSED = "DELETE FROM breakers WHERE shard = ? AND kind = ? AND subject = ?"
_DURATIONS = insert_into(
    "durations",
    rows.DURATIONS,
    ending="ON CONFLICT DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in rows.DURATIONS.after("task")),
)

_SHARES = 'UPDATE limit_shares SET granted = min(granted, ?), needed = ? WHERE "limit" = ? AND holder = ?'
_SHARES_GIVEN_BACK = 'DELETE FROM limit_shares WHERE "limit" = ? AND holder = ? AND granted = 0 AND needed = 0'
_FAILURE_COUNTS = insert_into(
    "failure_counts", rows.FAILURE_COUNTS, ending="ON CONFLICT DO UPDATE SET failures = excluded.failures"
)
_OLD_FAILURE_COUNTS = "DELETE FROM failure_counts WHERE shard = ? AND since < ?"
_DECISIONS = insert_into("decisions", rows.DECISIONS, ending="ON CONFLICT (id) DO NOTHING")
_ARTIFACTS = insert_into("artifacts", rows.ARTIFACTS, ending="ON CONFLICT DO NOTHING")

_RUN_PLACES = [rows.RUNS.names.index(name) for name in RUN_COLUMNS_OF_THE_SHARD]
_RUNS = f"UPDATE runs SET {_assignments(RUN_COLUMNS_OF_THE_SHARD)} WHERE id = ? AND shard = ?"
_TASK_FIRST = rows.TASKS.names.index("priority")
_TASKS = f"""
    UPDATE tasks SET {_assignments(rows.TASKS.names[_TASK_FIRST:])} WHERE id = ? AND state = ? AND seq = ? AND shard = ?
"""

_GIVEN_IDS = "(SELECT value FROM json_each(?1))"
_COUNT_UNFINISHED = f"""
    SELECT count(*) FROM runs
    WHERE id IN {_GIVEN_IDS} AND (shard <> ?2 OR state NOT IN ({FINAL_STATES}) OR ended_at IS NULL)
"""
_SOME_TASKS = f"""
    SELECT tasks.id FROM runs r CROSS JOIN tasks WHERE r.id IN {_GIVEN_IDS} AND {tasks_of("r.id")}
    LIMIT {ARCHIVED_TASKS_AT_ONCE}
"""
_KEEP_TASKS = f"""
    INSERT INTO tasks_history ({rows.TASKS.select()}, run_ended_at)
    SELECT {rows.TASKS.select("tasks")}, r.ended_at FROM tasks CROSS JOIN runs r
    WHERE tasks.id IN {_GIVEN_IDS} AND r.id = tasks.run_id
"""
_DROP_TASKS = f"DELETE FROM tasks WHERE id IN {_GIVEN_IDS}"
_DROP_CHECKPOINTS = f"DELETE FROM checkpoints WHERE run_id IN {_GIVEN_IDS}"
_WITHOUT_TASKS = f"id IN {_GIVEN_IDS} AND NOT EXISTS (SELECT 1 FROM tasks WHERE {tasks_of('runs.id')})"
_KEEP_RUNS = f"""
    INSERT INTO runs_history ({rows.RUNS.select()}) SELECT {rows.RUNS.select()} FROM runs WHERE {_WITHOUT_TASKS}
"""
_DROP_RUNS = f"DELETE FROM runs WHERE {_WITHOUT_TASKS}"


def write_batch(db: sqlite3.Connection, term: Term, number: int, batch: Batch, now: int) -> None:
    """Write a batch behind its fence. What was written before is not written again.

    Raises Fenced or StaleWrite; the caller then undoes the transaction.
    """
    fence = db.execute(_FENCE, (term.shard, term.epoch, term.nonce, number, now))
    if fence.rowcount != 1:
        position = db.execute(_POSITION, (term.shard, term.epoch, term.nonce)).fetchone()
        if position != (number,):
            raise Fenced(f"term {term.epoch} of shard {term.shard} has ended, or batch {number} does not follow")
        return
    _write_states(db, term.shard, batch)
    _write_records(db, term.shard, number, batch)
    if batch.shares:
        _lower_shares(db, term.shard, batch.shares)
    if batch.failure_counts:
        db.executemany(_FAILURE_COUNTS, rows.FAILURE_COUNTS.rows(batch.failure_counts))
        db.execute(_OLD_FAILURE_COUNTS, (term.shard, now - KEPT_FAILURE_COUNTS // _MICROSECOND))
    write_audit(db, now, *batch.audit)
    if batch.archived:
        _archive(db, term.shard, batch.archived)


def _write_states(db: sqlite3.Connection, shard: str, batch: Batch) -> None:
    if batch.runs:
        _update_runs(db, shard, batch.runs)
    if batch.new_tasks:
        db.executemany(_NEW_TASKS, rows.TASKS.rows(batch.new_tasks))
    if batch.tasks:
        _change_tasks(db, shard, batch.tasks)
    if batch.bulk_operations:
        _write_bulk_operations(db, batch.bulk_operations)


def _write_records(db: sqlite3.Connection, shard: str, number: int, batch: Batch) -> None:
    if batch.transitions:
        columns = rows.TRANSITIONS.columns(batch.transitions)
        many = len(batch.transitions)
        keys = [[shard] * many, [number] * many, range(many)]
        db.executemany(_TRANSITIONS, zip(*columns, *keys, strict=True))
    if batch.attempts:
        db.executemany(_ATTEMPTS, rows.ATTEMPTS.rows(batch.attempts))
    if batch.late:
        db.executemany(_LATE, rows.LATE.rows(batch.late))
    if batch.outbox:
        write_outbox(db, batch.outbox)
    if batch.rejected:
        db.executemany(_REJECTED, rows.REJECTED.rows(batch.rejected))
    if batch.workers:
        db.executemany(_WORKERS, rows.WORKERS.rows(batch.workers))
    if batch.checkpoints:
        db.executemany(_CHECKPOINTS, rows.CHECKPOINTS.rows(batch.checkpoints))
    if batch.breakers:
        _write_breakers(db, batch.breakers)
    if batch.durations:
        db.executemany(_DURATIONS, rows.DURATIONS.rows(batch.durations))
    if batch.decisions:
        db.executemany(_DECISIONS, rows.DECISIONS.rows(batch.decisions))
    if batch.artifacts:
        db.executemany(_ARTIFACTS, rows.ARTIFACTS.rows(batch.artifacts))


def _update_runs(db: sqlite3.Connection, shard: str, runs: Sequence[Run]) -> None:
    columns = rows.RUNS.columns(runs)
    values = zip(*(columns[place] for place in _RUN_PLACES), columns[0], [shard] * len(runs), strict=True)
    _expect(db.executemany(_RUNS, values), len(runs), "a run that is not in this shard")


def _change_tasks(db: sqlite3.Connection, shard: str, changes: Sequence[TaskChange]) -> None:
    columns = rows.TASKS.columns([change.task for change in changes])
    states = [change.was._value_ for change in changes]
    seqs = [change.was_seq for change in changes]
    values = zip(*columns[_TASK_FIRST:], columns[0], states, seqs, [shard] * len(changes), strict=True)
    _expect(db.executemany(_TASKS, values), len(changes), "a task that is not as its change says it was")


def _write_bulk_operations(db: sqlite3.Connection, bulk_operations: Sequence[BulkOperation]) -> None:
    unfinished = [bulk_operation for bulk_operation in bulk_operations if bulk_operation.done < bulk_operation.total]
    if unfinished:
        db.executemany(_BULK_OPERATIONS, rows.BULK_OPERATIONS.rows(unfinished))
    over = [bulk_operation for bulk_operation in bulk_operations if bulk_operation.done >= bulk_operation.total]
    if over:
        db.executemany(_DELETE_BULK_OPERATIONS, [row[:4] for row in rows.BULK_OPERATIONS.rows(over)])


def _write_breakers(db: sqlite3.Connection, breakers: Sequence[BreakerRow]) -> None:
    latest = {(breaker.shard, breaker.kind, breaker.subject): breaker for breaker in breakers}
    are_open = [breaker for breaker in latest.values() if breaker.closed_at is None]
    if are_open:
        db.executemany(_BREAKERS, rows.BREAKERS.rows(are_open))
    closed = [breaker for breaker in latest.values() if breaker.closed_at is not None]
    if closed:
        db.executemany(_BREAKERS_CLOSED, [row[:3] for row in rows.BREAKERS.rows(closed)])


def _lower_shares(db: sqlite3.Connection, shard: str, shares: Sequence[ShareRow]) -> None:
    db.executemany(_SHARES, [(share.granted, share.needed, share.limit, shard) for share in shares])
    db.executemany(_SHARES_GIVEN_BACK, [(share.limit, shard) for share in shares])


def write_outbox(db: sqlite3.Connection, outgoing: Sequence[OutboxRow]) -> None:
    """Keep what is to be sent. What is there already is not kept again."""
    columns = rows.OUTBOX.columns(outgoing)
    due_at = columns[rows.OUTBOX.names.index("created_at")]
    db.executemany(_OUTBOX, zip(*columns, due_at, strict=True))


def _archive(db: sqlite3.Connection, shard: str, run_ids: Sequence[str]) -> None:
    runs = json.dumps(run_ids)
    (unfinished,) = db.execute(_COUNT_UNFINISHED, (runs, shard)).fetchone()
    if unfinished:
        raise StaleWrite(f"{unfinished} of {len(run_ids)} rows: a run to archive that is not final")
    tasks = json.dumps([task for (task,) in db.execute(_SOME_TASKS, (runs,))])
    db.execute(_KEEP_TASKS, (tasks,))
    db.execute(_DROP_TASKS, (tasks,))
    db.execute(_DROP_CHECKPOINTS, (runs,))
    db.execute(_KEEP_RUNS, (runs,))
    db.execute(_DROP_RUNS, (runs,))


def _expect(written: sqlite3.Cursor, rows: int, otherwise: str) -> None:
    if written.rowcount != rows:
        raise StaleWrite(f"{rows - written.rowcount} of {rows} rows: {otherwise}")
