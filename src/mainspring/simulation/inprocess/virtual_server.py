"""A virtual server for tests: jobs, their schedules, and a clock that the test advances."""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import AsyncExitStack, ExitStack
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from mainspring.client.results import RunResult
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import next_window
from mainspring.core.text.durations import parse_seconds
from mainspring.dsl.job import Job
from mainspring.host.leader_client import LocalLeaderClient
from mainspring.host.outbox.alert_episodes import Alerting
from mainspring.host.outbox.delivery import OutboxDelivery
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_actions import NewScheduleRequest, ScheduleActions
from mainspring.host.schedules.schedule_outbox import CONCURRENT_KINDS, ScheduleOutbox
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.protocol.errors import Refused
from mainspring.simulation.inprocess.in_process_engine import POOL, TENANT, LocalEngine, quiet
from mainspring.simulation.inprocess.run_job import idle_seconds
from mainspring.simulation.inprocess.virtual_time import START, VirtualClock, VirtualLoop
from mainspring.store.ports.front import RunFilter

_MAX_RUNS = 1_000
_MOMENT_SECONDS = 0.1
T = TypeVar("T")


class World:
    """Jobs and their schedules in virtual time. A context manager; not usable inside a running loop."""

    def __init__(self, *jobs: Job[..., Any], start: datetime = START) -> None:
        self._given = jobs
        self._loop = VirtualLoop()
        self._clock = VirtualClock(start, self._loop)
        self._stack = ExitStack()
        self._running = AsyncExitStack()
        self._specs: list[ScheduleSpec] = []
        self._until = 0.0
        self._engine: LocalEngine | None = None

    def __enter__(self) -> Self:
        self._stack.enter_context(quiet())
        self._stack.callback(self._loop.close)
        self._run(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._running.aclose())
        finally:
            self._stack.close()

    @property
    def now(self) -> datetime:
        """The current virtual time."""
        return self._clock.wall()

    def advance(self, length: str | float) -> None:
        """Advance the clock: everything due happens, with a moment more for what is due at the end."""
        seconds = parse_seconds(length) + _MOMENT_SECONDS
        self._until = self._clock.monotonic() + seconds
        self._run(self._clock.sleep(seconds))

    def run(self, job: Job[..., Any], /, *args: object, **params: Any) -> RunResult:
        """Start a run, and advance the clock until it has ended."""
        return self._run(self._known(job).run(job, job.bind(args, params)))

    def runs(self, job: Job[..., Any]) -> list[RunResult]:
        """Results of all runs of a job, oldest first."""
        return self._run(self._results(job))

    async def _start(self) -> None:
        engine = LocalEngine(self._given, self._clock, self._loop.count_threads)
        self._engine = await self._running.enter_async_context(engine.running())
        self._loop.set_idle_estimate(self._idle_seconds)
        context = make_context()
        evaluator = ScheduleEvaluator(engine.store, context)
        triggers = TriggerLoop(engine.store, self._clock, evaluator)
        schedule_outbox = ScheduleOutbox(engine.store, evaluator, LocalLeaderClient(engine.host))
        receivers = {**Alerting(engine.store).receivers(), **schedule_outbox.receivers()}
        outbox = OutboxDelivery(
            engine.store,
            self._clock,
            "local",
            receivers,
            concurrent_kinds=CONCURRENT_KINDS,
            group_receivers=schedule_outbox.group_receivers(),
        )
        schedule_actions = ScheduleActions(engine.store, context, pool=POOL)
        for job in self._given:
            await engine.keep(job)
        for job in self._given:
            definition = job.schedule_definition()
            if definition is not None and job.schedule is not None:
                spec = job.schedule.spec(definition)
                await schedule_actions.create(job.tenant or TENANT, NewScheduleRequest(spec=spec), by="test")
                self._specs.append(spec)
        loops = {"triggers": triggers.run, "outbox": outbox.run}
        await self._running.enter_async_context(engine.host.background.running(loops))

    async def _results(self, job: Job[..., Any]) -> list[RunResult]:
        engine = self._known(job)
        wanted = RunFilter(tenant=job.tenant or TENANT, job=job.name)
        found = await engine.store.list_runs(wanted, limit=_MAX_RUNS)
        runs = sorted((one.run for one in found), key=lambda run: run.created_at)
        return [await engine.result(job, run.id) for run in runs]

    def _known(self, job: Job[..., Any]) -> LocalEngine:
        if self._engine is None or job not in self._given:
            raise Refused(
                f"{job.name} is not part of this World: create it as World({job.name}), and use it in a `with` block"
            )
        return self._engine

    def _idle_seconds(self) -> float | None:
        """Seconds in which nothing happens: until a retry, the next window, or the end of `advance`."""
        if self._engine is None:
            return None
        now = self._clock.wall()
        windows = [next_window(spec.trigger, now) for spec in self._specs]
        waits = [(window - now).total_seconds() for window in windows if window is not None]
        waits += [self._until - self._clock.monotonic(), idle_seconds(self._engine, self._loop) or 0.0]
        return min((wait for wait in waits if wait > 0), default=None)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)
