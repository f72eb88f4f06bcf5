"""Writing one batch to PostgreSQL: one transaction, which begins with the fence.

The first statement names the term and the number of the batch, and changes the shard's row. So it waits for whoever
else is changing that row, sees its newest version (the loser matches no row), holds off an election until the end of
the transaction, and renews the lease. SAFETY.md says why anything weaker fails; tests/store/test_fence.py shows it.

Everything after it is one statement per table, whatever the number of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from mainspring.core.batch import Batch, Spread, TaskChange
from mainspring.core.runs import RUN_COLUMNS_OF_THE_SHARD, Run
from mainspring.errors import Fenced, StaleWrite
from mainspring.store import postgres_rows as rows
from mainspring.store.port import Term
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
    FROM ROWS FROM ({from_json("$1", rows.RUNS, ("id", *RUN_COLUMNS_OF_THE_SHARD))}) AS u
    WHERE runs.id = u.id AND runs.shard = $2
"""

_CHANGING = rows.TASKS.names[rows.TASKS.names.index("priority") :]
_TASKS = f"""
    UPDATE tasks SET {_assignments(_CHANGING)}
    FROM ROWS FROM ({from_json("$1", rows.TASKS, ("id", *_CHANGING))}, unnest($2::text[]), unnest($3::bigint[]))
        AS u (id, {", ".join(_CHANGING)}, was, was_seq)
    WHERE tasks.id = u.id AND tasks.state = u.was AND tasks.seq = u.was_seq AND tasks.shard = $4
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

_DROP_CHECKPOINTS = "DELETE FROM checkpoints WHERE run_id = ANY($1::text[])"


async def write_batch(connection: Connection, term: Term, number: int, batch: Batch) -> datetime:
    """Write a batch behind its fence and return the store's time. What was written before is not written again."""
    if not batch.rows():
        return await _pass_fence(connection, term, number) or await _written_before(connection, term, number)
    async with transaction(connection):
        at = await _pass_fence(connection, term, number)
        if at is None:
            return await _written_before(connection, term, number)
        await _write_states(connection, term.shard, batch)
        await _write_records(connection, term.shard, number, batch)
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


async def _write_states(connection: Connection, shard: str, batch: Batch) -> None:
    if batch.runs:
        await _update_runs(connection, shard, batch.runs)
    if batch.new_tasks:
        await _append(connection, "tasks", rows.TASKS, batch.new_tasks)
    if batch.tasks:
        await _change_tasks(connection, shard, batch.tasks)
    if batch.spreads:
        await _write_spreads(connection, batch.spreads)


async def _write_records(connection: Connection, shard: str, number: int, batch: Batch) -> None:
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
    if batch.late:
        await _append(connection, "late_results", rows.LATE, batch.late)
    if batch.outbox:
        await connection.execute(_OUTBOX, as_json(batch.outbox))
    if batch.rejected:
        await connection.execute(_REJECTED, as_json(batch.rejected))
    if batch.workers:
        # A worker that is named twice is as it was last: one statement can't change a row twice.
        await connection.execute(_WORKERS, as_json(list({worker.id: worker for worker in batch.workers}.values())))
    if batch.checkpoints:
        latest = {checkpoint.task_id: checkpoint for checkpoint in batch.checkpoints}
        await connection.execute(_CHECKPOINTS, as_json(list(latest.values())))


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
    # Only what may have changed: parameters can be long.
    names = ("id", *RUN_COLUMNS_OF_THE_SHARD)
    changed = [{name: getattr(run, name) for name in names} for run in runs]
    status = await connection.execute(_RUNS, as_json(changed), shard)
    _expect(_count(status), len(runs), "a run that is not in this shard")


async def _change_tasks(connection: Connection, shard: str, changes: Sequence[TaskChange]) -> None:
    tasks = as_json([change.task for change in changes])
    states = [change.was for change in changes]
    seqs = [change.was_seq for change in changes]
    status = await connection.execute(_TASKS, tasks, states, seqs, shard)
    _expect(_count(status), len(changes), "a task that is not as its change says it was")


async def _write_spreads(connection: Connection, spreads: Sequence[Spread]) -> None:
    latest = {(spread.run_id, spread.parent, spread.generation, spread.kind): spread for spread in spreads}
    going_on = [spread for spread in latest.values() if spread.done < spread.total]
    if going_on:
        await connection.execute(_SPREADS, as_json(going_on))
    over = [spread for spread in latest.values() if spread.done >= spread.total]
    if over:
        await connection.execute(_SPREADS_OVER, as_json(over))


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
