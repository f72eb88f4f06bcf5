"""How the PostgreSQL adapter keeps jobs and makes runs: each function is one call of the port.

A function of one statement is a transaction by itself; one of several begins and ends its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import msgspec

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.protocol.errors import JobMissing, KeyReused, Unavailable
from mainspring.store.ports.store import IdempotencyKey, KeyedRun
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import new_entries, write_audit
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.sql import idempotency_keys as keys

_KNOWN_JOB = f"SELECT {rows.JOBS.select()} FROM jobs WHERE id = $1"
_LATEST_JOB = f"""
    SELECT {rows.JOBS.select()} FROM jobs WHERE tenant = $1 AND name = $2 ORDER BY version DESC LIMIT 1
"""


def _making(runs: str, jobs: str, audit: str) -> str:
    """Parts of a statement that look for the jobs, make the runs and tell of it, if no job is missing."""
    return f"""
        missing AS MATERIALIZED (
            SELECT wanted.id FROM unnest({jobs}::text[]) AS wanted (id)
            WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = wanted.id)
        ), made AS (
            INSERT INTO runs ({rows.RUNS.select()})
            SELECT * FROM {from_json(runs, rows.RUNS)} WHERE NOT EXISTS (SELECT 1 FROM missing)
            ON CONFLICT (id) DO NOTHING RETURNING 1
        ), told AS (
            {new_entries(audit)} WHERE NOT EXISTS (SELECT 1 FROM missing) ON CONFLICT (id) DO NOTHING
        )
    """


_INSERT_RUNS = f"WITH {_making('$1', '$2', '$3')} SELECT ARRAY(SELECT id FROM missing), (SELECT count(*) FROM made)"
"""One statement, so that it needs no transaction around it."""
_NEW_JOB = f"""
    INSERT INTO jobs ({rows.JOBS.select()}) VALUES ($1, $2, $3, $4, $5, clock_timestamp(), $6, NULL, $7)
    RETURNING {rows.JOBS.select()}
"""
_UNDELETE = "UPDATE jobs SET deleted_at = NULL WHERE tenant = $1 AND name = $2 AND deleted_at IS NOT NULL"
_NEW_KEYS = """
    INSERT INTO idempotency (tenant, key, body_hash, run_ids, at)
    SELECT tenant, key, body_hash, ARRAY[run_id], clock_timestamp()
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS given (tenant, key, body_hash, run_id)
    ON CONFLICT (tenant, key) DO NOTHING RETURNING tenant, key
"""
_INSERT_KEYED = f"""
    WITH kept AS ({_NEW_KEYS}), {_making("$5", "$6", "$7")}
    SELECT 1 / CASE WHEN (SELECT count(*) FROM kept) = cardinality($1::text[])
        AND (SELECT count(*) FROM made) = cardinality($1::text[]) THEN 1 ELSE 0 END
"""
"""All of it at once, if all keys and runs are new and all jobs known, or it fails: nothing else in it divides."""
AT_ONCE = 50
"""So few runs under keys are made by one statement in one round trip, instead of four. If that fails, it was for
nothing, and is done again step by step: of many runs one would be enough for that."""
_NEW_KEY = """
    INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES ($1, $2, $3, $4, clock_timestamp())
    ON CONFLICT (tenant, key) DO NOTHING RETURNING key
"""
_USES = """
    SELECT used.tenant, used.key, used.body_hash, used.run_ids
    FROM unnest($1::text[], $2::text[]) AS given (tenant, key)
    JOIN idempotency AS used ON used.tenant = given.tenant AND used.key = given.key
"""


async def insert_job(connection: Connection, job: JobRow, audit: AuditEntry | None) -> JobRow:
    """Keep a definition as the next version, unless it is there already."""
    async with transaction(connection):
        return await _keep_job(connection, job, audit)


async def insert_jobs(connection: Connection, jobs: Sequence[tuple[JobRow, AuditEntry]]) -> list[JobRow]:
    """Keep definitions of different names. Locks are taken in one order, so that nobody waits for each other."""
    async with transaction(connection):
        kept = {
            (job.tenant, job.name): await _keep_job(connection, job, audit)
            for job, audit in sorted(jobs, key=lambda one: (one[0].tenant, one[0].name))
        }
    return [kept[job.tenant, job.name] for job, _ in jobs]


async def insert_runs(
    connection: Connection, runs: Sequence[Run], key: IdempotencyKey | None, audit: Sequence[AuditEntry]
) -> tuple[list[str], Sequence[Run]]:
    """Make runs, once; the ids, and those that were not there before."""
    ids = [run.id for run in runs]
    if key is None:
        return ids, await make_runs(connection, runs, audit)
    async with transaction(connection):
        if not await keep_key(connection, key, ids):
            ids = (await _uses(connection, [key]))[keys.name(key)].replay(key)
            await write_audit(connection, *audit)
            return ids, ()
        made = await make_runs(connection, runs, audit)
    return ids, made


async def insert_keyed(
    connection: Connection, requests: Sequence[KeyedRun]
) -> tuple[list[str | KeyReused], Sequence[Run]]:
    """Make runs that have a key each, once; the answers, and the runs that were not there before."""
    firsts = keys.firsts(requests)
    given = [(request.key.tenant, request.key.key, request.key.body_hash, request.run.id) for request in firsts]
    columns = [list(column) for column in zip(*given, strict=True)]
    if not columns:
        return [], ()
    if len(firsts) == len(requests) <= AT_ONCE and await _insert_at_once(connection, columns, firsts):
        return [request.run.id for request in requests], [request.run for request in requests]
    async with transaction(connection):
        taken = {(tenant, key) for tenant, key in await connection.fetch(_NEW_KEYS, *columns)}
        new = [request for request in firsts if keys.name(request.key) in taken]
        used = [request.key for request in firsts if keys.name(request.key) not in taken]
        before = await _uses(connection, used) if used else {}
        answers = keys.answers(requests, new, before)
        made = await make_runs(connection, [request.run for request in new], keys.entries(requests, answers))
    return answers, made


async def _insert_at_once(
    connection: Connection, columns: Sequence[Sequence[str]], requests: Sequence[KeyedRun]
) -> bool:
    """Make runs whose keys are all new; False, having written nothing, if that can't be done, for whatever reason.

    Which of several reasons is given is decided step by step: a key that was used before comes first.
    """
    runs = [request.run for request in requests]
    audit = [request.audit for request in requests if request.audit is not None]
    jobs = sorted({run.job_id for run in runs})
    try:
        await connection.fetchval(_INSERT_KEYED, *columns, as_json(runs), jobs, as_json(audit))
    except (asyncpg.DataError, ValueError, OverflowError):
        return False
    return True


async def make_runs(connection: Connection, runs: Sequence[Run], audit: Sequence[AuditEntry] = ()) -> Sequence[Run]:
    """Make runs and tell of it, all or nothing; returns them if none was there before.

    Raises JobMissing if there is a job that is not there.
    """
    jobs = sorted({run.job_id for run in runs})
    found = await connection.fetchrow(_INSERT_RUNS, as_json(runs), jobs, as_json(audit))
    assert found is not None
    missing, made = found
    if missing:
        raise JobMissing.of(missing)
    return runs if made == len(runs) else ()


async def keep_key(connection: Connection, key: IdempotencyKey, ids: Sequence[str]) -> bool:
    """Keep what is made under a key; False if it was used before, by whoever our transaction has waited for."""
    return bool(await connection.fetchval(_NEW_KEY, key.tenant, key.key, key.body_hash, ids))


async def first_use(connection: Connection, key: IdempotencyKey) -> keys.Use | None:
    """The first use of a key, if there was one."""
    found = await connection.fetchrow(_USES, [key.tenant], [key.key])
    return keys.Use(found["body_hash"], list(found["run_ids"])) if found else None


async def _uses(connection: Connection, used: Sequence[IdempotencyKey]) -> dict[tuple[str, str], keys.Use]:
    """The first use of each of these keys, which another transaction has committed: ours has waited for it."""
    found = await connection.fetch(_USES, [key.tenant for key in used], [key.key for key in used])
    if len(found) < len(used):
        raise Unavailable("an idempotency key expired while it was used again")
    return {(row["tenant"], row["key"]): keys.Use(row["body_hash"], list(row["run_ids"])) for row in found}


async def _keep_job(connection: Connection, job: JobRow, audit: AuditEntry | None) -> JobRow:
    # Versions of one name are given out one at a time.
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 0))", job.tenant, job.name)
    await write_audit(connection, audit)
    found = await connection.fetchrow(_LATEST_JOB, job.tenant, job.name)
    latest = rows.JOBS.struct(found) if found else None
    if latest and latest.deleted_at is not None:
        await connection.execute(_UNDELETE, job.tenant, job.name)
        latest = msgspec.structs.replace(latest, deleted_at=None)
    known = await connection.fetchrow(_KNOWN_JOB, job.id)
    if known:
        return rows.JOBS.struct(known)
    if latest and latest.definition == job.definition:
        return latest
    version = latest.version + 1 if latest else 1
    new = await connection.fetchrow(
        _NEW_JOB, job.id, job.tenant, job.name, version, job.definition, job.created_by, job.labels
    )
    assert new is not None
    return rows.JOBS.struct(new)
