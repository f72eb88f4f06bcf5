"""Schedules on one store: actions on them, and servers that fire them.

table = Timetable(hall)
await table.job("etl")
row = await table.schedule(IntervalTrigger(every_seconds=10))
table.start()                    a server fires, and delivers the outbox
await hall.wait(25)
table.reported(row)                  the outcome of each window, oldest first
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec

from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.job import JobRow, JobSpec, TaskSpec
from mainspring.core.model.run import RunState
from mainspring.core.model.schedule_rows import FireRow, ScheduleRow
from mainspring.core.schedules.evaluation import Context
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import Trigger
from mainspring.core.schedules.windows import Outcome
from mainspring.host.leader_client import LocalLeaderClient
from mainspring.host.outbox.delivery import OutboxDelivery
from mainspring.host.outbox.run_ended import RUN_ENDED
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_actions import NewScheduleRequest, ScheduleActions
from mainspring.host.schedules.schedule_outbox import CONCURRENT_KINDS, ScheduleOutbox
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import ActionRequest
from mainspring.store.ports.schedules import FireFilter
from tests.host.host_harness import SHARD, HostHarness

SECOND = timedelta(seconds=1)
_MOST = 10_000


class _FirstHost:
    """Reaches the leaders of the host `h1`, once it is started."""

    def __init__(self, harness: HostHarness) -> None:
        self._harness = harness

    async def ask(self, shard: str, action: ActionRequest) -> ActionReply:
        return await LocalLeaderClient(self._harness.hosts["h1"]).ask(shard, action)

    async def probe_file(self, shard: str, path: str) -> bool:
        return await LocalLeaderClient(self._harness.hosts["h1"]).probe_file(shard, path)


class ScheduleHarness:
    """The schedules of a store, for tests."""

    def __init__(self, harness: HostHarness, context: Context | None = None) -> None:
        self._hall = harness
        context = context or make_context()
        self.decided: list[str] = []
        """Schedules with decisions, in order."""
        self.evaluator = ScheduleEvaluator(harness.store, context, self.decided.extend)
        self.triggers = TriggerLoop(harness.store, harness.clock, self.evaluator)
        self.schedule_actions = ScheduleActions(
            harness.store, context, pool=SHARD, wake=self.triggers.wake, on_decided=self.decided.extend
        )
        self.schedule_outbox = ScheduleOutbox(harness.store, self.evaluator, _FirstHost(harness))
        self.alerts: list[str] = []
        """Alerts sent: the kind, with a mark if resolved."""
        self._running: list[asyncio.Task[None]] = []

    # actions

    async def job(self, name: str = "etl") -> None:
        """Create a job with one task."""
        spec = JobSpec(name=name, tasks=(TaskSpec(name="a"),))
        definition = msgspec.json.encode(spec).decode()
        await self._hall.store.insert_job(
            JobRow(id=f"job_{name}", tenant="acme", name=name, version=0, definition=definition)
        )

    async def schedule(self, trigger: Trigger, name: str = "often", **fields: object) -> ScheduleRow:
        """A schedule definition with defaults."""
        spec = msgspec.structs.replace(ScheduleSpec(name=name, job="etl", trigger=trigger), **fields)
        return await self.schedule_actions.create("acme", NewScheduleRequest(spec=spec), by="ann")

    # servers

    def start(self, *, outbox: bool = True) -> asyncio.Task[None]:
        """Start a server that fires and, by default, delivers the outbox."""
        firing = asyncio.create_task(self.triggers.run())
        self._running.append(firing)
        if outbox:
            receivers = {**self.schedule_outbox.receivers(), "alert": self._alert}
            delivery = OutboxDelivery(
                self._hall.store,
                self._hall.clock,
                "h1",
                receivers,
                CONCURRENT_KINDS,
                self.schedule_outbox.group_receivers(),
            )
            self._running.append(asyncio.create_task(delivery.run()))
        return firing

    async def end(self, fire: FireRow, state: RunState) -> None:
        """Deliver the end of a run through the outbox."""
        payload = msgspec.json.encode({"run": fire.run_id, "state": state, "generation": 1}).decode()
        now = self._hall.clock.wall()
        await self.schedule_outbox.runs_ended(
            [OutboxRow(id=f"{fire.run_id}:ended", key="k", kind=RUN_ENDED, payload=payload, created_at=now)]
        )

    async def close(self) -> None:
        """Stop everything."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _alert(self, row: OutboxRow) -> None:
        alert = msgspec.json.decode(row.payload)
        self.alerts.append(f"{alert['kind']}{' over' if alert.get('resolved') else ''}")

    # rows

    async def fires(self, schedule: ScheduleRow) -> list[FireRow]:
        """Return the fires of a schedule, oldest first."""
        found = await self._hall.store.fires(FireFilter(schedule_id=schedule.id), _MOST)
        return found[::-1]

    async def outcomes(self, schedule: ScheduleRow) -> list[Outcome]:
        """Return their outcomes."""
        return [fire.outcome for fire in await self.fires(schedule)]

    async def row(self, schedule: ScheduleRow) -> ScheduleRow:
        """Return the current row of a schedule."""
        row = await self._hall.store.find_schedule(None, schedule.id)
        assert row is not None
        return row

    def windows_run(self) -> list[tuple[object, ...]]:
        """Return schedule and window of every run."""
        return self._hall.rows("SELECT schedule_id, window_at FROM runs WHERE schedule_id IS NOT NULL")

    def now(self) -> datetime:
        """Return the store's time."""
        return self._hall.clock.wall()
