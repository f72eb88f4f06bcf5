"""Writing one batch to PostgreSQL: one transaction, which begins with the fence.

The first statement names the term and the number of the batch, and changes the shard's row. So it waits for whoever
else is changing that row, sees its newest version (the loser matches no row), holds off an election until the end of
the transaction, and renews the lease. SAFETY.md says why anything weaker fails; tests/store/test_fence.py shows it.

Everything after it is one statement per table, or for few rows one for all tables together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.core.batch import Batch, BreakerRow, Outgoing, Spread, TaskChange
from mainspring.core.runs import RUN_COLUMNS_OF_THE_SHARD, Run
from mainspring.errors import Fenced, StaleWrite
from mainspring.store import postgres_rows as rows
from mainspring.store.port import Term
from mainspring.store.postgres_audit import write_audit
from mainspring.store.postgres_connections import Connection, transaction
from mainspring.store.postgres_rows import as_json, from_json
from mainspring.store.rows import Codec
from mainspring.store.statements import ARCHIVED_TASKS_AT_ONCE, FINAL_STATES, tasks_of

FENCE = """
    UPDATE shards SET lease_until = clock_timestamp() + ttl, batch_no = $4
    WHERE id = $1 AND epoch = $2 AND nonce = $3 AND batch_no = $4 - 1
    RETURNING clock_timestamp()
"""
_WRITTEN_BEFORE = """
    SELECT clock_timestamp() FROM shards WHERE id = $1 AND epoch = $2 AND nonce = $3 AND batch_no = $4
"""


def _assignments(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}" = u."{name}"' for name in names)


_RUNS = f"""
    UPDATE runs SET {_assignments(RUN_COLUMNS_OF_THE_SHARD)}
    FROM ROWS FROM ({from_json("$2", rows.RUNS, ("id", *RUN_COLUMNS_OF_THE_SHARD))}) AS u
    WHERE runs.id = u.id AND runs.shard = $1
"""

_CHANGING = rows.TASKS.names[rows.TASKS.names.index("priority") :]


def _tasks(changes: str, states: str, seqs: str) -> str:
    """The statement that changes tasks, with the names of its parameters; $1 is the shard."""
    return f"""
        UPDATE tasks SET {_assignments(_CHANGING)}
        FROM ROWS FROM ({from_json(changes, rows.TASKS, ("id", *_CHANGING))},
                        unnest({states}::text[]), unnest({seqs}::bigint[]))
            AS u (id, {", ".join(_CHANGING)}, was, was_seq)
        WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = $1
    """


_TASKS = _tasks("$2", "$3", "$4")

SMALL_ROWS = 48
"""A batch of so few rows is written by one statement, instead of one or two round trips per table. The end of a task
and the start of the next take 0.8 ms so, and 1.1 the other way; with more rows COPY is cheaper (docs/adr/0011)."""

_SMALL = f"""
    WITH changed_runs AS ({_RUNS} RETURNING 1),
    new_tasks AS (
        INSERT INTO tasks ({rows.TASKS.select()}) SELECT * FROM {from_json("$3", rows.TASKS)}
    ),
    changed_tasks AS ({_tasks("$4", "$5", "$6")} RETURNING 1),
    told AS (
        INSERT INTO transitions ({rows.TRANSITIONS.select()}, shard, batch_no, ordinal)
        SELECT {rows.TRANSITIONS.select("u")}, $1, $8, u.ordinality - 1
        FROM ROWS FROM ({from_json("$7", rows.TRANSITIONS)}) WITH ORDINALITY AS u
    ),
    ended AS (
        INSERT INTO attempts ({rows.ATTEMPTS.select()}) SELECT * FROM {from_json("$9", rows.ATTEMPTS)}
    )
    SELECT (SELECT count(*) FROM changed_runs), (SELECT count(*) FROM changed_tasks)
"""

_SPREAD_KEY = ("run_id", "parent", "generation", "kind")
_SPREADS = f"""
    INSERT INTO spreads ({rows.SPREADS.select()}) SELECT * FROM {from_json("$1", rows.SPREADS)}
    ON CONFLICT ({", ".join(_SPREAD_KEY)}) DO UPDATE SET total = excluded.total, done = excluded.done
"""
_SPREADS_OVER = f"""
    DELETE FROM spreads USING ROWS FROM ({from_json("$1", rows.SPREADS, _SPREAD_KEY)}) AS u
    WHERE {" AND ".join(f"spreads.{name} = u.{name}" for name in _SPREAD_KEY)}
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

_GOING_ON = f"""
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

_STRANGE_RUN = "a run that is not in this shard"
_CHANGED_TASK = "a task that is not as its change says it was"
_DROP_CHECKPOINTS = "DELETE FROM checkpoints WHERE run_id = ANY($1::text[])"


async def write_batch(connection: Connection, term: Term, number: int, batch: Batch) -> datetime:
    """Write a batch behind its fence and return the store's time. What was written before is not written again."""
    if not batch.rows():
        return await _pass_fence(connection, term, number) or await _written_before(connection, term, number)
    async with transaction(connection):
        at = await _pass_fence(connection, term, number)
        if at is None:
            return await _written_before(connection, term, number)
        if batch.rows() <= SMALL_ROWS:
            await _write_small(connection, term.shard, number, batch)
        else:
            await _write_large(connection, term.shard, number, batch)
        await _write_rest(connection, batch)
        if batch.archived:
            await _archive(connection, term.shard, batch.archived)
    return at


async def _pass_fence(connection: Connection, term: Term, number: int) -> datetime | None:
    at: datetime | None = await connection.fetchval(FENCE, term.shard, term.epoch, term.nonce, number)
    return at


async def _written_before(connection: Connection, term: Term, number: int) -> datetime:
    at: datetime | None = await connection.fetchval(_WRITTEN_BEFORE, term.shard, term.epoch, term.nonce, number)
    if at is None:
        raise Fenced(f"term {term.epoch} of shard {term.shard} is over, or batch {number} does not follow")
    return at


async def _write_small(connection: Connection, shard: str, number: int, batch: Batch) -> None:
    """Runs, tasks and what is told of them, in one statement."""
    if not (batch.runs or batch.new_tasks or batch.tasks or batch.transitions or batch.attempts):
        return
    changes = batch.tasks
    found = await connection.fetchrow(
        _SMALL, shard, _run_columns(batch.runs), as_json(batch.new_tasks), as_json([change.task for change in changes]),
        [change.was for change in changes], [change.was_seq for change in changes], as_json(batch.transitions), number,
        as_json(batch.attempts),
    )  # fmt: skip
    assert found is not None
    _expect(found[0], len(batch.runs), _STRANGE_RUN)
    _expect(found[1], len(changes), _CHANGED_TASK)


async def _write_large(connection: Connection, shard: str, number: int, batch: Batch) -> None:
    """The same, as fast as many rows can be written."""
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


async def _write_rest(connection: Connection, batch: Batch) -> None:
    """What most batches have nothing of."""
    if batch.spreads:
        await _write_spreads(connection, batch.spreads)
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
    await write_audit(connection, *batch.audit)


async def write_outbox(connection: Connection, outgoing: Sequence[Outgoing]) -> None:
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
    status = await connection.execute(_RUNS, shard, _run_columns(runs))
    _expect(_count(status), len(runs), _STRANGE_RUN)


def _run_columns(runs: Sequence[Run]) -> str:
    """Only what may have changed: parameters can be long."""
    names = ("id", *RUN_COLUMNS_OF_THE_SHARD)
    return as_json([{name: getattr(run, name) for name in names} for run in runs])


async def _change_tasks(connection: Connection, shard: str, changes: Sequence[TaskChange]) -> None:
    tasks = as_json([change.task for change in changes])
    states = [change.was for change in changes]
    seqs = [change.was_seq for change in changes]
    status = await connection.execute(_TASKS, shard, tasks, states, seqs)
    _expect(_count(status), len(changes), _CHANGED_TASK)


async def _write_spreads(connection: Connection, spreads: Sequence[Spread]) -> None:
    latest = {(spread.run_id, spread.parent, spread.generation, spread.kind): spread for spread in spreads}
    going_on = [spread for spread in latest.values() if spread.done < spread.total]
    if going_on:
        await connection.execute(_SPREADS, as_json(going_on))
    over = [spread for spread in latest.values() if spread.done >= spread.total]
    if over:
        await connection.execute(_SPREADS_OVER, as_json(over))


async def _write_breakers(connection: Connection, breakers: Sequence[BreakerRow]) -> None:
    latest = {(breaker.shard, breaker.kind, breaker.subject): breaker for breaker in breakers}
    are_open = [breaker for breaker in latest.values() if breaker.closed_at is None]
    if are_open:
        await connection.execute(_BREAKERS, as_json(are_open))
    closed = [breaker for breaker in latest.values() if breaker.closed_at is not None]
    if closed:
        await connection.execute(_BREAKERS_CLOSED, as_json(closed))


async def _archive(connection: Connection, shard: str, run_ids: Sequence[str]) -> None:
    going_on = await connection.fetchval(_GOING_ON, run_ids, shard)
    if going_on:
        raise StaleWrite(f"{going_on} of {len(run_ids)} rows: a run to archive that is not final")
    await connection.execute(_ARCHIVE_TASKS, run_ids)
    await connection.execute(_ARCHIVE_RUNS, run_ids)
    await connection.execute(_DROP_CHECKPOINTS, run_ids)


def _count(status: str) -> int:
    """The number of rows that a statement says it has changed: `UPDATE 5`."""
    return int(status.rpartition(" ")[2])


def _expect(written: int, rows: int, otherwise: str) -> None:
    if written != rows:
        raise StaleWrite(f"{rows - written} of {rows} rows: {otherwise}")
