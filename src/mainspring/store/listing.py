"""What the API lists, as SQL that both databases understand: a filter becomes conditions and their parameters.

Lists of runs and tasks go along keys that are there for other reasons, because an index that is written with every
change of a run or task costs the write path more than lists are worth. A list of runs walks their ids, which are made
of the time, or those of its tenant. A list of tasks takes the shortest way that there is:

    of one run                    a range of the primary key
    on a worker, or assigned      tasks with a current attempt (`tasks_attempt`): as many as workers hold
    in states that are not final  tasks of active runs (`runs_active`)
    otherwise                     the primary key, until the page is full
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from mainspring.core.batch import Checkpoint, WorkerRow
from mainspring.core.jobs import JobRow
from mainspring.core.runs import FINAL_RUN, Run, RunState
from mainspring.core.states import FINAL
from mainspring.core.tasks import Attempt, Task, TaskState, Transition
from mainspring.store.port_front import RunFilter, ServerRow, TaskFilter, TokenRow
from mainspring.store.statements import ACTIVE, WORKER_IS_AWAY, tasks_of

MOST = 1000
"""How much is listed of what has no pages."""

_WITH_AN_ATTEMPT = frozenset({TaskState.ASSIGNED, TaskState.RUNNING})
_ADOPTED = frozenset(RunState) - FINAL_RUN - {RunState.PENDING}

_ALL = f"LIMIT {2**63 - 1}"
"""Keeps a planner from taking a subquery apart: what it would find in its stead may be a walk over a million rows."""

_ACTIVE_RUNS = f"(SELECT * FROM runs WHERE shard > '' AND {ACTIVE} {_ALL}) AS runs"
_TASKS_WITH_AN_ATTEMPT = f"(SELECT * FROM tasks WHERE attempt_id > '' {_ALL}) AS tasks"

Parameter = str | int | datetime


def columns(struct: type[msgspec.Struct], alias: str = "") -> str:
    """The columns of a struct's table, in order."""
    dot = f"{alias}." if alias else ""
    return ", ".join(f'{dot}"{name}"' for name in struct.__struct_fields__)


_TENANT_AND_ID = "runs.tenant || '/' || runs.id"
"""What the index `runs_of_tenant` is on. Of one tenant it goes from `acme/` to `acme0`: 0 follows / in ASCII."""

_LISTED_RUN = f"{columns(Run, 'runs')}, coalesce(jobs.name, ''), coalesce(jobs.version, 0)"
_FIND_RUN = f"SELECT {_LISTED_RUN} FROM {{}} AS runs LEFT JOIN jobs ON jobs.id = runs.job_id WHERE runs.id = $1"
FIND_RUN = _FIND_RUN.format("runs")
FIND_RUN_IN_HISTORY = _FIND_RUN.format("runs_history")
FIND_TASK = f"SELECT {columns(Task)} FROM tasks WHERE id = $1"
FIND_TASK_IN_HISTORY = f"SELECT {columns(Task)} FROM tasks_history WHERE run_id = $1 AND id = $2"
TRANSITIONS_AFTER = f"""
    SELECT shard, batch_no, ordinal, {columns(Transition)} FROM transitions
    WHERE shard = $1 AND (batch_no, ordinal) > ($2, $3) ORDER BY batch_no, ordinal LIMIT $4
"""
UNHEARD = f"""
    SELECT {columns(WorkerRow)} FROM workers
    WHERE shard = $1 AND status NOT IN ({WORKER_IS_AWAY}) AND last_heard_at <= $2 ORDER BY last_heard_at, id LIMIT $3
"""
SERVERS = f"SELECT {columns(ServerRow)} FROM servers WHERE heard_at >= $1 ORDER BY name LIMIT {MOST}"
CHECKPOINT = f"SELECT {columns(Checkpoint)} FROM checkpoints WHERE task_id = $1"
FIND_TOKEN = f"SELECT {columns(TokenRow)} FROM tokens WHERE id = $1"

# By where their tasks begin and end, which is also how tasks are ordered.
_RUNS_OF_TASKS = f"""(
    SELECT 'task_' || substr(id, 5) || '.' AS first, 'task_' || substr(id, 5) || '/' AS last FROM runs
    WHERE shard > '' AND {ACTIVE} AND 'task_' || substr(id, 5) || '/' > $2 ORDER BY first {_ALL}) AS active"""
TASKS_OF_ACTIVE = "tasks.id > active.first AND tasks.id < active.last"


def attempts_of(task_id: str = "task_id") -> str:
    """The latest attempts of a task, backwards. `task_id` is how the database names what its index is on."""
    return f"SELECT {columns(Attempt)} FROM attempts WHERE {task_id} = $1 ORDER BY ended_at DESC, id DESC LIMIT {MOST}"


def transitions_of(task_id: str = "task_id") -> str:
    """The latest transitions of a task, backwards."""
    return f"SELECT {columns(Transition)} FROM transitions WHERE {task_id} = $1 ORDER BY seq DESC LIMIT {MOST}"


class Conditions:
    """Conditions that all must hold, and the parameters that they name."""

    def __init__(self, *parameters: Parameter) -> None:
        self.parameters: list[Parameter] = list(parameters)
        self._conditions: list[str] = []

    def require(self, condition: str, *values: Parameter) -> None:
        """One more; each `{}` in it is the next of these values."""
        marks = [f"${len(self.parameters) + place}" for place in range(1, len(values) + 1)]
        self.parameters.extend(values)
        self._conditions.append(condition.format(*marks))

    def among(self, column: str, values: Sequence[str]) -> None:
        """The column is one of these values."""
        self.require(f"{column} IN ({', '.join(['{}'] * len(values))})", *values)

    def __str__(self) -> str:
        return " AND ".join(self._conditions or ["true"])


class Listing(NamedTuple):
    """A query of a list, and its parameters."""

    sql: str
    parameters: list[Parameter]


def runs(wanted: RunFilter, limit: int) -> Listing:
    """The runs that are wanted, the newest first, with their jobs."""
    where, order = Conditions(limit), "runs.id"
    last = None if wanted.before is None else wanted.before[1]
    if wanted.tenant is not None:
        order = _TENANT_AND_ID
        end = f"{wanted.tenant}0" if last is None else f"{wanted.tenant}/{last}"
        where.require("runs.tenant = {}", wanted.tenant)
        where.require(f"{order} > {{}} AND {order} < {{}}", f"{wanted.tenant}/", end)
    elif last is not None:
        where.require("runs.id < {}", last)
    if wanted.job is not None:
        where.require("jobs.name = {}", wanted.job)
    if wanted.states:
        where.among("runs.state", [state.value for state in wanted.states])
    if wanted.priority is not None:
        where.require("runs.priority = {}", int(wanted.priority))
    few = wanted.states and _ADOPTED.issuperset(wanted.states)
    return Listing(
        f"""SELECT {_LISTED_RUN} FROM {_ACTIVE_RUNS if few else "runs"} LEFT JOIN jobs ON jobs.id = runs.job_id
            WHERE {where} ORDER BY {order} DESC LIMIT $1""",
        where.parameters,
    )


def tasks(wanted: TaskFilter, limit: int, *, join_tasks: str) -> Listing:
    """The tasks that are wanted, by id. `join_tasks` is how the database looks up the tasks of each of some runs."""
    where = Conditions(limit, wanted.after)
    where.require("tasks.id > $2")
    source, order = "tasks", "tasks.id"
    if wanted.run_id is not None:
        where.require(tasks_of("{0}"), wanted.run_id)
    elif wanted.worker is not None or (wanted.states and _WITH_AN_ATTEMPT.issuperset(wanted.states)):
        source = _TASKS_WITH_AN_ATTEMPT
    elif wanted.states and FINAL.isdisjoint(wanted.states):
        source, order = f"{_RUNS_OF_TASKS} {join_tasks}", "active.first, tasks.id"
        where.require(TASKS_OF_ACTIVE)
    if wanted.tenant is not None:
        where.require("tasks.tenant = {}", wanted.tenant)
    if wanted.states:
        where.among("tasks.state", [state.value for state in wanted.states])
    if wanted.worker is not None:
        where.require("tasks.worker_id = {}", wanted.worker)
    if wanted.name is not None:
        where.require("tasks.name = {}", wanted.name)
    sql = f"SELECT {columns(Task, 'tasks')} FROM {source} WHERE {where} ORDER BY {order} LIMIT $1"
    return Listing(sql, where.parameters)


def jobs(tenant: str | None, after: str, limit: int) -> Listing:
    """The latest version of each job, by tenant and name, behind the one that is named `tenant/name`."""
    after_tenant, _, after_name = after.partition("/")
    where = Conditions(limit)
    where.require("(j.tenant, j.name) > ({}, {})", after_tenant, after_name)
    if tenant is not None:
        where.require("j.tenant = {}", tenant)
    return Listing(
        f"""SELECT {columns(JobRow, "j")} FROM jobs j
            WHERE {where}
              AND version = (SELECT max(l.version) FROM jobs l WHERE l.tenant = j.tenant AND l.name = j.name)
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
        f"SELECT {columns(TokenRow)} FROM tokens WHERE {where} ORDER BY created_at, id LIMIT {MOST}", where.parameters
    )


def run_of(task_id: str) -> str:
    """The run that a task belongs to, as its id says: `task_<run>.<index>`."""
    return f"run_{task_id.removeprefix('task_').partition('.')[0]}"
