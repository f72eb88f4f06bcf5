"""A job: what somebody wants done, as they define it, and as the shard reads it.

`JobSpec` is the definition: immutable, stored as JSON, validated by `core/admission/validate_submission.py`. `Job` is
the same, compiled: tasks in topological order, edges as positions both ways, one shape per task, so that a completion
costs its children only (DAG-1). A position is a task's place in that order, the same for every run of the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.graph.graph import topological_order
from mainspring.core.lifecycle.failure_policy import RetryPolicy
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import FailurePolicy
from mainspring.core.placement.task_shapes import Shape, shape_of

DEFAULT_ATTEMPTS = 3
DEFAULT_RESOURCES = Resources(cpu_millis=1000, memory_bytes=256 * 1024 * 1024)


class OnSkip(StrEnum):
    """What a task does when an upstream was skipped (DAG-4)."""

    SKIP = "skip"
    RUN = "run"


class Edge(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A task that must be over first, and, if given, what must be true of its output."""

    task: str
    when: str | None = None


class TaskSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task of a job."""

    name: str
    work: msgspec.Raw = msgspec.Raw(b"{}")
    """What the worker is to do, as JSON. The scheduler never looks inside."""
    needs: tuple[Edge, ...] = ()
    resources: Resources = DEFAULT_RESOURCES
    labels: dict[str, str] = {}
    """Labels that a worker must have."""
    zone: str | None = None
    max_attempts: int = DEFAULT_ATTEMPTS
    retry_delay_seconds: float | None = None
    """None: as it is set for all jobs (`core/model/settings.py`)."""
    timeout_seconds: float | None = None
    """The hard limit: three times `expected_seconds` unless said, and a day if neither is (LIV-4)."""
    soft_timeout_seconds: float | None = None
    """An alert is sent then: after twice `expected_seconds` unless said, and never if neither is."""
    stall_seconds: float | None = None
    """Killed if it makes no progress for so long: 10 min unless said, for a task that says how far it is (LIV-2)."""
    expected_seconds: float | None = None
    on_skip: OnSkip = OnSkip.SKIP
    when: str | None = None
    """An expression over `outputs` (of what it needs, by name) and `params`, asked once everything upstream is over:
    if it is false, the task is skipped (DAG-4)."""
    retry: RetryPolicy | None = None
    """The job's, unless said."""
    for_each: str | None = None
    """An expression over `outputs` (of what it needs, by name) and `params` that gives a list: a task for each item,
    with `item`, `partition` and `total` (DAG-2). What needs this task waits for all of them."""
    label: str | None = None
    """A template over `item` and `partition` that names each of them for people."""
    grows: bool = False
    """Its output may add tasks and edges to the run (DAG-5): `{"tasks": [..], "edges": [..]}`."""
    prefer: dict[str, str] = {}
    """Labels that a worker had better have (PLC-3)."""
    prefer_zone: str | None = None
    near: tuple[str, ...] = ()
    """Tasks of the run on whose worker it must run, once they have started (affinity)."""
    apart: tuple[str, ...] = ()
    """Tasks of the run on whose worker it must not run at the same time; its own name spreads a fan-out."""
    groups: tuple[str, ...] = ()
    """Groups that count it while it has room (PLC-12)."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A definition: a graph of one or more tasks."""

    name: str
    tasks: tuple[TaskSpec, ...]
    on_failure: FailurePolicy = FailurePolicy.FAIL_FAST
    timeout_seconds: float | None = None
    """The run's own limit, from its adoption on."""
    retry: RetryPolicy = RetryPolicy()
    max_retries: int = 100
    """Of all its tasks together, in one run (RTY-3)."""
    max_fan_out: int = 10_000
    """Past it the run is paused, and its owner told (DAG-2)."""
    labels: dict[str, str] = {}
    """For people and their filters, such as `team: ml`."""
    description: str = ""
    """For people."""
    pool: str | None = None
    """Where its runs go; None: where the server sends them, or a policy does (ADM-8)."""
    groups: tuple[str, ...] = ()
    """Groups that count each of its runs, from its first start until it is over (PLC-12)."""
    finish_within_seconds: float | None = None
    """By when a run is to be over, from its window on, or from its start if it has none (PLC-11)."""
    escalate: bool = True
    """A run that may not be over by then gets the next higher priority, if its tenant may have that."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored definition. The fields are the columns of `jobs`, in the same order."""

    id: str
    tenant: str
    name: str
    version: int
    definition: str
    """A `JobSpec` as JSON."""
    created_at: datetime | None = None
    """Given by the store; None for one of before schema 0004."""
    created_by: str = ""
    deleted_at: datetime | None = None
    """All versions of a name are deleted together, and come back with the next one (soft: runs still find theirs)."""
    labels: str = "{}"
    """JSON: those of the definition, where lists can see them."""


class _Counted(msgspec.Struct):
    tasks: list[msgspec.Raw]


def count_tasks(row: JobRow) -> int:
    """How many tasks a stored definition has. Nothing of them is read."""
    return len(msgspec.json.decode(row.definition, type=_Counted).tasks)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A definition, ready to be run."""

    id: str
    spec: JobSpec
    tasks: tuple[TaskSpec, ...]
    """In topological order."""
    upstream: tuple[tuple[int, ...], ...]
    downstream: tuple[tuple[int, ...], ...]
    conditions: dict[int, dict[int, str]]
    """For a position with conditional edges: upstream position to expression."""
    shapes: tuple[Shape, ...]
    templates: frozenset[int]
    """Positions of the tasks with `for_each`."""
    named: dict[str, int]
    """Where the tasks stand that others want to be near to, by name."""
    is_growing: bool
    """Whether its runs may get more tasks than it says."""


def compile_job(job_id: str, spec: JobSpec) -> Job:
    """Make a definition ready to be run. It has been validated before: raises Broken if its graph has a cycle."""
    numbers = {task.name: number for number, task in enumerate(spec.tasks)}
    needs = [[numbers[edge.task] for edge in task.needs] for task in spec.tasks]
    order = topological_order(needs)
    position_of = [0] * len(order)
    for position, number in enumerate(order):
        position_of[number] = position
    tasks = tuple(spec.tasks[number] for number in order)
    upstream = tuple(tuple(position_of[number] for number in needs[original]) for original in order)
    downstream: list[list[int]] = [[] for _ in order]
    conditions: dict[int, dict[int, str]] = {}
    for position, task in enumerate(tasks):
        for parent, edge in zip(upstream[position], task.needs, strict=True):
            downstream[parent].append(position)
            if edge.when is not None:
                conditions.setdefault(position, {})[parent] = edge.when
    known: dict[Shape, Shape] = {}
    shapes = tuple(known.setdefault(shape, shape) for shape in (shape_of(task, spec.groups) for task in tasks))
    templates = frozenset(position for position, task in enumerate(tasks) if task.for_each is not None)
    return Job(
        id=job_id, spec=spec, tasks=tasks, upstream=upstream, downstream=tuple(map(tuple, downstream)),
        conditions=conditions, shapes=shapes, templates=templates, named=named_in(tasks, shapes),
        is_growing=bool(templates) or any(task.grows for task in tasks),
    )  # fmt: skip


def named_in(tasks: Sequence[TaskSpec], shapes: Iterable[Shape]) -> dict[str, int]:
    """Where the tasks stand that others want to be near to, by name."""
    wanted = {name for shape in shapes for name in shape.near}
    return {task.name: position for position, task in enumerate(tasks) if task.name in wanted} if wanted else {}
