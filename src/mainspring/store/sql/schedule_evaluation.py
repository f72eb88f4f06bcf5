"""From rows to what a settling decides, and from what was decided to rows: once for both adapters.

A schedule of which something can't be read is not settled: nobody could say what follows. It is complained about and
put off, so that it does not stand at the head of the queue for ever; no window of it is lost, because `planned_through`
stays where it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import structlog

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.schedule_rows import (
    BackfillRow,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleDecision,
    ScheduleRow,
    ScheduleSnapshot,
    UpstreamSchedule,
)
from mainspring.core.schedules.windows import Outcome
from mainspring.protocol.errors import Broken, StaleWrite
from mainspring.store.ports.schedules import EvaluationResult
from mainspring.store.sql.rows import Codec
from mainspring.store.sql.unreadable_rows import UNREADABLE

log = structlog.get_logger()

PUT_OFF = timedelta(minutes=10)
"""A schedule that can't be read is looked at again after so long."""

PLAN = ("planned_through", "next_at", "has_waiting_windows", "evaluated_at", "latest_event_at")
"""What most settlings change of a schedule. Its definition can be long, and is written only if it is another."""

JobKey = tuple[str, str]
"""Tenant and name."""
_MICROSECOND = timedelta(microseconds=1)


class Facts(NamedTuple):
    """What was read about some schedules."""

    jobs: Mapping[JobKey, JobRow]
    open_fires: Sequence[FireRow]
    """By schedule, oldest first."""
    ends: Mapping[str, Sequence[RunState]]
    backfills: Mapping[str, BackfillRow]
    others: Mapping[JobKey, UpstreamSchedule]


class EvaluationWrites(NamedTuple):
    """What decisions write."""

    plans: list[ScheduleRow]
    """Of which nothing but PLAN has changed."""
    schedules: list[ScheduleRow]
    fires: list[FireRow]
    runs: list[Run]
    backfills: list[BackfillRow]
    changes: list[ScheduleChange]
    outgoing: list[OutboxRow]


def job_of(schedule: ScheduleRow) -> JobKey:
    """The job that it runs."""
    return schedule.tenant, schedule.job


def upstream_window(schedule: ScheduleRow) -> JobKey | None:
    """The job that it waits for, if it does."""
    return (schedule.tenant, schedule.after_job) if schedule.after_job else None


def others_of(schedules: Iterable[ScheduleRow]) -> list[JobKey]:
    """The jobs that they wait for, each once."""
    return sorted({key for key in map(upstream_window, schedules) if key is not None})


def backfills_of(fires: Iterable[FireRow]) -> list[str]:
    """The backfills that they belong to, each once."""
    return sorted({fire.backfill_id for fire in fires if fire.backfill_id is not None})


def read_jobs(
    codec: Codec[JobRow], found: Iterable[Iterable[object]], schedules: Iterable[ScheduleRow]
) -> tuple[dict[JobKey, JobRow], dict[str, str]]:
    """The jobs of some schedules, and what is wrong with those that can't be read, by schedule."""
    jobs: dict[JobKey, JobRow] = {}
    unreadable: dict[tuple[object, object], str] = {}
    tenant, name = codec.names.index("tenant"), codec.names.index("name")
    for row in map(tuple, found):
        try:
            job = codec.struct(row)
            jobs[job.tenant, job.name] = job
        except Broken as fault:
            unreadable[row[tenant], row[name]] = str(fault)
    return jobs, {one.id: unreadable[job_of(one)] for one in schedules if job_of(one) in unreadable}


def read_ends(found: Iterable[Iterable[object]]) -> tuple[dict[str, list[RunState]], dict[str, str]]:
    """How runs of schedules ended, newest first, and what is wrong with those that can't be read, by schedule."""
    ends: dict[str, list[RunState]] = {}
    faults: dict[str, str] = {}
    for schedule_id, state in found:
        try:
            ends.setdefault(str(schedule_id), []).append(RunState(str(state)))
        except ValueError as fault:
            UNREADABLE.count("fire")
            faults[str(schedule_id)] = f"the end of a run can't be read: {fault}"
    return ends, faults


def read_backfills(
    codec: Codec[BackfillRow], found: Iterable[Iterable[object]], fires: Iterable[FireRow]
) -> tuple[dict[str, BackfillRow], dict[str, str]]:
    """The backfills of some fires, and what is wrong with those that can't be read, by schedule."""
    backfills, unreadable = codec.readable(found, "id")
    faults = {fire.schedule_id: unreadable[fire.backfill_id] for fire in fires if fire.backfill_id in unreadable}
    return {backfill.id: backfill for backfill in backfills}, faults


def log_faults(faults: Mapping[str, str]) -> None:
    """Say which schedules can't be read."""
    for schedule_id, fault in faults.items():
        log.error("schedule.unreadable", schedule=schedule_id, fault=fault)


def others(
    schedules: Iterable[ScheduleRow], fires: Iterable[FireRow], successes: Mapping[str, datetime]
) -> dict[JobKey, UpstreamSchedule]:
    """What is known of jobs that are waited for, from the oldest schedule of each."""
    latest = _by_schedule(fires)
    return {
        job_of(schedule): UpstreamSchedule(
            schedule=schedule, fires=tuple(latest[schedule.id]), succeeded_at=successes.get(schedule.id)
        )
        for schedule in schedules
    }


def cases(schedules: Iterable[ScheduleRow], facts: Facts) -> tuple[ScheduleSnapshot, ...]:
    """What is known of each schedule."""
    open_fires = _by_schedule(facts.open_fires)
    found = []
    for schedule in schedules:
        fires = open_fires[schedule.id]
        other = upstream_window(schedule)
        found.append(
            ScheduleSnapshot(
                schedule=schedule,
                job=facts.jobs.get(job_of(schedule)),
                waiting=tuple(fire for fire in fires if fire.outcome is Outcome.WAITING),
                active=tuple(fire for fire in fires if fire.outcome is Outcome.RAN),
                ended=tuple(facts.ends.get(schedule.id, ())),
                backfills=tuple(facts.backfills[name] for name in backfills_of(fires) if name in facts.backfills),
                other=None if other is None else facts.others.get(other),
            )
        )
    return tuple(found)


def _by_schedule(fires: Iterable[FireRow]) -> defaultdict[str, list[FireRow]]:
    found: defaultdict[str, list[FireRow]] = defaultdict(list)
    for fire in fires:
        found[fire.schedule_id].append(fire)
    return found


def evaluation_writes(cases: Iterable[ScheduleSnapshot], decisions: Sequence[ScheduleDecision]) -> EvaluationWrites:
    """What decisions write, with the last fire of each key. Raises Broken if one is about a schedule without a case."""
    before = {case.schedule.id: case.schedule for case in cases}
    plans: list[ScheduleRow] = []
    schedules: list[ScheduleRow] = []
    fires: dict[tuple[str, datetime, int], FireRow] = {}
    for decision in decisions:
        schedule = decision.schedule
        was = before.get(schedule.id)
        if was is None or any(fire.schedule_id != schedule.id for fire in decision.fires):
            raise Broken(f"a decision about {schedule.id} that nobody asked for: {decision}")
        if schedule != was:
            (plans if _only_planned(was, schedule) else schedules).append(schedule)
        for fire in decision.fires:
            fires[fire.schedule_id, fire.window_at, fire.generation] = fire
    return EvaluationWrites(
        plans=plans,
        schedules=schedules,
        fires=list(fires.values()),
        runs=[run for decision in decisions for run in decision.runs],
        backfills=[backfill for decision in decisions for backfill in decision.backfills],
        changes=[change for decision in decisions for change in decision.changes],
        outgoing=[outgoing for decision in decisions for outgoing in decision.outgoing],
    )


def _only_planned(was: ScheduleRow, schedule: ScheduleRow) -> bool:
    return was == msgspec.structs.replace(schedule, **{name: getattr(was, name) for name in PLAN})


def expect_fires(written: int, fires: Collection[FireRow]) -> None:
    """Raises StaleWrite if fires were left out, because what is there under their key has another run (I-30)."""
    if written != len(fires):
        raise StaleWrite(f"{len(fires) - written} of {len(fires)} fires: the window has a run already")


def shards_of(evaluated: EvaluationResult) -> list[str]:
    """Where new runs wait."""
    return sorted({run.shard for decision in evaluated.decisions for run in decision.runs})


# events


def first_of_each(tenant: str, events: Iterable[EventRow], now: datetime) -> list[EventRow]:
    """The first event of each key, as the tenant's, received now, no two at the same instant: lists go on by it."""
    firsts: dict[tuple[str, str], EventRow] = {}
    for event in events:
        firsts.setdefault((event.source, event.id), event)
    return [
        msgspec.structs.replace(event, tenant=tenant, received_at=now + place * _MICROSECOND, fires=0)
        for place, event in enumerate(firsts.values())
    ]


def answers(events: Iterable[EventRow], new: Iterable[EventRow]) -> list[bool]:
    """For each event whether it was new: the first one of its key, if that was."""
    left = {(event.source, event.id) for event in new}
    found = []
    for event in events:
        key = (event.source, event.id)
        found.append(key in left)
        left.discard(key)
    return found


def led_to(decisions: Iterable[ScheduleDecision], events: Iterable[EventRow]) -> dict[tuple[str, str], int]:
    """How many fires name each of these events, by its source and id; those that none names are left out."""
    named = {
        (fire.schedule_id, fire.window_at, fire.generation): fire.event
        for decision in decisions
        for fire in decision.fires
    }
    counts = Counter(named.values())
    return {(event.source, event.id): counts[event.document] for event in events if counts[event.document]}
