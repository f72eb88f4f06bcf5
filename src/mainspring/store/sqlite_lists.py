"""What the SQLite adapter lists for people; each function is one call of the port, as in `sqlite_queries.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import datetime

from mainspring.core.batch import Checkpoint, WorkerRow
from mainspring.core.jobs import JobRow
from mainspring.core.tasks import Attempt, Task, Transition
from mainspring.store import listing
from mainspring.store import sqlite_rows as rows
from mainspring.store.listing import Listing, Parameter
from mainspring.store.port_front import ListedRun, RunFilter, TaskFilter, Told
from mainspring.store.sqlite_queries import sqlite
from mainspring.store.sqlite_rows import micros, refuse_nul

_JOIN_TASKS = f"CROSS JOIN tasks ON {listing.TASKS_OF_ACTIVE}"
"""A CROSS JOIN is carried out as it is written."""


def find(db: sqlite3.Connection, statement: str, parameters: Sequence[Parameter]) -> sqlite3.Cursor:
    """What a shared statement finds."""
    refuse_nul([value for value in parameters if isinstance(value, str)])
    return db.execute(
        sqlite(statement), [micros(value) if isinstance(value, datetime) else value for value in parameters]
    )


def _find(db: sqlite3.Connection, wanted: Listing) -> sqlite3.Cursor:
    return find(db, wanted.sql, wanted.parameters)


def _listed_run(row: tuple[object, ...], *, in_history: bool = False) -> ListedRun:
    *run, name, version = row
    assert isinstance(name, str)
    assert isinstance(version, int)
    return ListedRun(run=rows.RUNS.struct(run), job_name=name, job_version=version, in_history=in_history)


def list_runs(db: sqlite3.Connection, wanted: RunFilter, limit: int) -> list[ListedRun]:
    """Runs, the newest first."""
    return [_listed_run(row) for row in _find(db, listing.runs(wanted, limit))]


def find_run(db: sqlite3.Connection, run_id: str) -> ListedRun | None:
    """One run, also from history."""
    for statement in (listing.FIND_RUN, listing.FIND_RUN_IN_HISTORY):
        for row in find(db, statement, [run_id]):
            return _listed_run(row, in_history=statement == listing.FIND_RUN_IN_HISTORY)
    return None


def list_tasks(db: sqlite3.Connection, wanted: TaskFilter, limit: int) -> list[Task]:
    """Tasks by id."""
    return rows.TASKS.structs(_find(db, listing.tasks(wanted, limit, join_tasks=_JOIN_TASKS)))


def find_task(db: sqlite3.Connection, task_id: str) -> Task | None:
    """One task, also from history."""
    found = (
        find(db, listing.FIND_TASK, [task_id]).fetchone()
        or find(db, listing.FIND_TASK_IN_HISTORY, [listing.run_of(task_id), task_id]).fetchone()
    )
    return found and rows.TASKS.struct(found)


def attempts_of(db: sqlite3.Connection, task_id: str) -> list[Attempt]:
    """The attempts of a task that are over."""
    return rows.ATTEMPTS.structs(find(db, listing.attempts_of(), [task_id]))[::-1]


def transitions_of(db: sqlite3.Connection, task_id: str) -> list[Transition]:
    """The story of a task."""
    return rows.TRANSITIONS.structs(find(db, listing.transitions_of(), [task_id]))[::-1]


def transitions_after(db: sqlite3.Connection, shard: str, batch_no: int, ordinal: int, limit: int) -> list[Told]:
    """What happened in a shard."""
    found = find(db, listing.TRANSITIONS_AFTER, [shard, batch_no, ordinal, limit])
    return [
        Told(shard=shard, batch_no=batch_no, ordinal=ordinal, transition=rows.TRANSITIONS.struct(transition))
        for shard, batch_no, ordinal, *transition in found
    ]


def list_jobs(db: sqlite3.Connection, tenant: str | None, after: str, limit: int) -> list[JobRow]:
    """The latest version of each job."""
    return rows.JOBS.structs(_find(db, listing.jobs(tenant, after, limit)))


def find_job(db: sqlite3.Connection, tenant: str, name: str, version: int | None) -> JobRow | None:
    """A version of a job."""
    found = _find(db, listing.job(tenant, name, version)).fetchone()
    return found and rows.JOBS.struct(found)


def list_workers(db: sqlite3.Connection, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
    """Workers by id."""
    return rows.WORKERS.structs(_find(db, listing.workers(shard, after, limit)))


def checkpoint(db: sqlite3.Connection, task_id: str) -> Checkpoint | None:
    """The latest checkpoint of a task."""
    found = find(db, listing.CHECKPOINT, [task_id]).fetchone()
    return found and rows.CHECKPOINTS.struct(found)
