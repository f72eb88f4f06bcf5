"""Settling schedules on PostgreSQL: lock, read what is known, decide, write, in one transaction of a dozen statements.

1. A schedule's row is locked before anything about it is read, and each statement sees what was committed before it
   began. So whoever settles a schedule sees all that earlier settlings of it have written (I-30).
2. Who settles what is due leaves out what others have under lock; who names schedules waits for them, in the order of
   their ids. Nobody waits in a circle.
3. The time is asked for when the locks are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import asyncpg

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
from mainspring.protocol.errors import Conflict, KeyReused
from mainspring.store.ports.schedules import EvaluationResult, IdempotencyKey, NewSchedule
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.batch import write_outbox
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW, time
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.postgres.submission import first_use, keep_key, make_runs
from mainspring.store.sql import schedule_evaluation as evaluation
from mainspring.store.sql import schedule_statements as statements
from mainspring.store.sql.schedule_evaluation import EvaluationWrites, Facts, JobKey

_Rows = Sequence[asyncpg.Record]

_EVALUATED_AT = "coalesce(evaluated_at, 'epoch'::timestamptz)"


def _take(where: str) -> str:
    return f"SELECT {rows.SCHEDULES.select()} FROM schedules WHERE {where}"


_TAKE_DUE = _take(f"{statements.IS_DUE} AND next_at <= {NOW} ORDER BY next_at, id LIMIT $1 FOR UPDATE SKIP LOCKED")
_TAKE_WAITING = _take(
    f"""{statements.IS_BEING_EVALUATED} AND {_EVALUATED_AT} <= {NOW} - $2::interval
        ORDER BY {_EVALUATED_AT}, id LIMIT $1 FOR UPDATE SKIP LOCKED"""
)
_TAKE_NAMED = _take("id = ANY($1::text[]) AND deleted_at IS NULL ORDER BY id FOR UPDATE")
_TAKE_FOR_EVENTS = _take(
    """tenant = $1 AND event_type = ANY($2::text[]) AND event_type <> '' AND deleted_at IS NULL
        ORDER BY id FOR UPDATE"""
)
_PUT_OFF = """
    UPDATE schedules SET evaluated_at = $2, next_at = CASE WHEN next_at <= $2 THEN $2::timestamptz + $3 ELSE next_at END
    WHERE id = ANY($1::text[])
"""


def _of_each(names: str, arrays: str, statement: str) -> str:
    """What a statement finds for each element of some arrays, which it calls `given`."""
    return f"""
        SELECT {names}found.* FROM unnest({arrays}) WITH ORDINALITY AS given (a, b, location)
        CROSS JOIN LATERAL ({statement}) AS found ORDER BY given.location
    """


_SCHEDULES = "$1::text[], $1::text[]"
_JOBS = "$1::text[], $2::text[]"
_OPEN_FIRES = _of_each("", _SCHEDULES, statements.open_fires("given.a"))
_ENDS = _of_each("given.a, ", "$1::text[], $2::timestamptz[]", statements.ends("given.a", "given.b"))
_LATEST_JOBS = _of_each("", _JOBS, statements.latest_job("given.a", "given.b"))
_OLDEST_SCHEDULES = _of_each("", _JOBS, statements.oldest_schedule("given.a", "given.b"))
_LATEST_FIRES = _of_each("", _SCHEDULES, statements.latest_fires("given.a"))
_LATEST_SUCCESSES = _of_each("given.a, ", _SCHEDULES, statements.latest_success("given.a"))
_BACKFILLS = f"SELECT {rows.BACKFILLS.select()} FROM backfills WHERE id = ANY($1::text[])"


def _assignments(names: Iterable[str], source: str) -> str:
    return ", ".join(f'"{name}" = {source}."{name}"' for name in names)


def _change_schedules(names: Sequence[str]) -> str:
    return f"""
        UPDATE schedules SET {_assignments(names, "u")}
        FROM ROWS FROM ({from_json("$1", rows.SCHEDULES, ("id", *names))}) AS u WHERE schedules.id = u.id
    """


_PLANS = _change_schedules(evaluation.PLAN)
_CHANGED = _change_schedules(rows.SCHEDULES.after("id"))
_FIRES = f"""
    INSERT INTO fires ({rows.FIRES.select()}) SELECT * FROM {from_json("$1", rows.FIRES)}
    ON CONFLICT ({", ".join(statements.FIRE_KEY)}) DO UPDATE SET
        {_assignments(rows.FIRES.after("generation"), "excluded")} WHERE {statements.ONE_RUN_EACH}
"""
_NEW_BACKFILLS = f"""
    INSERT INTO backfills ({rows.BACKFILLS.select()}) SELECT * FROM {from_json("$1", rows.BACKFILLS)}
"""
_NEW_CHANGES = f"""
    INSERT INTO schedule_changes ({rows.CHANGES.select()})
    SELECT {rows.CHANGES.select("u")} FROM ROWS FROM ({from_json("$1", rows.CHANGES)}) WITH ORDINALITY AS u
    ORDER BY u.ordinality
"""
_NEW_SCHEDULE = f"""
    INSERT INTO schedules ({rows.SCHEDULES.select()}) SELECT * FROM {from_json("$1", rows.SCHEDULES)}
    ON CONFLICT DO NOTHING RETURNING id
"""
_NEW_EVENTS = f"""
    INSERT INTO events ({rows.EVENTS.select()})
    SELECT * FROM {from_json("$1", rows.EVENTS)} ORDER BY source COLLATE "C", id COLLATE "C"
    ON CONFLICT (tenant, source, id) DO NOTHING RETURNING source, id
"""
_LED_TO = """
    UPDATE events SET fires = u.fires
    FROM unnest($2::text[], $3::text[], $4::bigint[]) AS u (source, id, fires)
    WHERE events.tenant = $1 AND events.source = u.source AND events.id = u.id
"""


async def insert_schedule(
    connection: Connection, row: ScheduleRow, change: ScheduleChange, audit: AuditEntry | None
) -> None:
    """Keep a new schedule. The same one again changes nothing."""
    await insert_schedules(connection, [NewSchedule(row=row, change=change, audit=audit)])


async def insert_schedules(connection: Connection, new: Sequence[NewSchedule]) -> None:
    """Keep new schedules, in one order of names, so that nobody waits for each other."""
    async with transaction(connection):
        for one in sorted(new, key=lambda one: (one.row.tenant, one.row.name)):
            if await connection.fetchval(_NEW_SCHEDULE, as_json([one.row])):
                await connection.execute(_NEW_CHANGES, as_json([one.change]))
            elif not await connection.fetchval("SELECT 1 FROM schedules WHERE id = $1", one.row.id):
                raise Conflict(f"there is a schedule {one.row.name!r} already")
            await write_audit(connection, one.audit)


async def evaluate_due(connection: Connection, limit: int, decide: Decide) -> EvaluationResult:
    """Settle what is due."""
    async with transaction(connection):
        return await _evaluate(connection, await connection.fetch(_TAKE_DUE, limit), decide)


async def evaluate_waiting(connection: Connection, limit: int, age: timedelta, decide: Decide) -> EvaluationResult:
    """Settle what waits and was not looked at for some time."""
    async with transaction(connection):
        return await _evaluate(connection, await connection.fetch(_TAKE_WAITING, limit, age), decide, ends=True)


async def evaluate_schedules(
    connection: Connection,
    ids: Sequence[str],
    decide: Decide,
    audit: AuditEntry | None,
    key: IdempotencyKey | None,
) -> EvaluationResult:
    """Settle some schedules, once if there is a key: whoever comes with the same one waits for the schedules first."""
    async with transaction(connection):
        taken = await connection.fetch(_TAKE_NAMED, ids)
        first = None if key is None else await first_use(connection, key)
        if key is not None and first is not None:
            made = tuple(first.replay(key))
            await write_audit(connection, audit)
            return EvaluationResult(now=await time(connection), schedules=len(ids), replayed_ids=made)
        evaluated = await _evaluate(connection, taken, decide, ends=True)
        if evaluated.decisions:
            await write_audit(connection, audit)
            if key is not None and not await keep_key(connection, key, evaluated.made()):
                raise KeyReused(f"key {key.key!r} was used at the same time, for another body")
    return evaluated


async def receive_events(
    connection: Connection, tenant: str, events: Sequence[EventRow], decide: Decide, audit: AuditEntry | None
) -> tuple[list[bool], EvaluationResult]:
    """Keep events that are new, and settle the schedules that wait for their types."""
    async with transaction(connection):
        await write_audit(connection, audit)
        now = await time(connection)
        firsts = evaluation.first_of_each(tenant, events, now)
        kept = {tuple(row) for row in await connection.fetch(_NEW_EVENTS, as_json(firsts))}
        new = [event for event in firsts if (event.source, event.id) in kept]
        if not new:
            return [False] * len(events), EvaluationResult(now=now, schedules=0)
        types = sorted({event.type for event in new})
        taken = await connection.fetch(_TAKE_FOR_EVENTS, tenant, types)
        evaluated = await _evaluate(connection, taken, decide, events=new, ends=True)
        named = evaluation.led_to(evaluated.decisions, new)
        if named:
            await connection.execute(_LED_TO, tenant, *_two(named), list(named.values()))
    return evaluation.answers(events, new), evaluated


async def _evaluate(
    connection: Connection,
    taken: _Rows,
    decide: Decide,
    *,
    events: Sequence[EventRow] = (),
    ends: bool = False,
) -> EvaluationResult:
    """Decide about schedules that are locked, and write what follows."""
    now = await time(connection)
    if not taken:
        return EvaluationResult(now=now, schedules=0)
    schedules, faults = rows.SCHEDULES.readable(taken, "id")
    open_fires, more = rows.FIRES.readable(
        await connection.fetch(_OPEN_FIRES, [schedule.id for schedule in schedules]), "schedule_id"
    )
    jobs, unreadable_jobs = await _jobs(connection, schedules)
    known_ends, unreadable_ends = await _ends(connection, schedules) if ends else ({}, {})
    backfills, unreadable_backfills = await _backfills(connection, open_fires)
    faults |= more | unreadable_jobs | unreadable_ends | unreadable_backfills
    if faults:
        evaluation.log_faults(faults)
        await connection.execute(_PUT_OFF, list(faults), now, evaluation.PUT_OFF)
        schedules = [schedule for schedule in schedules if schedule.id not in faults]
    facts = Facts(
        jobs=jobs,
        open_fires=open_fires,
        ends=known_ends,
        backfills=backfills,
        others=await _others(connection, schedules),
    )
    cases = evaluation.cases(schedules, facts)
    decisions = tuple(decide(EvaluationBatch(now=now, cases=cases, events=tuple(events))))
    await _write(connection, evaluation.evaluation_writes(cases, decisions))
    return EvaluationResult(now=now, schedules=len(taken), decisions=decisions)


# what is known


async def _jobs(
    connection: Connection, schedules: Sequence[ScheduleRow]
) -> tuple[dict[JobKey, JobRow], dict[str, str]]:
    """The latest version of each of their jobs, each read once: a definition can be large."""
    keys = sorted({evaluation.job_of(schedule) for schedule in schedules})
    return evaluation.read_jobs(rows.JOBS, await connection.fetch(_LATEST_JOBS, *_two(keys)), schedules)


async def _ends(
    connection: Connection, schedules: Sequence[ScheduleRow]
) -> tuple[dict[str, list[RunState]], dict[str, str]]:
    ids = [schedule.id for schedule in schedules]
    since = [schedule.enabled_since for schedule in schedules]
    return evaluation.read_ends(await connection.fetch(_ENDS, ids, since))


async def _backfills(connection: Connection, fires: Sequence[FireRow]) -> tuple[dict[str, BackfillRow], dict[str, str]]:
    ids = evaluation.backfills_of(fires)
    found = await connection.fetch(_BACKFILLS, ids) if ids else []
    return evaluation.read_backfills(rows.BACKFILLS, found, fires)


async def _others(connection: Connection, schedules: Iterable[ScheduleRow]) -> dict[JobKey, UpstreamSchedule]:
    keys = evaluation.others_of(schedules)
    if not keys:
        return {}
    oldest, faults = rows.SCHEDULES.readable(await connection.fetch(_OLDEST_SCHEDULES, *_two(keys)), "id")
    ids = [schedule.id for schedule in oldest]
    fires, more = rows.FIRES.readable(await connection.fetch(_LATEST_FIRES, ids), "schedule_id")
    evaluation.log_faults(faults | more)
    successes = {row["a"]: row["run_ended_at"] for row in await connection.fetch(_LATEST_SUCCESSES, ids)}
    return evaluation.others(oldest, fires, successes)


def _two(keys: Iterable[JobKey]) -> tuple[list[str], list[str]]:
    """Tenants and names, as two arrays."""
    pairs = list(keys)
    return [tenant for tenant, _ in pairs], [name for _, name in pairs]


# what follows


async def _write(connection: Connection, new: EvaluationWrites) -> None:
    if new.fires:
        status = await connection.execute(_FIRES, as_json(new.fires))
        evaluation.expect_fires(int(status.rpartition(" ")[2]), new.fires)
    if new.runs:
        await make_runs(connection, new.runs)
    if new.plans:
        plans = [{name: getattr(plan, name) for name in ("id", *evaluation.PLAN)} for plan in new.plans]
        await connection.execute(_PLANS, as_json(plans))
    if new.schedules:
        try:
            await connection.execute(_CHANGED, as_json(new.schedules))
        except asyncpg.UniqueViolationError as error:
            raise Conflict("there is another schedule of that name") from error
    if new.backfills:
        await connection.execute(_NEW_BACKFILLS, as_json(new.backfills))
    if new.changes:
        await connection.execute(_NEW_CHANGES, as_json(new.changes))
    if new.outgoing:
        await write_outbox(connection, new.outgoing)
