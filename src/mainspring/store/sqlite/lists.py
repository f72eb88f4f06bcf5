"""What the SQLite adapter lists for people; each function is one call of the port, as in `queries.py`."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

from mainspring.core.model.batch import Checkpoint, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.task import Attempt, Task, Transition
from mainspring.store.ports.front import ListedRun, RunFilter, TaskFilter, TransitionRecord
from mainspring.store.sql import lists as listing
from mainspring.store.sql import run_lists
from mainspring.store.sql.lists import Dialect, Listing, Parameter
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.queries import sqlite
from mainspring.store.sqlite.rows import micros, refuse_nul

_ESCAPED = str.maketrans({"?": "[?]", "[": "[[]"})


def _walk(key: Sequence[tuple[str, str]], first: str, last: str) -> tuple[str, str]:
    """Column by column: the planner knows that those that are given don't matter for the order."""
    given = " AND ".join(f"{column} = {value}" for column, value in key)
    return f"{given} AND runs.id > {first} AND runs.id < {last}", "runs.id DESC"


# A CROSS JOIN is carried out as it is written.
DIALECT = Dialect(
    join_tasks=f"CROSS JOIN tasks ON {listing.TASKS_OF_ACTIVE}",
    like="GLOB",
    pattern=lambda text: text.translate(_ESCAPED),
    labels="json_each(jobs.labels)",
    keys="json_each({}) AS wanted",
    key="wanted.value",
    first_of_each="""CROSS JOIN {table} AS found ON found.id IN (
        SELECT runs.id FROM {table} AS runs WHERE {where} ORDER BY {order} LIMIT $1)""",
    walk=_walk,
)


def find(db: sqlite3.Connection, statement: str, parameters: Sequence[Parameter]) -> sqlite3.Cursor:
    """What a shared statement finds."""
    refuse_nul([value for value in parameters if isinstance(value, str)])
    return db.execute(
        sqlite(statement), [micros(value) if isinstance(value, datetime) else value for value in parameters]
    )


def _find(db: sqlite3.Connection, wanted: Listing) -> sqlite3.Cursor:
    return find(db, wanted.sql, wanted.parameters)


def _listed_run(row: Iterable[object], *, in_history: bool = False) -> ListedRun:
    *run, name, version = row
    assert isinstance(name, str)
    assert isinstance(version, int)
    return ListedRun(run=rows.RUNS.struct(run), job_name=name, job_version=version, in_history=in_history)


def list_runs(db: sqlite3.Connection, wanted: RunFilter, limit: int) -> list[ListedRun]:
    """Runs, the newest first."""
    found = _find(db, run_lists.runs(wanted, limit, _jobs_of(db, wanted), DIALECT))
    return [_listed_run(row, in_history=bool(in_history)) for *row, in_history in found]


def count_runs(db: sqlite3.Connection, wanted: RunFilter, most: int) -> int:
    """How many runs there are."""
    return _count(db, run_lists.count_of_runs(wanted, most, _jobs_of(db, wanted), DIALECT))


def _jobs_of(db: sqlite3.Connection, wanted: RunFilter) -> list[str] | None:
    jobs = run_lists.job_ids(wanted, DIALECT)
    return None if jobs is None else [job_id for (job_id,) in _find(db, jobs)]


def _count(db: sqlite3.Connection, counted: Listing) -> int:
    return int(_find(db, counted).fetchone()[0])


def find_run(db: sqlite3.Connection, run_id: str) -> ListedRun | None:
    """One run, also from history."""
    for statement in (listing.FIND_RUN, listing.FIND_RUN_IN_HISTORY):
        for row in find(db, statement, [run_id]):
            return _listed_run(row, in_history=statement == listing.FIND_RUN_IN_HISTORY)
    return None


def list_tasks(db: sqlite3.Connection, wanted: TaskFilter, limit: int) -> list[Task]:
    """Tasks by id."""
    return rows.TASKS.structs(_find(db, listing.tasks(wanted, limit, DIALECT)))


def count_tasks(db: sqlite3.Connection, wanted: TaskFilter, most: int) -> int:
    """How many tasks there are."""
    return _count(db, listing.count_of_tasks(wanted, most, DIALECT))


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


def transitions_after(
    db: sqlite3.Connection, shard: str, batch_no: int, ordinal: int, limit: int
) -> list[TransitionRecord]:
    """What happened in a shard."""
    found = find(db, listing.TRANSITIONS_AFTER, [shard, batch_no, ordinal, limit])
    return [
        TransitionRecord(shard=shard, batch_no=batch_no, ordinal=ordinal, transition=read)
        for shard, batch_no, ordinal, *transition in found
        for read in rows.TRANSITIONS.readable_structs([transition])
    ]


def list_jobs(db: sqlite3.Connection, tenant: str | None, after: str, limit: int) -> list[JobRow]:
    """The latest version of each job."""
    return rows.JOBS.structs(_find(db, listing.jobs(tenant, after, limit)))


def find_job(db: sqlite3.Connection, tenant: str, name: str, version: int | None) -> JobRow | None:
    """A version of a job."""
    found = _find(db, listing.job(tenant, name, version)).fetchone()
    return found and rows.JOBS.struct(found)


def latest_jobs(db: sqlite3.Connection, tenant: str, names: Sequence[str]) -> list[JobRow]:
    """The latest versions of some jobs."""
    return rows.JOBS.structs(_find(db, listing.latest_jobs(tenant, names)))


def job_versions(db: sqlite3.Connection, tenant: str, name: str, before: int | None, limit: int) -> list[JobRow]:
    """The versions of a job."""
    return rows.JOBS.structs(_find(db, listing.job_versions(tenant, name, before, limit)))


def list_workers(db: sqlite3.Connection, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
    """Workers by id."""
    return rows.WORKERS.structs(_find(db, listing.workers(shard, after, limit)))


def checkpoint(db: sqlite3.Connection, task_id: str) -> Checkpoint | None:
    """The latest checkpoint of a task."""
    found = find(db, listing.CHECKPOINT, [task_id]).fetchone()
    return found and rows.CHECKPOINTS.struct(found)
