"""REST types of requests and responses, shared by the server (`api/`) and the client (`client/client.py`).

Field names are those of the JSON, of `-o json`, and of the documentation. Times are RFC 3339 in UTC, durations numbers
that end in `_seconds`, ids are opaque text with a prefix. JSON that belongs to the user (parameters, outputs, work) is
passed through unchanged (`Raw`); missing values are `null`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

MAX_PAGE_SIZE = 1_000
T = TypeVar("T")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A response object."""


class RequestBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request body. Unknown fields are errors."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """Number of matches."""

    value: int
    at_least: bool
    """Counting stopped there; there may be more."""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = None
    """Cursor of the next page; absent on the last page."""
    count: Count | None = None
    """Number of matches, if requested with `count`."""


class FaultView(View, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a request."""

    pointer: str
    """JSON pointer into the body, such as `/tasks/3/needs/0`; empty for the body itself."""
    detail: str
    code: str = ""
    """A stable code, for faults that clients act on, such as `unknown_job`; otherwise empty."""


class Problem(View, frozen=True, kw_only=True, omit_defaults=True):
    """An error response (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    """Stable error code: docs/reference/errors.md lists them."""
    detail: str = ""
    hint: str = ""
    instance: str = ""
    errors: list[FaultView] = []
    retry_after_seconds: float | None = None
    """Exact suggested delay before a retry; the header has it in whole seconds."""


# jobs


class JobView(View, frozen=True, kw_only=True):
    """One version of a job."""

    id: str
    tenant: str
    name: str
    version: int
    definition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The job as submitted; omitted in lists."""
    labels: dict[str, str] = {}
    created_at: datetime | None = None
    created_by: str = ""
    deleted_at: datetime | None = None


# runs


class RunRequest(RequestBody, frozen=True, kw_only=True):
    """Request to run a job."""

    job: str
    """A name (its latest version), `name@3`, or a job id."""
    params: dict[str, msgspec.Raw] = {}
    priority: str = "P2"
    tenant: str | None = None
    """Owner of the run; default: the token's tenant. Others require a token that may act for them."""
    start_at: datetime | None = None
    finish_by: datetime | None = None
    """Deadline; default: the job's."""
    idempotency_key: str | None = None
    """Per run in a bulk request; equivalent to the header `Idempotency-Key`."""


class RunView(View, frozen=True, kw_only=True):
    """A run."""

    id: str
    tenant: str
    job: str
    job_version: int
    job_id: str
    pool: str
    state: str
    priority: str
    params: msgspec.Raw
    task_count: int
    task_states: dict[str, int] | None = None
    """Number of tasks per state; omitted in lists."""
    submitted_by: str
    linked_run: str | None
    generation: int
    created_at: datetime
    start_at: datetime
    adopted_at: datetime | None
    ended_at: datetime | None
    paused: bool
    held: str | None
    cancelled_by: str | None
    because: str
    schedule_id: str | None = None
    """The schedule that created it, if any."""
    window_at: datetime | None = None
    """The schedule window that it is for."""
    retries: int = 0
    """Number of retries of its tasks."""
    started_at: datetime | None = None
    """When the first of its tasks started; set once the run has ended."""
    finish_by: datetime | None = None
    """Deadline, if any."""
    at_risk_at: datetime | None = None
    """When it was first found at risk of missing its deadline."""
    in_history: bool = False
    """Moved to history: read-only."""


class BulkItemResult(View, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one run of a bulk request, in the order of the request."""

    index: int
    id: str | None = None
    problem: Problem | None = None


# tasks


class StopView(View, frozen=True, kw_only=True):
    """A stop request of a task."""

    kind: str
    by: str
    why: str
    kill_at: datetime


class TaskView(View, frozen=True, kw_only=True):
    """A task, with its current or last attempt."""

    id: str
    run_id: str
    tenant: str
    name: str
    state: str
    priority: str
    because: str
    since: datetime
    generation: int
    attempt: int
    attempt_id: str | None
    worker: str | None
    due_at: datetime | None
    assigned_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    stop: StopView | None
    output: msgspec.Raw
    error: msgspec.Raw
    seq: int = 0
    """Number of transitions: the `seq` of the latest one."""
    tries: int = 0
    """Attempts that count against its limit."""
    label: str = ""
    """Display label in a fan-out; else empty."""
    partition: int | None = None
    """Index in the fan-out, from 0."""
    total: int | None = None
    """Size of the fan-out."""


class AttemptView(View, frozen=True, kw_only=True):
    """An attempt of a task; the current one comes last."""

    id: str
    task_id: str
    generation: int
    number: int
    worker: str
    assigned_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end: str | None
    """How it ended; null while it is in progress."""
    error: msgspec.Raw


class TransitionView(View, frozen=True, kw_only=True):
    """One transition of a task. As a live event it has the cursor to resume after."""

    task_id: str
    run_id: str
    tenant: str
    generation: int
    seq: int
    attempt: int
    start: str | None
    end: str
    at: datetime
    by: str
    because: str


class EventLine(View, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the live stream."""

    event: str
    """`transition`, or `heartbeat` on an idle stream."""
    cursor: str
    """Cursor to resume after this line."""
    transition: TransitionView | None = None


class CheckpointView(View, frozen=True, kw_only=True):
    """State that a task saved for its next attempt."""

    task_id: str
    attempt_id: str
    document: msgspec.Raw
    saved_at: datetime


# actions


class ActionRequest(RequestBody, frozen=True, kw_only=True):
    """Reason for an action, recorded in the audit log."""

    why: str = ""


class ExtendRequest(RequestBody, frozen=True, kw_only=True):
    """Extend the time limit of a running task."""

    seconds: float
    why: str = ""


class KillRequest(RequestBody, frozen=True, kw_only=True):
    """Kill the process of a running task."""

    grace_seconds: float = 0.0
    """Time between SIGTERM and SIGKILL."""
    again: bool = False
    """Run the task again, on another worker if possible; else it is cancelled."""
    why: str = ""


class PriorityRequest(RequestBody, frozen=True, kw_only=True):
    """Change the priority of a run."""

    priority: str
    why: str = ""


class BulkActionRequest(RequestBody, frozen=True, kw_only=True):
    """Apply an action to all runs that match a filter (OPS-1)."""

    action: Literal["cancel", "pause", "resume", "retry", "priority"]
    q: str
    """Filter: docs/reference/filters.md. Must not be empty."""
    priority: str | None = None
    """For `priority`."""
    tenant: str | None = None
    dry_run: bool = False
    """Only list the matching runs."""
    most: int = 10_000
    """Refused without any change if more runs match."""
    why: str = ""


class BulkActionResult(View, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one run of a bulk action."""

    run_id: str
    job: str
    state: str
    """Before."""
    changed: bool = False
    detail: str = ""
    problem: Problem | None = None


class ActionResult(View, frozen=True, kw_only=True):
    """A durable action; `changed` is false if the state was already as requested."""

    changed: bool
    detail: str = ""


# workers


class WorkerView(View, frozen=True, kw_only=True):
    """A worker."""

    id: str
    pool: str
    status: str
    """ready, leaving, lost or gone."""
    hold: str
    """cordoned, draining, or empty."""
    hold_why: str
    zone: str
    version: str
    labels: dict[str, str]
    cpu_millis: int
    memory_bytes: int
    gpus: int
    disk_bytes: int
    since: datetime
    last_heartbeat_at: datetime
    running: int
    """Number of tasks it holds."""


# tokens


class TokenRequest(RequestBody, frozen=True, kw_only=True):
    """Request for a token."""

    name: str
    roles: list[str]
    tenant: str | None = None
    expires_in_seconds: float = 90 * 86_400.0


class TokenView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A token, without its secret."""

    id: str
    tenant: str
    roles: list[str]
    name: str
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None
    token: str | None = None
    """The token itself: only in the response to its creation."""


# the server


class ServerView(View, frozen=True, kw_only=True):
    """The responding server, and the pools it leads."""

    name: str
    version: str
    address: str
    leads: list[str]
    servers: list[str]
