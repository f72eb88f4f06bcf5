"""What people ask about jobs and the runs of one, as SQL that both databases understand.

How long runs took is counted where they are stored: of a million runs of a job, a few thousand numbers leave the
database. Buckets are those of `core/lifecycle/duration_histogram.py`, by the same formula.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from mainspring.core.lifecycle.duration_histogram import BASE, MIN_MILLISECONDS
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.front import JobDay
from mainspring.store.sql.statements import not_replaced, tasks_of

MAX_NAMED = 5
"""So many schedules are named of those that a job can't be deleted for."""

SCHEDULES_OF_JOB = f"""
    SELECT name FROM schedules WHERE tenant = $1 AND job = $2 AND deleted_at IS NULL ORDER BY name LIMIT {MAX_NAMED}
"""
VERSIONS = "SELECT id FROM jobs WHERE tenant = $1 AND name = $2"
DELETE_JOB = "UPDATE jobs SET deleted_at = {now} WHERE tenant = $1 AND name = $2 AND deleted_at IS NULL"
_TASK_STATES = """
    SELECT name, state, count(*), sum(CASE WHEN {counts} THEN 1 ELSE 0 END) FROM {table} WHERE {of_run}
    GROUP BY name, state ORDER BY name, state
"""
TASK_STATES = _TASK_STATES.format(table="tasks", of_run=tasks_of("$1"), counts=not_replaced("tasks"))
TASK_STATES_IN_HISTORY = _TASK_STATES.format(
    table="tasks_history", of_run="run_id = $1", counts=not_replaced("tasks_history")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Expressions(NamedTuple):
    """What the two databases call differently."""

    source: str
    """The runs, as `runs`, in `{table}`, of the versions of jobs $1."""
    day: str
    """The number of the day of an instant, since 1970."""
    milliseconds: str
    """From one instant to another."""
    greatest: str


def states_by_name(*found: Iterable[Iterable[Any]]) -> dict[str, dict[str, int]]:
    """What `TASK_STATES` and the same of history found, together."""
    states: dict[str, dict[str, int]] = {}
    for name, state, _, counted in chain.from_iterable(found):
        if counted:
            of_name = states.setdefault(name, {})
            of_name[state] = of_name.get(state, 0) + int(counted)
    return states


def count_states(found: Iterable[Iterable[Any]]) -> int:
    """How many tasks `TASK_STATES` found, also those that were replaced."""
    return sum(int(tasks) for _, _, tasks, _ in found)


def refuse_if_used(job: str, schedules: Iterable[Iterable[Any]]) -> None:
    """Raises Conflict if there are schedules for a job that is to be deleted."""
    if names := ", ".join(name for (name,) in schedules):
        raise Conflict(f"the job {job} has schedules: {names}; delete them first, or give them another job")


def job_days(expressions: Expressions) -> str:
    """The runs of versions $1 of a job that ended from $2 on and before $3, by day, state, duration and lateness."""
    day = expressions.day.format("runs.ended_at")
    duration = _bucket(expressions, "coalesce(runs.started_at, runs.start_at)", "runs.ended_at")
    lateness = _bucket(expressions, "coalesce(runs.window_at, runs.start_at)", "runs.started_at")
    each = " UNION ALL ".join(
        f"""SELECT {day} AS day, runs.state, {duration} AS duration, {lateness} AS lateness, runs.retries
            FROM {expressions.source.format(table=table)} AND runs.ended_at >= $2 AND runs.ended_at < $3"""
        for table in ("runs", "runs_history")
    )
    return f"""SELECT day, state, duration, lateness, count(*) AS runs, sum(retries) AS retries FROM ({each}) AS ended
               GROUP BY day, state, duration, lateness"""


def _bucket(expressions: Expressions, start: str, end: str) -> str:
    """As `duration_histogram.bucket_of`; NULL if one of them is."""
    lasted = expressions.greatest.format(f"{MIN_MILLISECONDS}, {expressions.milliseconds.format(start, end)}")
    return f"CASE WHEN {end} IS NOT NULL THEN CAST(floor(ln({lasted}) / {math.log(BASE)!r}) AS INTEGER) END"


def days(found: Iterable[Iterable[Any]]) -> list[JobDay]:
    """What `job_days` found, day by day."""
    by_day: dict[int, JobDay] = {}
    retries: Counter[int] = Counter()
    for number, state, duration, lateness, runs, tried_again in found:
        if number not in by_day:
            at = _EPOCH + timedelta(days=number)
            by_day[number] = JobDay(day=at, states=Counter(), durations=Counter(), lateness=Counter(), retries=0)
        day = by_day[number]
        if state is not None:
            day.states[state] += runs
            retries[number] += int(tried_again)
        if duration is not None:
            day.durations[duration] += runs
        if lateness is not None:
            day.lateness[lateness] += runs
    return [msgspec.structs.replace(by_day[number], retries=retries[number]) for number in sorted(by_day)]
