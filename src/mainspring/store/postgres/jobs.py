"""What people ask the PostgreSQL adapter about jobs and the runs of one; each function is one call of the port."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.store.ports.front import JobDay
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.sql import job_statements as statements
from mainspring.store.sql.job_statements import Expressions

_DELETE_JOB = statements.DELETE_JOB.format(now="statement_timestamp()")
_BY_ALL = statements.job_days(
    Expressions(
        source='{table} AS runs WHERE runs.job_id COLLATE "C" = ANY($1::text[])',
        day="floor(date_part('epoch', {}) / 86400)::bigint",
        milliseconds="date_part('epoch', {1} - {0}) * 1000",
        greatest="greatest({})",
    )
)
# Each run is counted once, by several workers of the server if it has them. What they found is added up in three ways,
# so that a few thousand rows leave it.
_JOB_DAYS = f"""
    SELECT day, state, duration, lateness, sum(runs)::bigint, sum(retries)::bigint FROM ({_BY_ALL}) AS counted
    GROUP BY GROUPING SETS ((day, state), (day, duration), (day, lateness))
"""
_HASH = "SET LOCAL enable_sort = off; SET LOCAL work_mem = '32MB'"
"""A million runs are sorted in 0.5 s, and need not be."""


async def task_states(connection: Connection, run_id: str, tasks: int) -> dict[str, dict[str, int]]:
    """How many tasks of a run are in which state, by name."""
    found = await connection.fetch(statements.TASK_STATES, run_id)
    if statements.count_states(found) >= tasks:
        return statements.states_by_name(found)
    return statements.states_by_name(found, await connection.fetch(statements.TASK_STATES_IN_HISTORY, run_id))


async def delete_job(connection: Connection, tenant: str, name: str, audit: AuditEntry) -> bool:
    """Delete all versions of a job, softly."""
    async with transaction(connection):
        statements.refuse_if_used(name, await connection.fetch(statements.SCHEDULES_OF_JOB, tenant, name))
        if await connection.execute(_DELETE_JOB, tenant, name) == "UPDATE 0":
            return False
        await write_audit(connection, audit)
    return True


async def job_days(connection: Connection, tenant: str, job: str, since: datetime, before: datetime) -> list[JobDay]:
    """What became of a job's runs, by day."""
    versions = [row["id"] for row in await connection.fetch(statements.VERSIONS, tenant, job)]
    async with transaction(connection):
        await connection.execute(_HASH)
        return statements.days(await connection.fetch(_JOB_DAYS, versions, since, before))
