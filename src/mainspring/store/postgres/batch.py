"""Writing one batch to PostgreSQL: one transaction, which begins with the fence.

The first statement names the term and the number of the batch, and changes the shard's row. So it waits for whoever
else is changing that row, sees its newest version (the loser matches no row), holds off an election until the end of
the transaction, and renews the lease. Anything weaker fails, as tests/store/test_fence.py shows: a zombie leader that
was paused before its COMMIT would overwrite what its successor decided (ADR 0035).

Everything after it is one statement per table. A batch of few rows is a single statement, the fence and all of its rows
together: every part of it takes its rows from what the fence has found, so none is written before the fence is passed,
or without it (docs/adr/0035).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import asyncpg

from mainspring.core.model.batch import Batch, BreakerRow, BulkOperation, OutboxRow, TaskChange
from mainspring.core.model.run import RUN_COLUMNS_OF_THE_SHARD, Run
from mainspring.core.model.task import Task
from mainspring.protocol.errors import Fenced, StaleWrite
from mainspring.store.ports.store import Term
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW, interval
from mainspring.store.postgres.rows import as_json, columns_as_json, from_json
from mainspring.store.sql.rows import Codec
from mainspring.store.sql.sharing_statements import KEPT_FAILURE_COUNTS
from mainspring.store.sql.statements import ARCHIVED_TASKS_AT_ONCE, FINAL_STATES, tasks_of

FENCE = """
    UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = $4
    WHERE id = $1 AND epoch = $2 AND nonce = $3 AND batch_no = $4 - 1
    RETURNING clock_timestamp() AS at
"""
_WRITTEN_BEFORE = """
    SELECT clock_timestamp() FROM shards WHERE id = $1 AND epoch = $2 AND nonce = $3 AND batch_no = $4
"""


def _assignments(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}" = u."{name}"' for name in names)


_CHANGING = rows.TASKS.names[rows.TASKS.names.index("priority") :]


def _runs(changes: str, behind: str = "") -> str:
    """The statement that changes runs, with the name of its parameter; $1 is the shard.

    `behind` names what else it takes its rows from: without a row there, nothing is changed.
    """
    return f"""
        UPDATE runs SET {_assignments(RUN_COLUMNS_OF_THE_SHARD)}
        FROM ROWS FROM ({from_json(changes, rows.RUNS, ("id", *RUN_COLUMNS_OF_THE_SHARD))}) AS u {behind}
        WHERE runs.id = u.id AND runs.shard = $1
    """


def _tasks(changes: str, states: str, seqs: str, behind: str = "") -> str:
    """The same of tasks, which must be as they are said to have been."""
    return f"""
        UPDATE tasks SET {_assignments(_CHANGING)}
        FROM ROWS FROM ({from_json(changes, rows.TASKS, ("id", *_CHANGING))},
                        unnest({states}::text[]), unnest({seqs}::bigint[]))
            AS u (id, {", ".join(_CHANGING)}, was, was_seq) {behind}
        WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = $1
    """


_runs_as_json = columns_as_json(Run, ("id", *RUN_COLUMNS_OF_THE_SHARD))
_tasks_as_json = columns_as_json(Task, ("id", *_CHANGING))

_RUNS = _runs("$2")
_TASKS = _tasks("$2", "$3", "$4")

SMALL_ROWS = 48
"""A batch of so few rows is written by one statement, in one round trip instead of four or more; with more rows COPY is
cheaper (docs/adr/0011)."""

_SMALL = f"""
    WITH fence AS ({FENCE}),
    changed_runs AS ({_runs("$5", ", fence")} RETURNING 1),
    new_tasks AS (
        INSERT INTO tasks ({rows.TASKS.select()})
        SELECT {rows.TASKS.select("u")} FROM ROWS FROM ({from_json("$6", rows.TASKS)}) AS u, fence
    ),
    changed_tasks AS ({_tasks("$7", "$8", "$9", ", fence")} RETURNING 1),
    told AS (
        INSERT INTO transitions ({rows.TRANSITIONS.select()}, shard, batch_no, ordinal)
        SELECT {rows.TRANSITIONS.select("u")}, $1, $4, u.ordinality - 1
        FROM ROWS FROM ({from_json("$10", rows.TRANSITIONS)}) WITH ORDINALITY AS u, fence
    ),
    ended AS (
        INSERT INTO attempts ({rows.ATTEMPTS.select()})
        SELECT {rows.ATTEMPTS.select("u")} FROM ROWS FROM ({from_json("$11", rows.ATTEMPTS)}) AS u, fence
    )
    SELECT at, 1 / CASE WHEN (SELECT count(*) FROM changed_runs) = $12 AND (SELECT count(*) FROM changed_tasks) = $13
        THEN 1 ELSE 0 END
    FROM fence
"""
"""There is no transaction around it that could be given up, so it fails by itself if a row is not as expected: nothing
else in it divides."""

_BULK_OPERATION_KEY = ("run_id", "parent", "generation", "kind")
_BULK_OPERATIONS = f"""
    INSERT INTO bulk_operations ({rows.BULK_OPERATIONS.select()}) SELECT * FROM {from_json("$1", rows.BULK_OPERATIONS)}
    ON CONFLICT ({", ".join(_BULK_OPERATION_KEY)}) DO UPDATE SET total = excluded.total, done = excluded.done
"""
_DELETE_BULK_OPERATIONS = f"""
    DELETE FROM bulk_operations USING ROWS FROM ({from_json("$1", rows.BULK_OPERATIONS, _BULK_OPERATION_KEY)}) AS u
    WHERE {" AND ".join(f"bulk_operations.{name} = u.{name}" for name in _BULK_OPERATION_KEY)}
"""
_OUTBOX = f"""
    INSERT INTO outbox ({rows.OUTBOX.select()}, due_at)
    SELECT {rows.OUTBOX.select("u")}, u.created_at FROM ROWS FROM ({from_json("$1", rows.OUTBOX)})
        WITH ORDINALITY AS u ORDER BY u.ordinality
    ON CONFLICT (id) DO NOTHING
"""
_REJECTED = f"""
    INSERT INTO rejected_events ({rows.REJECTED.select()}) SELECT * FROM {from_json("$1", rows.REJECTED)}
    ON CONFLICT (id) DO NOTHING
"""
_WORKERS = f"""
    INSERT INTO workers ({rows.WORKERS.select()}) SELECT * FROM {from_json("$1", rows.WORKERS)}
    ON CONFLICT (id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in rows.WORKERS.after("id"))}
"""
_CHECKPOINTS = f"""
    INSERT INTO checkpoints ({rows.CHECKPOINTS.select()}) SELECT * FROM {from_json("$1", rows.CHECKPOINTS)}
    ON CONFLICT (task_id) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in rows.CHECKPOINTS.after("task_id"))}
"""
_BREAKER_KEY = ("shard", "kind", "subject")
_BREAKERS = f"""
    INSERT INTO breakers ({rows.BREAKERS.select()}) SELECT * FROM {from_json("$1", rows.BREAKERS)}
    ON CONFLICT ({", ".join(_BREAKER_KEY)}) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in rows.BREAKERS.after("subject"))}
"""
_BREAKERS_CLOSED = f"""
    DELETE FROM breakers USING ROWS FROM ({from_json("$1", rows.BREAKERS, _BREAKER_KEY)}) AS u
    WHERE {" AND ".join(f"breakers.{name} = u.{name}" for name in _BREAKER_KEY)}
"""
_DURATIONS = f"""
    INSERT INTO durations ({rows.DURATIONS.select()}) SELECT * FROM {from_json("$1", rows.DURATIONS)}
    ON CONFLICT (tenant, job, task, shard) DO UPDATE SET
        {", ".join(f"{name} = excluded.{name}" for name in rows.DURATIONS.after("task"))}
"""

_SHARES = """
    WITH u AS (SELECT * FROM unnest($2::text[], $3::bigint[], $4::bigint[]) AS u ("limit", granted, needed)),
    given_back AS (
        DELETE FROM limit_shares USING u
        WHERE limit_shares."limit" = u."limit" AND holder = $1
            AND least(limit_shares.granted, u.granted) = 0 AND u.needed = 0
    )
    UPDATE limit_shares SET granted = least(limit_shares.granted, u.granted), needed = u.needed FROM u
    WHERE limit_shares."limit" = u."limit" AND holder = $1
        AND NOT (least(limit_shares.granted, u.granted) = 0 AND u.needed = 0)
"""
_FAILURE_COUNTS = f"""
    INSERT INTO failure_counts ({rows.FAILURE_COUNTS.select()}) SELECT * FROM {from_json("$1", rows.FAILURE_COUNTS)}
    ON CONFLICT (shard, since, tenant) DO UPDATE SET failures = excluded.failures
"""
_DECISIONS = f"""
    INSERT INTO decisions ({rows.DECISIONS.select()}) SELECT * FROM {from_json("$1", rows.DECISIONS)}
    ON CONFLICT (id, at) DO NOTHING
"""
_ARTIFACTS = f"""
    INSERT INTO artifacts ({rows.ARTIFACTS.select()}) SELECT * FROM {from_json("$1", rows.ARTIFACTS)}
    ON CONFLICT DO NOTHING
"""
_OLD_FAILURE_COUNTS = f"DELETE FROM failure_counts WHERE shard = $1 AND since < {NOW} - {interval(KEPT_FAILURE_COUNTS)}"

_COUNT_UNFINISHED = f"""
    SELECT count(*) FROM runs
    WHERE id = ANY($1::text[]) AND (shard <> $2 OR state NOT IN ({FINAL_STATES}) OR ended_at IS NULL)
"""
_ARCHIVE_TASKS = f"""
    WITH chosen AS (
        SELECT tasks.id, runs.ended_at FROM runs JOIN tasks ON {tasks_of("runs.id")}
        WHERE runs.id = ANY($1::text[]) LIMIT {ARCHIVED_TASKS_AT_ONCE}
    ), gone AS (
        DELETE FROM tasks USING chosen WHERE tasks.id = chosen.id
        RETURNING {rows.TASKS.select("tasks")}, chosen.ended_at
    )
    INSERT INTO tasks_history ({rows.TASKS.select()}, run_ended_at) SELECT * FROM gone
"""
_ARCHIVE_RUNS = f"""
    WITH gone AS (
        DELETE FROM runs
        WHERE id = ANY($1::text[]) AND NOT EXISTS (SELECT 1 FROM tasks WHERE {tasks_of("runs.id")})
        RETURNING {rows.RUNS.select()}
    )
    INSERT INTO runs_history ({rows.RUNS.select()}) SELECT * FROM gone
"""

_Write = Callable[[Connection, Term, int, Batch], Awaitable[datetime | None]]
_UNREADABLE = (asyncpg.DataError, ValueError, OverflowError)
"""What the server, or the driver, says of rows that it can't take apart. It may say so before it looks at the fence."""
_STRANGE_RUN = "a run that is not in this shard"
_CHANGED_TASK = "a task that is not as its change says it was"
_DROP_CHECKPOINTS = "DELETE FROM checkpoints WHERE run_id = ANY($1::text[])"


async def write_batch(connection: Connection, term: Term, number: int, batch: Batch) -> datetime:
    """Write a batch behind its fence and return the store's time. What was written before is not written again."""
    if not batch.rows():
        return await _pass_fence(connection, term, number) or await _written_before(connection, term, number)
    if _main_rows(batch) <= SMALL_ROWS:
        try:
            return await _write_all(connection, term, number, batch, _write_small)
        except _UNREADABLE:
            pass  # Somebody else may lead, which matters more: once more, with the fence by itself and first.
    return await _write_all(connection, term, number, batch, _write_large)


async def _write_all(connection: Connection, term: Term, number: int, batch: Batch, write: _Write) -> datetime:
    """The main rows, and the others in the same transaction, which needs none if there are no others."""
    if write is _write_small and _main_rows(batch) == batch.rows():
        return await _write_small(connection, term, number, batch) or await _written_before(connection, term, number)
    async with transaction(connection):
        at = await write(connection, term, number, batch)
        if at is None:
            return await _written_before(connection, term, number)
        await _write_rest(connection, batch)
        await _write_sharing(connection, term.shard, batch)
        if batch.archived:
            await _archive(connection, term.shard, batch.archived)
    return at


async def _pass_fence(connection: Connection, term: Term, number: int) -> datetime | None:
    at: datetime | None = await connection.fetchval(FENCE, term.shard, term.epoch, term.nonce, number)
    return at


async def _written_before(connection: Connection, term: Term, number: int) -> datetime:
    at: datetime | None = await connection.fetchval(_WRITTEN_BEFORE, term.shard, term.epoch, term.nonce, number)
    if at is None:
        raise Fenced(f"term {term.epoch} of shard {term.shard} has ended, or batch {number} does not follow")
    return at


def _main_rows(batch: Batch) -> int:
    """Rows of runs, tasks, and what is told of them. Most batches have no others."""
    return len(batch.runs) + len(batch.new_tasks) + len(batch.tasks) + len(batch.transitions) + len(batch.attempts)


async def _write_small(connection: Connection, term: Term, number: int, batch: Batch) -> datetime | None:
    """The fence and the main rows, in one statement. None if the fence was not passed: then nothing is written."""
    changes = batch.tasks
    try:
        at: datetime | None = await connection.fetchval(
            _SMALL, term.shard, term.epoch, term.nonce, number, _runs_as_json(batch.runs), as_json(batch.new_tasks),
            _tasks_as_json(change.task for change in changes), [change.was for change in changes],
            [change.was_seq for change in changes], as_json(batch.transitions), as_json(batch.attempts),
            len(batch.runs), len(changes),
        )  # fmt: skip
    except asyncpg.DivisionByZeroError as error:
        raise StaleWrite(f"there is {_STRANGE_RUN}, or {_CHANGED_TASK}") from error
    return at


async def _write_large(connection: Connection, term: Term, number: int, batch: Batch) -> datetime | None:
    """The same, as fast as many rows can be written. It needs a transaction around it."""
    at, shard = await _pass_fence(connection, term, number), term.shard
    if at is None:
        return None
    if batch.runs:
        await _update_runs(connection, shard, batch.runs)
    if batch.new_tasks:
        await _append(connection, "tasks", rows.TASKS, batch.new_tasks)
    if batch.tasks:
        await _change_tasks(connection, shard, batch.tasks)
    if batch.transitions:
        many = len(batch.transitions)
        key: dict[str, Sequence[object]] = {
            "shard": [shard] * many,
            "batch_no": [number] * many,
            "ordinal": range(many),
        }
        await _append(connection, "transitions", rows.TRANSITIONS, batch.transitions, key)
    if batch.attempts:
        await _append(connection, "attempts", rows.ATTEMPTS, batch.attempts)
    return at


async def _write_rest(connection: Connection, batch: Batch) -> None:
    """What most batches have nothing of."""
    if batch.bulk_operations:
        await _write_bulk_operations(connection, batch.bulk_operations)
    if batch.late:
        await _append(connection, "late_results", rows.LATE, batch.late)
    if batch.outbox:
        await write_outbox(connection, batch.outbox)
    if batch.rejected:
        await connection.execute(_REJECTED, as_json(batch.rejected))
    if batch.workers:
        # A worker that is named twice is as it was last: one statement can't change a row twice.
        await connection.execute(_WORKERS, as_json(list({worker.id: worker for worker in batch.workers}.values())))
    if batch.checkpoints:
        latest = {checkpoint.task_id: checkpoint for checkpoint in batch.checkpoints}
        await connection.execute(_CHECKPOINTS, as_json(list(latest.values())))
    if batch.breakers:
        await _write_breakers(connection, batch.breakers)
    if batch.durations:
        newest = {(row.shard, row.tenant, row.job, row.task): row for row in batch.durations}
        await connection.execute(_DURATIONS, as_json(list(newest.values())))
    if batch.decisions:
        await connection.execute(_DECISIONS, as_json(batch.decisions))
    if batch.artifacts:
        await connection.execute(_ARTIFACTS, as_json(batch.artifacts))
    await write_audit(connection, *batch.audit)


async def _write_sharing(connection: Connection, shard: str, batch: Batch) -> None:
    """What the shard uses of limits, and what failed in it."""
    if batch.shares:
        latest = {share.limit: share for share in batch.shares}
        granted = [share.granted for share in latest.values()]
        needed = [share.needed for share in latest.values()]
        await connection.execute(_SHARES, shard, list(latest), granted, needed)
    if batch.failure_counts:
        counted = {
            (failure_count.shard, failure_count.tenant, failure_count.since): failure_count
            for failure_count in batch.failure_counts
        }
        await connection.execute(_FAILURE_COUNTS, as_json(list(counted.values())))
        await connection.execute(_OLD_FAILURE_COUNTS, shard)


async def write_outbox(connection: Connection, outgoing: Sequence[OutboxRow]) -> None:
    """Keep what is to be sent. What is there already is not kept again."""
    await connection.execute(_OUTBOX, as_json(outgoing))


async def _append(
    connection: Connection,
    table: str,
    codec: Codec[Any],
    structs: Sequence[Any],
    more: Mapping[str, Sequence[object]] | None = None,
) -> None:
    columns = codec.columns(structs)
    names = codec.names
    if more:
        columns.extend(more.values())
        names = (*names, *more)
    await connection.copy_records_to_table(table, records=zip(*columns, strict=True), columns=names)


async def _update_runs(connection: Connection, shard: str, runs: Sequence[Run]) -> None:
    status = await connection.execute(_RUNS, shard, _runs_as_json(runs))
    _expect(_count(status), len(runs), _STRANGE_RUN)


async def _change_tasks(connection: Connection, shard: str, changes: Sequence[TaskChange]) -> None:
    tasks = _tasks_as_json(change.task for change in changes)
    states = [change.was for change in changes]
    seqs = [change.was_seq for change in changes]
    status = await connection.execute(_TASKS, shard, tasks, states, seqs)
    _expect(_count(status), len(changes), _CHANGED_TASK)


async def _write_bulk_operations(connection: Connection, bulk_operations: Sequence[BulkOperation]) -> None:
    latest = {
        (bulk_operation.run_id, bulk_operation.parent, bulk_operation.generation, bulk_operation.kind): bulk_operation
        for bulk_operation in bulk_operations
    }
    unfinished = [bulk_operation for bulk_operation in latest.values() if bulk_operation.done < bulk_operation.total]
    if unfinished:
        await connection.execute(_BULK_OPERATIONS, as_json(unfinished))
    over = [bulk_operation for bulk_operation in latest.values() if bulk_operation.done >= bulk_operation.total]
    if over:
        await connection.execute(_DELETE_BULK_OPERATIONS, as_json(over))


async def _write_breakers(connection: Connection, breakers: Sequence[BreakerRow]) -> None:
    latest = {(breaker.shard, breaker.kind, breaker.subject): breaker for breaker in breakers}
    are_open = [breaker for breaker in latest.values() if breaker.closed_at is None]
    if are_open:
        await connection.execute(_BREAKERS, as_json(are_open))
    closed = [breaker for breaker in latest.values() if breaker.closed_at is not None]
    if closed:
        await connection.execute(_BREAKERS_CLOSED, as_json(closed))


async def _archive(connection: Connection, shard: str, run_ids: Sequence[str]) -> None:
    unfinished = await connection.fetchval(_COUNT_UNFINISHED, run_ids, shard)
    if unfinished:
        raise StaleWrite(f"{unfinished} of {len(run_ids)} rows: a run to archive that is not final")
    await connection.execute(_ARCHIVE_TASKS, run_ids)
    await connection.execute(_ARCHIVE_RUNS, run_ids)
    await connection.execute(_DROP_CHECKPOINTS, run_ids)


def _count(status: str) -> int:
    """The number of rows that a statement says it has changed: `UPDATE 5`."""
    return int(status.rpartition(" ")[2])


def _expect(written: int, rows: int, otherwise: str) -> None:
    if written != rows:
        raise StaleWrite(f"{rows - written} of {rows} rows: {otherwise}")
