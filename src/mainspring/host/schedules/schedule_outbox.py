"""Outbox receivers of schedules.

    run.ended     record the ends of runs on their fires, then evaluate the schedules that wait for them
    run.cancel    cancel a run that is to be replaced by the next: a request to its leader
    file.look     probe a file that a window depends on through a worker of the pool, then evaluate the window

All are idempotent: a recorded end stays recorded, and an outdated file probe is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec
import structlog

from mainspring.core.model.batch import Outgoing
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import EndedRun
from mainspring.core.schedules import evaluate
from mainspring.core.schedules.evaluate import Ended, Looked
from mainspring.core.schedules.evaluation import CANCEL_RUN, LOOK_FOR_FILE, CancelWish, FileWish
from mainspring.host.leader_client import Reach
from mainspring.host.outbox.delivery import GroupReceiver, Receiver
from mainspring.host.schedules.evaluator import Settler
from mainspring.protocol.errors import Broken
from mainspring.shard.events import CancelRun
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.schedules import FireFilter, Schedules

log = structlog.get_logger()

RUN_ENDED = "run.ended"
ASIDE = frozenset({CANCEL_RUN, LOOK_FOR_FILE})
"""Kinds whose receivers wait for leaders or workers; they are delivered concurrently."""
UNNOTED_AFTER = timedelta(minutes=2)
"""After this time, an end that the outbox has not delivered counts as lost."""
AT_ONCE = 200
_MOST_GENERATIONS = 1_000
_INSTANT = timedelta(microseconds=1)


class _RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The message of a shard that a run ended (`shard/turn.py`)."""

    run: str
    state: RunState


_RUN_ENDED = msgspec.json.Decoder(_RunEnded)


class Noted(Schedules, Protocol):
    """The parts of the store that these receivers use."""

    async def find_run(self, run_id: str) -> ListedRun | None:
        """Return a run, active or in history."""
        ...


class FireNews:
    """The outbox receivers of schedules."""

    def __init__(self, store: Noted, settler: Settler, reach: Callable[[], Reach]) -> None:
        self._store = store
        self._settler = settler
        self._reach = reach

    def receivers(self) -> Mapping[str, Receiver]:
        """Return the receivers by outbox kind."""
        return {CANCEL_RUN: self.cancel_run, LOOK_FOR_FILE: self.look_for_file}

    def receivers_together(self) -> Mapping[str, GroupReceiver]:
        """Return the group receivers by outbox kind."""
        return {RUN_ENDED: self.runs_ended}

    async def runs_ended(self, rows: Sequence[Outgoing]) -> None:
        """Record the ends of runs, and evaluate the schedules that created them."""
        said = [(_RUN_ENDED.decode(row.payload), row.created_at) for row in rows]
        await self._note([EndedRun(run_id=one.run, state=one.state, ended_at=at) for one, at in said])

    async def catch_up(self, now: datetime) -> int:
        """Record missed ends, which a database failover may have lost; return their number."""
        ended = await self._store.unnoted_ends(now - UNNOTED_AFTER, AT_ONCE)
        if ended:
            log.warning("schedules.unnoted_ends", runs=len(ended))
            try:
                await self._note(ended)
            except Broken:
                for one in ended:
                    await self._note_readable(one)
        return len(ended)

    async def _note_readable(self, ended: EndedRun) -> None:
        """Record one end; skip it if its fire is unreadable, so that the others are recorded."""
        try:
            await self._note([ended])
        except Broken as fault:
            log.warning("schedule.end_unreadable", run=ended.run_id, fault=str(fault))

    async def _note(self, ended: Sequence[EndedRun]) -> None:
        news = {one.run_id: one for one in ended}
        ends: dict[str, list[Ended]] = {}
        for fire in await self._store.fires_of_runs(list(news)):
            run = news[fire.run_id or ""]
            ends.setdefault(fire.schedule_id, []).append(Ended(fire=fire, state=run.state, at=run.ended_at))
        for of_one in ends.values():
            of_one.sort(key=lambda ended: ended.at)
        decisions = await self._settler.settle(
            list(ends),
            lambda docket, context: evaluate.note_ends(docket, context, ends),
            lambda docket, fault: evaluate.note_ends_aside(docket, fault, ends),
            is_news=True,
        )
        jobs = {(decision.schedule.tenant, decision.schedule.job) for decision in decisions}
        if jobs:
            await self._settler.settle(await self._store.schedules_after(jobs), evaluate.settle_waiting)

    async def cancel_run(self, row: Outgoing) -> None:
        """Cancel a run. A run that has ended or does not exist is fine."""
        wish = msgspec.json.decode(row.payload, type=CancelWish)
        act = CancelRun(run_id=wish.run, by="schedule", why=wish.why)
        found = await self._store.find_run(wish.run)
        answered = await self._reach().ask(wish.shard if found is None else found.run.shard, act)
        log.info("schedule.cancelled_run", run=wish.run, reply=answered.reply)

    async def look_for_file(self, row: Outgoing) -> None:
        """Probe a file for a window. Raises Unavailable without an answer: the outbox retries."""
        wish = msgspec.json.decode(row.payload, type=FileWish)
        wanted = FireFilter(schedule_id=wish.schedule, since=wish.window_at, before=wish.window_at + _INSTANT)
        fires = await self._store.fires(wanted, _MOST_GENERATIONS)
        if not any(fire.generation == wish.generation and fire.asked_at == wish.asked_at for fire in fires):
            return
        exists = await self._reach().look(wish.pool, wish.path)
        looked = Looked(key=(wish.window_at, wish.generation), asked_at=wish.asked_at, exists=exists)
        await self._settler.settle([wish.schedule], lambda docket, context: evaluate.note_file(docket, context, looked))
