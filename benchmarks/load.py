"""Load generators: runs of no-op tasks, virtual workers, and P0 probes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from mainspring.app.build import POOL, Engine, run_virtual_worker
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobRow, JobSpec, TaskSpec
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, TaskState
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.wire import Assignment, Offer
from mainspring.simulation.virtual_worker import Ending, VirtualWorker
from mainspring.store.ports.store import Store
from tests import submission
from tests.submission import NOOP

WORKERS = 4
CORES_PER_WORKER = 8
PROBE_EVERY_SECONDS = 0.02

_random = Random(entropy())


async def submit(
    store: Store, runs: int, tenants: Sequence[str], *, spec: JobSpec = NOOP, priority: Priority = Priority.P2
) -> list[Run]:
    """Put runs of a job into intake, round robin by tenant."""
    await store.ensure_shard(POOL)
    return await submission.submit(store, runs, tenants, spec=spec, priority=priority, by="benchmark")


async def insert(store: Store, runs: Sequence[Run]) -> None:
    """Insert jobs, then runs."""
    definition = msgspec.json.encode(NOOP).decode()
    for job_id, tenant in {run.job_id: run.tenant for run in runs}.items():
        await store.insert_job(JobRow(id=job_id, tenant=tenant, name=NOOP.name, version=0, definition=definition))
    await submission.insert(store, runs)


async def accuracy(holds: Callable[[], bool], every_seconds: float = 0.1) -> None:
    """Wait until a condition holds."""
    while not holds():  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(every_seconds)


def declared(assignment: Assignment) -> Ending:
    """Success after the seconds that a task declares."""
    return Ending(float(json.loads(assignment.work).get("seconds", 0.0)))


class Working:
    """Run virtual workers during a block: the default ones, or these."""

    def __init__(self, engine: Engine, fleet: Sequence[VirtualWorker] = ()) -> None:
        offer = Offer(CORES_PER_WORKER * 1_000, 64 << 30)
        self._fleet = fleet or [VirtualWorker(f"played-{number}", offer, SystemClock()) for number in range(WORKERS)]
        self._engine = engine
        self._virtual_workers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        self._virtual_workers = [
            asyncio.create_task(run_virtual_worker(self._engine, worker)) for worker in self._fleet
        ]

    async def __aexit__(self, *_: object) -> None:
        for one in self._virtual_workers:
            one.cancel()
        await asyncio.gather(*self._virtual_workers, return_exceptions=True)


async def p0_waits(store: Store, probes: int, until: Callable[[Leader], bool]) -> list[float]:
    """Latency of P0 runs of a separate tenant while the engine processes the store's content."""
    engine = Engine(store, SystemClock())
    async with engine.running(), Working(engine):
        return await probe(engine, probes, until)


async def probe(engine: Engine, probes: int, until: Callable[[Leader], bool] = lambda _: False) -> list[float]:
    """Latency of P0 runs of a separate tenant, from acknowledged submission to durable assignment.

    Sequentially, with a pause between them.
    """
    assigned: dict[str, asyncio.Future[float]] = {}

    def committed(_number: int, batch: Batch) -> None:
        for transition in batch.transitions:
            if transition.end is TaskState.ASSIGNED and transition.run_id in assigned:
                assigned[transition.run_id].set_result(time.perf_counter())

    store, leader = engine.store, await engine.leader(POOL)
    leader.on_commit = committed
    spec = JobSpec(name="urgent", tasks=(TaskSpec(name="urgent"),))
    template = (await submit(store, 1, ["urgent"], spec=spec, priority=Priority.P0))[0]
    waits: list[float] = []
    while len(waits) < probes:
        await asyncio.sleep(PROBE_EVERY_SECONDS)
        if until(leader) and waits:
            break
        run = msgspec.structs.replace(template, id=new_id("run", await store.time(), _random))
        assigned[run.id] = asyncio.get_running_loop().create_future()
        await store.insert_runs([run])
        acknowledged = time.perf_counter()
        waits.append(max(0.0, await assigned[run.id] - acknowledged))
    return waits
