"""What the PostgreSQL adapter lists for people; each function is one call of the port, as in `postgres_queries.py`."""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg

from mainspring.core.batch import Checkpoint, WorkerRow
from mainspring.core.jobs import JobRow
from mainspring.core.tasks import Attempt, Task, Transition
from mainspring.store import listing
from mainspring.store import postgres_rows as rows
from mainspring.store.listing import Listing
from mainspring.store.port_front import ListedRun, RunFilter, TaskFilter, Told
from mainspring.store.postgres_connections import Connection

_JOIN_TASKS = f"CROSS JOIN LATERAL (SELECT * FROM tasks WHERE {listing.TASKS_OF_ACTIVE} OFFSET 0) AS tasks"
"""OFFSET 0 keeps the planner from joining with all tasks that are over."""

_ATTEMPTS_OF = listing.attempts_of('task_id COLLATE "C"')
_TRANSITIONS_OF = listing.transitions_of('task_id COLLATE "C"')


async def _find(connection: Connection, wanted: Listing) -> Sequence[asyncpg.Record]:
    return await connection.fetch(wanted.sql, *wanted.parameters)


def _listed_run(row: asyncpg.Record, *, in_history: bool = False) -> ListedRun:
    *run, name, version = row
    return ListedRun(run=rows.RUNS.struct(run), job_name=name, job_version=version, in_history=in_history)


async def list_runs(connection: Connection, wanted: RunFilter, limit: int) -> list[ListedRun]:
    """Runs, the newest first."""
    return [_listed_run(row) for row in await _find(connection, listing.runs(wanted, limit))]


async def find_run(connection: Connection, run_id: str) -> ListedRun | None:
    """One run, also from history. Rows move one way only, so that it is in one of the two when it is looked for."""
    if found := await connection.fetchrow(listing.FIND_RUN, run_id):
        return _listed_run(found)
    found = await connection.fetchrow(listing.FIND_RUN_IN_HISTORY, run_id)
    return _listed_run(found, in_history=True) if found else None


async def list_tasks(connection: Connection, wanted: TaskFilter, limit: int) -> list[Task]:
    """Tasks by id."""
    return rows.TASKS.structs(await _find(connection, listing.tasks(wanted, limit, join_tasks=_JOIN_TASKS)))


async def find_task(connection: Connection, task_id: str) -> Task | None:
    """One task, also from history."""
    found = await connection.fetchrow(listing.FIND_TASK, task_id) or await connection.fetchrow(
        listing.FIND_TASK_IN_HISTORY, listing.run_of(task_id), task_id
    )
    return rows.TASKS.struct(found) if found else None


async def attempts_of(connection: Connection, task_id: str) -> list[Attempt]:
    """The attempts of a task that are over."""
    return rows.ATTEMPTS.structs(await connection.fetch(_ATTEMPTS_OF, task_id))[::-1]


async def transitions_of(connection: Connection, task_id: str) -> list[Transition]:
    """The story of a task."""
    return rows.TRANSITIONS.structs(await connection.fetch(_TRANSITIONS_OF, task_id))[::-1]


async def transitions_after(
    connection: Connection, shard: str, batch_no: int, ordinal: int, limit: int
) -> list[Told]:  # fmt: skip
    """What happened in a shard."""
    found = await connection.fetch(listing.TRANSITIONS_AFTER, shard, batch_no, ordinal, limit)
    return [
        Told(shard=shard, batch_no=batch_no, ordinal=ordinal, transition=rows.TRANSITIONS.struct(transition))
        for shard, batch_no, ordinal, *transition in found
    ]


async def list_jobs(connection: Connection, tenant: str | None, after: str, limit: int) -> list[JobRow]:
    """The latest version of each job."""
    return rows.JOBS.structs(await _find(connection, listing.jobs(tenant, after, limit)))


async def find_job(connection: Connection, tenant: str, name: str, version: int | None) -> JobRow | None:
    """A version of a job."""
    found = await _find(connection, listing.job(tenant, name, version))
    return rows.JOBS.struct(found[0]) if found else None


async def list_workers(connection: Connection, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
    """Workers by id."""
    return rows.WORKERS.structs(await _find(connection, listing.workers(shard, after, limit)))


async def checkpoint(connection: Connection, task_id: str) -> Checkpoint | None:
    """The latest checkpoint of a task."""
    found = await connection.fetchrow(listing.CHECKPOINT, task_id)
    return rows.CHECKPOINTS.struct(found) if found else None
