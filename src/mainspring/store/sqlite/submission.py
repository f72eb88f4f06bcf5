"""How the SQLite adapter keeps jobs and makes runs: each function is one call of the port.

The first argument is the connection, in a transaction that the caller began; `now` is the store's time as SQLite keeps
it (microseconds since 1970).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence

import msgspec

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.protocol.errors import JobMissing, KeyReused
from mainspring.store.ports.store import IdempotencyKey, KeyedRun
from mainspring.store.sql import idempotency_keys as keys
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.rows import insert_into, instant, refuse_nul

_LATEST_VERSION = f"""
    SELECT {rows.JOBS.select()} FROM jobs WHERE tenant = ? AND name = ? ORDER BY version DESC LIMIT 1
"""
_INSERT_JOB = insert_into("jobs", rows.JOBS)
_UNDELETE = "UPDATE jobs SET deleted_at = NULL WHERE tenant = ? AND name = ? AND deleted_at IS NOT NULL"
_INSERT_RUNS = insert_into("runs", rows.RUNS, ending="ON CONFLICT (id) DO NOTHING")
_NEW_KEY = "INSERT INTO idempotency (tenant, key, body_hash, run_ids, at) VALUES (?, ?, ?, ?, ?)"


def insert_job(db: sqlite3.Connection, job: JobRow, audit: AuditEntry | None, now: int) -> JobRow:
    """Keep a definition as the next version, unless it is there already."""
    write_audit(db, now, audit)
    found = db.execute(_LATEST_VERSION, (job.tenant, job.name)).fetchone()
    latest = found and rows.JOBS.struct(found)
    if latest and latest.deleted_at is not None:
        db.execute(_UNDELETE, (job.tenant, job.name))
        latest = msgspec.structs.replace(latest, deleted_at=None)
    known = db.execute(f"SELECT {rows.JOBS.select()} FROM jobs WHERE id = ?", (job.id,)).fetchone()
    if known:
        return rows.JOBS.struct(known)
    if latest and latest.definition == job.definition:
        return latest
    version = latest.version + 1 if latest else 1
    new = msgspec.structs.replace(job, version=version, created_at=instant(now), deleted_at=None)
    db.execute(_INSERT_JOB, rows.JOBS.rows([new])[0])
    return new


def insert_jobs(db: sqlite3.Connection, jobs: Sequence[tuple[JobRow, AuditEntry]], now: int) -> list[JobRow]:
    """Keep definitions of different names."""
    return [insert_job(db, job, audit, now) for job, audit in jobs]


def insert_runs(
    db: sqlite3.Connection, runs: Sequence[Run], key: IdempotencyKey | None, audit: Sequence[AuditEntry], now: int
) -> tuple[list[str], Sequence[Run]]:
    """Make runs, once; the ids, and those that were not there before."""
    write_audit(db, now, *audit)
    ids = [run.id for run in runs]
    if key is not None:
        refuse_nul([key.tenant, key.key, key.body_hash])
        first = first_use(db, key)
        if first:
            return first.replay(key), ()
        keep_key(db, key, ids, now)
    return ids, make_runs(db, runs)


def insert_keyed(
    db: sqlite3.Connection, requests: Sequence[KeyedRun], now: int
) -> tuple[list[str | KeyReused], Sequence[Run]]:
    """Make runs that have a key each, once; the answers, and the runs that were not there before."""
    firsts = keys.firsts(requests)
    refuse_nul([text for request in firsts for text in (request.key.tenant, request.key.key, request.key.body_hash)])
    uses = {keys.name(request.key): first_use(db, request.key) for request in firsts}
    before = {name: use for name, use in uses.items() if use is not None}
    new = [request for request in firsts if keys.name(request.key) not in before]
    db.executemany(
        _NEW_KEY,
        [
            (request.key.tenant, request.key.key, request.key.body_hash, json.dumps([request.run.id]), now)
            for request in new
        ],
    )
    made = make_runs(db, [request.run for request in new])
    answers = keys.answers(requests, new, before)
    write_audit(db, now, *keys.entries(requests, answers))
    return answers, made


def make_runs(db: sqlite3.Connection, runs: Sequence[Run]) -> Sequence[Run]:
    """Make runs; returns them if none was there before. Raises JobMissing if there is a job that is not there."""
    if not runs:
        return ()
    jobs = sorted({run.job_id for run in runs})
    refuse_nul(jobs)
    missing = [job for job in jobs if not db.execute("SELECT 1 FROM jobs WHERE id = ?", (job,)).fetchone()]
    if missing:
        raise JobMissing.of(missing)
    made = db.executemany(_INSERT_RUNS, rows.RUNS.rows(runs)).rowcount
    return runs if made == len(runs) else ()


def keep_key(db: sqlite3.Connection, key: IdempotencyKey, ids: Sequence[str], now: int) -> None:
    """Keep what was made under a key that was not used before."""
    db.execute(_NEW_KEY, (key.tenant, key.key, key.body_hash, json.dumps(ids), now))


def first_use(db: sqlite3.Connection, key: IdempotencyKey) -> keys.Use | None:
    """The first use of a key, if there was one."""
    found = db.execute(
        "SELECT body_hash, run_ids FROM idempotency WHERE tenant = ? AND key = ?", (key.tenant, key.key)
    ).fetchone()
    return found and keys.Use(found[0], json.loads(found[1]))
