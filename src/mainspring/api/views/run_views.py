"""Convert rows to API views, and encode list cursors."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec

from mainspring.api.http.problems import refusal
from mainspring.core.model.batch import Checkpoint, WorkerRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Attempt, Task, Transition
from mainspring.protocol.rest.runs import (
    MAX_PAGE_SIZE,
    AttemptView,
    CheckpointView,
    Count,
    JobView,
    Page,
    RunView,
    StopView,
    TaskView,
    TokenView,
    TransitionView,
    WorkerView,
)
from mainspring.store.ports.front import ListedRun, TokenRow

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_PAGE_SIZE)]
Cursor = Annotated[str, msgspec.Meta(max_length=1_000)]
DEFAULT_PAGE_SIZE = 100
_NULL = msgspec.Raw("null")
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
    return JobView(
        id=row.id,
        tenant=row.tenant,
        name=row.name,
        version=row.version,
        definition=definition,
        labels=msgspec.json.decode(row.labels, type=dict[str, str]),
        created_at=row.created_at,
        created_by=row.created_by,
        deleted_at=row.deleted_at,
    )


def run_view(listed: ListedRun, task_states: Mapping[str, int] | None = None) -> RunView:
    """Convert a run, with the counts of its tasks if given."""
    run = listed.run
    return RunView(
        id=run.id,
        tenant=run.tenant,
        job=listed.job_name,
        job_version=listed.job_version,
        job_id=run.job_id,
        pool=run.shard,
        state=run.state,
        priority=run.priority.name,
        params=msgspec.Raw(run.params),
        task_count=run.task_count,
        task_states=None if task_states is None else dict(task_states),
        submitted_by=run.submitted_by,
        linked_run=run.linked_run,
        generation=run.generation,
        created_at=run.created_at,
        start_at=run.start_at,
        adopted_at=run.adopted_at,
        ended_at=run.ended_at,
        paused=run.paused,
        held=run.held,
        cancelled_by=run.cancelled_by,
        because=run.because,
        schedule_id=run.schedule_id,
        window_at=run.window_at,
        retries=run.retries,
        started_at=run.started_at,
        finish_by=run.finish_by,
        at_risk_at=run.at_risk_at,
        in_history=listed.in_history,
    )


def task_view(task: Task) -> TaskView:
    """Convert a task."""
    stop, origin = task.stop, task.origin
    return TaskView(
        id=task.id,
        run_id=task.run_id,
        tenant=task.tenant,
        name=task.name,
        state=task.state,
        priority=task.priority.name,
        because=task.because,
        since=task.since,
        generation=task.generation,
        attempt=task.attempt,
        attempt_id=task.attempt_id,
        worker=task.worker_id,
        due_at=task.due_at,
        assigned_at=task.assigned_at,
        started_at=task.started_at,
        ended_at=task.ended_at,
        stop=StopView(kind=stop.kind, by=stop.by, why=stop.why, kill_at=stop.kill_at) if stop is not None else None,
        output=_raw(task.output),
        error=_raw(task.error),
        seq=task.seq,
        tries=task.tries,
        label=origin.label if origin is not None else "",
        partition=origin.index if origin is not None and origin.label else None,
        total=origin.total if origin is not None and origin.label else None,
    )


def attempt_view(attempt: Attempt) -> AttemptView:
    """Convert an attempt that has ended."""
    return AttemptView(
        id=attempt.id,
        task_id=attempt.task_id,
        generation=attempt.generation,
        number=attempt.number,
        worker=attempt.worker_id,
        assigned_at=attempt.assigned_at,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        end=attempt.end,
        error=_raw(attempt.error),
    )


def current_attempt(task: Task) -> AttemptView | None:
    """Return the current attempt of a task, if any."""
    if task.attempt_id is None or task.worker_id is None or task.assigned_at is None:
        return None
    return AttemptView(
        id=task.attempt_id,
        task_id=task.id,
        generation=task.generation,
        number=task.attempt,
        worker=task.worker_id,
        assigned_at=task.assigned_at,
        started_at=task.started_at,
        ended_at=None,
        end=None,
        error=_NULL,
    )


def transition_view(transition: Transition) -> TransitionView:
    """Convert a transition."""
    return TransitionView(
        task_id=transition.task_id,
        run_id=transition.run_id,
        tenant=transition.tenant,
        generation=transition.generation,
        seq=transition.seq,
        attempt=transition.attempt,
        start=transition.start,
        end=transition.end,
        at=transition.at,
        by=transition.by,
        because=transition.because,
    )


def checkpoint_view(checkpoint: Checkpoint) -> CheckpointView:
    """Convert a checkpoint."""
    return CheckpointView(
        task_id=checkpoint.task_id,
        attempt_id=checkpoint.attempt_id,
        document=msgspec.Raw(checkpoint.document),
        saved_at=checkpoint.saved_at,
    )


def worker_view(row: WorkerRow, *, running: int, with_reasons: bool) -> WorkerView:
    """Convert a worker; cordon reasons may name people, and are visible to callers with access to all tenants."""
    offer = msgspec.json.decode(row.offer, type=Resources)
    return WorkerView(
        id=row.id,
        pool=row.shard,
        status=row.status,
        hold=row.hold,
        hold_why=row.hold_why if with_reasons else "",
        zone=row.zone,
        version=row.version,
        labels=msgspec.json.decode(row.labels, type=dict[str, str]),
        cpu_millis=offer.cpu_millis,
        memory_bytes=offer.memory_bytes,
        gpus=offer.gpus,
        disk_bytes=offer.disk_bytes,
        since=row.since,
        last_heartbeat_at=row.last_heartbeat_at,
        running=running,
    )


def token_view(row: TokenRow, token: str | None = None) -> TokenView:
    """Convert a token row; the token itself is included only at creation."""
    return TokenView(
        id=row.id,
        tenant=row.tenant,
        roles=list(row.roles),
        name=row.name,
        created_by=row.created_by,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
        last_used_at=row.last_used_at,
        token=token,
    )


def _raw(text: str | None) -> msgspec.Raw:
    return _NULL if text is None else msgspec.Raw(text)
