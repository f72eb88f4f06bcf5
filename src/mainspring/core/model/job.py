"""Job definition, as submitted and as compiled for the shard.

`JobSpec` is the definition: immutable, stored as JSON, validated by `core/admission/validate_submission.py`. `Job` is
its compiled form: tasks in topological order, edges as positions both ways, one shape per task, so that completing a
task costs only its children (DAG-1). A position is a task's index in that order, the same for every run of the job.
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
    """What a task does when an upstream task was skipped (DAG-4)."""

    SKIP = "skip"
    RUN = "run"


class Edge(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """An upstream task, with an optional condition on its output."""

    task: str
    when: str | None = None


class TaskSpec(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One task of a job."""

    name: str
    work: msgspec.Raw = msgspec.Raw(b"{}")
    """What the worker executes, as JSON. Opaque to the scheduler."""
    needs: tuple[Edge, ...] = ()
    resources: Resources = DEFAULT_RESOURCES
    labels: dict[str, str] = {}
    """Required worker labels."""
    zone: str | None = None
    max_attempts: int = DEFAULT_ATTEMPTS
    retry_delay_seconds: float | None = None
    """None: the installation's default (`core/model/settings.py`)."""
    timeout_seconds: float | None = None
    """Hard limit. Default: three times `expected_seconds`, or a day without it (LIV-4)."""
    soft_timeout_seconds: float | None = None
    """When an alert is sent. Default: twice `expected_seconds`, or never without it."""
    stall_seconds: float | None = None
    """Killed after this time without progress. Default: 10 min, for a task that reports progress (LIV-2)."""
    expected_seconds: float | None = None
    on_skip: OnSkip = OnSkip.SKIP
    when: str | None = None
    """Condition over `outputs` (of upstream tasks, by name) and `params`, evaluated once all upstream tasks have ended:
    if false, the task is skipped (DAG-4)."""
    retry: RetryPolicy | None = None
    """Default: the job's policy."""
    for_each: str | None = None
    """Expression over `outputs` (of upstream tasks, by name) and `params` that returns a list: one task per item, with
    `item`, `partition` and `total` (DAG-2). Downstream tasks wait for all of them."""
    label: str | None = None
    """Template over `item` and `partition`: the display name of each of them."""
    grows: bool = False
    """Its output may add tasks and edges to the run (DAG-5): `{"tasks": [..], "edges": [..]}`."""
    prefer: dict[str, str] = {}
    """Preferred worker labels (PLC-3)."""
    prefer_zone: str | None = None
    affinity: tuple[str, ...] = ()
    """Affinity: must run on the worker of these tasks of the run, once they have started."""
    anti_affinity: tuple[str, ...] = ()
    """Anti-affinity: must not run on a worker together with these tasks of the run; its own name spreads a fan-out."""
    groups: tuple[str, ...] = ()
    """Concurrency and rate groups that count it while it holds a lease (PLC-12)."""


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A definition: a graph of one or more tasks."""

    name: str
    tasks: tuple[TaskSpec, ...]
    on_failure: FailurePolicy = FailurePolicy.FAIL_FAST
    timeout_seconds: float | None = None
    """Limit of the run, from its adoption."""
    retry: RetryPolicy = RetryPolicy()
    max_retries: int = 100
    """Of all tasks of a run together (RTY-3)."""
    max_fan_out: int = 10_000
    """Above it, the run is paused and its owner notified (DAG-2)."""
    labels: dict[str, str] = {}
    """Metadata for filters, such as `team: ml`."""
    description: str = ""
    """Free text."""
    pool: str | None = None
    """Pool of its runs; None: the server's default, or by policy (ADM-8)."""
    groups: tuple[str, ...] = ()
    """Groups that count each of its runs, from its first start until it has ended (PLC-12)."""
    finish_within_seconds: float | None = None
    """Deadline, relative to the window, or to the start of a run without one (PLC-11)."""
    escalate: bool = True
    """Raise the priority of a run at risk of missing its deadline by one, if its tenant may use that priority."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored definition. The fields are the columns of `jobs`, in the same order."""

    id: str
    tenant: str
    name: str
    version: int
    definition: str
    """A `JobSpec` as JSON."""
    created_at: datetime | None = None
    """Set by the store; None for a row from before schema 0004."""
    created_by: str = ""
    deleted_at: datetime | None = None
    """Soft delete: all versions of a name are deleted together, and restored by the next version. Runs still find
    theirs."""
    labels: str = "{}"
    """JSON: labels of the definition, for lists."""


class _Counted(msgspec.Struct):
    tasks: list[msgspec.Raw]


def count_tasks(row: JobRow) -> int:
    """Return the number of tasks of a stored definition, without decoding them."""
    return len(msgspec.json.decode(row.definition, type=_Counted).tasks)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A compiled definition."""

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
    """Positions of the tasks that affinity rules name, by task name."""
    is_dynamic: bool
    """Whether its runs may get more tasks than it defines."""


def compile_job(job_id: str, spec: JobSpec) -> Job:
    """Compile a validated definition. Raises Broken if its graph has a cycle."""
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
        conditions=conditions, shapes=shapes, templates=templates, named=affinity_targets_of(tasks, shapes),
        is_dynamic=bool(templates) or any(task.grows for task in tasks),
    )  # fmt: skip


def affinity_targets_of(tasks: Sequence[TaskSpec], shapes: Iterable[Shape]) -> dict[str, int]:
    """Return the positions of the tasks that affinity rules name."""
    wanted = {name for shape in shapes for name in shape.affinity}
    return {task.name: position for position, task in enumerate(tasks) if task.name in wanted} if wanted else {}
