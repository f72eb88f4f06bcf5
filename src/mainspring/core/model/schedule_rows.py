"""Rows of schedules, and the input and output of a schedule evaluation.

Every change of a schedule is an evaluation: the store locks some schedules and builds an `EvaluationBatch` of them, a
pure function decides (`ScheduleDecision`), and the store writes the decisions in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.schedules.windows import Outcome

MAX_OPEN_FIRES = 2_000
"""Per schedule in a snapshot. More than can wait and be active."""
MAX_ENDED_RUNS = 100
MAX_UPSTREAM_FIRES = 100
"""Latest fires of the upstream job's schedule in a snapshot."""


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. The fields are the columns of `schedules`, in the same order."""

    id: str
    tenant: str
    name: str
    """Unique in its tenant among schedules that are not deleted."""
    job: str
    version: int
    """Number of the definition, from 1."""
    spec: str
    """A `ScheduleSpec` as JSON."""
    event_type: str = ""
    """Of its event trigger, if any: `receive_events` matches it."""
    after_job: str = ""
    """The upstream job that it waits for, if any."""
    pool: str
    """Pool of its runs."""
    enabled: bool = True
    """False: disabled by its definition, or after too many failures (TRG-10)."""
    paused: bool = False
    because: str = ""
    """Why it is paused or disabled, and by whom."""
    enabled_since: datetime
    """Runs that ended before don't count as consecutive failures."""
    planned_through: datetime
    """Every window up to here has a fire."""
    next_at: datetime | None = None
    """When the next window is due; None: never, or not while it is paused or disabled."""
    has_waiting_windows: bool = False
    """Some window is waiting: the sweep evaluates it."""
    evaluated_at: datetime | None = None
    """When its waiting windows were last evaluated."""
    latest_event_at: datetime | None = None
    """Arrival of its latest event, in store time; for windows with an expected event (TRG-7)."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    """When a user last acted on it, including triggering a window."""
    updated_by: str
    deleted_at: datetime | None = None


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """Audit record of a schedule: who changed what, and why (TRG-11). Append-only."""

    schedule_id: str
    at: datetime
    action: str
    """created, updated, paused, resumed, disabled, enabled, triggered, backfilled, deleted."""
    by: str
    why: str = ""
    version: int
    before: str | None = None
    """Previous definition as JSON, if it changed."""
    after: str | None = None


class FireRow(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a window, or of several consecutive windows without a run. The key is (schedule, window, generation).

    The fields are the columns of `fires`, in the same order.
    """

    schedule_id: str
    window_at: datetime
    generation: int = 1
    """1 as planned; higher when a user triggers the window again."""
    last_window_at: datetime
    count: int = 1
    outcome: Outcome
    because: str
    is_catch_up: bool = False
    flagged: bool = False
    """It ran without the event that it was waiting for (TRG-7)."""
    start_at: datetime | None = None
    run_id: str | None = None
    run_state: RunState | None = None
    """Set when the run has ended."""
    run_ended_at: datetime | None = None
    stopping: bool = False
    """The run was asked to stop in favor of the next one."""
    asked_at: datetime | None = None
    """Since when a worker is probing for a file; None: no probe is open (TRG-8)."""
    repeats: str | None = None
    """The run of the window's previous generation, if any."""
    backfill_id: str | None = None
    event: str | None = None
    """Document of the event that triggered it."""
    params: str | None = None
    """Parameters given by the user, overriding the schedule's, as JSON."""
    by: str = ""
    """User who triggered it; empty if it was planned."""
    decided_at: datetime


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended."""

    run_id: str
    state: RunState
    ended_at: datetime


class BackfillRow(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill: a request to run past windows (TRG-9). Its windows are fires that reference it."""

    id: str
    schedule_id: str
    tenant: str
    since: datetime
    before: datetime
    max_parallel: int
    again: bool
    """Include windows that already ran."""
    windows: int
    """Number of windows to run."""
    by: str
    why: str
    created_at: datetime


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """A received event (TRG-7). The key is (tenant, source, id): an event with the same key is a duplicate."""

    tenant: str
    source: str
    id: str
    type: str
    subject: str = ""
    at: datetime
    """Event time, given by the sender."""
    received_at: datetime
    document: str
    """The whole event, as JSON."""
    fires: int = 0
    """Number of runs it triggered; set by the evaluation."""


class UpstreamSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """State of the upstream job that a schedule waits for (`after`): its oldest schedule that is not deleted."""

    schedule: ScheduleRow
    fires: tuple[FireRow, ...]
    """The latest MAX_UPSTREAM_FIRES, newest window first."""
    succeeded_at: datetime | None
    """When a run of it last succeeded."""


class ScheduleSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A locked schedule with the rows that its evaluation needs."""

    schedule: ScheduleRow
    job: JobRow | None
    """The latest version of its job."""
    waiting: tuple[FireRow, ...] = ()
    """Waiting windows, oldest first."""
    active: tuple[FireRow, ...] = ()
    """Windows whose run has not ended, oldest first."""
    ended: tuple[RunState, ...] = ()
    """States of its latest runs, newest first, since `enabled_since`, at most MAX_ENDED_RUNS; empty when only due
    windows are evaluated."""
    backfills: tuple[BackfillRow, ...] = ()
    """Backfills of the waiting and active windows."""
    other: UpstreamSchedule | None = None


class EvaluationBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Input of an evaluation."""

    now: datetime
    """Store time, the only clock."""
    cases: tuple[ScheduleSnapshot, ...]
    events: tuple[EventRow, ...] = ()
    """New events, in order of arrival."""


class ScheduleDecision(msgspec.Struct, frozen=True, kw_only=True):
    """Decision for one schedule."""

    schedule: ScheduleRow
    """Its new state."""
    fires: tuple[FireRow, ...] = ()
    """New fires, or replacements of fires with the same key."""
    runs: tuple[Run, ...] = ()
    backfills: tuple[BackfillRow, ...] = ()
    """New backfills."""
    changes: tuple[ScheduleChange, ...] = ()
    outgoing: tuple[OutboxRow, ...] = ()
    """Outbox rows: alerts, and runs to cancel."""


Decide = Callable[[EvaluationBatch], Sequence[ScheduleDecision]]
