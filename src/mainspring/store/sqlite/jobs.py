"""What people ask the SQLite adapter about jobs and the runs of one; each function is one call of the port."""

from __future__ import annotations

import json
import math
import sqlite3
from datetime import datetime

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.store.ports.front import JobDay
from mainspring.store.sql import job_statements as statements
from mainspring.store.sql.job_statements import Expressions
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.lists import find

_DELETE_JOB = statements.DELETE_JOB.format(now="$3")
_JOB_DAYS = statements.job_days(
    Expressions(
        source="json_each($1) AS version CROSS JOIN {table} AS runs ON runs.job_id = version.value WHERE true",
        day="{} / 86400000000",
        milliseconds="({1} - {0}) / 1000.0",
        greatest="max({})",
    )
)


def add_functions(db: sqlite3.Connection) -> None:
    """Let a connection count durations: SQLite may have been built without mathematics."""
    try:
        db.execute("SELECT floor(ln(1.0))")
    except sqlite3.OperationalError:
        db.create_function("ln", 1, math.log, deterministic=True)
        db.create_function("floor", 1, math.floor, deterministic=True)


def task_states(db: sqlite3.Connection, run_id: str, tasks: int) -> dict[str, dict[str, int]]:
    """How many tasks of a run are in which state, by name."""
    found = list(find(db, statements.TASK_STATES, [run_id]))
    if statements.count_states(found) >= tasks:
        return statements.states_by_name(found)
    return statements.states_by_name(found, find(db, statements.TASK_STATES_IN_HISTORY, [run_id]))


def delete_job(db: sqlite3.Connection, tenant: str, name: str, audit: AuditEntry, now: int) -> bool:
    """Delete all versions of a job, softly."""
    statements.refuse_if_used(name, find(db, statements.SCHEDULES_OF_JOB, [tenant, name]))
    if find(db, _DELETE_JOB, [tenant, name, now]).rowcount == 0:
        return False
    write_audit(db, now, audit)
    return True


def job_days(db: sqlite3.Connection, tenant: str, job: str, since: datetime, before: datetime) -> list[JobDay]:
    """What became of a job's runs, by day."""
    versions = [version for (version,) in find(db, statements.VERSIONS, [tenant, job])]
    return statements.days(find(db, _JOB_DAYS, [json.dumps(versions), since, before]))
