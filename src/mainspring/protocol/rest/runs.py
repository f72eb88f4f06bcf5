"""What the HTTP API takes and answers, as types: shared by the server (`api/`) and the client (`client/client.py`).

Field names are those of the JSON, of `-o json`, and of the documentation. Times are RFC 3339 in UTC, lengths numbers
that end in `_seconds`, ids are opaque texts with a prefix. JSON that belongs to the user (parameters, outputs, work)
travels as it came (`Raw`); what is not there is `null`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Generic, Literal, TypeVar

import msgspec

LONGEST_PAGE = 1_000
T = TypeVar("T")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What the API answers."""


class Wish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What somebody wants of the API. A field that is not known is an error."""


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many things there are."""

    value: int
    at_least: bool
    """There may be more: counting stopped there."""


class Page(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
    """Part of a list."""

    items: list[T]
    next_cursor: str | None = None
    """Ask again with it for what follows; absent on the last page."""
    count: Count | None = None
    """How many there are, if it was asked for with `count`."""


class FaultView(View, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong with a request."""

    pointer: str
    """A JSON pointer into the body, such as `/tasks/3/needs/0`; empty for the body itself."""
    detail: str
    code: str = ""
    """A stable code, for faults that clients act on, such as `unknown_job`; otherwise empty."""


class Problem(View, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    code: str
    """Stable, for programs: docs/reference/errors.md lists them."""
    detail: str = ""
    hint: str = ""
    instance: str = ""
    errors: list[FaultView] = []
    retry_after_seconds: float | None = None
    """When it is worth trying again, exactly; the header says it in whole seconds."""


# jobs


class JobView(View, frozen=True, kw_only=True):
    """One version of a job."""

    id: str
    tenant: str
    name: str
    version: int
    definition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """The job as it was submitted; left out of lists."""
    labels: dict[str, str] = {}
    created_at: datetime | None = None
    created_by: str = ""
    deleted_at: datetime | None = None


# runs


class RunRequest(Wish, frozen=True, kw_only=True):
    """A wish for a run of a job."""

    job: str
    """A name (its latest version), `name@3`, or a job's id."""
    params: dict[str, msgspec.Raw] = {}
    priority: str = "P2"
    tenant: str | None = None
    """Whose run it is; the token's tenant unless the token may act for others."""
    start_at: datetime | None = None
    finish_by: datetime | None = None
    """When it is to be over; else as its job says."""
    idempotency_key: str | None = None
    """In a bulk request each run may have its own; for one run the header `Idempotency-Key` is the same."""


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
    """How many of its tasks are in which state; left out of lists."""
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
    """The schedule that it is a run of, if it is of one."""
    window_at: datetime | None = None
    """The window of the schedule that it is for."""
    retries: int = 0
    """How often a task of it was tried again."""
    started_at: datetime | None = None
    """When the first of its tasks started, once it is over."""
    finish_by: datetime | None = None
    """When it is to be over, if somebody or its job says so."""
    at_risk_at: datetime | None = None
    """When it was found that it may not be over by then."""
    in_history: bool = False
    """It has moved to history, and can't be acted on any more."""


class BulkLine(View, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one run of a bulk request, in the order of the request."""

    index: int
    id: str | None = None
    problem: Problem | None = None


# tasks


class StopView(View, frozen=True, kw_only=True):
    """A task was asked to stop."""

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
    """How many changes of its state there have been: the `seq` of the latest transition."""
    tries: int = 0
    """Attempts that count against its limit."""
    label: str = ""
    """Of a task that a fan-out made, what tells it from the others; empty for any other."""
    partition: int | None = None
    """Which of them it is, from 0."""
    total: int | None = None
    """How many there are."""


class AttemptView(View, frozen=True, kw_only=True):
    """A try at a task: those that are over, and as the last one that which is under way."""

    id: str
    task_id: str
    generation: int
    number: int
    worker: str
    assigned_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    end: str | None
    """How it ended; none while it is under way."""
    error: msgspec.Raw


class TransitionView(View, frozen=True, kw_only=True):
    """One change of a task's state. As a live event it has the cursor behind which the stream goes on."""

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
    """`transition`, or `heartbeat` if nothing has happened for a while."""
    cursor: str
    """Behind which the stream goes on."""
    transition: TransitionView | None = None


class CheckpointView(View, frozen=True, kw_only=True):
    """What a task saved for its next attempt."""

    task_id: str
    attempt_id: str
    document: msgspec.Raw
    saved_at: datetime


# acts


class ActRequest(Wish, frozen=True, kw_only=True):
    """Why somebody wants it so: it is kept with the deed."""

    why: str = ""


class ExtendRequest(Wish, frozen=True, kw_only=True):
    """More time for a running task."""

    seconds: float
    why: str = ""


class KillRequest(Wish, frozen=True, kw_only=True):
    """End the process of a running task."""

    grace_seconds: float = 0.0
    """From being asked to stop to being killed."""
    again: bool = False
    """Run the task again, elsewhere if possible; else it is cancelled."""
    why: str = ""


class PriorityRequest(Wish, frozen=True, kw_only=True):
    """Another priority for a run."""

    priority: str
    why: str = ""


class BulkActRequest(Wish, frozen=True, kw_only=True):
    """Do something to all runs that a filter finds (OPS-1)."""

    act: Literal["cancel", "pause", "resume", "retry", "priority"]
    q: str
    """Which: the grammar of filters, docs/reference/filters.md. Empty is refused."""
    priority: str | None = None
    """For `priority`."""
    tenant: str | None = None
    dry_run: bool = False
    """Only say which runs it would be done to."""
    most: int = 10_000
    """Refused, with nothing done, if there are more."""
    why: str = ""


class BulkActLine(View, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one run of a bulk act."""

    run_id: str
    job: str
    state: str
    """Before."""
    changed: bool = False
    detail: str = ""
    problem: Problem | None = None


class Done(View, frozen=True, kw_only=True):
    """An act was carried out, durably; `changed` is false if it had been so before."""

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
    last_heard_at: datetime
    running: int
    """How many tasks it has in hands."""


# tokens


class TokenRequest(Wish, frozen=True, kw_only=True):
    """A wish for a token."""

    name: str
    roles: list[str]
    tenant: str | None = None
    expires_in_seconds: float = 90 * 86_400.0


class TokenView(View, frozen=True, kw_only=True, omit_defaults=True):
    """A token, as far as it may be shown."""

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
    """The token itself: in the answer to its making, and never again."""


# the server


class ServerView(View, frozen=True, kw_only=True):
    """Who answers, and what it leads."""

    name: str
    version: str
    address: str
    leads: list[str]
    servers: list[str]
