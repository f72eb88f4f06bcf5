"""What the API lists, as SQL that both databases understand: a filter becomes conditions and their parameters.

Lists go along keys that are there for other reasons, wherever it can be done, because an index that is written with
every change of a run or task costs the write path more than lists are worth. Those of runs are in `run_lists.py`. One
of tasks takes the shortest way that there is:

    of one run                    a range of the primary key
    on a worker, or assigned      tasks with a current attempt (`tasks_attempt`): as many as workers hold
    in states that are not final  tasks of active runs (`runs_active`)
    otherwise                     the primary key, until the page is full
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.batch import Checkpoint, WorkerRow
from mainspring.core.model.decisions import Decision
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Attempt, AttemptEnd, Task, TaskState, Transition
from mainspring.core.model.worker import CLAIMANT
from mainspring.store.ports.artifacts import ArtifactFilter
from mainspring.store.ports.front import DecisionFilter, ServerRow, TaskFilter, TokenRow
from mainspring.store.sql.statements import ACTIVE, WORKER_IS_AWAY, tasks_of

MAX_LISTED = 1000
"""How much is listed of what has no pages."""

_WITH_AN_ATTEMPT = frozenset({TaskState.ASSIGNED, TaskState.RUNNING})

ALL = f"LIMIT {2**63 - 1}"
"""Keeps a planner from taking a subquery apart: what it would find in its stead may be a walk over a million rows."""

_TASKS_WITH_AN_ATTEMPT = f"(SELECT * FROM tasks WHERE attempt_id > '' {ALL}) AS tasks"

_IS_LATEST = "j.version = (SELECT max(l.version) FROM jobs l WHERE l.tenant = j.tenant AND l.name = j.name)"

Parameter = str | int | datetime


def columns(struct: type[msgspec.Struct], alias: str = "") -> str:
    """The columns of a struct's table, in order."""
    dot = f"{alias}." if alias else ""
    return ", ".join(f'{dot}"{name}"' for name in struct.__struct_fields__)


LISTED_RUN = f"{columns(Run, 'runs')}, coalesce(jobs.name, ''), coalesce(jobs.version, 0)"
_FIND_RUN = f"SELECT {LISTED_RUN} FROM {{}} AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = $1"
FIND_RUN = _FIND_RUN.format("runs")
FIND_RUN_IN_HISTORY = _FIND_RUN.format("runs_history")
FIND_TASK = f"SELECT {columns(Task)} FROM tasks WHERE id = $1"
FIND_TASK_IN_HISTORY = f"SELECT {columns(Task)} FROM tasks_history WHERE run_id = $1 AND id = $2"
TRANSITIONS_AFTER = f"""
    SELECT shard, batch_no, ordinal, {columns(Transition)} FROM transitions
    WHERE shard = $1 AND (batch_no, ordinal) > ($2, $3) ORDER BY batch_no, ordinal LIMIT $4
"""
SILENT_WORKERS = f"""
    SELECT {columns(WorkerRow)} FROM workers
    WHERE shard = $1 AND status NOT IN ({WORKER_IS_AWAY}) AND last_heartbeat_at <= $2
        AND (id NOT LIKE '{CLAIMANT}%' OR last_heartbeat_at <= $4)
    ORDER BY last_heartbeat_at, id LIMIT $3
"""
SERVERS = f"SELECT {columns(ServerRow)} FROM servers WHERE last_heartbeat_at >= $1 ORDER BY name LIMIT {MAX_LISTED}"
CHECKPOINT = f"SELECT {columns(Checkpoint)} FROM checkpoints WHERE task_id = $1"
FIND_TOKEN = f"SELECT {columns(TokenRow)} FROM tokens WHERE id = $1"

# By where their tasks begin and end, which is also how tasks are ordered.
_RUNS_OF_TASKS = f"""(
    SELECT 'task_' || substr(id, 5) || '.' AS first, 'task_' || substr(id, 5) || '/' AS last FROM runs
    WHERE shard > '' AND {ACTIVE} AND 'task_' || substr(id, 5) || '/' > $2 ORDER BY first {ALL}) AS active"""
TASKS_OF_ACTIVE = "tasks.id > active.first AND tasks.id < active.last"


def attempts_of(task_id: str = "task_id") -> str:
    """The latest attempts of a task, backwards. `task_id` is how the database names what its index is on."""
    order = f"ORDER BY ended_at DESC, id DESC LIMIT {MAX_LISTED}"
    return f"SELECT {columns(Attempt)} FROM attempts WHERE {task_id} = $1 {order}"


def transitions_of(task_id: str = "task_id") -> str:
    """The latest transitions of a task, backwards."""
    return f"SELECT {columns(Transition)} FROM transitions WHERE {task_id} = $1 ORDER BY seq DESC LIMIT {MAX_LISTED}"


def _last_success(collate: str) -> str:
    """The attempt with which the task of an artifact `x` last succeeded; that of the artifact if none is kept."""
    return f"""coalesce((SELECT id {collate} FROM attempts
        WHERE task_id {collate} = x.task_id AND "end" = '{AttemptEnd.SUCCEEDED}'
        ORDER BY ended_at DESC, id DESC LIMIT 1), x.attempt_id)"""


class Conditions:
    """Conditions that all must hold, and the parameters that they name."""

    def __init__(self, *parameters: Parameter) -> None:
        self.parameters: list[Parameter] = list(parameters)
        self._conditions: list[str] = []

    def given(self, *values: Parameter) -> list[str]:
        """More parameters: how they are named."""
        self.parameters.extend(values)
        return [f"${place}" for place in range(len(self.parameters) - len(values) + 1, len(self.parameters) + 1)]

    def require(self, condition: str, *values: Parameter) -> None:
        """One more; each `{}` in it is the next of these values."""
        self._conditions.append(condition.format(*self.given(*values)))

    def among(self, column: str, values: Sequence[str]) -> None:
        """The column is one of these values."""
        self.require(f"{column} IN ({', '.join(['{}'] * len(values))})", *values)

    def match(self, column: str, text: str, dialect: Dialect) -> None:
        """The column is this text, in which `*` stands for any text."""
        if "*" in text:
            self.require(f"{column} {dialect.like} {{}}", dialect.pattern(text))
        else:
            self.require(f"{column} = {{}}", text)

    def __str__(self) -> str:
        return " AND ".join(self._conditions or ["true"])


class Dialect(NamedTuple):
    """What lists have to say in one database, and otherwise in the other."""

    join_tasks: str
    """How the tasks of each of some runs are looked up, for which `TASKS_OF_ACTIVE` is true."""
    like: str
    """How a text is compared with a pattern."""
    pattern: Callable[[str], str]
    """The pattern of a text in which `*` stands for any text."""
    labels: str
    """The labels of `jobs`, as rows of `key` and `value`."""
    keys: str
    """The texts of a JSON array, as rows of `wanted`; `{}` is the array."""
    key: str
    """One of them."""
    first_of_each: str
    """For each of `wanted` the first rows of a table that `{where}` is true of, as `found`."""
    walk: Callable[[Sequence[tuple[str, str]], str, str], tuple[str, str]]
    """From columns and their values, and two ids: what is true of the rows between, and their order backwards."""


class Listing(NamedTuple):
    """A query of a list, and its parameters."""

    sql: str
    parameters: list[Parameter]


def tasks(wanted: TaskFilter, limit: int, dialect: Dialect) -> Listing:
    """The tasks that are wanted, by id."""
    source, where, order = _tasks(wanted, limit, wanted.after, dialect)
    sql = f"SELECT {columns(Task, 'tasks')} FROM {source} WHERE {where} ORDER BY {order} LIMIT $1"
    return Listing(sql, where.parameters)


def count_of_tasks(wanted: TaskFilter, most: int, dialect: Dialect) -> Listing:
    """How many tasks are wanted, counted up to `most`."""
    source, where, _ = _tasks(wanted, most, "", dialect)
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {where} LIMIT $1) AS counted"
    return Listing(sql, where.parameters)


def _tasks(wanted: TaskFilter, limit: int, after: str, dialect: Dialect) -> tuple[str, Conditions, str]:
    """Where tasks are looked for, what must be true of them, and their order."""
    where = Conditions(limit, after)
    where.require("tasks.id > $2")
    source, order = "tasks", "tasks.id"
    if wanted.run_id is not None:
        where.require(tasks_of("{0}"), wanted.run_id)
    elif wanted.worker is not None or (wanted.states and _WITH_AN_ATTEMPT.issuperset(wanted.states)):
        source = _TASKS_WITH_AN_ATTEMPT
    elif wanted.states and FINAL.isdisjoint(wanted.states):
        source, order = f"{_RUNS_OF_TASKS} {dialect.join_tasks}", "active.first, tasks.id"
        where.require(TASKS_OF_ACTIVE)
    if wanted.tenant is not None:
        where.require("tasks.tenant = {}", wanted.tenant)
    if wanted.states:
        where.among("tasks.state", [state.value for state in wanted.states])
    if wanted.worker is not None:
        where.require("tasks.worker_id = {}", wanted.worker)
    if wanted.name is not None:
        where.match("tasks.name", wanted.name, dialect)
    if wanted.priority is not None:
        where.require("tasks.priority = {}", int(wanted.priority))
    if wanted.since_before is not None:
        where.require("tasks.since < {}", wanted.since_before)
    return source, where, order


def decisions(wanted: DecisionFilter, before: tuple[datetime, str] | None, limit: int) -> Listing:
    """The decisions that are wanted, backwards."""
    where = Conditions(limit)
    for column, value in (
        ("task_id", wanted.task_id), ("run_id", wanted.run_id), ("worker_id", wanted.worker), ("tenant", wanted.tenant),
        ("kind", wanted.kind),
    ):  # fmt: skip
        if value is not None:
            where.require(f"{column} = {{}}", value)
    if wanted.since is not None:
        where.require("at >= {}", wanted.since)
    if wanted.before is not None:
        where.require("at < {}", wanted.before)
    if before is not None:
        where.require("at <= {} AND (at, id) < ({}, {})", before[0], *before)
    return Listing(
        f"SELECT {columns(Decision)} FROM decisions WHERE {where} ORDER BY at DESC, id DESC LIMIT $1", where.parameters
    )


def artifacts(wanted: ArtifactFilter, after: tuple[str, str, str] | None, limit: int, *, collate: str = "") -> Listing:
    """The artifacts that are wanted, by task, attempt and path. `collate` is how ids are compared byte by byte."""
    where = Conditions(limit, wanted.run_id)
    where.require("x.run_id = $2")
    for column, value in (("task_id", wanted.task_id), ("attempt_id", wanted.attempt_id)):
        if value is not None:
            where.require(f"x.{column} = {{}}", value)
    if wanted.tasks:
        where.among("x.task", wanted.tasks)
    if wanted.of_last_success:
        where.require(f"x.succeeded AND x.attempt_id = {_last_success(collate)}")
    if after is not None:
        where.require("(x.task_id, x.attempt_id, x.path) > ({}, {}, {})", *after)
    return Listing(
        f"""SELECT {columns(ArtifactRow, "x")} FROM artifacts x WHERE {where}
            ORDER BY x.task_id, x.attempt_id, x.path LIMIT $1""",
        where.parameters,
    )


def jobs(tenant: str | None, after: str, limit: int) -> Listing:
    """The latest version of each job, by tenant and name, behind the one that is named `tenant/name`."""
    after_tenant, _, after_name = after.partition("/")
    where = Conditions(limit)
    where.require("(j.tenant, j.name) > ({}, {})", after_tenant, after_name)
    where.require("j.deleted_at IS NULL")
    if tenant is not None:
        where.require("j.tenant = {}", tenant)
    return Listing(
        f"""SELECT {columns(JobRow, "j")} FROM jobs j
            WHERE {where} AND {_IS_LATEST}
            ORDER BY j.tenant, j.name LIMIT $1""",
        where.parameters,
    )


def job(tenant: str, name: str, version: int | None) -> Listing:
    """One version of a job, the latest if none is named."""
    where = Conditions(tenant, name)
    where.require("tenant = $1 AND name = $2")
    if version is not None:
        where.require("version = {}", version)
    return Listing(f"SELECT {columns(JobRow)} FROM jobs WHERE {where} ORDER BY version DESC LIMIT 1", where.parameters)


def latest_jobs(tenant: str, names: Sequence[str]) -> Listing:
    """The latest version of each job that has one of these names."""
    where = Conditions(tenant)
    where.require("j.tenant = $1")
    where.among("j.name", names)
    return Listing(
        f"""SELECT {columns(JobRow, "j")} FROM jobs j WHERE {where} AND {_IS_LATEST} LIMIT {MAX_LISTED}""",
        where.parameters,
    )


def job_versions(tenant: str, name: str, before: int | None, limit: int) -> Listing:
    """The versions of a job, the latest first."""
    where = Conditions(tenant, name, limit)
    where.require("tenant = $1 AND name = $2")
    if before is not None:
        where.require("version < {}", before)
    return Listing(f"SELECT {columns(JobRow)} FROM jobs WHERE {where} ORDER BY version DESC LIMIT $3", where.parameters)


def workers(shard: str | None, after: str, limit: int) -> Listing:
    """Workers by id."""
    where = Conditions(limit, after)
    where.require("id > $2")
    if shard is not None:
        where.require("shard = {}", shard)
    return Listing(f"SELECT {columns(WorkerRow)} FROM workers WHERE {where} ORDER BY id LIMIT $1", where.parameters)


def tokens(tenant: str | None) -> Listing:
    """Tokens of a tenant, or of everybody, by creation."""
    where = Conditions()
    if tenant is not None:
        where.require("tenant = {}", tenant)
    return Listing(
        f"SELECT {columns(TokenRow)} FROM tokens WHERE {where} ORDER BY created_at, id LIMIT {MAX_LISTED}",
        where.parameters,
    )


def run_of(task_id: str) -> str:
    """The run that a task belongs to, as its id says: `task_<run>.<index>`."""
    return f"run_{task_id.removeprefix('task_').partition('.')[0]}"
