"""Builders of server answers for tests of the demo."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from mainspring.protocol.rest.runs import AttemptView, RunView, TaskView, TransitionView, WorkerView

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
RUN = "run_018f3c2e9a41-9d2c44e1f0a7b35c"
TASK = "task_018f3c2e9a41-9d2c44e1f0a7b35c.1"
_NULL = msgspec.Raw(b"null")


def later(seconds: float) -> datetime:
    """Return a time after noon."""
    return NOON + timedelta(seconds=seconds)


def run(job: str = "weather", tenant: str = "default", state: str = "RUNNING", **more: object) -> RunView:
    """Build a run."""
    usual = RunView(
        id=RUN, tenant=tenant, job=job, job_version=1, job_id="job_1", pool="default", state=state, priority="P2",
        params=msgspec.Raw(b"{}"), task_count=1, submitted_by="local", linked_run=None, generation=1, created_at=NOON,
        start_at=NOON, adopted_at=NOON, ended_at=None, paused=False, held=None, cancelled_by=None, because="",
    )  # fmt: skip
    return msgspec.structs.replace(usual, **more)


def task(name: str = "fetch", label: str = "Oslo", **more: object) -> TaskView:
    """Build a task of a fan-out of 24."""
    usual = TaskView(
        id=TASK, run_id=RUN, tenant="default", name=name, state="RUNNING", priority="P2", because="", since=NOON,
        generation=1, attempt=1, attempt_id=None, worker=None, due_at=None, assigned_at=None, started_at=None,
        ended_at=None, stop=None, output=_NULL, error=_NULL, label=label, partition=3, total=24,
    )  # fmt: skip
    return msgspec.structs.replace(usual, **more)


def attempt(number: int = 1, worker: str = "w-01", end: str | None = "failed", **error: object) -> AttemptView:
    """Build an attempt that started `number` seconds after noon."""
    return AttemptView(
        id=f"att_{number}", task_id=TASK, generation=1, number=number, worker=worker, assigned_at=NOON,
        started_at=later(number), ended_at=None, end=end, error=msgspec.Raw(msgspec.json.encode(error or None)),
    )  # fmt: skip


def change(end: str, because: str = "", attempt: int = 1) -> TransitionView:
    """Build a task transition."""
    return TransitionView(
        task_id=TASK, run_id=RUN, tenant="default", generation=1, seq=4, attempt=attempt, start=None, end=end, at=NOON,
        by="shard", because=because,
    )  # fmt: skip


def worker(name: str, status: str = "ready", **labels: str) -> WorkerView:
    """Build a worker."""
    return WorkerView(
        id=name, pool="default", status=status, hold="", hold_why="", zone="", version="1", labels=labels,
        cpu_millis=1_000, memory_bytes=1, gpus=0, disk_bytes=0, since=NOON, last_heartbeat_at=NOON, running=0,
    )  # fmt: skip
