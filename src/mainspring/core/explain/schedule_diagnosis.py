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

from msgspec.structs import replace

from mainspring.core.explain.diagnosis import (
    BY_ROWS,
    MOST_NAMED,
    STALE_SECONDS,
    Act,
    ActKind,
    Diagnosis,
    Expected,
    Foresight,
    InTheWay,
    Reason,
)
from mainspring.core.explain.diagnosis_report import say_clock, say_in
from mainspring.core.explain.schedule_context import (
    AFTER,
    CONDITION,
    DUE,
    ENABLED,
    NOT_PAUSED,
    OVERLAP,
    ScheduleScene,
    gates_of,
    say_latest,
    say_usual,
    say_window,
)
from mainspring.core.model.schedule_rows import BackfillRow, FireRow
from mainspring.core.schedules.evaluate import other_of
from mainspring.core.schedules.start_policy import Situation, StartGate, decide_start
from mainspring.core.schedules.triggers import EventTrigger, ManualTrigger, say_trigger
from mainspring.core.schedules.windows import Outcome, start_of, upcoming
from mainspring.core.text.durations import say_seconds

_LOOKED_AT_WITHIN_SECONDS = 60.0
"""Waiting windows are decided again at least this often while a server is healthy."""


def diagnose_schedule(scene: ScheduleScene) -> Diagnosis:
    """Diagnose a schedule, in the order in which it is evaluated."""
    row, found = scene.schedule, _about(scene)
    if row.deleted_at is not None:
        verdict = f"Was deleted {say_in(row.deleted_at, scene.now)}{_reason(row.because)}"
        return replace(found, verdict=verdict, expected=_never("it is deleted"))
    if row.paused:
        return _paused(found, scene)
    if not row.enabled:
        return _disabled(found, scene)
    own = next((fire for fire in scene.waiting if fire.backfill_id is None), None)
    if own is not None:
        return _waiting(found, scene, own)
    if scene.backfill is not None:
        return _backfilling(found, scene, scene.backfill)
    if row.next_at is not None and (scene.now - row.next_at).total_seconds() > STALE_SECONDS:
        return _overdue(found, scene, row.next_at)
    if isinstance(scene.spec.trigger, EventTrigger):
        return _for_event(found, scene, scene.spec.trigger)
    if row.next_at is not None:
        return _for_time(found, scene, row.next_at)
    return _on_demand(found, scene)


# nothing is planned


def _paused(found: Diagnosis, scene: ScheduleScene) -> Diagnosis:
    change = scene.stopped
    verdict = f"Paused{_reason(scene.schedule.because)}"
    if change is not None:
        verdict = f"Paused by {change.by} {say_in(change.at, scene.now)}{_quoted(change.why)}"
    person = () if change is None else (InTheWay(kind="person", id=change.by, says=f"{change.by}, who paused it"),)
    return replace(
        found,
        reason=Reason.PAUSED,
        verdict=verdict + _and_waiting(scene),
        expected=_cannot_say("someone has to resume it"),
        gates=gates_of(scene, NOT_PAUSED),
        in_the_way=person,
        ruled_out=("not failures",),
        acts=(_resume(scene, ActKind.ASK, "Resume it"),),
    )


def _disabled(found: Diagnosis, scene: ScheduleScene) -> Diagnosis:
    row, change = scene.schedule, scene.stopped
    if not scene.spec.enabled:
        return replace(
            found,
            reason=Reason.PAUSED,
            verdict="Disabled in its definition",
            expected=_never("its definition disables it"),
            gates=gates_of(scene, ENABLED),
            acts=(Act(kind=ActKind.CHANGE, says="Enable it in its definition", effect=_say_next(scene)),),
        )
    since = "" if change is None else f" {say_in(change.at, scene.now)}"
    return replace(
        found,
        reason=Reason.QUARANTINED,
        verdict=f"Disabled{since} after repeated failures{_reason(row.because)}; it stays so until it is resumed",
        expected=_cannot_say("someone has to fix its job and resume it"),
        gates=gates_of(scene, ENABLED),
        ruled_out=("not paused",),
        acts=(
            _resume(
                scene,
                ActKind.CHANGE,
                f"Fix the failures (`mainspring runs --filter 'job:{row.job} state:failed'`), then resume it",
            ),
        ),
    )


# a window waits


def _waiting(found: Diagnosis, scene: ScheduleScene, fire: FireRow) -> Diagnosis:
    """The oldest waiting window, decided as the next evaluation will."""
    others = tuple(one for one in scene.active if one.backfill_id is None)
    situation = Situation(active=len(others), other=other_of(scene.other, fire.window_at))
    start = decide_start(scene.spec, fire.window_at, situation, now=scene.now)

    window = f"Window {say_window(scene, fire.window_at)} has waited {_ago(fire.window_at, scene.now)}"
    waited = replace(found, numbers={"waiting": float(len(scene.waiting))})
    if start.outcome is Outcome.WAITING and start.gate is StartGate.AFTER:
        return _for_other(waited, scene, f"{window}: {start.because}")
    if start.outcome is Outcome.WAITING:
        return _for_room(waited, scene, others, f"{window}: {start.because}")
    if fire.asked_at is not None:
        return replace(
            waited,
            reason=Reason.WAITING_EVENT,
            verdict=f"{window}: {fire.because}",
            expected=_cannot_say("a worker has not reported on the file yet"),
            gates=gates_of(scene, CONDITION),
            acts=(Act(kind=ActKind.WAIT, says="Wait: a worker of the pool has to check the file"),),
        )
    looked_at = scene.schedule.looked_at or fire.decided_at
    if (scene.now - looked_at).total_seconds() <= _LOOKED_AT_WITHIN_SECONDS:
        return replace(waited, verdict=f"{window}; no longer blocked, about to start")
    return replace(
        waited,
        reason=Reason.SCHEDULER_LAG,
        verdict=f"{window}; not blocked, but no server has evaluated it for {_ago(looked_at, scene.now)}",
        expected=_cannot_say("no server evaluates waiting windows"),
    )


def _for_other(found: Diagnosis, scene: ScheduleScene, verdict: str) -> Diagnosis:
    after, other = scene.spec.after, scene.other
    assert after is not None, "only what waits for another job gets here"
    named: list[InTheWay] = []
    if other is not None:
        named = [
            InTheWay(kind="run", id=fire.run_id, says=f"{after.job}: {fire.run_id}", tenant=found.tenant)
            for fire in other.fires
            if fire.run_id is not None and fire.run_state is None
        ]
    return replace(
        found,
        reason=Reason.WAITING_UPSTREAM,
        verdict=verdict,
        expected=_cannot_say(f"it depends on {after.job}"),
        gates=gates_of(scene, AFTER),
        in_the_way=tuple(named[:MOST_NAMED])
        or (InTheWay(kind="job", id=after.job, says=after.job, tenant=found.tenant),),
        others_in_the_way=max(0, len(named) - MOST_NAMED),
        acts=(Act(kind=ActKind.WAIT, says=f"Wait for {after.job}", command=f"mainspring why {after.job}"),),
    )


def _for_room(found: Diagnosis, scene: ScheduleScene, active: Sequence[FireRow], verdict: str) -> Diagnosis:
    return replace(
        found,
        reason=Reason.CONCURRENCY,
        verdict=verdict,
        expected=_ends(scene, active),
        gates=gates_of(scene, OVERLAP),
        in_the_way=tuple(_run_in_the_way(scene, fire) for fire in active[:MOST_NAMED]),
        others_in_the_way=max(0, len(active) - MOST_NAMED),
        ruled_out=("not paused", "not the upstream job"),
        acts=(
            Act(kind=ActKind.WAIT, says="Wait for the active run"),
            *([_cancel(active[0])] if len(active) == scene.spec.max_active else []),
        ),
    )


def _cancel(fire: FireRow) -> Act:
    effect = "the waiting window starts once it has ended"
    return Act(kind=ActKind.CHANGE, says="Cancel that run", command=f"mainspring cancel {fire.run_id}", effect=effect)


def _backfilling(found: Diagnosis, scene: ScheduleScene, backfill: BackfillRow) -> Diagnosis:
    mine = [fire for fire in scene.waiting if fire.backfill_id == backfill.id]
    going = [fire for fire in scene.active if fire.backfill_id == backfill.id]
    progress = f"{scene.backfilled:,} done, {len(going)} active, {len(mine):,} waiting"
    verdict = f"A backfill of {backfill.windows:,} windows allows {backfill.max_parallel} at a time: {progress}"
    return replace(
        found,
        reason=Reason.BACKFILL_THROTTLED,
        verdict=verdict,
        expected=_ends(scene, going),
        in_the_way=tuple(_run_in_the_way(scene, fire) for fire in going[:MOST_NAMED]),
        others_in_the_way=max(0, len(going) - MOST_NAMED),
        ruled_out=("planned windows are not affected",),
        acts=(Act(kind=ActKind.WAIT, says=f"Wait: {_say_rest(scene, backfill, len(mine))}"),),
        numbers={"waiting": float(len(mine)), "done": float(scene.backfilled), "total": float(backfill.windows)},
    )


def _say_rest(scene: ScheduleScene, backfill: BackfillRow, waiting: int) -> str:
    """How long a backfill takes, at the usual duration of a run."""
    if scene.duration is None:
        return "the usual duration of a run is not known yet"
    rounds = -(-waiting // backfill.max_parallel)
    return f"the last window starts in about {say_seconds(rounds * scene.duration.p50_seconds)}"


def _run_in_the_way(scene: ScheduleScene, fire: FireRow) -> InTheWay:
    began = fire.start_at or fire.decided_at
    usual = "" if scene.duration is None else f", usually {say_seconds(scene.duration.p50_seconds)}"
    says = f"{fire.run_id}, of window {say_window(scene, fire.window_at)} (for {_ago(began, scene.now)}{usual})"
    return InTheWay(kind="run", id=fire.run_id or "", says=says, tenant=scene.schedule.tenant)


def _ends(scene: ScheduleScene, active: Sequence[FireRow]) -> Expected:
    """When the first of these runs usually ends."""
    if scene.duration is None or not active:
        return _cannot_say("the usual duration of its runs is not known")
    began = min(fire.start_at or fire.decided_at for fire in active)
    earliest = began + timedelta(seconds=scene.duration.p50_seconds)
    latest = began + timedelta(seconds=scene.duration.p90_seconds)
    if latest <= scene.now:
        return _cannot_say("the active run takes longer than 9 of 10 before it")
    basis = f"how long its last {scene.duration.count:,} runs took (p50 to p90)"
    return Expected(foresight=Foresight.RANGE, basis=basis, earliest=max(earliest, scene.now), latest=latest)


# nothing is due


def _overdue(found: Diagnosis, scene: ScheduleScene, next_at: datetime) -> Diagnosis:
    late = say_seconds((scene.now - next_at).total_seconds())
    return replace(
        found,
        reason=Reason.SCHEDULER_LAG,
        verdict=f"Due {late} ago and not evaluated since: the schedulers are behind",
        expected=_cannot_say("no server evaluates due windows"),
        gates=gates_of(scene, DUE, f"{late} ago"),
    )


def _for_event(found: Diagnosis, scene: ScheduleScene, trigger: EventTrigger) -> Diagnosis:
    seen = f"last seen {say_in(scene.events[0], scene.now)}" if scene.events else "none was ever received"
    row = scene.schedule
    expected = _cannot_say("it is not known when an event comes")
    by = ""
    if row.next_at is not None:
        by = f"; without one it runs at {say_clock(row.next_at, scene.now)} ({say_in(row.next_at, scene.now)})"
        basis = "when the event comes, at the latest at the end of its buffer"
        expected = Expected(foresight=Foresight.RANGE, basis=basis, earliest=scene.now, latest=row.next_at)
    send = Act(
        kind=ActKind.CHANGE,
        says="Send the event",
        command=f"mainspring events send {trigger.type}",
        effect="a run starts" if trigger.filter is None else f"a run starts if it passes {trigger.filter}",
    )
    return replace(
        found,
        reason=Reason.WAITING_EVENT,
        verdict=f"Waits for event {trigger.type}; {seen}{say_usual(scene.events)}{by}{say_latest(scene)}",
        expected=expected,
        gates=gates_of(scene, DUE, f"event {trigger.type}"),
        in_the_way=(InTheWay(kind="event", id=trigger.type, says=f"event {trigger.type}, {seen}"),),
        ruled_out=("not paused", "no window waits for capacity"),
        acts=(Act(kind=ActKind.WAIT, says="Wait for the event"), send, _trigger(scene)),
        numbers={"events": float(len(scene.events))},
    )


def _for_time(found: Diagnosis, scene: ScheduleScene, next_at: datetime) -> Diagnosis:
    row, spec = scene.schedule, scene.spec
    starts = start_of(row.id, spec, next_at, scene.now)
    when = say_in(next_at, scene.now)
    return replace(
        found,
        reason=Reason.WAITING_TIME,
        verdict=f"Next window {say_window(scene, next_at)} ({when}){say_latest(scene)}",
        expected=Expected(
            foresight=Foresight.RANGE, basis=f"it fires {say_trigger(spec.trigger)}", earliest=starts, latest=starts
        ),
        gates=gates_of(scene, DUE, when),
        ruled_out=("not paused", "no window waits for capacity"),
        acts=(Act(kind=ActKind.WAIT, says=f"Wait until {say_clock(starts, scene.now)}"), _trigger(scene)),
    )


def _on_demand(found: Diagnosis, scene: ScheduleScene) -> Diagnosis:
    if isinstance(scene.spec.trigger, ManualTrigger):
        verdict = f"Runs on request only{say_latest(scene)}"
        return replace(found, verdict=verdict, acts=(_trigger(scene),))
    verdict = f"Has no future window: it fires {say_trigger(scene.spec.trigger)}{say_latest(scene)}"
    return replace(found, verdict=verdict, expected=_never("it has no future window"), acts=(_trigger(scene),))


# the pieces


def _about(scene: ScheduleScene) -> Diagnosis:
    row = scene.schedule
    state = "deleted" if row.deleted_at else "disabled" if not row.enabled else "paused" if row.paused else "active"
    return Diagnosis(
        subject=row.id, name=f"{row.tenant}/{scene.called}", tenant=row.tenant, state=state, since=None, reason=None,
        verdict="", at=scene.now, by=BY_ROWS, age_seconds=0.0, pool=row.pool, priority=scene.spec.priority,
    )  # fmt: skip


def _resume(scene: ScheduleScene, kind: ActKind, says: str) -> Act:
    return Act(kind=kind, says=says, command=f"mainspring resume {scene.called}", effect=_say_next(scene))


def _say_next(scene: ScheduleScene) -> str:
    """The next window once the schedule is active."""
    windows = upcoming(replace(scene.spec, enabled=True), scene.now, 1)
    return f"its next window is {say_window(scene, windows[0])}" if windows else "it is active again"


def _trigger(scene: ScheduleScene) -> Act:
    command = f"mainspring trigger {scene.called}"
    return Act(kind=ActKind.CHANGE, says="Run it now", command=command, effect="a run starts at once")


def _and_waiting(scene: ScheduleScene) -> str:
    count = len(scene.waiting)
    return f"; {count} window{'s' if count > 1 else ''} {'are' if count > 1 else 'is'} waiting" if count else ""


def _ago(at: datetime, now: datetime) -> str:
    return say_seconds((now - at).total_seconds())


def _reason(because: str) -> str:
    return f": {because}" if because else ""


def _quoted(why: str) -> str:
    return f': "{why}"' if why else ""


def _never(basis: str) -> Expected:
    return Expected(foresight=Foresight.NEVER, basis=basis)


def _cannot_say(basis: str) -> Expected:
    return Expected(foresight=Foresight.CANNOT_SAY, basis=basis)
