"""Evaluate schedules as time passes and runs end: from their state to the rows to write (TRG-4 to 12).

    settle_due       windows are due: each gets its fire, and a run if nothing blocks it
    settle_waiting   windows wait: decide again, in case the block is gone
    note_ends        runs have ended: record it, assess the failure streak, then decide what waits
    note_file        a worker has reported whether a file exists
    note_ends_aside  runs have ended of a schedule that can't be evaluated

Pure, and called under the lock of the schedules' rows: the decisions are committed together.
`schedule_actions.py` has the actions of users, `event_triggers.py` events from outside.

    planned ──► its parameters can't be computed         SKIPPED
            ──► condition false                          CONDITION_FALSE
            ──► core/schedules/start_policy.py: late, after, overlap     LATE, SKIPPED, or WAITING
            ──► a file must exist: a worker is asked     WAITING, then once more from the top
            ──► RAN

1. Windows of a schedule are decided oldest first, waiting and newly due ones together.
2. A window that expects an event runs, flagged, only if no event arrived since the window before (TRG-7).
3. A due window gets its fire before the schedule is disabled or paused, whatever the cause.
4. A paused schedule starts no waiting window. A schedule that is disabled has no waiting windows.
5. Parameters and the condition's expression are checked first: they depend on nothing that changes. The file is
   probed last, whenever the window could start or would have another run cancelled for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from mainspring.core.expressions import engine as expressions
from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import Case, Docket, FireRow, OtherSchedule, Ruling
from mainspring.core.schedules.backfill import decide_backfilled
from mainspring.core.schedules.evaluation import US, Context, Hearing, Key, decode_spec, key_of, set_aside, settle_each
from mainspring.core.schedules.failure_streak import FAILURES, WARN_AT, Verdict, count_failures, judge
from mainspring.core.schedules.start_policy import Other, Situation, Start, decide_start, if_few_wait
from mainspring.core.schedules.triggers import EventTrigger, buffer_of, next_window, previous_window
from mainspring.core.schedules.windows import Fire, Outcome, is_too_late, plan
from mainspring.protocol.errors import Broken, ExpressionFailed

_INSTANT = timedelta(microseconds=1)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run of a schedule."""

    fire: FireRow
    """As read before; the row in the batch takes precedence."""
    state: RunState
    at: datetime


Ends = Mapping[str, Sequence[Ended]]
"""By schedule, oldest first."""


class Looked(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer to a file probe."""

    key: Key
    asked_at: datetime
    """Identifies the probe that is answered."""
    exists: bool


def settle_due(docket: Docket, context: Context) -> list[Ruling]:
    """Plan the due windows of each schedule, and decide them together with the waiting ones."""

    def step(hearing: Hearing) -> None:
        plan_due(hearing)
        decide_open(hearing)

    return settle_each(docket, context, step)


def settle_waiting(docket: Docket, context: Context) -> list[Ruling]:
    """Decide waiting windows again."""
    return settle_each(docket, context, decide_open)


def note_ends(docket: Docket, context: Context, ends: Ends) -> list[Ruling]:
    """Record the ends of runs on their fires, then decide again. Idempotent."""

    def step(hearing: Hearing) -> None:
        plan_due(hearing)
        before = hearing.case.ended
        for ended in ends[hearing.row.id]:
            fire = _active_fire(hearing.case, ended)
            if fire is not None:
                hearing.active.remove(fire)
            hearing.note(_noted(fire, ended))
            if fire is not None and ended.at > hearing.row.enabled_since:
                _judge_streak(hearing, before, ended.state, fire.run_id or "")
                before = (ended.state, *before)
        decide_open(hearing)

    return settle_each(docket, context, step)


def note_ends_aside(docket: Docket, fault: str, ends: Ends) -> list[Ruling]:
    """Record the ends of runs of schedules that can't be evaluated."""
    return [
        replace(ruling, fires=tuple(_noted(_active_fire(case, ended), ended) for ended in ends[case.schedule.id]))
        for case, ruling in zip(docket.cases, set_aside(docket, fault), strict=True)
    ]


def note_file(docket: Docket, context: Context, looked: Looked) -> list[Ruling]:
    """Decide the window that waits for this answer, and the others with it. A stale answer is dropped."""
    return settle_each(docket, context, lambda hearing: decide_open(hearing, looked))


def plan_due(hearing: Hearing) -> None:
    """Give every due window its fire. Windows that may run wait for `decide_open`."""
    row, spec = hearing.row, hearing.spec
    if not hearing.is_going():
        hearing.update(replace(row, next_at=None))
        return
    planned = plan(
        row.id, spec, through_at=row.through_at, now=hearing.now,
        default_jitter_seconds=hearing.context.default_jitter_seconds,
    )  # fmt: skip
    for fire in planned.fires:
        _take_planned(hearing, fire)
    hearing.update(replace(row, through_at=planned.through_at, next_at=planned.next_at))


def decide_open(hearing: Hearing, looked: Looked | None = None) -> None:
    """Decide every waiting window, oldest first."""
    waiting, hearing.waiting = sorted(hearing.waiting, key=key_of), []
    hearing.update(replace(hearing.row, looked_at=hearing.now))
    queued = 0
    newest = max((place for place, fire in enumerate(waiting) if fire.backfill_id is None), default=-1)
    for place, fire in enumerate(waiting):
        situation = _situation(hearing, fire, queued, has_newer=place < newest)
        before = len(hearing.waiting)
        _decide(hearing, fire, situation, looked)
        queued += len(hearing.waiting) > before and fire.backfill_id is None


def give_up_waiting(hearing: Hearing, because: str) -> None:
    """Skip every waiting window."""
    waiting, hearing.waiting = hearing.waiting, []
    for fire in waiting:
        hearing.leave_out(fire, Outcome.SKIPPED, because)


def event_came_since(hearing: Hearing, window_at: datetime) -> bool:
    """Whether an event arrived for an expected window, or later: after the buffer of the previous window.

    Due windows are planned before an event is processed, so that a window planned now finds its own events only.
    """
    came, trigger = hearing.row.latest_event_at, hearing.spec.trigger
    before = previous_window(trigger, window_at - _INSTANT)
    return came is not None and (before is None or came > before + buffer_of(trigger))


def _active_fire(case: Case, ended: Ended) -> FireRow | None:
    return next((one for one in case.active if one.run_id == ended.fire.run_id), None)


def _noted(fire: FireRow | None, ended: Ended) -> FireRow:
    return replace(fire or ended.fire, run_state=ended.state, run_ended_at=ended.at)


def _take_planned(hearing: Hearing, planned: Fire) -> None:
    row = FireRow(
        schedule_id=hearing.row.id, window_at=planned.window_at, generation=planned.generation,
        last_window_at=planned.last_window_at, count=planned.count, outcome=Outcome.WAITING, because=planned.because,
        is_catch_up=planned.is_catch_up, decided_at=hearing.now,
    )  # fmt: skip
    if planned.outcome is not Outcome.RAN:
        hearing.leave_out(row, planned.outcome, planned.because)
    elif not isinstance(hearing.spec.trigger, EventTrigger):
        hearing.waiting.append(row)
    elif event_came_since(hearing, planned.window_at):
        hearing.leave_out(row, Outcome.SKIPPED, f"event received at {hearing.row.latest_event_at:%Y-%m-%dT%H:%M:%SZ}")
    else:
        hearing.waiting.append(replace(row, flagged=True, because=f"no event received: {planned.because}"))
        window = f"{planned.window_at:%Y-%m-%dT%H:%M:%SZ}"
        summary = f"{hearing.row.name}: no event {hearing.spec.trigger.type} received for {window}"
        hearing.alert(AlertKind.EVENT_MISSING, Severity.WARNING, summary, planned.window_at.isoformat())


def _decide(hearing: Hearing, fire: FireRow, situation: Situation, looked: Looked | None) -> None:
    """Decide one window."""
    if hearing.row.paused:
        _decide_paused(hearing, fire)
        return
    if hearing.case.job is None:
        hearing.leave_out(fire, Outcome.SKIPPED, f"job {hearing.row.job} does not exist")
        return
    refused = hearing.place().faults
    fault = f"its job is not admitted: {refused[0].why}" if refused else hearing.params_fault(fire)
    if fault is not None:
        hearing.leave_out(fire, Outcome.SKIPPED, fault)
        return
    fault = _condition_fault(hearing, fire)
    if fault is not None:
        hearing.leave_out(fire, Outcome.CONDITION_FALSE, fault)
        return
    start = _start(hearing, fire, situation)
    path = None if hearing.spec.condition is None else hearing.spec.condition.file_exists
    answer = looked.exists if looked is not None and _is_answer(fire, looked) else None
    if path is None or answer or not (start.outcome is Outcome.RAN or start.to_cancel):
        _apply(hearing, fire, start)
    elif answer is False:
        hearing.leave_out(fire, Outcome.CONDITION_FALSE, f"{path} does not exist")
    elif fire.asked_at is not None:
        hearing.wait(fire, fire.because, asked_at=fire.asked_at)
    else:
        _ask_for_file(hearing, fire, path, situation)


def _decide_paused(hearing: Hearing, fire: FireRow) -> None:
    jitter = hearing.context.default_jitter_seconds
    is_late = fire.backfill_id is None and is_too_late(
        hearing.spec, fire.window_at, hearing.now, default_jitter_seconds=jitter
    )
    if is_late:
        hearing.leave_out(fire, Outcome.LATE, f"more than {hearing.spec.max_delay_seconds or 0:g} s late while paused")
    else:
        hearing.wait(fire, "the schedule is paused")


def _start(hearing: Hearing, fire: FireRow, situation: Situation) -> Start:
    if fire.backfill_id is not None:
        going = sum(one.backfill_id == fire.backfill_id for one in hearing.active)
        return decide_backfilled(going, hearing.backfills[fire.backfill_id].max_parallel)
    return decide_start(
        hearing.spec, fire.window_at, situation, now=hearing.now,
        default_jitter_seconds=hearing.context.default_jitter_seconds,
    )  # fmt: skip


def _apply(hearing: Hearing, fire: FireRow, start: Start) -> None:
    match start.outcome:
        case Outcome.RAN:
            because = start.because
            if hearing.is_new(fire):
                because = fire.because or start.because
            elif fire.backfill_id is None:
                because = f"waited {(hearing.now - fire.window_at).total_seconds():.0f} s"
            hearing.start(fire, because)
        case Outcome.WAITING:
            oldest = [one for one in hearing.active if one.backfill_id is None and not one.stopping]
            for one in oldest[: start.to_cancel]:
                hearing.ask_to_stop(one, f"replaced by window {fire.window_at:%Y-%m-%dT%H:%M:%SZ}")
            hearing.wait(fire, start.because)
        case _:
            hearing.leave_out(fire, start.outcome, start.because)


def _situation(hearing: Hearing, fire: FireRow, queued: int, *, has_newer: bool) -> Situation:
    counted = [one for one in hearing.active if one.backfill_id is None]
    return Situation(
        active=len(counted),
        stopping=sum(one.stopping for one in counted),
        waiting=queued,
        has_newer=has_newer,
        other=Other() if hearing.spec.after is None else other_of(hearing.case.other, fire.window_at),
    )


def other_of(other: OtherSchedule | None, window_at: datetime) -> Other:
    """Return the state of the upstream job's latest window at or before ours."""
    if other is None:
        return Other()
    try:
        window = _other_window(other, window_at)
    except Broken:
        # The upstream schedule is broken: this one waits until it is fixed.
        return Other(window_at=window_at)
    fire = None
    if window is not None:
        covering = [one for one in other.fires if one.window_at <= window <= one.last_window_at]
        fire = max(covering, key=lambda one: (one.window_at, one.generation), default=None)
    outcome = None if fire is None else fire.outcome
    if window is not None and fire is None and window <= other.schedule.through_at:
        # Past, and without a row: the schedule was paused or did not exist. Nothing to wait for.
        outcome = Outcome.SKIPPED
    return Other(
        window_at=window,
        outcome=outcome,
        run_state=None if fire is None else fire.run_state,
        succeeded_at=other.succeeded_at,
    )


def _other_window(other: OtherSchedule, window_at: datetime) -> datetime | None:
    """Its latest window at or before ours; if its trigger has none at all, the latest that it was fired for."""
    trigger = decode_spec(other.schedule).trigger
    window = previous_window(trigger, window_at)
    if window is None and next_window(trigger, window_at) is None:
        return next((one.window_at for one in other.fires if one.window_at <= window_at), None)
    return window


# conditions


def _condition_fault(hearing: Hearing, fire: FireRow) -> str | None:
    """Why the expression keeps a window from running; None if it passes."""
    condition = hearing.spec.condition
    if condition is None or condition.expression is None:
        return None
    values: expressions.Values = {
        "params": msgspec.Raw(hearing.params_of(fire).encode()),
        "window": fire.window_at.isoformat(),
    }
    try:
        holds = expressions.is_true(condition.expression, values)
    except ExpressionFailed as failed:
        return f"condition failed: {failed}"
    return None if holds else f"condition is false: {expressions.shorten(condition.expression)}"


def _is_answer(fire: FireRow, looked: Looked) -> bool:
    return looked.key == key_of(fire) and looked.asked_at == fire.asked_at


def _ask_for_file(hearing: Hearing, fire: FireRow, path: str, situation: Situation) -> None:
    """Have a worker check for the file, unless too many windows wait already."""
    asked = Start(outcome=Outcome.WAITING, because=f"asked a worker whether {path} exists")
    bounded = if_few_wait(asked, situation)
    if bounded.outcome is Outcome.WAITING:
        hearing.ask_for_file(fire, path, bounded.because)
    else:
        hearing.leave_out(fire, bounded.outcome, bounded.because)


# failure streaks


def _judge_streak(hearing: Hearing, before: tuple[RunState, ...], state: RunState, run_id: str) -> None:
    """Warn about a failure streak, or disable the schedule (TRG-10). `before` has the ends before this one."""
    row = hearing.row
    if state is RunState.SUCCEEDED and count_failures(before) >= WARN_AT:
        over = f"{row.name}: a run succeeded"
        hearing.alert(AlertKind.SCHEDULE_FAILING, Severity.WARNING, over, run_id, resolved=True)
        if row.enabled:
            hearing.alert(AlertKind.SCHEDULE_DISABLED, Severity.HIGH, over, run_id, resolved=True)
    failures = count_failures((state, *before))
    verdict = judge(hearing.spec, (state, *before))
    if verdict is Verdict.DISABLE and row.enabled:
        because = f"{failures} consecutive runs failed"
        hearing.update(replace(row, enabled=False, next_at=None, because=because))
        hearing.act("disabled", by=US, why=because)
        hearing.alert(AlertKind.SCHEDULE_DISABLED, Severity.HIGH, f"{row.name} was disabled: {because}", run_id)
        give_up_waiting(hearing, f"the schedule was disabled: {because}")
    elif verdict is not Verdict.OK and state in FAILURES:
        summary = f"{row.name}: {failures} consecutive runs failed"
        hearing.alert(AlertKind.SCHEDULE_FAILING, Severity.WARNING, summary, run_id)
