"""Schedule operators: create, pause, resume, trigger and backfill schedules, and send events, some twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import EventRow, ScheduleRow
from mainspring.core.schedules.backfill import BackfillCommand
from mainspring.core.schedules.schedule_actions import TriggerCommand
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import ManualTrigger
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_actions import NewScheduleRequest, ScheduleActions
from mainspring.host.schedules.schedule_outbox import MISSED_AFTER, ScheduleOutbox
from mainspring.protocol.errors import MainspringError, Unavailable
from mainspring.store.ports.store import Store
from tests.sim.leader_client import SimLeaderClient
from tests.sim.schedules import EVENT_TYPES, add_computed, draw_schedule
from tests.sim.server import SHARD
from tests.sim.store import HostStore

if TYPE_CHECKING:
    from tests.sim.world import World

LAST_WINDOWS_AFTER = 40.0
"""How long schedules still fire after the faults. Then nothing more is planned, so that everything can end."""
_Call = Callable[[], Coroutine[Any, Any, object]]
_ACTS = ("pause", "pause", "resume", "resume", "trigger", "trigger_past", "backfill", "delete")


class Planner:
    """Executes actions on schedules at random times."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._random = Random(f"planner:{world.mix.seed}")
        self._store = cast("Store", HostStore(world, "planner"))
        self._book = ScheduleActions(self._store, make_context(), pool=SHARD)
        self._jobs: dict[str, list[str]] = {}
        """Names of the jobs that have a schedule, by tenant."""
        self._acted = 0

    async def run(self) -> None:
        """Follow the mix: first some schedules, then actions and events between them."""
        random, mix = self._random, self._world.mix
        if not mix.schedules:
            return
        end = mix.chaos_seconds
        wanted = [(self._create, 1.0, end * 0.4)] * mix.schedules
        wanted += [(self._act, 20.0, end)] * mix.schedule_acts + [(self._send, 20.0, end)] * mix.events
        calls = [(random.uniform(first, last), call) for call, first, last in wanted]
        calls.sort(key=lambda call: call[0])
        for at, call in calls:
            await asyncio.sleep(max(0.0, at - self._world.loop.now))
            self._world.loop.create_task(call())

    def resolve_faults(self) -> None:
        """Resume what is paused; near the end, plan nothing new."""
        loop, model = self._world.loop, self._world.checker.model
        closing = loop.now >= self._world.calm_at + LAST_WINDOWS_AFTER
        long_over = self._world.store_clock.wall() - MISSED_AFTER
        if any(run.ended_at is not None and run.ended_at < long_over for run in self._unheard()):
            loop.create_task(self._catch_up())
        for row in list(model.schedules.values()):
            if row.deleted_at is not None:
                continue
            if not row.enabled or row.paused:
                loop.create_task(self._try("resume", row, partial(self._book.resume, row.id, by="person:mender")))
            elif closing and not isinstance(_spec(row).trigger, ManualTrigger):
                spec = msgspec.structs.replace(_spec(row), trigger=ManualTrigger(), after=None, max_active=10)
                loop.create_task(self._try("retire", row, partial(self._book.change, row.id, spec, by="person:mender")))

    def is_over(self) -> bool:
        """Whether nothing more is planned, nothing is paused, and every end of a run is recorded."""
        model = self._world.checker.model
        rows = [row for row in model.schedules.values() if row.deleted_at is None]
        return next(self._unheard(), None) is None and all(
            isinstance(_spec(row).trigger, ManualTrigger)
            and row.enabled
            and not row.paused
            and not row.has_waiting_windows
            for row in rows
        )

    def _unheard(self) -> Iterator[Run]:
        """Runs of existing schedules whose ends are not recorded."""
        model = self._world.checker.model
        for row in model.schedules.values():
            if row.deleted_at is None:
                for fire in model.fires[row.id].values():
                    if fire.run_id in model.runs and fire.run_ended_at is None:
                        yield model.runs[fire.run_id]

    async def _catch_up(self) -> None:
        """The sweep that finds unrecorded ends; servers have it too, here it runs when needed."""
        evaluator = ScheduleEvaluator(self._store, make_context())
        schedule_outbox = ScheduleOutbox(self._store, evaluator, SimLeaderClient(self._world))
        try:
            await schedule_outbox.catch_up(await self._store.time())
        except Unavailable:
            return

    async def _create(self) -> None:
        random, world = self._random, self._world
        self._acted += 1
        tenant = f"tenant{random.randrange(world.mix.tenants)}"
        others = self._jobs.setdefault(tenant, [])
        job = await world.client.define_timed(self._acted, tenant)
        spec = draw_schedule(random, f"schedule{self._acted}", job, list(others), world.store_clock.wall())
        others.append(job)
        more = Random(f"windows of before:{world.mix.seed}:{self._acted}")
        if more.random() < world.mix.computed:
            spec = add_computed(spec)
        since = None
        if more.random() < world.mix.since:
            since = world.store_clock.wall() - timedelta(seconds=more.uniform(5.0, 300.0))
            world.checker.ever.since[tenant, spec.name] = since
        while not world.is_calm():
            try:
                row = await self._book.create(tenant, NewScheduleRequest(spec=spec, since=since), by="person:planner")
            except Unavailable:
                await asyncio.sleep(random.uniform(0.2, 2.0))
            except MainspringError as fault:
                world.trace.note("schedule.refused", f"{spec.name} {fault!r}")
                return
            else:
                world.trace.note("schedule.created", f"{row.id} {row.spec}")
                return

    async def _act(self) -> None:
        random, world = self._random, self._world
        rows = [row for row in world.checker.model.schedules.values() if row.deleted_at is None]
        if not rows:
            return
        self._acted += 1
        row, action, by, schedule_actions = (
            random.choice(rows),
            random.choice(_ACTS),
            f"person:{self._acted}",
            self._book,
        )
        now = world.store_clock.wall()
        since = now - timedelta(seconds=random.uniform(10.0, 90.0))
        match action:
            case "pause":
                call: _Call = partial(schedule_actions.pause, row.id, by=by)
            case "resume":
                call = partial(schedule_actions.resume, row.id, by=by)
            case "trigger":
                call = partial(schedule_actions.trigger, row.id, TriggerCommand(by=by))
            case "trigger_past":
                fires = list(world.checker.model.fires[row.id].values())
                window_at = random.choice(fires).window_at if fires else None
                call = partial(schedule_actions.trigger, row.id, TriggerCommand(by=by, window_at=window_at))
            case "backfill":
                request = BackfillCommand(
                    since=since, before=now, max_parallel=random.choice((1, 2)), again=random.random() < 0.3, by=by
                )  # fmt: skip
                call = partial(schedule_actions.backfill, row.id, request)
            case _:
                if random.random() < 0.8:
                    return
                call = partial(schedule_actions.delete, row.id, by=by)
        await self._try(action, row, call)

    async def _try(self, action: str, row: ScheduleRow, call: _Call) -> None:
        try:
            await call()
        except MainspringError as fault:
            self._world.trace.note("schedule.act", f"{action} {row.id} {fault.code}")
        else:
            self._world.trace.note("schedule.act", f"{action} {row.id}")

    async def _send(self) -> None:
        """Send some events in one request, repeated until there is a reply, and sometimes once more."""
        random, world = self._random, self._world
        self._acted += 1
        now = world.store_clock.wall()
        tenant = f"tenant{random.randrange(world.mix.tenants)}"
        rows = []
        for number in range(random.choice((1, 1, 2, 4))):
            name, kind = f"event{self._acted}.{number}", random.choice(EVENT_TYPES)
            document = {"specversion": "1.0", "id": name, "source": "/sim", "type": kind, "data": {"n": number}}
            rows.append(
                EventRow(
                    tenant=tenant, source="/sim", id=name, type=kind, at=now, received_at=now,
                    document=msgspec.json.encode(document).decode(),
                )
            )  # fmt: skip
        if random.random() < 0.3:
            rows.append(rows[0])
        again = random.random() < 0.3
        while not world.is_calm():
            try:
                new = await self._book.receive_events(tenant, rows)
            except Unavailable:
                await asyncio.sleep(random.uniform(0.2, 3.0))
                continue
            world.trace.note("events", f"{self._acted} {sum(new)} of {len(rows)} were new")
            if not again:
                return
            again = False
            await asyncio.sleep(random.uniform(0.0, 10.0))


def _spec(row: ScheduleRow) -> ScheduleSpec:
    return msgspec.json.decode(row.spec, type=ScheduleSpec)
