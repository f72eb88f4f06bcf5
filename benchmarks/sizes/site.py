"""A store with a background load of some size, and visits to it: an engine is started, measured and stopped.

Engine, PostgreSQL and messages are real; workers are virtual. On each visit

    1. the engine loads the store, all workers connect, and the system becomes idle;
    2. every tenant runs a task, so that the engine has loaded all of them;
    3. no-op tasks are submitted at once and drained: from the acknowledged submission to the last end;
    4. P0 runs of a separate tenant are submitted sequentially on the idle system: from the acknowledged submission to
       the durable assignment.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from random import Random

import asyncpg
import msgspec

from benchmarks.load import Working, declared, probe
from benchmarks.measure import Meter, milliseconds
from benchmarks.sizes.dimensions import Setting
from benchmarks.sizes.growth import Visit
from benchmarks.sizes.history import write_history
from mainspring.app.build import POOL, Engine, open_store
from mainspring.core.fairness.quotas import Quota
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host.intake import HIGH_WATER_TASKS
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.ids import entropy, new_id
from mainspring.protocol.wire import Offer
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.store import Store
from tests.postgres import DURABLE, running_postgres
from tests.submission import NOOP

GIB = 1 << 30
MIN_WARM_UP = 500
CHECK_SECONDS = 0.2
IDLE_CHECKS = 5
"""The system is idle if this many consecutive checks see no change."""
ENDLESS_SECONDS = 7_200.0
HELD = JobSpec(
    name="held",
    tasks=(
        TaskSpec(
            name="held",
            resources=Resources(memory_bytes=1 << 10),
            work=msgspec.Raw(json.dumps({"seconds": ENDLESS_SECONDS}).encode()),
            timeout_seconds=2 * ENDLESS_SECONDS,
        ),
    ),
)
"""Uses no significant capacity."""

_random = Random(entropy())


class Deployment:
    """A store with its load, and the workers of every visit."""

    def __init__(self, store: Store, setting: Setting) -> None:
        self.store = store
        self._setting = setting
        self._jobs: list[tuple[str, str]] = []
        """Tenants of measured tasks, with their jobs."""
        cores = setting.places // setting.workers
        offer = Offer(cores * 1_000, 4 * cores * GIB)
        names = (f"played-{number}" for number in range(setting.workers))
        self._fleet = [VirtualWorker(name, offer, SystemClock(), ending_of=declared) for name in names]

    async def furnish(self, connection: asyncpg.Connection) -> None:
        """Create the background load."""
        setting = self._setting
        now = await self.store.time()
        await self.store.ensure_shard(POOL)
        if setting.history:
            await write_history(connection, setting.history, now)
        self._jobs = await _make_jobs(connection, NOOP, _names("tenant", setting.tenants), now)
        if setting.held:
            held = await _make_jobs(connection, HELD, _names("held", setting.held_tenants), now)
            await _allow_one_task(connection, [tenant for tenant, _ in held], now)
            await _make_runs(connection, held, HELD, setting.held, now)
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")

    async def visit(self, tasks: int, probes: int) -> Visit:
        """Measure once."""
        engine = Engine(self.store, SystemClock())
        async with engine.running(), Working(engine, self._fleet):
            leader = await engine.leader(POOL)
            await self._rest(leader)
            await self._drain(leader, max(MIN_WARM_UP, min(self._setting.tenants, tasks)))
            meter = await self._drain(leader, tasks)
            await self._rest(leader)
            waits = await probe(engine, probes)
        return Visit(
            tasks_per_s=tasks / meter.seconds,
            cpu_us=1e6 * meter.cpu_seconds / tasks,
            store_cpu_us=1e6 * max(0.0, meter.family_cpu_seconds - meter.cpu_seconds) / tasks,
            p50_ms=milliseconds(waits, 50),
            p95_ms=milliseconds(waits, 95),
            foreign_cores=meter.foreign_cores,
        )

    async def _rest(self, leader: Leader) -> None:
        """Wait until all workers are connected, the queue is loaded, and the system is idle."""
        same, before = 0, (0, 0, 0)
        while same < IDLE_CHECKS:
            await asyncio.sleep(CHECK_SECONDS)
            memory = leader.shard.memory
            seen = (memory.workers.capacity.cpu_millis, len(memory.runs), len(memory.attempts))
            is_full = seen[1] >= min(self._setting.held, HIGH_WATER_TASKS)
            is_whole = seen[0] >= self._setting.places * 1_000 and is_full and leader.is_ready
            same = same + 1 if seen == before and is_whole else 0
            before = seen

    async def _drain(self, leader: Leader, tasks: int) -> Meter:
        """Submit this number of tasks, and wait for their end."""
        runs = _runs(self._jobs, NOOP, tasks, await self.store.time())
        left = {run.id for run in runs}
        done = asyncio.Event()

        def committed(batch: Batch, _seconds: float) -> None:
            left.difference_update(run.id for run in batch.runs if run.ended_at is not None)
            if not left:
                done.set()

        leader.add_listener(committed)
        await self.store.insert_runs(runs)
        meter = Meter("postgres")
        await done.wait()
        return meter.stop()


@asynccontextmanager
async def open_site(setting: Setting) -> AsyncIterator[Deployment]:
    """A site in a separate database server, as durable as in production."""
    with running_postgres(DURABLE) as url:
        store = await open_store(url, SystemClock())
        try:
            site = Deployment(store, setting)
            connection = await asyncpg.connect(url)
            try:
                await site.furnish(connection)
            finally:
                await connection.close()
            yield site
        finally:
            await store.close()


def _names(kind: str, number: int) -> list[str]:
    return [f"{kind}-{one:05d}" for one in range(number)]


async def _make_jobs(
    connection: asyncpg.Connection, spec: JobSpec, tenants: Sequence[str], now: datetime
) -> list[tuple[str, str]]:
    """The same job for each tenant."""
    definition = msgspec.json.encode(spec).decode()
    jobs = [(tenant, new_id("job", now, _random)) for tenant in tenants]
    rows = [(job_id, tenant, spec.name, 1, definition) for tenant, job_id in jobs]
    await connection.copy_records_to_table(
        "jobs", records=rows, columns=("id", "tenant", "name", "version", "definition")
    )
    return jobs


async def _allow_one_task(connection: asyncpg.Connection, tenants: Sequence[str], now: datetime) -> None:
    """Give each tenant a quota of one task at a time."""
    quota = msgspec.json.encode(Quota(max_tasks=1)).decode()
    rows = [(tenant, "", quota, None, 1, now, "benchmark") for tenant in tenants]
    names = ("tenant", "pool", "quota", "raised", "version", "updated_at", "updated_by")
    await connection.copy_records_to_table("quotas", records=rows, columns=names)
    await connection.execute("UPDATE rules_version SET version = version + 1")


async def _make_runs(
    connection: asyncpg.Connection, jobs: Sequence[tuple[str, str]], spec: JobSpec, number: int, now: datetime
) -> None:
    """The same runs as `_runs`, created by SQL: a million single inserts would take minutes."""
    like = msgspec.structs.asdict(_runs(jobs[:1], spec, 1, now)[0])
    drawn = {"id", "tenant", "job_id"}
    names = [name for name, value in like.items() if value is not None and name not in drawn]
    given = [like[name] for name in names]
    await connection.execute(
        f"""INSERT INTO runs (id, tenant, job_id, {", ".join(names)})
            SELECT substr($1, 1, 17) || lpad(to_hex(n * 2654435761 % 4294967296), 16, '0'),
                ($2::text[])[1 + n % {len(jobs)}], ($3::text[])[1 + n % {len(jobs)}],
                {", ".join(f"${place}" for place, _ in enumerate(names, 4))}
            FROM generate_series(0::bigint, {number - 1}) AS up (n)""",
        like["id"], [tenant for tenant, _ in jobs], [job_id for _, job_id in jobs], *given,
        timeout=600,
    )  # fmt: skip


def _runs(jobs: Sequence[tuple[str, str]], spec: JobSpec, number: int, now: datetime) -> list[Run]:
    """This number of runs, round robin by tenant."""
    return [
        Run(
            id=new_id("run", now, _random),
            shard=POOL,
            tenant=jobs[one % len(jobs)][0],
            job_id=jobs[one % len(jobs)][1],
            priority=Priority.P2,
            params="{}",
            task_count=len(spec.tasks),
            submitted_by="benchmark",
            created_at=now,
            start_at=now,
        )
        for one in range(number)
    ]
