"""Checks of every schedule evaluation that the store accepts: no window missed, doubled or early (TRG-4, TRG-5).

Windows are computed independently of the code under test, second by second.

1. `planned_through` never decreases, and each window that it passes has exactly one planned fire (I-30 to I-32). Only
   resuming, enabling or a new definition moves it past windows without fires: those during which nothing was planned.
2. A fire with outcome `ran` has one run, a run of a schedule has one fire, and decisions are final (I-30).
3. Nothing is fired before its time by the store's clock; a catch-up is bounded (I-35).
4. At most `max_active` runs without a manual request, and at most `max_parallel` of a backfill (TRG-12, TRG-9).
5. An event creates one fire of each schedule that waits for it, however often it is sent (TRG-7).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import msgspec

from mainspring.core.model.run import FINAL_RUN, RunState
from mainspring.core.model.schedule_rows import EvaluationBatch, EventRow, FireRow, ScheduleDecision, ScheduleRow
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import (
    CronTrigger,
    EventTrigger,
    IntervalTrigger,
    ManualTrigger,
    OnceTrigger,
    Trigger,
)
from mainspring.core.schedules.windows import Outcome
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model
from tests.sim.schedules import computed_for

SECOND = timedelta(seconds=1)
LONGEST_LOOK = timedelta(minutes=30)
"""How far ahead the next window is searched."""
BEGINNINGS = frozenset({"created", "resumed", "enabled", "updated"})
"""Actions that restart the planning of windows."""
_MADE = frozenset({Outcome.RAN, Outcome.WAITING})
_WELL = frozenset({RunState.SUCCEEDED, RunState.PARTIAL})


def windows(trigger: Trigger, after: datetime, until: datetime) -> list[datetime]:
    """The windows between two instants, found second by second."""
    found: list[datetime] = []
    if isinstance(trigger, EventTrigger | ManualTrigger):
        return found
    at = after.replace(microsecond=0) + SECOND
    while at <= until:
        if _is_window(trigger, at):
            found.append(at)
        at += SECOND
    return found


def next_window(trigger: Trigger, after: datetime) -> datetime | None:
    """The first window after an instant, if there is one soon."""
    return _walk(trigger, after.replace(microsecond=0) + SECOND, SECOND)


def latest_window(trigger: Trigger, until: datetime) -> datetime | None:
    """The last window up to an instant, if there is a recent one."""
    return _walk(trigger, until.replace(microsecond=0), -SECOND)


def _walk(trigger: Trigger, at: datetime, step: timedelta) -> datetime | None:
    if isinstance(trigger, EventTrigger | ManualTrigger):
        return None
    for _ in range(LONGEST_LOOK // SECOND):
        if _is_window(trigger, at):
            return at
        at += step
    return None


def _is_window(trigger: Trigger, at: datetime) -> bool:
    match trigger:
        case OnceTrigger():
            return at == trigger.at
        case IntervalTrigger():
            return not (at - trigger.anchor_at).total_seconds() % trigger.every_seconds
        case CronTrigger():
            second, minute, hour = _cron_sets(trigger.cron)
            local = at.astimezone(UTC)
            return local.second in second and local.minute in minute and local.hour in hour
        case _:
            return False


@lru_cache
def _cron_sets(cron: str) -> tuple[frozenset[int], frozenset[int], frozenset[int]]:
    """Seconds, minutes and hours of an expression of this simulator: six fields, the last three `*`, in UTC."""
    fields = cron.split()
    if len(fields) != 6 or fields[3:] != ["*", "*", "*"]:
        raise ValueError(f"the simulator draws no such expression: {cron}")
    return _field(fields[0], 60), _field(fields[1], 60), _field(fields[2], 24)


def _field(text: str, size: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        low, high = (0, size - 1) if span == "*" else (int(first), int(last or first))
        found.update(range(low, high + 1, int(step or 1)))
    return frozenset(found)


class ScheduleCheck:
    """Checks schedule decisions against the model, and applies them to it."""

    def __init__(self, findings: Findings, ever: Ever) -> None:
        self._require = findings.require
        self._ever = ever

    def created(self, model: Model, row: ScheduleRow) -> None:
        """Record a stored schedule."""
        self._require("I-30", row.id not in model.schedules, f"{row.id} was created twice")
        since = min(self._ever.since.get((row.tenant, row.name), row.created_at), row.created_at)
        self._require(
            "TRG-5", row.planned_through == since, f"{row.id} counts from {row.planned_through}, not from {since}"
        )
        model.schedules[row.id] = row
        model.fires.setdefault(row.id, {})

    def settled(
        self, model: Model, evaluation_batch: EvaluationBatch, schedule_decisions: Sequence[ScheduleDecision]
    ) -> None:
        """Check schedule decisions, and apply them to the model."""
        self._check_given(model, evaluation_batch)
        for event in evaluation_batch.events:
            key = (event.tenant, event.source, event.id)
            self._require("TRG-7", key not in model.events, f"{key} is taken for new, and is not")
            model.events.add(key)
        for schedule_decision in schedule_decisions:
            before = model.schedules[schedule_decision.schedule.id]
            self._require("TRG-11", before.deleted_at is None, f"{before.id} is deleted, and settled")
            spec = msgspec.json.decode(before.spec, type=ScheduleSpec)
            fires = model.fires[before.id]
            planned = [fire for fire in schedule_decision.fires if _key(fire) not in fires and _is_planned(fire)]
            self._check_cursor(before, spec, schedule_decision, planned, evaluation_batch.now)
            self._check_fires(fires, spec, schedule_decision)
            self._check_catch_up(spec, planned, evaluation_batch.now)
            self._check_causes(model, before, spec, fires, schedule_decision)
            self._apply(model, schedule_decision)
            self._check_active(model, schedule_decision, spec)
        self._check_events(model, evaluation_batch, schedule_decisions)

    def _check_given(self, model: Model, evaluation_batch: EvaluationBatch) -> None:
        """Check that the input of a decision matches the rows."""
        for case in evaluation_batch.cases:
            known = model.schedules.get(case.schedule.id)
            self._require("ROWS", case.schedule == known, f"{case.schedule} was given, and {known} is stored")
            fires = model.fires.get(case.schedule.id, {})
            waiting = sorted(_key(fire) for fire in fires.values() if fire.outcome is Outcome.WAITING)
            given = sorted(_key(fire) for fire in case.waiting)
            self._require("ROWS", given == waiting, f"{case.schedule.id}: {given} are said to wait, not {waiting}")
            active = sorted(_key(fire) for fire in fires.values() if _is_active(fire))
            given = sorted(_key(fire) for fire in case.active)
            self._require("ROWS", given == active, f"{case.schedule.id}: {given} are said to be active, not {active}")

    # windows

    def _check_cursor(
        self,
        before: ScheduleRow,
        spec: ScheduleSpec,
        schedule_decision: ScheduleDecision,
        planned: list[FireRow],
        now: datetime,
    ) -> None:
        """Check that `planned_through` increases, and that each passed window has a fire (I-30, I-31, I-32)."""
        after = schedule_decision.schedule
        story = f"{before.id} {spec.trigger} at {now}, from {before.planned_through} to {after.planned_through}"
        self._require("I-32", after.planned_through >= before.planned_through, f"{story}: it goes back")
        acts = {change.action for change in schedule_decision.changes}
        due = windows(spec.trigger, before.planned_through, max(now, after.planned_through))
        if not _is_on(before):
            self._require("I-31", not planned, f"{story}: {planned} of a schedule at rest")
            moved = after.planned_through > before.planned_through
            self._require("I-31", not moved or acts & BEGINNINGS, f"{story}: moved while at rest, by {acts}")
        else:
            stops = not _is_on(after) or bool(acts & BEGINNINGS)
            end = now if stops else after.planned_through
            self._check_cover(story, [window for window in due if window <= end], planned)
        since = self._ever.since.get((before.tenant, before.name))
        for fire in planned:
            self._require("I-31", fire.last_window_at <= now, f"{story}: {fire} is early")
            self._require("TRG-5", since is None or fire.window_at > since, f"{story}: {fire} is before {since}")
        trigger = msgspec.json.decode(after.spec, type=ScheduleSpec).trigger
        if _is_on(after):
            first = next_window(trigger, after.planned_through)
            late = after.next_at is None or after.next_at > first if first is not None else False
            self._require("I-31", not late, f"{story}: {first} is next, and {after.next_at} is looked for")

    def _check_cover(self, story: str, due: list[datetime], planned: list[FireRow]) -> None:
        left = dict.fromkeys(due, 0)
        for fire in planned:
            covered = [window for window in due if fire.window_at <= window <= fire.last_window_at]
            whole = covered and covered[0] == fire.window_at and covered[-1] == fire.last_window_at
            self._require("I-31", whole and len(covered) == fire.count, f"{story}: {fire} covers {covered}")
            for window in covered:
                left[window] += 1
        missed = [window for window, times in left.items() if not times]
        doubled = [window for window, times in left.items() if times > 1]
        self._require("I-31", not missed, f"{story}: {missed} are covered by no fire")
        self._require("I-30", not doubled, f"{story}: {doubled} are covered by several fires")

    def _check_catch_up(self, spec: ScheduleSpec, planned: list[FireRow], now: datetime) -> None:
        made = [fire for fire in planned if fire.is_catch_up]
        bounded = len(made) <= spec.max_catch_up_windows and len(planned) <= spec.max_catch_up_windows + 3
        self._require("I-35", bounded, f"{len(made)} windows are caught up at {now}, {len(planned)} rows: {spec}")

    # fires and runs

    def _check_fires(
        self, known: dict[tuple[datetime, int], FireRow], spec: ScheduleSpec, schedule_decision: ScheduleDecision
    ) -> None:
        """Check that decisions are final, and fires and runs match one to one (TRG-4)."""
        runs = {run.id: run for run in schedule_decision.runs}
        self._require("TRG-4", len(runs) == len(schedule_decision.runs), f"{schedule_decision.runs}: one run twice")
        made: set[str] = set()
        for fire in schedule_decision.fires:
            old = known.get(_key(fire))
            if old is not None and old.outcome is not Outcome.WAITING:
                same = (old.outcome, old.run_id) == (fire.outcome, fire.run_id)
                self._require("I-30", same, f"{old} was decided, and is {fire} now")
                continue
            ran = fire.outcome is Outcome.RAN
            run = runs.get(fire.run_id or "")
            self._require("TRG-4", ran is (run is not None), f"{fire} has {run}")
            if run is not None:
                mine = (run.schedule_id, run.window_at) == (fire.schedule_id, fire.window_at)
                self._require("TRG-4", mine and run.id not in made, f"{run} is not the run of {fire}")
                if spec.computed:
                    params, wanted = msgspec.json.decode(run.params), computed_for(fire.window_at)
                    same = {name: params.get(name) for name in wanted} == wanted
                    self._require("TRG-4", same, f"{run} has {params}, not {wanted}")
                made.add(run.id)
        self._require("TRG-4", made == runs.keys(), f"{sorted(runs.keys() - made)} were made for no window")

    def _check_causes(
        self,
        model: Model,
        row: ScheduleRow,
        spec: ScheduleSpec,
        known: dict[tuple[datetime, int], FireRow],
        schedule_decision: ScheduleDecision,
    ) -> None:
        """Check that a window ran after that of the job in `after` (TRG-8), and that recorded ends of runs are true."""
        for fire in schedule_decision.fires:
            old = known.get(_key(fire))
            if fire.run_state is not None and (old is None or old.run_state is None):
                ended = self._ever.run_ends.get(fire.run_id or "", ())
                self._require("TRG-10", fire.run_state in ended, f"{fire} has that end, and its run was {ended}")
            new = fire.outcome is Outcome.RAN and (old is None or old.outcome is not Outcome.RAN)
            if new and spec.after is not None and not fire.by and spec.after.within_seconds is None:
                through = _is_through(model, self._ever, row.tenant, spec.after.job, fire.window_at)
                self._require("TRG-8", through, f"{fire} ran, and {spec.after.job} is not through")

    def _check_active(self, model: Model, schedule_decision: ScheduleDecision, spec: ScheduleSpec) -> None:
        """Check the limits of active runs (TRG-12), and of those of a backfill (TRG-9)."""
        mine = model.fires[schedule_decision.schedule.id].values()
        new = [fire for fire in schedule_decision.fires if any(fire.run_id == run.id for run in schedule_decision.runs)]
        if any(not fire.by and fire.backfill_id is None for fire in new):
            going = [fire for fire in mine if _is_active(fire) and not fire.by and fire.backfill_id is None]
            self._require("TRG-12", len(going) <= spec.max_active, f"{len(going)} are going, {spec.max_active} may")
        for backfill in {fire.backfill_id for fire in new if fire.backfill_id is not None}:
            count = sum(1 for fire in mine if _is_active(fire) and fire.backfill_id == backfill)
            most = model.backfills[backfill].max_parallel
            self._require("TRG-9", count <= most, f"{count} of {backfill} are going, {most} may")

    # events

    def _check_events(
        self, model: Model, evaluation_batch: EvaluationBatch, schedule_decisions: Sequence[ScheduleDecision]
    ) -> None:
        """Check that each new event creates one fire of each schedule that waits for it."""
        for event in evaluation_batch.events:
            for case in evaluation_batch.cases:
                row = case.schedule
                if row.event_type != event.type or not _is_on(row):
                    continue
                fires = [
                    fire
                    for schedule_decision in schedule_decisions
                    if schedule_decision.schedule.id == row.id
                    for fire in schedule_decision.fires
                    if fire.event is not None and _names(fire.event, event)
                ]
                self._require("TRG-7", len(fires) == 1, f"{event.id} makes {fires} of {row.id}")

    def _apply(self, model: Model, schedule_decision: ScheduleDecision) -> None:
        model.schedules[schedule_decision.schedule.id] = schedule_decision.schedule
        fires = model.fires[schedule_decision.schedule.id] = dict(model.fires[schedule_decision.schedule.id])
        for backfill in schedule_decision.backfills:
            model.backfills[backfill.id] = backfill
        for fire in schedule_decision.fires:
            fires[_key(fire)] = fire


def check_end(
    model: Model, ever: Ever, findings: Findings, now: datetime, *, tolerance: timedelta, went_back: bool
) -> None:
    """Check that every due window is fired, every end is recorded, and no window waits that could run.

    A restored store may have lost the recorded end of a run whose notification counts as delivered. The sweep finds
    that as long as the run is not in history, where it is after a day, and in some seeds after seconds.
    """
    for row in model.schedules.values():
        if row.deleted_at is not None:
            continue
        spec = msgspec.json.decode(row.spec, type=ScheduleSpec)
        fires = model.fires[row.id].values()
        if _is_on(row):
            due = windows(spec.trigger, row.planned_through, now - tolerance)
            findings.require("I-31", not due, f"{row.id}: {due[:3]} were never fired, and it is {now}")
            waiting = [fire for fire in fires if fire.outcome is Outcome.WAITING]
            findings.require("TRG-12", not waiting or spec.after is not None, f"{row.id}: {waiting[:3]} still wait")
        for fire in fires:
            run = model.runs.get(fire.run_id or "")
            if run is None and not went_back:
                run = model.archived.get(fire.run_id or "")
            over = run is not None and run.state in FINAL_RUN and run.generation == 1
            findings.require(
                "TRG-10", not over or fire.run_state is not None, f"nobody noted on {fire} that {run} ended"
            )


def _is_through(model: Model, ever: Ever, tenant: str, job: str, window_at: datetime) -> bool:
    """Whether the other job's run of its latest window up to an instant has succeeded."""
    others = [row for row in model.schedules.values() if (row.tenant, row.job) == (tenant, job) and not row.deleted_at]
    for row in others:
        trigger = msgspec.json.decode(row.spec, type=ScheduleSpec).trigger
        latest = latest_window(trigger, window_at)
        if isinstance(trigger, EventTrigger | ManualTrigger):
            latest = max((at for at, _ in model.fires[row.id] if at <= window_at), default=None)
        runs = [fire.run_id for fire in model.fires[row.id].values() if fire.window_at == latest]
        if any(_WELL & ever.run_ends.get(run or "", set()) for run in runs):
            return True
    return False


def _is_on(row: ScheduleRow) -> bool:
    return row.enabled and not row.paused and row.deleted_at is None


def _is_planned(fire: FireRow) -> bool:
    return not fire.by and fire.backfill_id is None and fire.event is None


def _is_active(fire: FireRow) -> bool:
    return fire.outcome is Outcome.RAN and fire.run_ended_at is None


def _key(fire: FireRow) -> tuple[datetime, int]:
    return fire.window_at, fire.generation


def _names(document: str, event: EventRow) -> bool:
    known = msgspec.json.decode(document)
    return (known.get("source"), known.get("id")) == (event.source, event.id)
