"""Wiring of the in-process engine: one host, a store in memory, and a worker that calls the functions of some jobs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from random import Random
from typing import Any

import msgspec
import structlog
from msgspec.structs import replace

from mainspring.client.results import RunResult, TaskResult
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority, Task
from mainspring.core.work.work import HANDLER_LABEL
from mainspring.dsl.job import Job
from mainspring.event_loop import start_task
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.wire import Offer
from mainspring.simulation.inprocess.worker import LocalWorker
from mainspring.store.sqlite.store import SqliteStore, inline

POOL = "default"
TENANT = "default"
LEASE = timedelta(days=36_500)
"""No other host competes for the lease, however far a virtual clock jumps."""
CORES = 32
"""Minimum number of one-core tasks that run at a time."""
_OFFER = Offer(CORES * 1_000, 2**52, 10**5, 2**60)


class LocalEngine:
    """A host and a worker around a store in memory."""

    def __init__(self, jobs: Sequence[Job[..., Any]], clock: Clock, on_threads: Callable[[int], None]) -> None:
        self.clock = clock
        self.store = SqliteStore.open(":memory:", clock=clock, run=inline)
        self.host = Host(self.store, clock, "local", draw_nonce=lambda: entropy() >> 1, lease=LEASE, on_lead=self._lead)
        self._job_ids: dict[str, str] = {}
        """Ids of stored jobs, by name."""
        self._random = Random(entropy())
        self._leading: asyncio.Future[Leader] = asyncio.get_running_loop().create_future()
        self._ended_events: dict[str, asyncio.Event] = {}
        functions = _functions_of(jobs)
        cores = max((task.resources.cpu_millis for job in jobs for task in job.recorded.spec.tasks), default=0)
        offer = replace(_OFFER, cpu_millis=max(_OFFER.cpu_millis, cores))
        self.worker = LocalWorker(
            functions, offer, {HANDLER_LABEL + name: "1" for name in functions}, clock, on_threads
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[LocalEngine]:
        """Run the engine for the duration of the block."""
        await self.store.ensure_shard(POOL)
        hosting = start_task(self.host.run(), "host")
        serving = start_task(self._serve(), "local_worker")
        try:
            yield self
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            self.host.stop()
            await asyncio.gather(hosting, return_exceptions=True)
            await self.store.close()

    async def keep(self, job: Job[..., Any]) -> str:
        """Store a job; return its id. Labels and zones of its tasks are ignored."""
        spec = job.recorded.spec
        anywhere = replace(spec, tasks=tuple(replace(task, labels={}, zone=None) for task in spec.tasks))
        now = await self.store.time()
        row = JobRow(
            id=new_id("job", now, self._random),
            tenant=job.tenant or TENANT,
            name=job.name,
            version=0,
            definition=msgspec.json.encode(anywhere).decode(),
        )
        kept = self._job_ids[job.name] = (await self.store.insert_job(row)).id
        return kept

    async def run(self, job: Job[..., Any], params: Mapping[str, Any]) -> RunResult:
        """Run a job until it has ended, or can't continue without a person."""
        kept = self._job_ids.get(job.name) or await self.keep(job)
        now = await self.store.time()
        run = Run(
            id=new_id("run", now, self._random),
            shard=POOL,
            tenant=job.tenant or TENANT,
            job_id=kept,
            priority=Priority[job.priority],
            params=msgspec.json.encode(params).decode(),
            task_count=len(job.recorded.spec.tasks),
            submitted_by="local",
            created_at=now,
            start_at=now,
        )
        ended = self._ended_events[run.id] = asyncio.Event()
        await self.store.insert_runs([run])
        await ended.wait()
        return await self.result(job, run.id)

    async def result(self, job: Job[..., Any], run_id: str) -> RunResult:
        """Return the result of a run."""
        run = await self.store.run(run_id)
        assert run is not None
        tasks = map(self._task_result, await self.store.tasks(run_id))
        return job.recorded.result(run.id, run.state.value, run.held or run.because, run.params, tasks)

    def seconds_to_retry(self) -> float | None:
        """Seconds until the next retry; None if none is pending."""
        if not self._leading.done():
            return None
        leader = self._leading.result()
        due = leader.shard.memory.timers.at.next_due()
        return None if due is None else due - leader.time.now().timestamp()

    def _task_result(self, task: Task) -> TaskResult:
        origin = task.origin
        return TaskResult(
            name=task.name,
            label=origin.label if origin is not None else "",
            partition=origin.index if origin is not None and origin.label else None,
            state=task.state.value,
            output=None if task.output is None else msgspec.json.decode(task.output),
            error=None if task.error is None else msgspec.json.decode(task.error),
            exception=self.worker.raised.get(task.id),
            attempts=task.attempt,
            because=task.because,
        )

    def _lead(self, leader: Leader) -> None:
        leader.add_listener(self._committed)
        if not self._leading.done():
            self._leading.set_result(leader)

    def _committed(self, batch: Batch, _seconds: float) -> None:
        for run in batch.runs:
            is_over = run.ended_at is not None or run.held is not None or run.state is RunState.PAUSED
            if is_over and run.id in self._ended_events:
                self._ended_events[run.id].set()

    async def _serve(self) -> None:
        await self.worker.serve(await self._leading)


def _functions_of(jobs: Sequence[Job[..., Any]]) -> dict[str, Callable[..., object]]:
    """The functions of all tasks by name. Raises Refused if two have the same name."""
    functions: dict[str, Callable[..., object]] = {}
    for job in jobs:
        for name, task in job.recorded.tasks.items():
            if functions.setdefault(name, task.fn) is not task.fn:
                raise Refused(
                    f"two tasks are named {name!r}: one worker can't serve both; rename one with @task(name=..)"
                )
    return functions


@contextmanager
def quiet() -> Iterator[None]:
    """Log warnings only, unless the user has configured logging."""
    if structlog.is_configured():
        yield
        return
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
