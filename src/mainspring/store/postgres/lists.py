"""What the PostgreSQL adapter lists for people; each function is one call of the port, as in `queries.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import asyncpg

from mainspring.core.model.batch import Checkpoint, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.task import Attempt, Task, Transition
from mainspring.store.ports.front import ListedRun, RunFilter, TaskFilter, TransitionRecord
from mainspring.store.postgres import rows
from mainspring.store.postgres.connection.connection_pool import Connection
from mainspring.store.postgres.queries import time
from mainspring.store.sql import lists as listing
from mainspring.store.sql import run_lists
from mainspring.store.sql.lists import Dialect, Listing

_ESCAPED = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_", "*": "%"})


def _walk(key: Sequence[tuple[str, str]], first: str, last: str) -> tuple[str, str]:
    """By row values, so that no plan takes another index for the order and hopes to find the rest on the way."""
    places = [*(f'{column} COLLATE "C"' for column, _ in key), "(runs.id || '')"]
    row, values = ", ".join(places), ", ".join(value for _, value in key)
    return (
        f"({row}) > ({values}, {first}) AND ({row}) < ({values}, {last})",
        ", ".join(f"{place} DESC" for place in places),
    )


# OFFSET 0 keeps the planner from joining with all tasks that are over.
DIALECT = Dialect(
    join_tasks=f"CROSS JOIN LATERAL (SELECT * FROM tasks WHERE {listing.TASKS_OF_ACTIVE} OFFSET 0) AS tasks",
    like="LIKE",
    pattern=lambda text: text.translate(_ESCAPED),
    labels="json_each_text(jobs.labels::json)",
    keys="json_array_elements_text({}::json) AS wanted (key)",
    key="wanted.key",
    first_of_each="""CROSS JOIN LATERAL (
        SELECT * FROM {table} AS runs WHERE {where} ORDER BY {order} LIMIT $1) AS found""",
    walk=_walk,
)

_ATTEMPTS_OF = listing.attempts_of('task_id COLLATE "C"')
_TRANSITIONS_OF = listing.transitions_of('task_id COLLATE "C"')


async def _find(connection: Connection, wanted: Listing) -> Sequence[asyncpg.Record]:
    return await connection.fetch(wanted.sql, *wanted.parameters)


def _listed_run(row: Iterable[Any], *, in_history: bool = False) -> ListedRun:
    *run, name, version = row
    return ListedRun(run=rows.RUNS.struct(run), job_name=name, job_version=version, in_history=in_history)


async def list_runs(connection: Connection, wanted: RunFilter, limit: int) -> list[ListedRun]:
    """Runs, the newest first."""
    jobs = await _jobs_of(connection, wanted)
    found: Sequence[asyncpg.Record] = []
    for window in run_lists.windows(wanted, await time(connection)):
        found = await _find(connection, run_lists.runs(window, limit, jobs, DIALECT))
        if len(found) == limit:
            break
    return [_listed_run(row, in_history=bool(in_history)) for *row, in_history in found]


async def count_runs(connection: Connection, wanted: RunFilter, most: int) -> int:
    """How many runs there are."""
    counted = run_lists.count_of_runs(wanted, most, await _jobs_of(connection, wanted), DIALECT)
    return await _count(connection, counted)


async def _jobs_of(connection: Connection, wanted: RunFilter) -> list[str] | None:
    jobs = run_lists.job_ids(wanted, DIALECT)
    return None if jobs is None else [row["id"] for row in await _find(connection, jobs)]


async def _count(connection: Connection, counted: Listing) -> int:
    (found,) = await _find(connection, counted)
    return int(found[0])


async def find_run(connection: Connection, run_id: str) -> ListedRun | None:
    """One run, also from history. Rows move one way only, so that it is in one of the two when it is looked for."""
    if found := await connection.fetchrow(listing.FIND_RUN, run_id):
        return _listed_run(found)
    found = await connection.fetchrow(listing.FIND_RUN_IN_HISTORY, run_id)
    return _listed_run(found, in_history=True) if found else None


async def list_tasks(connection: Connection, wanted: TaskFilter, limit: int) -> list[Task]:
    """Tasks by id."""
    return rows.TASKS.structs(await _find(connection, listing.tasks(wanted, limit, DIALECT)))


async def count_tasks(connection: Connection, wanted: TaskFilter, most: int) -> int:
    """How many tasks there are."""
    return await _count(connection, listing.count_of_tasks(wanted, most, DIALECT))


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
) -> list[TransitionRecord]:  # fmt: skip
    """What happened in a shard."""
    found = await connection.fetch(listing.TRANSITIONS_AFTER, shard, batch_no, ordinal, limit)
    return [
        TransitionRecord(shard=shard, batch_no=batch_no, ordinal=ordinal, transition=read)
        for shard, batch_no, ordinal, *transition in found
        for read in rows.TRANSITIONS.readable_structs([transition])
    ]


async def list_jobs(connection: Connection, tenant: str | None, after: str, limit: int) -> list[JobRow]:
    """The latest version of each job."""
    return rows.JOBS.structs(await _find(connection, listing.jobs(tenant, after, limit)))


async def find_job(connection: Connection, tenant: str, name: str, version: int | None) -> JobRow | None:
    """A version of a job."""
    found = await _find(connection, listing.job(tenant, name, version))
    return rows.JOBS.struct(found[0]) if found else None


async def latest_jobs(connection: Connection, tenant: str, names: Sequence[str]) -> list[JobRow]:
    """The latest versions of some jobs."""
    return rows.JOBS.structs(await _find(connection, listing.latest_jobs(tenant, names)))


async def job_versions(
    connection: Connection, tenant: str, name: str, before: int | None, limit: int
) -> list[JobRow]:  # fmt: skip
    """The versions of a job."""
    return rows.JOBS.structs(await _find(connection, listing.job_versions(tenant, name, before, limit)))


async def list_workers(connection: Connection, shard: str | None, after: str, limit: int) -> list[WorkerRow]:
    """Workers by id."""
    return rows.WORKERS.structs(await _find(connection, listing.workers(shard, after, limit)))


async def checkpoint(connection: Connection, task_id: str) -> Checkpoint | None:
    """The latest checkpoint of a task."""
    found = await connection.fetchrow(listing.CHECKPOINT, task_id)
    return rows.CHECKPOINTS.struct(found) if found else None
