"""Diagnosis of a schedule (OBS-1), from its rows and by the functions that evaluate it.

    deleted, paused, disabled     nothing is planned: PAUSED, or QUARANTINED if failures disabled it
    a window waits                CONCURRENCY, WAITING_UPSTREAM, WAITING_EVENT for a file, BACKFILL_THROTTLED
    a window is overdue           SCHEDULER_LAG
    nothing is due                WAITING_EVENT, WAITING_TIME, or none: it runs on request

A waiting window is decided again here, by `core/schedules/start_policy.py`: the gate that blocks it is the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from mainspring.core.explain.diagnosis import (
    BY_ROWS,
    MAX_NAMED,
    STALE_SECONDS,
    Blocker,
    Diagnosis,
    Expected,
    Gate,
    GateState,
    Reason,
    Suggestion,
    SuggestionKind,
)
from mainspring.core.explain.diagnosis_report import format_clock, format_relative
from mainspring.core.model.batch import DurationRow
from mainspring.core.model.schedule_rows import BackfillRow, FireRow, ScheduleChange, ScheduleRow, UpstreamSchedule
from mainspring.core.schedules.evaluate import upstream_window
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.start_policy import Situation, StartGate, decide_start
from mainspring.core.schedules.triggers import CronTrigger, EventTrigger, ManualTrigger, describe_trigger, format_window
from mainspring.core.schedules.windows import Outcome, start_of, upcoming
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.sentences import count_of

_EVALUATED_WITHIN_SECONDS = 60.0
"""Waiting windows are decided again at least this often while a server is healthy."""
_ENABLED, _NOT_PAUSED, _DUE, _AFTER, _OVERLAP, _CONDITION = (
    "enabled", "pause", "due", "after", "overlap", "condition"
)  # fmt: skip
_MIN_EVENTS = 3
"""Minimum to estimate how often events come."""


class ScheduleContext(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a schedule."""

    schedule: ScheduleRow
    spec: ScheduleSpec
    now: datetime
    waiting: tuple[FireRow, ...] = ()
    """Waiting windows, oldest first."""
    active: tuple[FireRow, ...] = ()
    """Windows with unfinished runs, oldest first."""
    latest: FireRow | None = None
    """The fire of its latest window."""
    backfill: BackfillRow | None = None
    """The backfill of the oldest waiting window, if only backfilled windows wait."""
    backfilled: int = 0
    """How many of its windows have finished."""
    other: UpstreamSchedule | None = None
    """The upstream job."""
    events: tuple[datetime, ...] = ()
    """When events of its type came, latest first."""
    stopped: ScheduleChange | None = None
    """The last pause or disabling."""
    duration: DurationRow | None = None
    """Usual duration of its job's runs."""
    called: str
    """Display name: its own, or its job's if it is the only schedule of that job."""


def diagnose_schedule(context: ScheduleContext) -> Diagnosis:
    """Diagnose a schedule, in the order in which it is evaluated."""
    row, found = context.schedule, _about(context)
    if row.deleted_at is not None:
        verdict = f"Was deleted {format_relative(row.deleted_at, context.now)}{_reason(row.because)}"
        return replace(found, verdict=verdict, expected=Expected.never("it is deleted"))
    if row.paused:
        return _paused(found, context)
    if not row.enabled:
        return _disabled(found, context)
    own = next((fire for fire in context.waiting if fire.backfill_id is None), None)
    if own is not None:
        return _waiting(found, context, own)
    if context.backfill is not None:
        return _backfilling(found, context, context.backfill)
    if row.next_at is not None and (context.now - row.next_at).total_seconds() > STALE_SECONDS:
        return _overdue(found, context, row.next_at)
    if isinstance(context.spec.trigger, EventTrigger):
        return _for_event(found, context, context.spec.trigger)
    if row.next_at is not None:
        return _for_time(found, context, row.next_at)
    return _on_demand(found, context)


# nothing is planned


def _paused(found: Diagnosis, context: ScheduleContext) -> Diagnosis:
    change = context.stopped
    verdict = f"Paused{_reason(context.schedule.because)}"
    if change is not None:
        verdict = f"Paused by {change.by} {format_relative(change.at, context.now)}{_quoted(change.why)}"
    person = () if change is None else (Blocker("person", change.by, f"{change.by}, who paused it"),)
    return replace(
        found,
        reason=Reason.PAUSED,
        verdict=verdict + _and_waiting(context),
        expected=Expected.unknown("an operator must resume it"),
        gates=_gates(context, _NOT_PAUSED),
        blockers=person,
        ruled_out=("not failures",),
        suggestions=(_resume(context, SuggestionKind.ASK, "Resume it"),),
    )


def _disabled(found: Diagnosis, context: ScheduleContext) -> Diagnosis:
    row, change = context.schedule, context.stopped
    if not context.spec.enabled:
        return replace(
            found,
            reason=Reason.PAUSED,
            verdict="Disabled in its definition",
            expected=Expected.never("its definition disables it"),
            gates=_gates(context, _ENABLED),
            suggestions=(Suggestion.change("Enable it in its definition", effect=_format_next(context)),),
        )
    since = "" if change is None else f" {format_relative(change.at, context.now)}"
    fix = f"Fix the failures (`mainspring runs --filter 'job:{row.job} state:failed'`), then resume it"
    return replace(
        found,
        reason=Reason.QUARANTINED,
        verdict=f"Disabled{since} after repeated failures{_reason(row.because)}; it stays so until it is resumed",
        expected=Expected.unknown("an operator must fix its job and resume it"),
        gates=_gates(context, _ENABLED),
        ruled_out=("not paused",),
        suggestions=(_resume(context, SuggestionKind.CHANGE, fix),),
    )


# a window waits


def _waiting(found: Diagnosis, context: ScheduleContext, fire: FireRow) -> Diagnosis:
    """The oldest waiting window, decided as the next evaluation will."""
    others = tuple(one for one in context.active if one.backfill_id is None)
    situation = Situation(active=len(others), other=upstream_window(context.other, fire.window_at))
    start = decide_start(context.spec, fire.window_at, situation, now=context.now)

    window = f"Window {_format_window(context, fire.window_at)} has waited {_ago(fire.window_at, context.now)}"
    waited = replace(found, numbers={"waiting": float(len(context.waiting))})
    if start.outcome is Outcome.WAITING and start.gate is StartGate.AFTER:
        return _for_upstream(waited, context, f"{window}: {start.because}")
    if start.outcome is Outcome.WAITING:
        return _for_overlap(waited, context, others, f"{window}: {start.because}")
    if fire.asked_at is not None:
        return replace(
            waited,
            reason=Reason.WAITING_EVENT,
            verdict=f"{window}: {fire.because}",
            expected=Expected.unknown("a worker has not reported on the file yet"),
            gates=_gates(context, _CONDITION),
            suggestions=(Suggestion.wait("Wait: a worker of the pool has to check the file"),),
        )
    evaluated_at = context.schedule.evaluated_at or fire.decided_at
    if (context.now - evaluated_at).total_seconds() <= _EVALUATED_WITHIN_SECONDS:
        return replace(waited, verdict=f"{window}; no longer blocked, about to start")
    return replace(
        waited,
        reason=Reason.SCHEDULER_LAG,
        verdict=f"{window}; not blocked, but no server has evaluated it for {_ago(evaluated_at, context.now)}",
        expected=Expected.unknown("no server evaluates waiting windows"),
    )


def _for_upstream(found: Diagnosis, context: ScheduleContext, verdict: str) -> Diagnosis:
    after, other = context.spec.after, context.other
    assert after is not None, "only what waits for another job gets here"
    named: list[Blocker] = []
    if other is not None:
        named = [
            Blocker("run", fire.run_id, f"{after.job}: {fire.run_id}", found.tenant)
            for fire in other.fires
            if fire.run_id is not None and fire.run_state is None
        ]
    return replace(
        found,
        reason=Reason.WAITING_UPSTREAM,
        verdict=verdict,
        expected=Expected.unknown(f"it depends on {after.job}"),
        gates=_gates(context, _AFTER),
        blockers=tuple(named[:MAX_NAMED]) or (Blocker("job", after.job, after.job, found.tenant),),
        more_blockers=max(0, len(named) - MAX_NAMED),
        suggestions=(Suggestion.wait(f"Wait for {after.job}", f"mainspring why {after.job}"),),
    )


def _for_overlap(found: Diagnosis, context: ScheduleContext, active: Sequence[FireRow], verdict: str) -> Diagnosis:
    cancellable = active[:1] if len(active) == context.spec.max_active else ()
    return replace(
        found,
        reason=Reason.CONCURRENCY,
        verdict=verdict,
        expected=_expected_end(context, active),
        gates=_gates(context, _OVERLAP),
        blockers=tuple(_run_in_the_way(context, fire) for fire in active[:MAX_NAMED]),
        more_blockers=max(0, len(active) - MAX_NAMED),
        ruled_out=("not paused", "not the upstream job"),
        suggestions=(Suggestion.wait("Wait for the active run"), *map(_cancel, cancellable)),
    )


def _cancel(fire: FireRow) -> Suggestion:
    effect = "the waiting window starts once it has ended"
    return Suggestion.change("Cancel that run", f"mainspring cancel {fire.run_id}", effect)


def _backfilling(found: Diagnosis, context: ScheduleContext, backfill: BackfillRow) -> Diagnosis:
    mine = [fire for fire in context.waiting if fire.backfill_id == backfill.id]
    going = [fire for fire in context.active if fire.backfill_id == backfill.id]
    progress = f"{context.backfilled:,} done, {len(going)} active, {len(mine):,} waiting"
    verdict = f"A backfill of {backfill.windows:,} windows allows {backfill.max_parallel} at a time: {progress}"
    return replace(
        found,
        reason=Reason.BACKFILL_THROTTLED,
        verdict=verdict,
        expected=_expected_end(context, going),
        blockers=tuple(_run_in_the_way(context, fire) for fire in going[:MAX_NAMED]),
        more_blockers=max(0, len(going) - MAX_NAMED),
        ruled_out=("planned windows are not affected",),
        suggestions=(Suggestion.wait(f"Wait: {_format_remaining(context, backfill, len(mine))}"),),
        numbers={"waiting": float(len(mine)), "done": float(context.backfilled), "total": float(backfill.windows)},
    )


def _format_remaining(context: ScheduleContext, backfill: BackfillRow, waiting: int) -> str:
    """Return how long a backfill takes, at the usual duration of a run."""
    if context.duration is None:
        return "the usual duration of a run is not known yet"
    rounds = -(-waiting // backfill.max_parallel)
    return f"the last window starts in about {format_seconds(rounds * context.duration.p50_seconds)}"


def _run_in_the_way(context: ScheduleContext, fire: FireRow) -> Blocker:
    began = fire.start_at or fire.decided_at
    usual = "" if context.duration is None else f", usually {format_seconds(context.duration.p50_seconds)}"
    says = f"{fire.run_id}, of window {_format_window(context, fire.window_at)} (for {_ago(began, context.now)}{usual})"
    return Blocker("run", fire.run_id or "", says, context.schedule.tenant)


def _expected_end(context: ScheduleContext, active: Sequence[FireRow]) -> Expected:
    """Return when the first of these runs usually ends."""
    if context.duration is None or not active:
        return Expected.unknown("the usual duration of its runs is not known")
    began = min(fire.start_at or fire.decided_at for fire in active)
    earliest = began + timedelta(seconds=context.duration.p50_seconds)
    latest = began + timedelta(seconds=context.duration.p90_seconds)
    if latest <= context.now:
        return Expected.unknown("the active run takes longer than 9 of 10 before it")
    basis = f"how long its last {context.duration.count:,} runs took (p50 to p90)"
    return Expected.between(max(earliest, context.now), latest, basis)


# nothing is due


def _overdue(found: Diagnosis, context: ScheduleContext, next_at: datetime) -> Diagnosis:
    late = format_seconds((context.now - next_at).total_seconds())
    return replace(
        found,
        reason=Reason.SCHEDULER_LAG,
        verdict=f"Due {late} ago and not evaluated since: the schedulers are behind",
        expected=Expected.unknown("no server evaluates due windows"),
        gates=_gates(context, _DUE, f"{late} ago"),
    )


def _for_event(found: Diagnosis, context: ScheduleContext, trigger: EventTrigger) -> Diagnosis:
    row, seen = context.schedule, "none was ever received"
    if context.events:
        seen = f"last seen {format_relative(context.events[0], context.now)}"
    expected = Expected.unknown("it is not known when an event comes")
    by = ""
    if row.next_at is not None:
        at, ahead = format_clock(row.next_at, context.now), format_relative(row.next_at, context.now)
        by = f"; without one it runs at {at} ({ahead})"
        basis = "when the event comes, at the latest at the end of its buffer"
        expected = Expected.between(context.now, row.next_at, basis)
    send = Suggestion.change(
        "Send the event",
        f"mainspring events send {trigger.type}",
        "a run starts" if trigger.filter is None else f"a run starts if it passes {trigger.filter}",
    )
    return replace(
        found,
        reason=Reason.WAITING_EVENT,
        verdict=f"Waits for event {trigger.type}; {seen}{_format_usual(context.events)}{by}{_format_latest(context)}",
        expected=expected,
        gates=_gates(context, _DUE, f"event {trigger.type}"),
        blockers=(Blocker("event", trigger.type, f"event {trigger.type}, {seen}"),),
        ruled_out=("not paused", "no window waits for capacity"),
        suggestions=(Suggestion.wait("Wait for the event"), send, _trigger(context)),
        numbers={"events": float(len(context.events))},
    )


def _for_time(found: Diagnosis, context: ScheduleContext, next_at: datetime) -> Diagnosis:
    row, spec = context.schedule, context.spec
    starts = start_of(row.id, spec, next_at, context.now)
    when = format_relative(next_at, context.now)
    return replace(
        found,
        reason=Reason.WAITING_TIME,
        verdict=f"Next window {_format_window(context, next_at)} ({when}){_format_latest(context)}",
        expected=Expected.at(starts, f"it fires {describe_trigger(spec.trigger)}"),
        gates=_gates(context, _DUE, when),
        ruled_out=("not paused", "no window waits for capacity"),
        suggestions=(
            Suggestion.wait(f"Wait until {format_clock(starts, context.now)}"),
            _trigger(context),
        ),
    )


def _on_demand(found: Diagnosis, context: ScheduleContext) -> Diagnosis:
    found = replace(found, suggestions=(_trigger(context),))
    if isinstance(context.spec.trigger, ManualTrigger):
        return replace(found, verdict=f"Runs on request only{_format_latest(context)}")
    verdict = f"Has no future window: it fires {describe_trigger(context.spec.trigger)}{_format_latest(context)}"
    return replace(found, verdict=verdict, expected=Expected.never("it has no future window"))


# the pieces


def _about(context: ScheduleContext) -> Diagnosis:
    row = context.schedule
    state = "deleted" if row.deleted_at else "disabled" if not row.enabled else "paused" if row.paused else "active"
    return Diagnosis(
        subject=row.id, name=f"{row.tenant}/{context.called}", tenant=row.tenant, state=state, since=None, reason=None,
        verdict="", at=context.now, by=BY_ROWS, age_seconds=0.0, pool=row.pool, priority=context.spec.priority,
    )  # fmt: skip


def _resume(context: ScheduleContext, kind: SuggestionKind, says: str) -> Suggestion:
    return Suggestion(kind=kind, says=says, command=f"mainspring resume {context.called}", effect=_format_next(context))


def _format_next(context: ScheduleContext) -> str:
    """The next window once the schedule is active."""
    windows = upcoming(replace(context.spec, enabled=True), context.now, 1)
    return f"its next window is {_format_window(context, windows[0])}" if windows else "it is active again"


def _trigger(context: ScheduleContext) -> Suggestion:
    command = f"mainspring trigger {context.called}"
    return Suggestion.change("Run it now", command, "a run starts at once")


def _and_waiting(context: ScheduleContext) -> str:
    count = len(context.waiting)
    return f"; {count_of(count, 'window')} {'is' if count == 1 else 'are'} waiting" if count else ""


def _ago(at: datetime, now: datetime) -> str:
    return format_seconds((now - at).total_seconds())


def _reason(because: str) -> str:
    return f": {because}" if because else ""


def _quoted(why: str) -> str:
    return f': "{why}"' if why else ""


def _gates(context: ScheduleContext, holds: str, says: str = "") -> tuple[Gate, ...]:
    """The gates of a window, in the order in which they are checked."""
    spec = context.spec
    active = sum(fire.backfill_id is None for fire in context.active)
    names = [(_ENABLED, ""), (_NOT_PAUSED, ""), (_DUE, "")]
    if spec.after is not None:
        names.append((_AFTER, spec.after.job))
    names.append((_OVERLAP, f"{active} of {spec.max_active}"))
    if spec.condition is not None:
        names.append((_CONDITION, spec.condition.file_exists or ""))
    gates: list[Gate] = []
    passed = GateState.YES
    for name, words in names:
        if name == holds:
            gates.append(Gate(name, GateState.HOLDS, says or words))
            passed = GateState.NOT_REACHED
        else:
            gates.append(Gate(name, passed, words))
    return tuple(gates)


def _format_window(context: ScheduleContext, window_at: datetime) -> str:
    """Format a window in its time zone."""
    trigger = context.spec.trigger
    text = format_window(trigger, window_at)
    zone = trigger.timezone if isinstance(trigger, CronTrigger) else "UTC"
    if isinstance(trigger, EventTrigger) and trigger.expected is not None:
        zone = trigger.expected.timezone
    return f"{text[:10]} {text[11:19]} {zone}"


def _format_latest(context: ScheduleContext) -> str:
    """The outcome of the latest window, as the end of a sentence."""
    fire = context.latest
    if fire is None or fire.outcome is Outcome.WAITING:
        return ""
    window = f"; its latest window, {_format_window(context, fire.last_window_at)},"
    if fire.outcome is not Outcome.RAN:
        return f"{window} did not run: {fire.because}"
    if fire.run_state is None:
        return f"{window} is running ({fire.run_id})"
    return f"{window} {fire.run_state.value.lower().replace('_', ' ')} ({fire.run_id})"


def _format_usual(events: Sequence[datetime]) -> str:
    """Return how often events usually come, latest first, if there are enough to tell."""
    if len(events) < _MIN_EVENTS:
        return ""
    gaps = sorted((later - earlier).total_seconds() for later, earlier in pairwise(events))
    return f", usually every {format_seconds(gaps[len(gaps) // 2])}"
