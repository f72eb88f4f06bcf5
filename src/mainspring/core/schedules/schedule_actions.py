"""Actions of users on schedules (TRG-9, TRG-11). Pure, and called under the lock of the schedule's row.

    new_schedule              its first row
    change, pause, resume, delete
    trigger_now, backfill     windows that a user asks for

1. Due windows are planned before anything changes: an action takes away no window that was due (I-31).
2. `through_at` moves to the instant from which windows count again, and never back: nothing from before is fired
   (I-34). Only at creation can an earlier instant be given.
3. A window that is run again gets a new generation. Existing generations were read before; if the schedule has changed
   since then (`Mark`), nothing is decided, and the caller has to read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from mainspring.core.admission import validate_job
from mainspring.core.admission.validate_job import Faults, Limits
from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.schedule_rows import (
    MOST_OPEN_FIRES,
    BackfillRow,
    Docket,
    FireRow,
    Ruling,
    ScheduleChange,
    ScheduleRow,
)
from mainspring.core.schedules.backfill import Backfill, Past, plan_backfill
from mainspring.core.schedules.evaluate import decide_open, give_up_waiting, plan_due
from mainspring.core.schedules.evaluation import Context, Hearing, settle_each
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.time_zones import EPOCH, LAST_YEAR
from mainspring.core.schedules.triggers import EventTrigger, previous_window
from mainspring.core.schedules.windows import ON_TIME, Outcome, plan
from mainspring.protocol.errors import Conflict, Fault, Outdated, Refused

MOST_BACKFILLED = 800
"""Limit of backfilled windows of one schedule that are waiting or running."""
MOST_LISTED = 1_000
"""Limit of windows that a dry run lists."""
MOST_PARALLEL = 100
MOST_DAYS_SINCE = 366
_FAR = datetime(LAST_YEAR, 1, 1, tzinfo=UTC)


class Mark(NamedTuple):
    """State of a schedule when its fires were read, for optimistic locking."""

    updated_at: datetime
    through_at: datetime


class TriggerWish(msgspec.Struct, frozen=True, kw_only=True):
    """Request to run a schedule now."""

    window_at: datetime | None = None
    """The window to run; None: now."""
    params: str | None = None
    """Merged over those of the schedule, as a JSON object."""
    by: str
    why: str = ""
    past: tuple[FireRow, ...] = ()
    """All fires of that window."""


class BackfillWish(msgspec.Struct, frozen=True, kw_only=True):
    """Request to run past windows."""

    since: datetime
    before: datetime
    max_parallel: int = 1
    again: bool = False
    by: str
    why: str = ""


def mark_of(row: ScheduleRow) -> Mark:
    """Return the mark of a schedule's row."""
    return Mark(row.updated_at, row.through_at)


def new_schedule(
    id: str,
    tenant: str,
    spec: ScheduleSpec,
    *,
    pool: str,
    by: str,
    why: str = "",
    now: datetime,
    since: datetime | None = None,
    paused: bool = False,
) -> tuple[ScheduleRow, ScheduleChange]:
    """Create the first row of a schedule, and the record of its creation. The definition has been validated.

    Windows from `since` (validated as well) on count as missed. A schedule created `paused` plans none, not even a
    window that would be due at once.
    """
    text = msgspec.json.encode(spec).decode()
    row = ScheduleRow(
        id=id, tenant=tenant, name=spec.name, job=spec.job, version=1, spec=text, pool=pool, enabled=spec.enabled,
        enabled_since=now, through_at=since or now, created_at=now, created_by=by, updated_at=now, updated_by=by,
        paused=paused, because=_say("paused", by, why) if paused else "",
    )  # fmt: skip
    row = _follow_spec(row, spec, since or now)
    return row, ScheduleChange(schedule_id=id, at=now, act="created", by=by, why=why, version=1, after=text)


def change(
    docket: Docket, context: Context, spec: ScheduleSpec, *, by: str, why: str = "", version: int | None = None
) -> list[Ruling]:
    """Replace the definition of a schedule, which has been validated; the same definition changes nothing.

    A schedule that was disabled by failures stays disabled until it is resumed.
    """
    text = msgspec.json.encode(spec).decode()

    def step(hearing: Hearing) -> None:
        before, was = hearing.row.spec, hearing.spec
        _check_version(hearing, version)
        if spec.name != was.name:
            raise Refused("the schedule has 1 fault", [Fault(where="name", why=f"can't be changed: it is {was.name}")])
        if text == before:
            return
        _finish_what_is_due(hearing)
        row = hearing.row
        enabled = spec.enabled and (row.enabled or not was.enabled)
        if enabled and not row.enabled:
            row = replace(row, enabled_since=hearing.now, because=row.because if row.paused else "")
        row = replace(row, spec=text, version=row.version + 1, job=spec.job, enabled=enabled)
        hearing.update(_follow_spec(row, spec, hearing.now))
        hearing.act("updated", by=by, why=why, before=before, after=text)
        if not spec.enabled:
            give_up_waiting(hearing, _say("the schedule was disabled", by, why))

    return settle_each(docket, context, step, unreadable=True)


def pause(docket: Docket, context: Context, *, by: str, why: str = "") -> list[Ruling]:
    """Stop planning windows and starting waiting ones. Idempotent."""

    def step(hearing: Hearing) -> None:
        if hearing.row.paused:
            return
        _finish_what_is_due(hearing)
        hearing.update(replace(hearing.row, paused=True, next_at=None, because=_say("paused", by, why)))
        hearing.act("paused", by=by, why=why)

    return settle_each(docket, context, step)


def resume(docket: Docket, context: Context, *, by: str, why: str = "") -> list[Ruling]:
    """Resume after a pause or after failures. Windows missed meanwhile don't run; waiting ones are decided."""

    def step(hearing: Hearing) -> None:
        row, spec = hearing.row, hearing.spec
        if not spec.enabled:
            raise Conflict("the schedule is disabled in its definition; change the definition")
        if row.enabled and not row.paused:
            return
        since = row.enabled_since if row.enabled else hearing.now
        resumed = replace(row, enabled=True, paused=False, because="", enabled_since=since)
        hearing.update(_follow_spec(resumed, spec, hearing.now))
        hearing.act("resumed" if row.enabled else "enabled", by=by, why=why)
        _resolve_alerts(hearing, f"{row.name} was resumed by {by}")
        decide_open(hearing)

    return settle_each(docket, context, step)


def delete(docket: Docket, context: Context, *, by: str, why: str = "", version: int | None = None) -> list[Ruling]:
    """Delete a schedule. Its history stays readable, its runs continue."""

    def step(hearing: Hearing) -> None:
        _check_version(hearing, version)
        _finish_what_is_due(hearing)
        give_up_waiting(hearing, "the schedule was deleted")
        hearing.update(replace(hearing.row, deleted_at=hearing.now, next_at=None, because=_say("deleted", by, why)))
        hearing.act("deleted", by=by, why=why, before=hearing.row.spec)
        _resolve_alerts(hearing, f"{hearing.row.name} was deleted by {by}")

    return settle_each(docket, context, step, unreadable=True)


def trigger_now(docket: Docket, context: Context, wish: TriggerWish, *, read: Mark) -> list[Ruling]:
    """Run a schedule now, or for a past window, regardless of other runs. Empty if it changed since `read`."""
    if wish.window_at is not None and _has_moved(docket, read):
        return []

    def step(hearing: Hearing) -> None:
        _check_params(wish.params)
        _finish_what_is_due(hearing)
        _require_room(hearing, MOST_OPEN_FIRES - len(hearing.waiting) - len(hearing.active), 1)
        because = _say("triggered", wish.by, wish.why)
        if wish.window_at is None:
            fire = hearing.new_fire(hearing.free_instant(hearing.now), because)
        else:
            fire = _ask_again(hearing, wish.window_at, wish.past)
        fire = replace(fire, by=wish.by, params=wish.params)
        fault = hearing.params_fault(fire)
        if fault is not None:
            raise _refuse("params", fault)
        for refused in hearing.place().faults:
            raise _refuse(refused.where, refused.why)
        hearing.start(fire, because)
        hearing.act("triggered", by=wish.by, why=wish.why)

    return settle_each(docket, context, step)


def check_since(since: datetime, now: datetime) -> datetime:
    """Return the instant, in UTC, from which windows of a new schedule count. Raises Refused if it is invalid.

    Slightly in the future counts as now: clocks of clients differ from the store's.
    """
    if since.tzinfo is None:
        raise _refuse("since", "must have a time zone")
    if since > now + ON_TIME:
        raise _refuse("since", f"is in the future (now: {now:%Y-%m-%dT%H:%M:%SZ})")
    if since < now - timedelta(days=MOST_DAYS_SINCE):
        raise _refuse("since", f"must be within {MOST_DAYS_SINCE} days")
    return min(since, now).astimezone(UTC)


def check_window(window_at: datetime) -> datetime:
    """Return a window named by a user, in UTC. Raises Refused if it is invalid."""
    if window_at.tzinfo is None:
        raise _refuse("window_at", "must have a time zone")
    if not EPOCH <= window_at < _FAR:
        raise _refuse("window_at", "must be between 1970 and 9989")
    return window_at.astimezone(UTC)


def plan_wished(spec: ScheduleSpec, wish: BackfillWish, past: Sequence[FireRow], now: datetime) -> Backfill:
    """Plan a backfill; `past` has all fires of its range."""
    known: dict[datetime, Past] = {}
    for fire in sorted(past, key=lambda one: one.generation):
        known[fire.window_at] = Past(outcome=fire.outcome, generation=fire.generation)
    return plan_backfill(
        spec, since=wish.since, before=wish.before, now=now, past=known, again=wish.again, limit=MOST_LISTED
    )


def backfill(
    docket: Docket, context: Context, wish: BackfillWish, past: Sequence[FireRow], *, id: str, read: Mark
) -> tuple[list[Ruling], Backfill | None]:
    """Run past windows, oldest first; return the decisions and the plan. Empty if it changed since `read`."""
    made: list[Backfill] = []
    if _has_moved(docket, read):
        return [], None

    def step(hearing: Hearing) -> None:
        _finish_what_is_due(hearing)
        rows = {(fire.window_at, fire.generation): fire for fire in (*past, *hearing.decided())}
        planned = plan_wished(hearing.spec, wish, list(rows.values()), hearing.now)
        wanted = [window for window in planned.windows if window.is_wanted]
        if planned.total > len(planned.windows):
            raise _refuse("since", f"the range has {planned.total} windows; the limit is {MOST_LISTED}")
        waiting = sum(fire.backfill_id is not None for fire in (*hearing.waiting, *hearing.active))
        _require_room(hearing, MOST_BACKFILLED - waiting, len(wanted))
        hearing.add_backfill(
            BackfillRow(
                id=id,
                schedule_id=hearing.row.id,
                tenant=hearing.row.tenant,
                since=wish.since,
                before=wish.before,
                max_parallel=wish.max_parallel,
                again=wish.again,
                windows=len(wanted),
                by=wish.by,
                why=wish.why,
                created_at=hearing.now,
            )
        )
        for window in wanted:
            earlier = rows.get((window.window_at, window.generation - 1))
            fire = hearing.new_fire(window.window_at, "backfilled")
            hearing.waiting.append(
                replace(
                    fire,
                    generation=window.generation,
                    backfill_id=id,
                    by=wish.by,
                    repeats=None if earlier is None else earlier.run_id,
                )
            )
        hearing.act("backfilled", by=wish.by, why=wish.why)
        decide_open(hearing)
        made.append(planned)

    rulings = settle_each(docket, context, step)
    return rulings, made[0] if made else None


def check_backfill(wish: BackfillWish) -> None:
    """Raise Refused if the request is invalid."""
    faults = [
        Fault(where=where, why="must have a time zone")
        for where, at in (("since", wish.since), ("before", wish.before))
        if at.tzinfo is None
    ]
    if not faults and wish.since >= wish.before:
        faults.append(Fault(where="before", why="must be later than since"))
    if not 1 <= wish.max_parallel <= MOST_PARALLEL:
        faults.append(Fault(where="max_parallel", why=f"must be from 1 to {MOST_PARALLEL}"))
    if faults:
        raise Refused(f"the backfill has {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults)


def _check_version(hearing: Hearing, expected: int | None) -> None:
    if expected is not None and expected != hearing.row.version:
        raise Outdated(f"the schedule is at version {hearing.row.version}, not {expected}")


def _finish_what_is_due(hearing: Hearing) -> None:
    plan_due(hearing)
    decide_open(hearing)


def _follow_spec(row: ScheduleRow, spec: ScheduleSpec, since: datetime) -> ScheduleRow:
    """Derive the row's columns from its definition, from an instant on."""
    through_at = max(row.through_at, since)
    going = row.enabled and not row.paused
    return replace(
        row,
        event_type=spec.trigger.type if isinstance(spec.trigger, EventTrigger) else "",
        after_job="" if spec.after is None else spec.after.job,
        through_at=through_at,
        next_at=plan(row.id, spec, through_at=through_at, now=since).next_at if going else None,
    )


def _ask_again(hearing: Hearing, window_at: datetime, past: Sequence[FireRow]) -> FireRow:
    """Create a new generation of a past window, with what the latest one had."""
    decided = [fire for fire in hearing.decided() if fire.window_at == window_at]
    known = sorted([*past, *decided], key=lambda one: one.generation)
    if not known:
        if window_at > hearing.now:
            raise _refuse("window_at", "is in the future")
        if previous_window(hearing.spec.trigger, window_at) != window_at:
            raise _refuse("window_at", "is not a window of this schedule")
        return hearing.new_fire(window_at, "")
    latest = known[-1]
    if latest.outcome is Outcome.WAITING:
        raise Conflict(f"the window is already waiting: {latest.because}")
    ran = [fire.run_id for fire in known if fire.run_id is not None]
    return replace(
        hearing.new_fire(window_at, ""), generation=latest.generation + 1, repeats=ran[-1] if ran else None,
        event=latest.event, flagged=latest.flagged,
    )  # fmt: skip


def _has_moved(docket: Docket, read: Mark) -> bool:
    return any(mark_of(case.schedule) != read for case in docket.cases)


def _require_room(hearing: Hearing, room: int, wanted: int) -> None:
    if hearing.case.job is None:
        raise Conflict(f"job {hearing.row.job} does not exist")
    if wanted > room:
        raise Conflict(f"only {max(0, room)} more windows of this schedule are allowed, not {wanted}")


def _check_params(params: str | None) -> None:
    faults = Faults()
    if params is not None:
        validate_job.check_params(params, Limits(), faults)
    if faults.total():
        raise Refused("invalid parameters", faults.all())


def _resolve_alerts(hearing: Hearing, over: str) -> None:
    """Resolve the open alerts about the schedule."""
    for kind, severity in (
        (AlertKind.SCHEDULE_DISABLED, Severity.HIGH),
        (AlertKind.SCHEDULE_FAILING, Severity.WARNING),
        (AlertKind.EVENT_REJECTED, Severity.HIGH),
    ):
        hearing.alert(kind, severity, over, hearing.now.isoformat(), resolved=True)


def _say(what: str, by: str, why: str) -> str:
    return f"{what} by {by}{f': {why}' if why else ''}"


def _refuse(where: str, why: str) -> Refused:
    return Refused(f"{where} {why}", [Fault(where=where, why=why)])
