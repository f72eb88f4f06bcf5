"""Latency of firing schedules that are due at once, among 200,000, with two concurrent triggers (TRG-4, NUM).

    python -m benchmarks.schedules --store postgres -o json

On PostgreSQL each trigger is a separate process, on SQLite both are in this one. First 1,000 schedules are due in one
second, then 20,000. A schedule is fired when its window's row, its run and its next time are durable.

    fire_1000_s, fire_20000_s   from the window to the last of them
    doubled, left_out           windows with more than one run, and with none: each must be 0
    runs_alone_s                inserting as many runs in chunks of the same size, and nothing else
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import asyncpg
import msgspec
import uvloop

from benchmarks.measure import Figures, Meter, durability, run_benchmark
from mainspring.app.build import POOL, open_store
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import ScheduleRow
from mainspring.core.model.task import Priority
from mainspring.core.schedules.schedule_actions import new_schedule
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.triggers import CronTrigger
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.trigger_loop import MAX_PER_PASS, TriggerLoop
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.ids import entropy, new_id
from mainspring.store.ports.store import Store
from mainspring.store.postgres import rows as postgres_rows
from mainspring.store.sqlite import rows as sqlite_rows
from tests.postgres import DURABLE, running_postgres
from tests.submission import NOOP

SCHEDULES = 200_000
WAVES = (1_000, 20_000)
TENANTS = 200
LEAD, APART = timedelta(seconds=15), timedelta(seconds=10)
"""Time from filling the store to the first wave, and between the waves."""
POLL_SECONDS = 0.05
_TRIGGER = "--be-a-trigger"
_random = Random(entropy())


async def main(kind: str, schedules: int) -> Figures:
    """Run the benchmark on one kind of store."""
    async with _place(kind) as place:
        windows = await _fill(place, schedules)
        async with place.triggers(), place.opened() as store:
            figures = await durability(kind, store) | {"schedules": schedules}
            meter, fired = Meter(kind), 0
            for wave, window in windows.items():
                fired += wave
                figures[f"fire_{wave}_s"] = round(await _fired(place, fired, window), 2)
            figures |= {
                "foreign_cores": meter.stop().foreign_cores,
                "doubled": await place.count("SELECT count(*) - count(DISTINCT schedule_id) FROM runs"),
                "left_out": fired - await place.count("SELECT count(DISTINCT schedule_id) FROM runs"),
                "runs_alone_s": round(await _runs_alone(store), 2),
            }
    return figures


async def _fill(place: Place, schedules: int) -> dict[int, datetime]:
    """Put jobs and schedules into the store; return the windows of the waves, by size."""
    async with place.opened() as store:
        now = await store.time()
        await store.ensure_shard(POOL)
        for tenant in range(TENANTS):
            await store.insert_job(_job(tenant, now))
    await place.insert([_far(number, now) for number in range(schedules - sum(WAVES))])
    start = datetime.now(UTC).replace(microsecond=0) + LEAD
    windows = {wave: start + number * APART for number, wave in enumerate(WAVES)}
    await place.insert([_due(number, window) for wave, window in windows.items() for number in range(wave)])
    return windows


async def _fired(place: Place, count: int, window: datetime) -> float:
    """Seconds from a window until this many schedules have fired in total."""
    left = (window - datetime.now(UTC)).total_seconds()
    assert left > 0, "filling the store took longer than was thought"
    await asyncio.sleep(left)
    while await place.count("SELECT count(*) FROM fires") < count:  # noqa: ASYNC110 - another process fires
        await asyncio.sleep(POLL_SECONDS)
    return (datetime.now(UTC) - window).total_seconds()


async def _runs_alone(store: Store) -> float:
    """Seconds for inserting as many runs as the last wave has, and nothing else."""
    now = await store.time()
    job = await store.insert_job(_job(0, now))
    runs = [
        Run(
            id=new_id("run", now, _random), shard=POOL, tenant=job.tenant, job_id=job.id, priority=Priority.P1,
            params="{}", task_count=1, submitted_by="benchmark", created_at=now, start_at=now,
        )
        for _ in range(WAVES[-1])
    ]  # fmt: skip
    began = time.perf_counter()
    for first in range(0, len(runs), MAX_PER_PASS):
        await store.insert_runs(runs[first : first + MAX_PER_PASS])
    return time.perf_counter() - began


def _job(tenant: int, now: datetime) -> JobRow:
    definition = msgspec.json.encode(NOOP).decode()
    return JobRow(
        id=new_id("job", now, _random), tenant=f"tenant-{tenant}", name=NOOP.name, version=0, definition=definition
    )


def _far(number: int, now: datetime) -> ScheduleRow:
    """A schedule that is due in hours."""
    hour = (now + timedelta(hours=2 + number % 20)).hour
    return _schedule(f"far-{number}", number, f"{number % 60} {hour} * * *", now)


def _due(number: int, window: datetime) -> ScheduleRow:
    """A schedule whose next window is this one."""
    cron = f"{window.second} {window.minute} {window.hour} * * *"
    return _schedule(f"due-{window:%H%M%S}-{number}", number, cron, window - timedelta(seconds=1))


def _schedule(name: str, number: int, cron: str, now: datetime) -> ScheduleRow:
    spec = ScheduleSpec(name=name, job=NOOP.name, trigger=CronTrigger(cron=cron))
    tenant = f"tenant-{number % TENANTS}"
    return new_schedule(new_id("sched", now, _random), tenant, spec, pool=POOL, by="benchmark", why="", now=now)[0]


class OnSqlite:
    """SQLite. Both triggers are in this process, the only one that may write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._store: Store | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """The store, shared in this process."""
        if self._store is not None:
            yield self._store
            return
        self._store = await open_store(f"sqlite:///{self._path}", SystemClock())
        try:
            yield self._store
        finally:
            await self._store.close()
            self._store = None

    @asynccontextmanager
    async def triggers(self) -> AsyncIterator[None]:
        """Run two triggers."""
        async with self.opened() as store:
            firing = [asyncio.create_task(_fire(store)) for _ in range(2)]
            try:
                yield
            finally:
                for one in firing:
                    one.cancel()
                await asyncio.gather(*firing, return_exceptions=True)

    async def count(self, query: str) -> int:
        """Return the number that a query returns."""
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as observer:
            return int(observer.execute(query).fetchone()[0])

    async def insert(self, rows: Sequence[ScheduleRow]) -> None:
        """Insert schedules while the store is closed."""
        codec = sqlite_rows.SCHEDULES
        statement = f"INSERT INTO schedules ({codec.select()}) VALUES ({', '.join('?' * len(codec.names))})"
        with contextlib.closing(sqlite3.connect(self._path)) as filling, filling:
            filling.executemany(statement, codec.rows(rows))


class OnPostgres:
    """PostgreSQL. Each trigger is a separate process."""

    def __init__(self, url: str, observer: asyncpg.Connection[asyncpg.Record]) -> None:
        self._url = url
        self._observer = observer

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """A store on it."""
        store = await open_store(self._url, SystemClock())
        try:
            yield store
        finally:
            await store.close()

    @asynccontextmanager
    async def triggers(self) -> AsyncIterator[None]:
        """Run two triggers."""
        command = (sys.executable, "-m", "benchmarks.schedules", _TRIGGER, self._url)
        firing = [await asyncio.create_subprocess_exec(*command) for _ in range(2)]
        try:
            yield
        finally:
            for one in firing:
                one.terminate()
                await one.wait()

    async def count(self, query: str) -> int:
        """Return the number that a query returns."""
        return int(await self._observer.fetchval(query))

    async def insert(self, rows: Sequence[ScheduleRow]) -> None:
        """Insert schedules."""
        codec = postgres_rows.SCHEDULES
        await self._observer.copy_records_to_table("schedules", records=codec.rows(rows), columns=list(codec.names))
        await self._observer.execute("ANALYZE schedules")


Place = OnSqlite | OnPostgres


@asynccontextmanager
async def _place(kind: str) -> AsyncIterator[Place]:
    """An empty store of this kind, as durable as in production."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
            yield OnSqlite(Path(folder) / "bench.db")
        return
    with running_postgres(DURABLE) as url:
        await (await open_store(url, SystemClock())).close()
        observer = await asyncpg.connect(url)
        try:
            yield OnPostgres(url, observer)
        finally:
            await observer.close()


async def _fire(store: Store) -> None:
    await TriggerLoop(store, SystemClock(), ScheduleEvaluator(store, make_context())).run()


async def _be_a_trigger(url: str) -> None:
    """Fire due schedules until stopped."""
    store = await open_store(url, SystemClock())
    firing = asyncio.create_task(_fire(store))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, firing.cancel)
    await asyncio.gather(firing, return_exceptions=True)
    await store.close()


if __name__ == "__main__":
    if sys.argv[1:2] == [_TRIGGER]:
        uvloop.run(_be_a_trigger(sys.argv[2]))
    else:
        run_benchmark(__doc__, main, schedules=SCHEDULES)
