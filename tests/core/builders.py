"""Things to test with, complete but for what the test is about.

a_task(state=S.RUNNING, tries=2)
a_job(a_spec("extract"), a_spec("load", "extract"))
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from mainspring.core.lifecycle.readiness import Upstream
from mainspring.core.model.job import Edge, Job, JobSpec, OnSkip, TaskSpec, compile_job
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.run import FailurePolicy, Run
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.model.worker import Worker

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
RUN = "run_018f3c2e9a41-9d2c44e1f0a7b35c"


def leased_resources(worker: Worker) -> Resources:
    """The sum of a worker's live leases."""
    return sum((lease.shape.resources for lease in worker.leases.values()), start=ZERO_RESOURCES)


def a_task(
    *,
    name: str = "extract",
    state: TaskState = TaskState.PENDING,
    tenant: str = "acme",
    priority: Priority = Priority.P1,
    position: int = 0,
    tries: int = 0,
    losses: int = 0,
    seq: int = 1,
) -> Task:
    """A task of a run, in some state."""
    return Task(
        id=f"task_{RUN[4:]}.{position}", run_id=RUN, shard="default", tenant=tenant, name=name, position=position,
        priority=priority, state=state, seq=seq, tries=tries, losses=losses, since=NOON,
    )  # fmt: skip


def a_run(*, tenant: str = "acme", priority: Priority = Priority.P1, tasks: int = 1, number: int = 0) -> Run:
    """A run that waits in intake."""
    return Run(
        id=f"run_018f3c2e9a41-{number:016x}", shard="default", tenant=tenant, job_id="job_1", priority=priority,
        params="{}", task_count=tasks, submitted_by="test", created_at=NOON, start_at=NOON,
    )  # fmt: skip


def a_spec(
    name: str,
    *needs: str | Edge,
    work: object = None,
    resources: Resources | None = None,
    max_attempts: int = 3,
    retry_delay_seconds: float = 10.0,
    timeout_seconds: float = 60.0,
    expected_seconds: float | None = None,
    on_skip: OnSkip = OnSkip.SKIP,
    labels: dict[str, str] | None = None,
    zone: str | None = None,
) -> TaskSpec:
    """The definition of a task that needs others, by name or as edges."""
    return TaskSpec(
        name=name,
        work=msgspec.Raw(msgspec.json.encode(work or {})),
        needs=tuple(need if isinstance(need, Edge) else Edge(need) for need in needs),
        resources=resources or Resources(cpu_millis=1000, memory_bytes=2**20),
        labels=labels or {},
        zone=zone,
        max_attempts=max_attempts,
        retry_delay_seconds=retry_delay_seconds,
        timeout_seconds=timeout_seconds,
        expected_seconds=expected_seconds,
        on_skip=on_skip,
    )


def a_definition(*tasks: TaskSpec, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST) -> JobSpec:
    """A definition of these tasks, or of a single one."""
    return JobSpec(name="nightly", tasks=tasks or (a_spec("extract"),), on_failure=on_failure)


def a_job(*tasks: TaskSpec, on_failure: FailurePolicy = FailurePolicy.FAIL_FAST) -> Job:
    """A job of these tasks, ready to be run."""
    return compile_job("job_1", a_definition(*tasks, on_failure=on_failure))


def an_upstream(
    name: str,
    state: TaskState = TaskState.SUCCEEDED,
    *,
    output: str | None = None,
    when: str | None = None,
    cause: str | None = None,
) -> Upstream:
    """A task that had to be over first. Its id is `task_` and its name."""
    return Upstream(id=f"task_{name}", name=name, state=state, output=output, cause=cause, when=when)
