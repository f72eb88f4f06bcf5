"""Convert rows to API views, and encode list cursors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec

from mainspring.api.http.problems import refusal
from mainspring.api.views.view_of import raw, view_of
from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Attempt, Task
from mainspring.protocol.rest.runs import (
    MAX_PAGE_SIZE,
    AttemptView,
    Count,
    JobView,
    Page,
    RunView,
    StopView,
    TaskView,
    WorkerView,
)
from mainspring.store.ports.front import ListedRun

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_SIZE)]
Cursor = Annotated[str, msgspec.Meta(max_length=1_000)]
DEFAULT_PAGE_SIZE = 100
_R = TypeVar("_R")
_V = TypeVar("_V")


def page(
    rows: Sequence[_R], views: Iterable[_V], limit: int, position: Iterable[str], count: Count | None = None
) -> Page[_V]:
    """Build a page from at most `limit` rows; `position` is the position of the last one."""
    return Page(items=list(views), next_cursor=make_cursor(*position) if len(rows) == limit else None, count=count)


def make_cursor(*position: str) -> str:
    """Encode a position in a list as an opaque cursor."""
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def read_cursor(cursor: str, parts: int) -> list[str]:
    """Decode a cursor; empty strings for the beginning. Raises Refused."""
    if not cursor:
        return [""] * parts
    try:
        position = msgspec.json.decode(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)), type=list[str])
    except (binascii.Error, msgspec.DecodeError, ValueError):
        position = []
    if len(position) != parts or "\0" in "".join(position):
        raise refusal("the request has 1 fault", "query:cursor", "is not a cursor of this list")
    return position


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
    is_labelled = origin is not None and bool(origin.label)
    return view_of(
        TaskView, task, priority=task.priority.name, worker=task.worker_id, output=raw(task.output),
        error=raw(task.error), stop=None if stop is None else view_of(StopView, stop),
        label=origin.label if origin is not None else "",
        partition=origin.index if origin is not None and is_labelled else None,
        total=origin.total if origin is not None and is_labelled else None,
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
    """Convert a worker; cordon reasons may name people, and are for those who see all tenants."""
    offer = msgspec.json.decode(row.offer, type=Resources)
    return view_of(
        WorkerView, row, pool=row.shard, hold_why=row.hold_why if with_reasons else "", labels=_labels(row.labels),
        cpu_millis=offer.cpu_millis, memory_bytes=offer.memory_bytes, gpus=offer.gpus, disk_bytes=offer.disk_bytes,
        running=running,
    )  # fmt: skip


def _labels(text: str) -> dict[str, str]:
    return msgspec.json.decode(text, type=dict[str, str])
