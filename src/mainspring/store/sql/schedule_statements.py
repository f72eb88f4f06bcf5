"""Schedules, fires, events, alerts and dead letters, as SQL that both databases understand (as in `lists.py`).

Two kinds of statements are here: what the API lists, and what is known of a schedule when it is settled. The latter are
functions of how the schedule is named, because PostgreSQL asks for hundreds of schedules at once and SQLite for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from mainspring.core.model.batch import BreakerRow, DurationRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import (
    MAX_ENDED_RUNS,
    MAX_OPEN_FIRES,
    MAX_UPSTREAM_FIRES,
    BackfillRow,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleRow,
)
from mainspring.core.model.task import Task, TaskState
from mainspring.core.schedules.windows import Outcome
from mainspring.store.ports.schedules import AlertRow, FireFilter, ScheduleFilter
from mainspring.store.sql.lists import MAX_LISTED, Conditions, Listing, columns
from mainspring.store.sql.statements import not_replaced

MAX_AFTER = 10_000
"""So many schedules are told that the job they wait for has ended. The others hear of it from the sweep."""

IS_OPEN = f"(outcome = '{Outcome.WAITING}' OR (outcome = '{Outcome.RAN}' AND run_ended_at IS NULL))"
"""True of a fire that waits, or whose run is not over. The index `fires_open` has the same condition."""

FIRE_KEY = ("schedule_id", "window_at", "generation")
ONE_RUN_EACH = "fires.run_id IS NULL OR fires.run_id = excluded.run_id"
"""A fire that has a run keeps it (I-30). Whoever would put another in its place finds that nothing was written."""

IS_DUE = "next_at IS NOT NULL AND deleted_at IS NULL"
IS_BEING_EVALUATED = "has_waiting_windows AND deleted_at IS NULL"

_SCHEDULE = columns(ScheduleRow)
_FIRE = columns(FireRow)


class NextDue(msgspec.Struct, frozen=True, kw_only=True):
    """When something is due."""

    next_at: datetime | None


class WaitingAfter(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, and the job that it waits for."""

    id: str
    tenant: str
    after_job: str


# schedules


def schedule(id: str) -> Listing:
    """One by its id."""
    return Listing(f"SELECT {_SCHEDULE} FROM schedules WHERE id = $1", [id])


def schedule_named(tenant: str, name: str) -> Listing:
    """One by its name, unless it is deleted."""
    return Listing(
        f"SELECT {_SCHEDULE} FROM schedules WHERE tenant = $1 AND name = $2 AND deleted_at IS NULL", [tenant, name]
    )


def schedules_named(tenant: str, names: Sequence[str]) -> Listing:
    """Those that have one of these names, unless they are deleted."""
    where = Conditions(tenant)
    where.require("tenant = $1 AND deleted_at IS NULL")
    where.among("name", names)
    return Listing(f"SELECT {_SCHEDULE} FROM schedules WHERE {where} LIMIT {MAX_LISTED}", where.parameters)


def schedules(wanted: ScheduleFilter, limit: int) -> Listing:
    """The schedules that are wanted, by id."""
    where = Conditions(limit, wanted.after)
    where.require("id > $2 AND deleted_at IS NULL")
    if wanted.tenant is not None:
        where.require("tenant = {}", wanted.tenant)
    if wanted.job is not None:
        where.require("job = {}", wanted.job)
    for column, value in (("enabled", wanted.enabled), ("paused", wanted.paused)):
        if value is not None:
            where.require(column if value else f"NOT {column}")
    return Listing(f"SELECT {_SCHEDULE} FROM schedules WHERE {where} ORDER BY id LIMIT $1", where.parameters)


def next_schedules(tenant: str | None, until: datetime, limit: int) -> Listing:
    """Schedules by when they are due."""
    where = Conditions(limit, until)
    where.require(f"{IS_DUE} AND next_at < $2")
    if tenant is not None:
        where.require("tenant = {}", tenant)
    return Listing(f"SELECT {_SCHEDULE} FROM schedules WHERE {where} ORDER BY next_at, id LIMIT $1", where.parameters)


def next_due() -> Listing:
    """When the next one is due."""
    return Listing(f"SELECT min(next_at) AS next_at FROM schedules WHERE {IS_DUE}", [])


def schedules_after() -> Listing:
    """Those that have windows that wait and that wait for a job."""
    return Listing(
        f"""SELECT id, tenant, after_job FROM schedules
            WHERE after_job <> '' AND has_waiting_windows AND deleted_at IS NULL ORDER BY id LIMIT {MAX_AFTER}""",
        [],
    )


def unprocessed_run_ends(before: datetime, limit: int) -> Listing:
    """Runs that are over while their fires say otherwise."""
    return Listing(
        f"""SELECT run_id, state, ended_at FROM fires JOIN runs ON runs.id = run_id
            WHERE {IS_OPEN} AND outcome = '{Outcome.RAN}' AND ended_at < $2 LIMIT $1""",
        [limit, before],
    )


def fires_of_runs(run_ids: Sequence[str]) -> Listing:
    """The fires that led to some runs."""
    where = Conditions()
    where.among("run_id", run_ids)
    return Listing(f"SELECT {_FIRE} FROM fires WHERE {where}", where.parameters)


def fires(wanted: FireFilter, limit: int) -> Listing:
    """The fires that are wanted of a schedule, backwards. One of several windows counts as each of them."""
    where = Conditions(limit, wanted.schedule_id)
    where.require("schedule_id = $2")
    if wanted.outcomes:
        where.among("outcome", [outcome.value for outcome in wanted.outcomes])
    if wanted.since is not None:
        where.require("last_window_at >= {}", wanted.since)
    if wanted.before is not None:
        where.require("window_at < {}", wanted.before)
    if wanted.backfill_id is not None:
        where.require("backfill_id = {}", wanted.backfill_id)
    return Listing(
        f"SELECT {_FIRE} FROM fires WHERE {where} ORDER BY window_at DESC, generation DESC LIMIT $1", where.parameters
    )


def changes(schedule_id: str, limit: int) -> Listing:
    """The latest changes of a schedule, backwards."""
    return Listing(
        f"SELECT {columns(ScheduleChange)} FROM schedule_changes WHERE schedule_id = $2 ORDER BY seq DESC LIMIT $1",
        [limit, schedule_id],
    )


def backfills(schedule_id: str, limit: int) -> Listing:
    """The latest backfills of a schedule, backwards: their ids begin with the time."""
    return Listing(
        f"SELECT {columns(BackfillRow)} FROM backfills WHERE schedule_id = $2 ORDER BY id DESC LIMIT $1",
        [limit, schedule_id],
    )


# what is known of a schedule when it is settled


def open_fires(schedule_id: str) -> str:
    """Fires that wait, or whose run is not over, oldest first."""
    return f"""SELECT {_FIRE} FROM fires WHERE schedule_id = {schedule_id} AND {IS_OPEN}
        ORDER BY window_at, generation LIMIT {MAX_OPEN_FIRES}"""


def ends(schedule_id: str, since: str) -> str:
    """How its latest runs ended, newest first."""
    return f"""SELECT run_state FROM fires
        WHERE schedule_id = {schedule_id} AND run_ended_at IS NOT NULL AND run_ended_at >= {since}
          AND run_state IS NOT NULL
        ORDER BY run_ended_at DESC LIMIT {MAX_ENDED_RUNS}"""


def latest_job(tenant: str, name: str) -> str:
    """The latest version of a job."""
    return f"""SELECT {columns(JobRow)} FROM jobs WHERE tenant = {tenant} AND name = {name}
        ORDER BY version DESC LIMIT 1"""


def oldest_schedule(tenant: str, job: str) -> str:
    """The oldest schedule of a job: ids begin with the time."""
    return f"""SELECT {_SCHEDULE} FROM schedules WHERE tenant = {tenant} AND job = {job} AND deleted_at IS NULL
        ORDER BY created_at, id LIMIT 1"""


def latest_fires(schedule_id: str) -> str:
    """The latest fires of a schedule, newest window first."""
    return f"""SELECT {_FIRE} FROM fires WHERE schedule_id = {schedule_id}
        ORDER BY window_at DESC, generation DESC LIMIT {MAX_UPSTREAM_FIRES}"""


def latest_success(schedule_id: str) -> str:
    """When a run of a schedule last succeeded."""
    return f"""SELECT run_ended_at FROM fires
        WHERE schedule_id = {schedule_id} AND run_ended_at IS NOT NULL AND run_state = '{RunState.SUCCEEDED}'
        ORDER BY run_ended_at DESC LIMIT 1"""


# events, alerts


def events(tenant: str | None, type: str | None, before: datetime | None, limit: int) -> Listing:
    """Events by when they came, backwards."""
    where = Conditions(limit)
    if tenant is not None:
        where.require("tenant = {}", tenant)
    if type is not None:
        where.require("type = {}", type)
    if before is not None:
        where.require("received_at < {}", before)
    return Listing(
        f"SELECT {columns(EventRow)} FROM events WHERE {where} ORDER BY received_at DESC, source, id LIMIT $1",
        where.parameters,
    )


def alerts(tenant: str | None, is_open: bool | None, before: str, limit: int) -> Listing:
    """Episodes by id, backwards."""
    where = Conditions(limit)
    if tenant is not None:
        where.require("tenant = {}", tenant)
    if is_open is not None:
        where.require(f"resolved_at IS {'' if is_open else 'NOT '}NULL")
    if before:
        where.require("id < {}", before)
    return Listing(f"SELECT {columns(AlertRow)} FROM alerts WHERE {where} ORDER BY id DESC LIMIT $1", where.parameters)


# dead letters, usual durations, open circuits

_DEAD = ", ".join(f"'{state}'" for state in (TaskState.FAILED, TaskState.TIMED_OUT))
"""The indexes `tasks_dead` and `tasks_history_dead` have the same list."""


def dead_letters(tenant: str | None, job: str | None, before: tuple[datetime, str] | None, limit: int) -> Listing:
    """Tasks that failed for good, backwards, of both tables.

    Their run may be in another table than they are while it moves to history.
    """
    where = Conditions(limit)
    where.require(f"x.state IN ({_DEAD}) AND x.ended_at IS NOT NULL AND {not_replaced('x')}")
    if tenant is not None:
        where.require("x.tenant = {}", tenant)
    if before is not None:
        where.require("(x.ended_at, x.id) < ({}, {})", *before)
    if job is not None:
        where.require(
            """EXISTS (
                SELECT 1 FROM (
                    SELECT job_id FROM runs WHERE runs.id = x.run_id
                    UNION ALL SELECT job_id FROM runs_history WHERE runs_history.id = x.run_id
                ) AS r JOIN jobs ON jobs.id = r.job_id WHERE jobs.name = {})""",
            job,
        )
    some = "SELECT * FROM (SELECT {} FROM {} x WHERE {} ORDER BY x.ended_at DESC, x.id DESC LIMIT $1) AS {}"
    found = " UNION ALL ".join(
        some.format(columns(Task, "x"), table, where, table) for table in ("tasks", "tasks_history")
    )
    return Listing(f"SELECT * FROM ({found}) AS dead ORDER BY ended_at DESC, id DESC LIMIT $1", where.parameters)


def durations(tenant: str, job: str) -> Listing:
    """How long the tasks of a job take, by name."""
    return Listing(
        f"""SELECT {columns(DurationRow)} FROM durations WHERE tenant = $1 AND job = $2
            ORDER BY task, shard LIMIT {MAX_LISTED}""",
        [tenant, job],
    )


def breakers() -> Listing:
    """The circuits that are open."""
    return Listing(f"SELECT {columns(BreakerRow)} FROM breakers ORDER BY shard, kind, subject LIMIT {MAX_LISTED}", [])
