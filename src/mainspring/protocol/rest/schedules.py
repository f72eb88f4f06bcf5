"""What the HTTP API takes and answers about schedules, their windows, events, backfills, alerts and dead letters.

The conventions are those of `runs.py`. A schedule is defined by the fields of `core/schedules.ScheduleSpec`, which come
and go as they are (`definition`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from mainspring.protocol.rest.runs import View, Wish

Instant = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that says its zone."""


class ScheduleRequest(Wish, frozen=True, kw_only=True):
    """A wish to create a schedule, or to change one as a whole."""

    definition: msgspec.Raw
    """A `ScheduleSpec`: name, job, trigger, and what else matters."""
    tenant: str | None = None
    since: Instant | None = None
    """For a new schedule: windows after this instant count as missed. Without it, its first window is the next."""
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
    """When it fires, in words."""
    next_at: datetime | None
    through_at: datetime
    waiting: bool
    """Some window of it waits."""
    pool: str
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str
    definition: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Left out of lists."""


class FireView(View, frozen=True, kw_only=True):
    """What became of a window, or of several in a row that nothing came of."""

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
    """Once the run is over."""
    run_ended_at: datetime | None
    backfill_id: str | None
    by: str
    decided_at: datetime


class ChangeView(View, frozen=True, kw_only=True):
    """Who did what to a schedule, and why."""

    at: datetime
    act: str
    by: str
    why: str
    version: int
    before: msgspec.Raw
    after: msgspec.Raw


class UpcomingView(View, frozen=True, kw_only=True):
    """A window that is to come."""

    window_at: datetime
    schedule_id: str
    schedule: str
    tenant: str
    job: str
    last: FireView | None = None
    """What became of the schedule's latest window, if that was asked for and there was one."""


class TriggerRequest(Wish, frozen=True, kw_only=True):
    """A wish to fire a schedule now."""

    window_at: Instant | None = None
    """For this window again, in a new generation, instead of for now."""
    params: dict[str, msgspec.Raw] = msgspec.field(default_factory=dict)
    """Over those of the schedule."""
    why: str = ""


class BackfillRequest(Wish, frozen=True, kw_only=True):
    """A wish to run past windows."""

    since: Instant
    before: Instant
    max_parallel: int = 1
    again: bool = False
    """Also windows that ran."""
    dry_run: bool = False
    why: str = ""


class BackfillWindowView(View, frozen=True, kw_only=True):
    """One window of a backfill."""

    window_at: datetime
    is_wanted: bool
    """False: it ran or waits already."""
    generation: int


class BackfillView(View, frozen=True, kw_only=True):
    """What a backfill does, or would do."""

    id: str | None
    """None for a dry run."""
    schedule_id: str
    since: datetime
    before: datetime
    max_parallel: int
    total: int
    """How many windows the range has."""
    wanted: int
    """How many of them run."""
    windows: list[BackfillWindowView]


class BackfillSummary(View, frozen=True, kw_only=True):
    """A backfill that somebody asked for. What became of its windows: the fires that name it."""

    id: str
    schedule_id: str
    since: datetime
    before: datetime
    max_parallel: int
    again: bool
    wanted: int
    """How many windows run, or ran."""
    by: str
    why: str
    created_at: datetime


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event (CloudEvents 1.0). Extension attributes are kept with it."""

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
    """What became of an event that was sent."""

    id: str
    source: str
    is_new: bool
    """False: it had come before, and nothing happened."""


class EventView(View, frozen=True, kw_only=True):
    """An event that came in."""

    tenant: str
    source: str
    id: str
    type: str
    subject: str
    at: datetime
    received_at: datetime
    fires: int
    """How many runs it led to."""
    document: msgspec.Raw


class AlertView(View, frozen=True, kw_only=True):
    """An episode: something that somebody was told of."""

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
    """Of a task that a fan-out made, what tells it from the others."""
    state: str
    because: str
    tries: int
    ended_at: datetime
    in_history: bool
    """It can't be reopened any more, only run again as a new run."""
    error: msgspec.Raw


class Revived(View, frozen=True, kw_only=True):
    """A task or run was started again."""

    run_id: str
    """The same run, or a new one that is linked to it."""
    is_new_run: bool
    detail: str = ""


class DurationView(View, frozen=True, kw_only=True):
    """How long a task usually takes, or, with an empty name, the whole run."""

    task: str
    count: int
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    updated_at: datetime


class BreakerView(View, frozen=True, kw_only=True):
    """A circuit that is open: retries of failures that are alike, or a whole job, are held back."""

    pool: str
    kind: str
    """`signature` or `job`."""
    subject: str
    """The signature, or `tenant/job`."""
    because: str
    opened_at: datetime
    probed_at: datetime | None
