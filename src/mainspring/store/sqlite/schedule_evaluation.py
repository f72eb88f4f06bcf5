"""Settling schedules on SQLite: read what is known, decide, write, in one transaction.

As in `queries.py`, each function is one call of the port, inside a transaction that the caller began; `now` is
the store's time as SQLite keeps it. Nobody else writes meanwhile, so that nothing has to be locked.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import (
    BackfillRow,
    Decide,
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleChange,
    ScheduleRow,
    UpstreamSchedule,
)
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.schedules import EvaluationResult, IdempotencyKey, NewSchedule
from mainspring.store.sql import schedule_evaluation as evaluation
from mainspring.store.sql import schedule_statements as statements
from mainspring.store.sql.schedule_evaluation import EvaluationWrites, Facts, JobKey
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.batch import write_outbox
from mainspring.store.sqlite.queries import GIVEN
from mainspring.store.sqlite.rows import insert_into, instant, micros, refuse_nul
from mainspring.store.sqlite.submission import first_use, keep_key, make_runs

_MICROSECOND = timedelta(microseconds=1)


def _take(where: str) -> str:
    return f"SELECT {rows.SCHEDULES.select()} FROM schedules WHERE {where}"


_TAKE_DUE = _take(f"{statements.IS_DUE} AND next_at <= ?2 ORDER BY next_at, id LIMIT ?1")
_TAKE_WAITING = _take(
    f"{statements.IS_BEING_EVALUATED} AND coalesce(evaluated_at, 0) <= ?2 "
    "ORDER BY coalesce(evaluated_at, 0), id LIMIT ?1"
)
_TAKE_NAMED = _take(f"id {GIVEN} AND deleted_at IS NULL ORDER BY id")
_TAKE_FOR_EVENTS = _take(f"tenant = ?2 AND event_type {GIVEN} AND event_type <> '' AND deleted_at IS NULL ORDER BY id")
_PUT_OFF = f"""
    UPDATE schedules SET evaluated_at = ?2, next_at = CASE WHEN next_at <= ?2 THEN ?3 ELSE next_at END WHERE id {GIVEN}
"""

_OPEN_FIRES = statements.open_fires("?1")
_ENDS = statements.ends("?1", "?2")
_LATEST_JOB = statements.latest_job("?1", "?2")
_OLDEST_SCHEDULE = statements.oldest_schedule("?1", "?2")
_LATEST_FIRES = statements.latest_fires("?1")
_LATEST_SUCCESS = statements.latest_success("?1")
_BACKFILLS = f"SELECT {rows.BACKFILLS.select()} FROM backfills WHERE id {GIVEN}"

_CHANGING = rows.SCHEDULES.after("id")
_PLACES = [rows.SCHEDULES.names.index(name) for name in evaluation.PLAN]


def _assignments(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}" = ?' for name in names)


_PLANS = f"UPDATE schedules SET {_assignments(evaluation.PLAN)} WHERE id = ?"
_CHANGED = f"UPDATE schedules SET {_assignments(_CHANGING)} WHERE id = ?"
_FIRES = insert_into(
    "fires",
    rows.FIRES,
    ending=f"""ON CONFLICT ({", ".join(statements.FIRE_KEY)}) DO UPDATE SET
        {", ".join(f'"{name}" = excluded."{name}"' for name in rows.FIRES.after("generation"))}
        WHERE {statements.ONE_RUN_EACH}""",
)
_NEW_BACKFILLS = insert_into("backfills", rows.BACKFILLS)
_NEW_CHANGES = insert_into("schedule_changes", rows.CHANGES)
_NEW_SCHEDULE = insert_into("schedules", rows.SCHEDULES, ending="ON CONFLICT DO NOTHING")
_LED_TO = "UPDATE events SET fires = ? WHERE tenant = ? AND source = ? AND id = ?"
_NEW_EVENT = insert_into("events", rows.EVENTS, ending="ON CONFLICT DO NOTHING")


def insert_schedule(
    db: sqlite3.Connection, row: ScheduleRow, change: ScheduleChange, audit: AuditEntry | None, now: int
) -> None:
    """Keep a new schedule. The same one again changes nothing."""
    if db.execute(_NEW_SCHEDULE, rows.SCHEDULES.rows([row])[0]).rowcount == 1:
        db.execute(_NEW_CHANGES, rows.CHANGES.rows([change])[0])
    elif not db.execute("SELECT 1 FROM schedules WHERE id = ?", (row.id,)).fetchone():
        raise Conflict(f"there is a schedule {row.name!r} already")
    write_audit(db, now, audit)


def insert_schedules(db: sqlite3.Connection, new: Sequence[NewSchedule], now: int) -> None:
    """Keep new schedules."""
    for one in new:
        insert_schedule(db, one.row, one.change, one.audit, now)


def evaluate_due(db: sqlite3.Connection, limit: int, decide: Decide, now: int) -> EvaluationResult:
    """Settle what is due."""
    return _evaluate(db, db.execute(_TAKE_DUE, (limit, now)).fetchall(), decide, now)


def evaluate_waiting(db: sqlite3.Connection, limit: int, age: timedelta, decide: Decide, now: int) -> EvaluationResult:
    """Settle what waits and was not looked at for some time."""
    taken = db.execute(_TAKE_WAITING, (limit, now - age // _MICROSECOND)).fetchall()
    return _evaluate(db, taken, decide, now, ends=True)


def evaluate_schedules(
    db: sqlite3.Connection,
    ids: Sequence[str],
    decide: Decide,
    audit: AuditEntry | None,
    key: IdempotencyKey | None,
    now: int,
) -> EvaluationResult:
    """Settle some schedules, once if there is a key."""
    if key is not None:
        refuse_nul([key.tenant, key.key, key.body_hash])
        first = first_use(db, key)
        if first:
            made = tuple(first.replay(key))
            write_audit(db, now, audit)
            return EvaluationResult(now=instant(now), schedules=len(ids), replayed_ids=made)
    evaluated = _evaluate(db, db.execute(_TAKE_NAMED, (json.dumps(ids),)).fetchall(), decide, now, ends=True)
    if evaluated.decisions:
        write_audit(db, now, audit)
        if key is not None:
            keep_key(db, key, evaluated.made(), now)
    return evaluated


def receive_events(
    db: sqlite3.Connection,
    tenant: str,
    events: Sequence[EventRow],
    decide: Decide,
    audit: AuditEntry | None,
    now: int,
) -> tuple[list[bool], EvaluationResult]:
    """Keep events that are new, and settle the schedules that wait for their types."""
    refuse_nul([tenant])
    write_audit(db, now, audit)
    firsts = evaluation.first_of_each(tenant, events, instant(now))
    values = rows.EVENTS.rows(firsts) if firsts else []
    new = [event for event, row in zip(firsts, values, strict=True) if db.execute(_NEW_EVENT, row).rowcount == 1]
    if not new:
        return [False] * len(events), EvaluationResult(now=instant(now), schedules=0)
    types = json.dumps(sorted({event.type for event in new}))
    evaluated = _evaluate(
        db, db.execute(_TAKE_FOR_EVENTS, (types, tenant)).fetchall(), decide, now, events=new, ends=True
    )
    named = evaluation.led_to(evaluated.decisions, new)
    db.executemany(_LED_TO, [(count, tenant, *name) for name, count in named.items()])
    return evaluation.answers(events, new), evaluated


def _evaluate(
    db: sqlite3.Connection,
    taken: Sequence[Sequence[object]],
    decide: Decide,
    now: int,
    *,
    events: Sequence[EventRow] = (),
    ends: bool = False,
) -> EvaluationResult:
    """Decide about schedules, and write what follows."""
    at = instant(now)
    if not taken:
        return EvaluationResult(now=at, schedules=0)
    schedules, faults = rows.SCHEDULES.readable(taken, "id")
    open_fires, more = rows.FIRES.readable(
        (row for schedule in schedules for row in db.execute(_OPEN_FIRES, (schedule.id,))), "schedule_id"
    )
    jobs, unreadable_jobs = _jobs(db, schedules)
    known_ends, unreadable_ends = _ends(db, schedules) if ends else ({}, {})
    backfills, unreadable_backfills = _backfills(db, open_fires)
    faults |= more | unreadable_jobs | unreadable_ends | unreadable_backfills
    if faults:
        evaluation.log_faults(faults)
        db.execute(_PUT_OFF, (json.dumps(list(faults)), now, now + evaluation.PUT_OFF // _MICROSECOND))
        schedules = [schedule for schedule in schedules if schedule.id not in faults]
    facts = Facts(jobs=jobs, open_fires=open_fires, ends=known_ends, backfills=backfills, others=_others(db, schedules))
    cases = evaluation.cases(schedules, facts)
    decisions = tuple(decide(EvaluationBatch(now=at, cases=cases, events=tuple(events))))
    _write(db, evaluation.evaluation_writes(cases, decisions))
    return EvaluationResult(now=at, schedules=len(taken), decisions=decisions)


# what is known


def _jobs(
    db: sqlite3.Connection, schedules: Sequence[ScheduleRow]
) -> tuple[dict[JobKey, JobRow], dict[str, str]]:  # fmt: skip
    keys = sorted({evaluation.job_of(schedule) for schedule in schedules})
    found = (row for key in keys for row in db.execute(_LATEST_JOB, key))
    return evaluation.read_jobs(rows.JOBS, found, schedules)


def _ends(
    db: sqlite3.Connection, schedules: Iterable[ScheduleRow]
) -> tuple[dict[str, list[RunState]], dict[str, str]]:  # fmt: skip
    return evaluation.read_ends(
        (schedule.id, state)
        for schedule in schedules
        for (state,) in db.execute(_ENDS, (schedule.id, micros(schedule.enabled_since)))
    )


def _backfills(
    db: sqlite3.Connection, fires: Sequence[FireRow]
) -> tuple[dict[str, BackfillRow], dict[str, str]]:  # fmt: skip
    ids = evaluation.backfills_of(fires)
    found = db.execute(_BACKFILLS, (json.dumps(ids),)).fetchall() if ids else []
    return evaluation.read_backfills(rows.BACKFILLS, found, fires)


def _others(db: sqlite3.Connection, schedules: Iterable[ScheduleRow]) -> dict[JobKey, UpstreamSchedule]:
    keys = evaluation.others_of(schedules)
    oldest, faults = rows.SCHEDULES.readable((row for key in keys for row in db.execute(_OLDEST_SCHEDULE, key)), "id")
    fires, more = rows.FIRES.readable(
        (row for schedule in oldest for row in db.execute(_LATEST_FIRES, (schedule.id,))), "schedule_id"
    )
    evaluation.log_faults(faults | more)
    successes: dict[str, datetime] = {
        schedule.id: instant(ended_at)
        for schedule in oldest
        for (ended_at,) in db.execute(_LATEST_SUCCESS, (schedule.id,))
    }
    return evaluation.others(oldest, fires, successes)


# what follows


def _write(db: sqlite3.Connection, new: EvaluationWrites) -> None:
    if new.fires:
        evaluation.expect_fires(db.executemany(_FIRES, rows.FIRES.rows(new.fires)).rowcount, new.fires)
    make_runs(db, new.runs)
    if new.plans:
        columns = rows.SCHEDULES.columns(new.plans)
        db.executemany(_PLANS, zip(*(columns[place] for place in _PLACES), columns[0], strict=True))
    if new.schedules:
        try:
            db.executemany(_CHANGED, [(*row[1:], row[0]) for row in rows.SCHEDULES.rows(new.schedules)])
        except sqlite3.IntegrityError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_CONSTRAINT_UNIQUE:
                raise
            raise Conflict("there is another schedule of that name") from error
    if new.backfills:
        db.executemany(_NEW_BACKFILLS, rows.BACKFILLS.rows(new.backfills))
    if new.changes:
        db.executemany(_NEW_CHANGES, rows.CHANGES.rows(new.changes))
    if new.outgoing:
        write_outbox(db, new.outgoing)
