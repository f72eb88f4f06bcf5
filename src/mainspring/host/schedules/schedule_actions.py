"""Actions on schedules; each is one evaluation, so that all its changes are atomic (TRG-7, TRG-9, TRG-11).

    create, change, pause, resume, delete     the schedule itself
    trigger, backfill                         its windows, on request
    receive_events                            events from outside
    upcoming                                  the next windows of all schedules

Each raises Refused with every fault, NotFound for an unknown schedule, Conflict if the state does not permit the
action, and Unavailable if the store can't be reached. Callers check permissions first. `audit` is the audit entry,
written with the action. A request that is repeated with the same idempotency `key` gets the first answer again.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from random import Random
from typing import Protocol

import msgspec

from mainspring.core.admission.validate_job import Limits
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.job import JobRow
from mainspring.core.model.schedule_rows import (
    BackfillRow,
    Decide,
    EvaluationBatch,
    EventRow,
    FireRow,
    ScheduleDecision,
    ScheduleRow,
)
from mainspring.core.schedules import schedule_actions as rules
from mainspring.core.schedules.backfill import Backfill, BackfillCommand, plan_backfill
from mainspring.core.schedules.evaluate import receive_events
from mainspring.core.schedules.evaluation import Context, Evaluation, ScheduledRunRequest, evaluate_each
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.schedule_spec import ScheduleSpec, check_schedule
from mainspring.core.schedules.time_zones import EPOCH, INSTANT
from mainspring.core.schedules.windows import upcoming
from mainspring.host.schedules.evaluator import isolate_failures
from mainspring.protocol.errors import Broken, Conflict, Fault, NotFound, Refused, refusal
from mainspring.protocol.ids import entropy, new_id
from mainspring.store.ports.schedules import (
    EvaluationResult,
    Events,
    FireFilter,
    IdempotencyKey,
    NewSchedule,
    Schedules,
)

MAX_UPCOMING = 1_000
_MAX_PAST_FIRES = 20_000
_MAX_PAST_BACKFILLS = 1_000
_MAX_ATTEMPTS = 10
_SPECS = msgspec.json.Decoder(ScheduleSpec)


class ScheduleStore(Schedules, Events, Protocol):
    """The parts of the store that schedules need."""

    async def time(self) -> datetime:
        """The store's time."""
        ...

    async def find_job(self, tenant: str, name: str, version: int | None = None) -> JobRow | None:
        """Return a version of a job, by default the latest."""
        ...


class NewScheduleRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Request to create a schedule."""

    spec: ScheduleSpec
    since: datetime | None = None
    """Windows after this time count as missed, and are handled by the catch-up policy."""
    paused: bool = False
    """Whether it is created paused."""
    audit: AuditEntry | None = None
    """Its audit entry; `object` is set to the new id."""
    pool: str | None = None
    """The pool of its runs; None: the default pool of this server."""


class Upcoming(msgspec.Struct, frozen=True, kw_only=True):
    """A future window."""

    window_at: datetime
    schedule: ScheduleRow


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was triggered manually."""

    fire: FireRow
    is_replay: bool = False
    """Whether it was created by an earlier request with the same key."""


class Backfilled(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill of past windows."""

    row: BackfillRow
    planned: Backfill
    is_replay: bool = False
    """Whether it was created by an earlier request with the same key."""


class ScheduleActions:
    """All actions on schedules."""

    def __init__(
        self, store: ScheduleStore, context: Context, *, pool: str, limits: Limits | None = None,
        wake: Callable[[], None] = lambda: None,
        on_decided: Callable[[Sequence[str]], None] = lambda schedules: None,
    ) -> None:  # fmt: skip
        """`wake` is called when a schedule may be due earlier, and `on_decided` after a write with the ids of the
        schedules that were created or changed."""
        self._store = store
        self._context = context
        self._pool = pool
        self._limits = limits or Limits()
        self._wake = wake
        self._on_decided = on_decided
        self._random = Random(entropy())

    async def create(self, tenant: str, request: NewScheduleRequest, *, by: str, why: str = "") -> ScheduleRow:
        """Create a schedule; its first window is the next one. Raises Conflict if the name is taken in its tenant."""
        now = await self._store.time()
        start = now if request.since is None else rules.check_since(request.since, now)
        pool = await self._check(tenant, request.spec, start, self._pool)
        new = self._new(tenant, msgspec.structs.replace(request, pool=pool), by, why, now)
        await self._store.insert_schedule(new.row, new.change, new.audit)
        self._wake()
        self._notify([new.row.id])
        return new.row

    async def create_all(
        self, tenant: str, requests: Sequence[NewScheduleRequest], *, by: str, why: str = ""
    ) -> list[ScheduleRow]:
        """Create schedules, all or none. They are validated already, and their jobs exist."""
        now = await self._store.time()
        new = [self._new(tenant, command, by, why, now) for command in requests]
        await self._store.insert_schedules(new)
        self._wake()
        self._notify([one.row.id for one in new])
        return [one.row for one in new]

    async def find(self, tenant: str | None, reference: str) -> ScheduleRow:
        """Return a schedule by id, or by name in a tenant. Raises NotFound, also for a deleted one."""
        row = await self._store.find_schedule(tenant, reference)
        if row is None or row.deleted_at is not None:
            raise NotFound(f"there is no schedule {reference[:200]!a}")
        return row

    async def change(
        self,
        id: str,
        spec: ScheduleSpec,
        *,
        by: str,
        why: str = "",
        version: int | None = None,
        audit: AuditEntry | None = None,
    ) -> ScheduleRow:
        """Replace the definition of a schedule; an equal one changes nothing.

        Past windows are not fired for it. Raises Outdated if `version` is given and is not the current one.
        """
        row = await self.find(None, id)
        if msgspec.json.encode(spec).decode() != row.spec:
            await self._check(row.tenant, spec, await self._store.time(), row.pool)
        decision = await self._evaluate(
            id, partial(rules.change, spec=spec, by=by, why=why, version=version), audit, unreadable=True
        )
        self._wake()
        return decision.schedule

    async def pause(self, id: str, *, by: str, why: str = "", audit: AuditEntry | None = None) -> ScheduleRow:
        """Pause a schedule until `resume`: no new windows, no start of waiting ones. Active runs continue."""
        decision = await self._evaluate(id, partial(rules.pause, by=by, why=why), audit)
        return decision.schedule

    async def resume(self, id: str, *, by: str, why: str = "", audit: AuditEntry | None = None) -> ScheduleRow:
        """Resume a schedule after a pause, or after too many failures. Windows in between are skipped.

        Raises Conflict if its definition disables it.
        """
        decision = await self._evaluate(id, partial(rules.resume, by=by, why=why), audit)
        self._wake()
        return decision.schedule

    async def delete(
        self, id: str, *, by: str, why: str = "", version: int | None = None, audit: AuditEntry | None = None
    ) -> ScheduleRow:
        """Delete a schedule. Its history stays readable; active runs continue. Raises Outdated like `change`."""
        decision = await self._evaluate(
            id, partial(rules.delete, by=by, why=why, version=version), audit, unreadable=True
        )
        return decision.schedule

    async def trigger(
        self, id: str, command: TriggerCommand, audit: AuditEntry | None = None, key: IdempotencyKey | None = None
    ) -> Triggered:
        """Run a schedule now, or for a past window (again), even if other runs are active or it is paused or disabled.

        The returned fire has the run's id.
        """
        window_at = None if command.window_at is None else rules.check_window(command.window_at)
        for _ in range(_MAX_ATTEMPTS):
            row = await self.find(None, id)
            past = [] if window_at is None else await self._past(id, window_at, window_at + INSTANT)
            command = msgspec.structs.replace(command, window_at=window_at, past=tuple(past))
            decide = partial(rules.trigger_now, context=self._context, command=command, read=rules.version_of(row))
            evaluated = await self._evaluate_with_key(id, decide, audit, key)
            if evaluated.replayed_ids:
                return await self._replay_trigger(evaluated.replayed_ids[-1])
            for decision in evaluated.decisions:
                fire = next(fire for fire in reversed(decision.fires) if fire.run_id == decision.runs[-1].id)
                return Triggered(fire=fire)
        raise _busy()

    async def plan_backfill(self, id: str, command: BackfillCommand) -> Backfill:
        """Return the effect of a backfill: a dry run."""
        rules.check_backfill(command)
        row = await self.find(None, id)
        past = await self._past(id, command.since, command.before)
        return plan_backfill(_SPECS.decode(row.spec), command, past, await self._store.time())

    async def backfill(
        self, id: str, command: BackfillCommand, audit: AuditEntry | None = None, key: IdempotencyKey | None = None
    ) -> Backfilled:
        """Run past windows, `max_parallel` of them at a time."""
        rules.check_backfill(command)
        for _ in range(_MAX_ATTEMPTS):
            row = await self.find(None, id)
            backfilled = await self._try_backfill(row, command, audit, key)
            if backfilled is not None:
                return backfilled
        raise _busy()

    async def _try_backfill(
        self, row: ScheduleRow, command: BackfillCommand, audit: AuditEntry | None, key: IdempotencyKey | None
    ) -> Backfilled | None:
        """Start a backfill; None if the schedule has changed since it was read."""
        past = await self._past(row.id, command.since, command.before)
        backfill_id = new_id("backfill", await self._store.time(), self._random)
        planned: Backfill | None = None

        def decide(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
            nonlocal planned
            read = rules.version_of(row)
            decisions, planned = rules.backfill(
                evaluation_batch, self._context, command, past, id=backfill_id, read=read
            )
            return decisions

        evaluated = await self._evaluate_with_key(row.id, decide, audit, key)
        if evaluated.replayed_ids:
            return await self._replay_backfill(row, command, evaluated.replayed_ids[-1])
        if planned is None or not evaluated.decisions:
            return None
        return Backfilled(row=evaluated.decisions[0].backfills[0], planned=planned)

    async def receive_events(
        self, tenant: str, events: Sequence[EventRow], audit: AuditEntry | None = None
    ) -> list[bool]:
        """Record events and fire the schedules that wait for them; return for each event whether it was new (TRG-7)."""
        decide = isolate_failures(receive_events, self._context)
        decided: list[str] = []

        def note(evaluation_batch: EvaluationBatch) -> Sequence[ScheduleDecision]:
            decisions = decide(evaluation_batch)
            decided[:] = [decision.schedule.id for decision in decisions]
            return decisions

        fresh = await self._store.receive_events(tenant, events, note, audit)
        self._notify(decided)
        return fresh

    async def upcoming(self, tenant: str | None, until: datetime, limit: int) -> list[Upcoming]:
        """Return the next windows before `until`, of all schedules or of a tenant, soonest first."""
        limit = min(limit, MAX_UPCOMING)
        rows = await self._store.next_schedules(tenant, until, limit)
        merged = heapq.merge(*(_windows(row, until, limit) for row in rows), key=lambda one: one.window_at)
        return [one for one, _ in zip(merged, range(limit), strict=False)]

    def _new(self, tenant: str, command: NewScheduleRequest, by: str, why: str, now: datetime) -> NewSchedule:
        since = None if command.since is None else rules.check_since(command.since, now)
        row, change = rules.new_schedule(
            new_id("sched", now, self._random),
            tenant,
            command.spec,
            pool=command.pool or self._pool,
            by=by,
            why=why,
            now=now,
            since=since,
            paused=command.paused,
        )
        audit = None if command.audit is None else msgspec.structs.replace(command.audit, object=row.id)
        return NewSchedule(row=row, change=change, audit=audit)

    async def _check(self, tenant: str, spec: ScheduleSpec, now: datetime, pool: str) -> str:
        """Validate a definition and return the pool of its runs. Raises Refused."""
        faults = check_schedule(spec, now, self._limits)
        job = None if faults else await self._store.find_job(tenant, spec.job)
        if job is not None:
            place = self._context.admit(
                ScheduledRunRequest(tenant=tenant, pool=pool, job=job, priority=spec.priority, at=now)
            )
            pool = place.pool
            faults += place.faults
        elif not faults:
            faults.append(Fault(where="job", why=f"there is no job {spec.job[:200]!a}"))
        if faults:
            raise refusal("the schedule has", faults)
        return pool

    async def _evaluate(
        self, id: str, step: Callable[[Evaluation], None], audit: AuditEntry | None, *, unreadable: bool = False
    ) -> ScheduleDecision:
        decide = partial(evaluate_each, context=self._context, step=step, unreadable=unreadable)
        evaluated = await self._evaluate_with_key(id, decide, audit)
        if not evaluated.decisions:
            raise Broken(f"no decision about {id}")
        return evaluated.decisions[0]

    async def _evaluate_with_key(
        self, id: str, decide: Decide, audit: AuditEntry | None, key: IdempotencyKey | None = None
    ) -> EvaluationResult:
        """Evaluate one schedule; no decision means that it changed since it was read. Raises NotFound."""
        evaluated = await self._store.evaluate_schedules([id], decide, audit, key)
        if not evaluated.schedules:
            raise NotFound(f"there is no schedule {id[:200]!a}")
        self._notify([decision.schedule.id for decision in evaluated.decisions])
        return evaluated

    def _notify(self, schedules: Sequence[str]) -> None:
        if schedules:
            self._on_decided(schedules)

    async def _replay_trigger(self, run_id: str) -> Triggered:
        for fire in await self._store.fires_of_runs([run_id]):
            return Triggered(fire=fire, is_replay=True)
        raise Conflict(f"this idempotency key belongs to the old run {run_id}")

    async def _replay_backfill(self, row: ScheduleRow, command: BackfillCommand, backfill_id: str) -> Backfilled:
        """Rebuild the first answer to a backfill request: plan it again with the fires known at that time."""
        kept = await self._store.backfills(row.id, _MAX_PAST_BACKFILLS)
        first = next((one for one in kept if one.id == backfill_id), None)
        if first is None:
            raise Conflict(f"this idempotency key belongs to the old backfill {backfill_id}")
        past = [
            fire
            for fire in await self._past(row.id, command.since, command.before)
            if fire.backfill_id != backfill_id and fire.decided_at <= first.created_at
        ]
        planned = plan_backfill(_SPECS.decode(row.spec), command, past, first.created_at)
        return Backfilled(row=first, planned=planned, is_replay=True)

    async def _past(self, id: str, since: datetime, before: datetime) -> list[FireRow]:
        wanted = FireFilter(schedule_id=id, since=max(since, EPOCH), before=max(before, EPOCH))
        fires = await self._store.fires(wanted, _MAX_PAST_FIRES)
        if len(fires) >= _MAX_PAST_FIRES:
            raise Refused(
                "the range is too long", [Fault(where="since", why="too many fires in the range; choose a shorter one")]
            )
        return fires


def _windows(row: ScheduleRow, until: datetime, limit: int) -> list[Upcoming]:
    windows = upcoming(_SPECS.decode(row.spec), row.planned_through, limit)
    return [Upcoming(window_at=window, schedule=row) for window in windows if window < until]


def _busy() -> Conflict:
    return Conflict("the schedule keeps changing; retry")
