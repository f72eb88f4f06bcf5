"""Outbox receivers of schedules.

    run.ended     record the ends of runs on their fires, then evaluate the schedules that wait for them
    run.cancel    cancel a run that is to be replaced by the next: a request to its leader
    file.probe     probe a file that a window depends on through a worker of the pool, then evaluate the window

All are idempotent: a recorded end stays recorded, and an outdated file probe is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
import structlog

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EndedRun
from mainspring.core.schedules import evaluate
from mainspring.core.schedules.evaluate import Ended, FileProbeResult
from mainspring.core.schedules.evaluation import CANCEL_RUN, PROBE_FILE, CancelRunRequest, FileProbeRequest
from mainspring.core.schedules.time_zones import INSTANT
from mainspring.host.leader_client import LeaderClient
from mainspring.host.outbox.delivery import GroupReceiver, Receiver
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.protocol.errors import Broken
from mainspring.shard.events import CancelRun
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.schedules import FireFilter, Schedules

log = structlog.get_logger()

RUN_ENDED = "run.ended"
CONCURRENT_KINDS = frozenset({CANCEL_RUN, PROBE_FILE})
"""Kinds whose receivers wait for leaders or workers; they are delivered concurrently."""
MISSED_AFTER = timedelta(minutes=2)
"""After this time, an end that the outbox has not delivered counts as lost."""
MAX_PER_PASS = 200
_MAX_GENERATIONS = 1_000


class _RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The message of a shard that a run ended (`shard/turn.py`)."""

    run: str
    state: RunState


_RUN_ENDED = msgspec.json.Decoder(_RunEnded)


class ScheduleRunStore(Schedules, Protocol):
    """The parts of the store that these receivers use."""

    async def find_run(self, run_id: str) -> ListedRun | None:
        """Return a run, active or in history."""
        ...


class ScheduleOutbox:
    """The outbox receivers of schedules."""

    def __init__(
        self, store: ScheduleRunStore, evaluator: ScheduleEvaluator, leader_client: Callable[[], LeaderClient]
    ) -> None:
        self._store = store
        self._evaluator = evaluator
        self._leader_client = leader_client

    def receivers(self) -> Mapping[str, Receiver]:
        """Return the receivers by outbox kind."""
        return {CANCEL_RUN: self.cancel_run, PROBE_FILE: self.probe_file}

    def group_receivers(self) -> Mapping[str, GroupReceiver]:
        """Return the group receivers by outbox kind."""
        return {RUN_ENDED: self.runs_ended}

    async def runs_ended(self, rows: Sequence[OutboxRow]) -> None:
        """Record the ends of runs, and evaluate the schedules that created them."""
        ended_runs = [(_RUN_ENDED.decode(row.payload), row.created_at) for row in rows]
        await self._record_ends([EndedRun(run_id=one.run, state=one.state, ended_at=at) for one, at in ended_runs])

    async def catch_up(self, now: datetime) -> int:
        """Record missed ends, which a database failover may have lost; return their number."""
        ended = await self._store.unprocessed_run_ends(now - MISSED_AFTER, MAX_PER_PASS)
        if ended:
            log.warning("schedules.unprocessed_run_ends", runs=len(ended))
            try:
                await self._record_ends(ended)
            except Broken:
                for one in ended:
                    await self._record_end(one)
        return len(ended)

    async def _record_end(self, ended: EndedRun) -> None:
        """Record one end; skip it if its fire is unreadable, so that the others are recorded."""
        try:
            await self._record_ends([ended])
        except Broken as fault:
            log.warning("schedule.end_unreadable", run=ended.run_id, fault=str(fault))

    async def _record_ends(self, ended: Sequence[EndedRun]) -> None:
        ends_by_run = {one.run_id: one for one in ended}
        ends: dict[str, list[Ended]] = {}
        for fire in await self._store.fires_of_runs(list(ends_by_run)):
            run = ends_by_run[fire.run_id or ""]
            ends.setdefault(fire.schedule_id, []).append(Ended(fire=fire, state=run.state, at=run.ended_at))
        for of_one in ends.values():
            of_one.sort(key=lambda ended: ended.at)
        decisions = await self._evaluator.evaluate_schedules(
            list(ends),
            lambda evaluation_batch, context: evaluate.record_run_ends(evaluation_batch, context, ends),
            lambda evaluation_batch, fault: evaluate.record_run_ends_only(evaluation_batch, fault, ends),
            may_be_stale=True,
        )
        jobs = {(decision.schedule.tenant, decision.schedule.job) for decision in decisions}
        if jobs:
            await self._evaluator.evaluate_schedules(await self._store.schedules_after(jobs), evaluate.evaluate_waiting)

    async def cancel_run(self, row: OutboxRow) -> None:
        """Cancel a run. A run that has ended or does not exist is fine."""
        request = msgspec.json.decode(row.payload, type=CancelRunRequest)
        action = CancelRun(run_id=request.run, by="schedule", why=request.why)
        found = await self._store.find_run(request.run)
        answered = await self._leader_client().ask(request.shard if found is None else found.run.shard, action)
        log.info("schedule.cancelled_run", run=request.run, reply=answered.reply)

    async def probe_file(self, row: OutboxRow) -> None:
        """Probe a file for a window. Raises Unavailable without an answer: the outbox retries."""
        request = msgspec.json.decode(row.payload, type=FileProbeRequest)
        wanted = FireFilter(schedule_id=request.schedule, since=request.window_at, before=request.window_at + INSTANT)
        fires = await self._store.fires(wanted, _MAX_GENERATIONS)
        if not any(fire.generation == request.generation and fire.asked_at == request.asked_at for fire in fires):
            return
        exists = await self._leader_client().probe_file(request.pool, request.path)
        looked = FileProbeResult(key=(request.window_at, request.generation), asked_at=request.asked_at, exists=exists)
        await self._evaluator.evaluate_schedules(
            [request.schedule],
            lambda evaluation_batch, context: evaluate.record_file_probe(evaluation_batch, context, looked),
        )
