"""REST types for schedules, their windows, events, backfills, alerts and dead letters.

The conventions are those of `runs.py`. A schedule is defined by the fields of `core/schedules.ScheduleSpec`, passed
through unchanged (`definition`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import RequestBody, View

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time with a time zone."""


class ScheduleRequest(RequestBody, frozen=True, kw_only=True):
    """Create or replace a schedule."""

    definition: msgspec.Raw
    """A `ScheduleSpec`: name, job, trigger, and options."""
    tenant: str | None = None
    since: Instant | None = None
    """For a new schedule: windows after this instant count as missed. Default: its first window is the next one."""
    why: str = ""


class ScheduleView(View, frozen=True, kw_only=True):
    """A schedule."""

    id: str
    tenant: str
    name: str
    job: str
    version: int
    state: str
    """active, paused, disabled or deleted."""
    because: str
    """Why it is paused or disabled."""
    trigger: str
    """Description of the trigger."""
    next_at: datetime | None
    planned_through: datetime
    waiting: bool
    """Some window is waiting."""
    pool: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    definition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Omitted in lists."""


class FireView(View, frozen=True, kw_only=True):
    """Outcome of a window, or of several consecutive windows without a run."""

    schedule_id: str
    window_at: datetime
    last_window_at: datetime
    count: int
    generation: int
    outcome: str
    """ran, waiting, skipped, late or condition_false."""
    because: str
    is_catch_up: bool
    flagged: bool
    start_at: datetime | None
    run_id: str | None
    run_state: str | None
    """Set once the run has ended."""
    run_ended_at: datetime | None
    backfill_id: str | None
    by: str
    decided_at: datetime


class ChangeView(View, frozen=True, kw_only=True):
    """Audit record of a schedule: who changed what, and why."""

    at: datetime
    action: str
    by: str
    why: str
    version: int
    before: msgspec.Raw
    after: msgspec.Raw


class UpcomingView(View, frozen=True, kw_only=True):
    """An upcoming window."""

    window_at: datetime
    schedule_id: str
    schedule: str
    tenant: str
    job: str
    last: FireView | None = None
    """The latest fire of the schedule, if requested and there is one."""


class TriggerRequest(RequestBody, frozen=True, kw_only=True):
    """Fire a schedule now."""

    window_at: Instant | None = None
    """Run this window again, in a new generation, instead of now."""
    params: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    """Override those of the schedule."""
    why: str = ""


class BackfillRequest(RequestBody, frozen=True, kw_only=True):
    """Run past windows."""

    since: Instant
    before: Instant
    max_parallel: int = 1
    again: bool = False
    """Include windows that already ran."""
    dry_run: bool = False
    why: str = ""


class BackfillWindowView(View, frozen=True, kw_only=True):
    """One window of a backfill."""

    window_at: datetime
    is_wanted: bool
    """False: it already ran or is waiting."""
    generation: int


class BackfillView(View, frozen=True, kw_only=True):
    """A backfill, or its dry run."""

    id: str | None
    """None in a dry run."""
    schedule_id: str
    since: datetime
    before: datetime
    max_parallel: int
    total: int
    """Number of windows in the range."""
    wanted: int
    """Number of windows to run."""
    windows: list[BackfillWindowView]


class BackfillSummary(View, frozen=True, kw_only=True):
    """A backfill. Its fires reference it."""

    id: str
    schedule_id: str
    since: datetime
    before: datetime
    max_parallel: int
    again: bool
    wanted: int
    """Number of windows to run."""
    by: str
    why: str
    created_at: datetime


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event (CloudEvents 1.0). Extension attributes are kept."""

    specversion: str
    id: str
    source: str
    type: str
    subject: str = ""
    time: datetime | None = None
    datacontenttype: str = ""
    dataschema: str = ""
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    data_base64: str = ""


class ReceivedView(View, frozen=True, kw_only=True):
    """Result of sending an event."""

    id: str
    source: str
    is_new: bool
    """False: a duplicate, without effect."""


class EventView(View, frozen=True, kw_only=True):
    """A received event."""

    tenant: str
    source: str
    id: str
    type: str
    subject: str
    at: datetime
    received_at: datetime
    fires: int
    """Number of runs it triggered."""
    document: msgspec.Raw


class AlertView(View, frozen=True, kw_only=True):
    """An alert episode."""

    id: str
    key: str
    kind: str
    severity: str
    tenant: str
    summary: str
    details: msgspec.Raw
    opened_at: datetime
    last_at: datetime
    count: int
    resolved_at: datetime | None


class DeadLetterView(View, frozen=True, kw_only=True):
    """A task that failed for good."""

    task_id: str
    run_id: str
    tenant: str
    job: str
    task: str
    label: str
    """Display label in a fan-out."""
    state: str
    because: str
    tries: int
    ended_at: datetime
    in_history: bool
    """It can't be reopened any more, only run again as a new run."""
    error: msgspec.Raw


class RetryResult(View, frozen=True, kw_only=True):
    """Result of retrying a task or run."""

    run_id: str
    """The same run, or a new one linked to it."""
    is_new_run: bool
    detail: str = ""


class DurationView(View, frozen=True, kw_only=True):
    """Usual duration of a task, or, with an empty name, of the whole run."""

    task: str
    count: int
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    updated_at: datetime


class BreakerView(View, frozen=True, kw_only=True):
    """An open circuit breaker: it holds retries with one signature, or a whole job."""

    pool: str
    kind: str
    """`signature` or `job`."""
    subject: str
    """The signature, or `tenant/job`."""
    because: str
    opened_at: datetime
    probed_at: datetime | None
