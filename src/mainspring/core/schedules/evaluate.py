"""Evaluate schedules as time passes and runs end: from their state to the rows to write (TRG-4 to 12).

    evaluate_due          windows are due: each gets its fire, and a run if nothing blocks it
    evaluate_waiting      windows wait: decide again, in case the block is gone
    record_run_ends       runs have ended: record it, assess the failure streak, then decide what waits
    record_file_probe     a worker has reported whether a file exists
    record_run_ends_only  runs have ended of a schedule that can't be evaluated
    receive_events        events from outside have arrived

Pure, and called under the lock of the schedules' rows: the decisions are committed together.
`schedule_actions.py` has the actions of users.

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
from datetime import datetime

import msgspec
from msgspec.structs import asdict, replace

from mainspring.core.expressions import engine as expressions
from mainspring.core.model.alerts import AlertKind, Severity
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import (
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleDecision,
    ScheduleSnapshot,
    UpstreamSchedule,
)
from mainspring.core.schedules.backfill import decide_backfilled
from mainspring.core.schedules.evaluation import (
    US,
    Context,
    Evaluation,
    Key,
    decode_spec,
    evaluate_each,
    key_of,
    pause_broken,
)
from mainspring.core.schedules.failure_streak import FAILURES, WARN_AT, Verdict, assess, count_failures
from mainspring.core.schedules.start_policy import Situation, Start, UpstreamWindow, decide_start, limit_waiting
from mainspring.core.schedules.time_zones import INSTANT
from mainspring.core.schedules.triggers import EventTrigger, buffer_of, next_window, previous_window
from mainspring.core.schedules.windows import Fire, Outcome, is_too_late, plan
from mainspring.protocol.errors import Broken, ExpressionFailed


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run of a schedule."""

    fire: FireRow
    """As read before; the row in the batch takes precedence."""
    state: RunState
    at: datetime


Ends = Mapping[str, Sequence[Ended]]
"""By schedule, oldest first."""


class FileProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's answer to a file probe."""

    key: Key
    asked_at: datetime
    """Identifies the probe that is answered."""
    exists: bool


def evaluate_due(evaluation_batch: EvaluationBatch, context: Context) -> list[ScheduleDecision]:
    """Plan the due windows of each schedule, and decide them together with the waiting ones."""

    def step(evaluation: Evaluation) -> None:
        plan_due(evaluation)
        decide_open(evaluation)

    return evaluate_each(evaluation_batch, context, step)


def evaluate_waiting(evaluation_batch: EvaluationBatch, context: Context) -> list[ScheduleDecision]:
    """Decide waiting windows again."""
    return evaluate_each(evaluation_batch, context, decide_open)


def record_run_ends(evaluation_batch: EvaluationBatch, context: Context, ends: Ends) -> list[ScheduleDecision]:
    """Record the ends of runs on their fires, then decide again. Idempotent."""

    def step(evaluation: Evaluation) -> None:
        plan_due(evaluation)
        before = evaluation.case.ended
        for ended in ends[evaluation.row.id]:
            fire = _active_fire(evaluation.case, ended)
            if fire is not None:
                evaluation.active.remove(fire)
            evaluation.note(_noted(fire, ended))
            if fire is not None and ended.at > evaluation.row.enabled_since:
                _assess_streak(evaluation, before, ended.state, fire.run_id or "")
                before = (ended.state, *before)
        decide_open(evaluation)

    return evaluate_each(evaluation_batch, context, step)


def record_run_ends_only(evaluation_batch: EvaluationBatch, fault: str, ends: Ends) -> list[ScheduleDecision]:
    """Record the ends of runs of schedules that can't be evaluated."""
    return [
        replace(decision, fires=tuple(_noted(_active_fire(case, ended), ended) for ended in ends[case.schedule.id]))
        for case, decision in zip(evaluation_batch.cases, pause_broken(evaluation_batch, fault), strict=True)
    ]


def record_file_probe(
    evaluation_batch: EvaluationBatch, context: Context, probe: FileProbeResult
) -> list[ScheduleDecision]:
    """Decide the window that waits for this answer, and the others with it. A stale answer is dropped."""
    return evaluate_each(evaluation_batch, context, lambda evaluation: decide_open(evaluation, probe))


def receive_events(evaluation_batch: EvaluationBatch, context: Context) -> list[ScheduleDecision]:
    """Fire the schedules that these events trigger, each by a window at the instant of receipt, made unique (TRG-7).

    Due windows are planned first, so that a window that expected an event sees only the events that arrived in time. A
    filter that can't be evaluated is recorded as CONDITION_FALSE; an event that it excludes is ignored.
    """

    def step(evaluation: Evaluation) -> None:
        plan_due(evaluation)
        for event in evaluation_batch.events:
            _take_event(evaluation, event)
        decide_open(evaluation)

    return evaluate_each(evaluation_batch, context, step)


def plan_due(evaluation: Evaluation) -> None:
    """Give every due window its fire. Windows that may run wait for `decide_open`."""
    row, spec = evaluation.row, evaluation.spec
    if not evaluation.plans_windows():
        evaluation.update(replace(row, next_at=None))
        return
    planned = plan(spec, planned_through=row.planned_through, now=evaluation.now)
    for fire in planned.fires:
        _take_planned(evaluation, fire)
    evaluation.update(replace(row, planned_through=planned.planned_through, next_at=planned.next_at))


def decide_open(evaluation: Evaluation, probe: FileProbeResult | None = None) -> None:
    """Decide every waiting window, oldest first."""
    waiting, evaluation.waiting = sorted(evaluation.waiting, key=key_of), []
    evaluation.update(replace(evaluation.row, evaluated_at=evaluation.now))
    queued = 0
    newest = max((place for place, fire in enumerate(waiting) if fire.backfill_id is None), default=-1)
    for place, fire in enumerate(waiting):
        situation = _situation(evaluation, fire, queued, has_newer=place < newest)
        before = len(evaluation.waiting)
        _decide(evaluation, fire, situation, probe)
        queued += len(evaluation.waiting) > before and fire.backfill_id is None


def skip_waiting(evaluation: Evaluation, because: str) -> None:
    """Skip every waiting window."""
    waiting, evaluation.waiting = evaluation.waiting, []
    for fire in waiting:
        evaluation.record_skipped(fire, Outcome.SKIPPED, because)


def received_event_since(evaluation: Evaluation, window_at: datetime) -> bool:
    """Return whether an event arrived for an expected window, or later: after the buffer of the previous window.

    Due windows are planned before an event is processed, so that a window planned now finds its own events only.
    """
    came, trigger = evaluation.row.latest_event_at, evaluation.spec.trigger
    before = previous_window(trigger, window_at - INSTANT)
    return came is not None and (before is None or came > before + buffer_of(trigger))


def _active_fire(case: ScheduleSnapshot, ended: Ended) -> FireRow | None:
    return next((one for one in case.active if one.run_id == ended.fire.run_id), None)


def _noted(fire: FireRow | None, ended: Ended) -> FireRow:
    return replace(fire or ended.fire, run_state=ended.state, run_ended_at=ended.at)


def _take_planned(evaluation: Evaluation, planned: Fire) -> None:
    fields = asdict(planned) | {"outcome": Outcome.WAITING}
    row = FireRow(**fields, schedule_id=evaluation.row.id, decided_at=evaluation.now)
    if planned.outcome is not Outcome.RAN:
        evaluation.record_skipped(row, planned.outcome, planned.because)
    elif not isinstance(evaluation.spec.trigger, EventTrigger):
        evaluation.waiting.append(row)
    elif received_event_since(evaluation, planned.window_at):
        because = f"event received at {evaluation.row.latest_event_at:%Y-%m-%dT%H:%M:%SZ}"
        evaluation.record_skipped(row, Outcome.SKIPPED, because)
    else:
        evaluation.waiting.append(replace(row, flagged=True, because=f"no event received: {planned.because}"))
        window = f"{planned.window_at:%Y-%m-%dT%H:%M:%SZ}"
        summary = f"{evaluation.row.name}: no event {evaluation.spec.trigger.type} received for {window}"
        evaluation.alert(AlertKind.EVENT_MISSING, Severity.WARNING, summary, planned.window_at.isoformat())


def _decide(evaluation: Evaluation, fire: FireRow, situation: Situation, probe: FileProbeResult | None) -> None:
    """Decide one window."""
    if evaluation.row.paused:
        _decide_paused(evaluation, fire)
        return
    if evaluation.case.job is None:
        evaluation.record_skipped(fire, Outcome.SKIPPED, f"job {evaluation.row.job} does not exist")
        return
    refused = evaluation.route().faults
    fault = f"its job is not admitted: {refused[0].why}" if refused else evaluation.params_fault(fire)
    if fault is not None:
        evaluation.record_skipped(fire, Outcome.SKIPPED, fault)
        return
    fault = _condition_fault(evaluation, fire)
    if fault is not None:
        evaluation.record_skipped(fire, Outcome.CONDITION_FALSE, fault)
        return
    start = _start(evaluation, fire, situation)
    path = None if evaluation.spec.condition is None else evaluation.spec.condition.file_exists
    answer = probe.exists if probe is not None and _is_answer(fire, probe) else None
    if path is None or answer or not (start.outcome is Outcome.RAN or start.to_cancel):
        _apply(evaluation, fire, start)
    elif answer is False:
        evaluation.record_skipped(fire, Outcome.CONDITION_FALSE, f"{path} does not exist")
    elif fire.asked_at is not None:
        evaluation.wait(fire, fire.because, asked_at=fire.asked_at)
    else:
        _request_file_probe(evaluation, fire, path, situation)


def _decide_paused(evaluation: Evaluation, fire: FireRow) -> None:
    if fire.backfill_id is None and is_too_late(evaluation.spec, fire.window_at, evaluation.now):
        because = f"more than {evaluation.spec.max_delay_seconds or 0:g} s late while paused"
        evaluation.record_skipped(fire, Outcome.LATE, because)
    else:
        evaluation.wait(fire, "the schedule is paused")


def _start(evaluation: Evaluation, fire: FireRow, situation: Situation) -> Start:
    if fire.backfill_id is not None:
        going = sum(one.backfill_id == fire.backfill_id for one in evaluation.active)
        return decide_backfilled(going, evaluation.backfills[fire.backfill_id].max_parallel)
    return decide_start(evaluation.spec, fire.window_at, situation, now=evaluation.now)


def _apply(evaluation: Evaluation, fire: FireRow, start: Start) -> None:
    match start.outcome:
        case Outcome.RAN:
            because = start.because
            if evaluation.is_new(fire):
                because = fire.because or start.because
            elif fire.backfill_id is None:
                because = f"waited {(evaluation.now - fire.window_at).total_seconds():.0f} s"
            evaluation.start(fire, because)
        case Outcome.WAITING:
            oldest = [one for one in evaluation.active if one.backfill_id is None and not one.stopping]
            for one in oldest[: start.to_cancel]:
                evaluation.request_stop(one, f"replaced by window {fire.window_at:%Y-%m-%dT%H:%M:%SZ}")
            evaluation.wait(fire, start.because)
        case _:
            evaluation.record_skipped(fire, start.outcome, start.because)


def _situation(evaluation: Evaluation, fire: FireRow, queued: int, *, has_newer: bool) -> Situation:
    counted = [one for one in evaluation.active if one.backfill_id is None]
    return Situation(
        active=len(counted),
        stopping=sum(one.stopping for one in counted),
        waiting=queued,
        has_newer=has_newer,
        other=upstream_window(evaluation.case.other, fire.window_at),
    )


def upstream_window(other: UpstreamSchedule | None, window_at: datetime) -> UpstreamWindow:
    """Return the state of the upstream job's latest window at or before ours."""
    if other is None:
        return UpstreamWindow()
    try:
        window = _other_window(other, window_at)
    except Broken:
        # The upstream schedule is broken: this one waits until it is fixed.
        return UpstreamWindow(window_at=window_at)
    fire = None
    if window is not None:
        covering = [one for one in other.fires if one.window_at <= window <= one.last_window_at]
        fire = max(covering, key=lambda one: (one.window_at, one.generation), default=None)
    outcome = None if fire is None else fire.outcome
    if window is not None and fire is None and window <= other.schedule.planned_through:
        # Past, and without a row: the schedule was paused or did not exist. Nothing to wait for.
        outcome = Outcome.SKIPPED
    return UpstreamWindow(
        window_at=window,
        outcome=outcome,
        run_state=None if fire is None else fire.run_state,
        succeeded_at=other.succeeded_at,
    )


def _other_window(other: UpstreamSchedule, window_at: datetime) -> datetime | None:
    """Return the upstream job's latest window at or before ours; without windows of its trigger, the latest fired."""
    trigger = decode_spec(other.schedule).trigger
    window = previous_window(trigger, window_at)
    if window is None and next_window(trigger, window_at) is None:
        return next((one.window_at for one in other.fires if one.window_at <= window_at), None)
    return window


# conditions


def _condition_fault(evaluation: Evaluation, fire: FireRow) -> str | None:
    """Return why the expression keeps a window from running; None if it passes."""
    condition = evaluation.spec.condition
    if condition is None or condition.expression is None:
        return None
    values: expressions.Values = {
        "params": msgspec.Raw(evaluation.params_of(fire).encode()),
        "window": fire.window_at.isoformat(),
    }
    try:
        holds = expressions.is_true(condition.expression, values)
    except ExpressionFailed as failed:
        return f"condition failed: {failed}"
    return None if holds else f"condition is false: {expressions.shorten(condition.expression)}"


def _is_answer(fire: FireRow, probe: FileProbeResult) -> bool:
    return probe.key == key_of(fire) and probe.asked_at == fire.asked_at


def _request_file_probe(evaluation: Evaluation, fire: FireRow, path: str, situation: Situation) -> None:
    """Have a worker check for the file, unless too many windows wait already."""
    asked = Start(outcome=Outcome.WAITING, because=f"asked a worker whether {path} exists")
    bounded = limit_waiting(asked, situation)
    if bounded.outcome is Outcome.WAITING:
        evaluation.request_file_probe(fire, path, bounded.because)
    else:
        evaluation.record_skipped(fire, bounded.outcome, bounded.because)


# events


def _take_event(evaluation: Evaluation, event: EventRow) -> None:
    trigger = evaluation.spec.trigger
    if not isinstance(trigger, EventTrigger) or trigger.type != event.type or not evaluation.plans_windows():
        return
    fault = None
    if trigger.filter is not None:
        try:
            if not expressions.is_true(trigger.filter, {"event": msgspec.Raw(event.document.encode())}):
                return
        except ExpressionFailed as failed:
            fault = f"filter failed: {failed}"
    window_at = evaluation.free_instant(event.received_at)
    fire = replace(evaluation.new_fire(window_at, f"event {expressions.shorten(event.id)}"), event=event.document)
    if fault is not None:
        evaluation.record_skipped(fire, Outcome.CONDITION_FALSE, fault)
        return
    evaluation.waiting.append(fire)
    _resolve_missing(evaluation, event)
    evaluation.update(replace(evaluation.row, latest_event_at=window_at))


def _resolve_missing(evaluation: Evaluation, event: EventRow) -> None:
    """Resolve the missing-event alert of the latest expected window, if no event had come for it."""
    latest = previous_window(evaluation.spec.trigger, evaluation.row.planned_through)
    if latest is None or received_event_since(evaluation, latest):
        return
    summary = f"{evaluation.row.name}: event {event.type} received"
    occasion = event.received_at.isoformat()
    evaluation.alert(AlertKind.EVENT_MISSING, Severity.WARNING, summary, occasion, resolved=True)


# failure streaks


def _assess_streak(evaluation: Evaluation, before: tuple[RunState, ...], state: RunState, run_id: str) -> None:
    """Warn about a failure streak, or disable the schedule (TRG-10). `before` has the ends before this one."""
    row = evaluation.row
    if state is RunState.SUCCEEDED and count_failures(before) >= WARN_AT:
        over = f"{row.name}: a run succeeded"
        evaluation.alert(AlertKind.SCHEDULE_FAILING, Severity.WARNING, over, run_id, resolved=True)
        if row.enabled:
            evaluation.alert(AlertKind.SCHEDULE_DISABLED, Severity.HIGH, over, run_id, resolved=True)
    failures = count_failures((state, *before))
    verdict = assess(evaluation.spec, failures)
    if verdict is Verdict.DISABLE and row.enabled:
        because = f"{failures} consecutive runs failed"
        evaluation.update(replace(row, enabled=False, next_at=None, because=because))
        evaluation.action("disabled", by=US, why=because)
        evaluation.alert(AlertKind.SCHEDULE_DISABLED, Severity.HIGH, f"{row.name} was disabled: {because}", run_id)
        skip_waiting(evaluation, f"the schedule was disabled: {because}")
    elif verdict is not Verdict.OK and state in FAILURES:
        summary = f"{row.name}: {failures} consecutive runs failed"
        evaluation.alert(AlertKind.SCHEDULE_FAILING, Severity.WARNING, summary, run_id)
