"""A job: what somebody wants done, as they define it, and as the shard reads it.

`JobSpec` is the definition: immutable, stored as JSON, validated by `core/admission.py`. `Job` is the same, compiled:
tasks in topological order, edges as positions both ways, one shape per task, so that a completion costs its children
only (DAG-1). A position is a task's place in that order, the same for every run of the job.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.graph import topological_order
from mainspring.core.resources import Resources
from mainspring.core.runs import FailurePolicy
from mainspring.core.shapes import Shape, shape_of

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
    max_attempts: int = 3
    retry_delay_seconds: float = 10.0
    timeout_seconds: float = 86_400.0
    expected_seconds: float | None = None
    on_skip: OnSkip = OnSkip.SKIP


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A definition: a graph of one or more tasks."""

    name: str
    tasks: tuple[TaskSpec, ...]
    on_failure: FailurePolicy = FailurePolicy.FAIL_FAST
    timeout_seconds: float | None = None
    """The run's own limit, from its adoption on."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored definition. The fields are the columns of `jobs`, in the same order."""

    id: str
    tenant: str
    name: str
    version: int
    definition: str
    """A `JobSpec` as JSON."""


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
    shapes = tuple(known.setdefault(shape, shape) for shape in map(shape_of, tasks))
    return Job(
        id=job_id, spec=spec, tasks=tasks, upstream=upstream, downstream=tuple(map(tuple, downstream)),
        conditions=conditions, shapes=shapes,
    )  # fmt: skip
