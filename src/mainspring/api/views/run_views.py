"""Convert rows of jobs, runs, tasks and workers to API views."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mainspring.api.views.view_of import raw, view_of
from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Attempt, Task
from mainspring.protocol.rest.runs import AttemptView, JobView, RunView, StopView, TaskView, WorkerView
from mainspring.store.ports.front import ListedRun


def job_view(row: JobRow, *, with_definition: bool = False) -> JobView:
    """Convert a version of a job."""
    definition = msgspec.Raw(row.definition) if with_definition else msgspec.UNSET
    return view_of(JobView, row, definition=definition, labels=_labels(row.labels))


def run_view(listed: ListedRun, task_states: Mapping[str, int] | None = None) -> RunView:
    """Convert a run, with the counts of its tasks if given."""
    run = listed.run
    return view_of(
        RunView, run, job=listed.job_name, job_version=listed.job_version, pool=run.shard, priority=run.priority.name,
        params=msgspec.Raw(run.params), task_states=None if task_states is None else dict(task_states),
        in_history=listed.in_history,
    )  # fmt: skip


def task_view(task: Task) -> TaskView:
    """Convert a task."""
    stop, origin = task.stop, task.origin
    is_labeled = origin is not None and bool(origin.label)
    return view_of(
        TaskView, task, priority=task.priority.name, worker=task.worker_id, output=raw(task.output),
        error=raw(task.error), stop=None if stop is None else view_of(StopView, stop),
        label=origin.label if origin is not None else "",
        partition=origin.index if origin is not None and is_labeled else None,
        total=origin.total if origin is not None and is_labeled else None,
    )  # fmt: skip


def attempt_view(attempt: Attempt) -> AttemptView:
    """Convert an attempt that has ended."""
    return view_of(AttemptView, attempt, worker=attempt.worker_id, error=raw(attempt.error))


def current_attempt(task: Task) -> AttemptView | None:
    """Return the current attempt of a task, if any."""
    if task.attempt_id is None or task.worker_id is None or task.assigned_at is None:
        return None
    return view_of(
        AttemptView, task, id=task.attempt_id, task_id=task.id, number=task.attempt, worker=task.worker_id,
        ended_at=None, end=None, error=raw(None),
    )  # fmt: skip


def worker_view(row: WorkerRow, *, running: int, with_reasons: bool) -> WorkerView:
    """Convert a worker; cordon reasons may name people, and are visible to callers with access to all tenants."""
    offer = msgspec.json.decode(row.offer, type=Resources)
    return view_of(
        WorkerView, row, pool=row.shard, hold_why=row.hold_why if with_reasons else "", labels=_labels(row.labels),
        cpu_millis=offer.cpu_millis, memory_bytes=offer.memory_bytes, gpus=offer.gpus, disk_bytes=offer.disk_bytes,
        running=running,
    )  # fmt: skip


def _labels(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])
