"""What is kept of schedules, and what a settling is given and says: the words between the rules and the store.

Everything that happens to a schedule is a settling: the store takes some schedules under lock, makes a `Docket` of
them, a pure function says what follows (`Ruling`), and the store writes it in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from mainspring.core.model.batch import Outgoing
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.schedules.windows import Outcome

MOST_OPEN_FIRES = 2_000
"""Of a schedule, in a case. More than can wait and be active."""
MOST_ENDED = 100
OTHER_FIRES = 100
"""Latest fires of the other job's schedule, in a case."""


class ScheduleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule. The fields are the columns of `schedules`, in the same order."""

    id: str
    tenant: str
    name: str
    """Unique in its tenant among those that are not deleted."""
    job: str
    version: int
    """Counts the changes of its definition, from 1."""
    spec: str
    """A `ScheduleSpec` as JSON."""
    event_type: str = ""
    """Of its event trigger, if it has one: what `receive_events` looks for."""
    after_job: str = ""
    """The job that it waits for, if it does."""
    pool: str
    """Where its runs go."""
    enabled: bool = True
    """False: nothing is planned, because its definition says so or because it failed too often (TRG-10)."""
    paused: bool = False
    because: str = ""
    """Why it is paused or disabled, and by whom."""
    enabled_since: datetime
    """Runs that ended before are not counted as failures in a row."""
    through_at: datetime
    """Up to here every window is covered by a fire."""
    next_at: datetime | None = None
    """When there is something to plan; None: never, or not as long as it is paused or disabled."""
    has_waiting: bool = False
    """Some window of it waits: the sweep looks at it."""
    looked_at: datetime | None = None
    """When its waiting windows were last decided."""
    latest_event_at: datetime | None = None
    """When its latest event came, by the store's clock; for windows that say when an event is expected (TRG-7)."""
    created_at: datetime
    created_by: str
    updated_at: datetime
    """When somebody last did something to it, be it only that a window was asked for."""
    updated_by: str
    deleted_at: datetime | None = None


class ScheduleChange(msgspec.Struct, frozen=True, kw_only=True):
    """Who did what to a schedule, and why (TRG-11). Appended, never changed."""

    schedule_id: str
    at: datetime
    act: str
    """created, updated, paused, resumed, disabled, enabled, triggered, backfilled, deleted."""
    by: str
    why: str = ""
    version: int
    before: str | None = None
    """The definition as JSON, where it changed."""
    after: str | None = None


class FireRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a window, or of several in a row that nothing came of. (schedule, window, generation) is the key.

    The fields are the columns of `fires`, in the same order.
    """

    schedule_id: str
    window_at: datetime
    generation: int = 1
    """1 as planned, more when a person asks for the window again."""
    last_window_at: datetime
    count: int = 1
    outcome: Outcome
    because: str
    is_catch_up: bool = False
    flagged: bool = False
    """It ran although the event that it waits for did not come (TRG-7)."""
    start_at: datetime | None = None
    run_id: str | None = None
    run_state: RunState | None = None
    """Set when the run is over."""
    run_ended_at: datetime | None = None
    stopping: bool = False
    """The run has been asked to stop, to make room for the next."""
    asked_at: datetime | None = None
    """Since when a worker is being asked whether a file is there; None: nobody is asked at the moment (TRG-8)."""
    repeats: str | None = None
    """The run of an earlier generation of the window, if there is one."""
    backfill_id: str | None = None
    event: str | None = None
    """The document of the event that led to it."""
    params: str | None = None
    """Parameters that a person gave for it, over the schedule's, as JSON."""
    by: str = ""
    """Who asked for it; empty if it was planned."""
    decided_at: datetime


class EndedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is over, as its own row says."""

    run_id: str
    state: RunState
    ended_at: datetime


class BackfillRow(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody's wish to run past windows (TRG-9). Its windows are fires that name it."""

    id: str
    schedule_id: str
    tenant: str
    since: datetime
    before: datetime
    max_parallel: int
    again: bool
    """Also windows that ran."""
    windows: int
    """How many are to run."""
    by: str
    why: str
    created_at: datetime


class EventRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event that came in (TRG-7). (tenant, source, id) is the key: the same one again is the same event."""

    tenant: str
    source: str
    id: str
    type: str
    subject: str = ""
    at: datetime
    """Its own time, as its sender says."""
    received_at: datetime
    document: str
    """All of it, as JSON."""
    fires: int = 0
    """How many runs it led to; given by whoever decides."""


class OtherSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the job that a schedule waits for (`after`): its oldest schedule that is not deleted."""

    schedule: ScheduleRow
    fires: tuple[FireRow, ...]
    """The latest OTHER_FIRES of it, newest window first."""
    succeeded_at: datetime | None
    """When a run of it last succeeded."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, locked, and what is known about it."""

    schedule: ScheduleRow
    job: JobRow | None
    """The latest version of its job."""
    waiting: tuple[FireRow, ...] = ()
    """Windows that wait, oldest first."""
    active: tuple[FireRow, ...] = ()
    """Windows that ran and whose run is not over, oldest first."""
    ended: tuple[RunState, ...] = ()
    """How its latest runs ended, newest first, since `enabled_since`, at most MOST_ENDED; empty in a settling of what
    is due."""
    backfills: tuple[BackfillRow, ...] = ()
    """Those that waiting or active windows belong to."""
    other: OtherSchedule | None = None


class Docket(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be decided."""

    now: datetime
    """The store's time. No other is known."""
    cases: tuple[Case, ...]
    events: tuple[EventRow, ...] = ()
    """Events that have not been seen before, in the order in which they came."""


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What follows for one schedule."""

    schedule: ScheduleRow
    """As it is from now on."""
    fires: tuple[FireRow, ...] = ()
    """New, or in the place of what was there under the same key."""
    runs: tuple[Run, ...] = ()
    backfills: tuple[BackfillRow, ...] = ()
    """New ones."""
    changes: tuple[ScheduleChange, ...] = ()
    outgoing: tuple[Outgoing, ...] = ()
    """For the outbox: alerts, and runs to cancel."""


Decide = Callable[[Docket], Sequence[Ruling]]
