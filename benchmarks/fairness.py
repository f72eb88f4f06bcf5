"""Fair sharing: shares by weight, isolation from a flood of another tenant, and reclaim of guarantees.

Engine, store and messages are real; workers are virtual, and tasks take their declared time. Three measurements, each
on its own store:

- Ten tenants of unequal weight, with tasks of 1 to 4 cores that take half a second to three seconds, more than the
  fleet can run. The dominant share of each over time is compared with its weighted share.
- P0 runs of one tenant, sequentially, among ordinary work of others; then the same with 500,000 waiting P2 runs of one
  tenant, of 2 to 4 seconds, whose quota allows 90 % of the fleet. From the acknowledged submission to the durable
  assignment. `p0_noise_ms` is the variation of the quiet p95 between parts of its probes.
- A tenant with a guarantee of half the fleet submits work while another's burst uses all of it, with tasks that run
  for minutes and use all of their grace period. From its submission until it has its guarantee: one grace period, plus
  the time before and after it, for which `allowed_s` adds one second.

    python -m benchmarks.fairness --store postgres -o json
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from benchmarks.load import accuracy, declared, probe, submit
from benchmarks.measure import Figures, Meter, durability, fresh_store, milliseconds, run_benchmark
from mainspring.app.build import POOL, Engine, EngineOptions, run_virtual_worker
from mainspring.core.fairness.quotas import Ceiling, Quota, QuotaRow
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.resources import ZERO_RESOURCES, Resources, dominant_share
from mainspring.core.model.task import Priority
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import Offer
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.store import Store
from tests.store.admin_builders import an_entry
from tests.store.builders import NOW

GIB = 1 << 30
WORKERS = 60
CORES = 32
WEIGHTS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 8)
SIZES = ((1, 1, 0.5), (1, 2, 1.0), (2, 2, 1.5), (2, 8, 2.0), (4, 4, 3.0))
"""Cores, GiB of memory, and seconds of the tasks, in equal proportions."""
CORE_SECONDS = sum(cores * seconds for cores, _, seconds in SIZES) / len(SIZES)
SURPLUS = 1.6
"""Submitted work, as a multiple of capacity: every tenant has queued tasks until the end."""
WARM_UP_SECONDS = 6.0
POLL_INTERVAL_SECONDS = 0.1
FLOOD_SECONDS = (2.0, 2.5, 3.0, 3.5, 4.0)
"""Of different durations: otherwise all would end at the same time."""
FLOOD_PART = 100
GRACE_SECONDS = 5
ALLOWANCE_SECONDS = 1.0
"""In addition to the grace period: intake of the runs, preemption of hundreds of tasks, their reports and commits, and
as many placements."""
PARTS_OF_NOISE = 4


async def main(kind: str, seconds: float, probes: int, flood: int) -> Figures:
    """Run the benchmark on one kind of store."""
    async with fresh_store(kind) as store:
        figures = await durability(kind, store)
        figures |= await measure_shares(kind, store, seconds)
    async with fresh_store(kind) as store:
        figures |= await measure_flood(store, probes, flood)
    async with fresh_store(kind) as store:
        figures |= await measure_return(store)
    return figures


# load


def job(cores: int, gib: int, seconds: float) -> JobSpec:
    """A job with one task, with these resources and duration."""
    room = Resources(cpu_millis=1_000 * cores, memory_bytes=gib * GIB)
    work = msgspec.Raw(json.dumps({"seconds": seconds}).encode())
    return JobSpec(name=f"takes-{cores}-{gib}-{seconds:g}", tasks=(TaskSpec(name="takes", resources=room, work=work),))


@asynccontextmanager
async def fleet(store: Store, settings: dict[str, str] | None = None) -> AsyncIterator[Engine]:
    """An engine with all workers."""
    engine = Engine(store, SystemClock(), EngineOptions(given=settings))
    offer = Offer(CORES * 1_000, 4 * CORES * GIB)
    played = [VirtualWorker(f"played-{number}", offer, SystemClock(), ending_of=declared) for number in range(WORKERS)]
    await store.ensure_shard(POOL)
    async with engine.running():
        playing = [asyncio.create_task(run_virtual_worker(engine, worker)) for worker in played]
        try:
            leader = await engine.leader(POOL)
            await accuracy(lambda: leader.shard.memory.workers.capacity.cpu_millis == WORKERS * CORES * 1_000)
            yield engine
        finally:
            for one in playing:
                one.cancel()
            await asyncio.gather(*playing, return_exceptions=True)


async def give(store: Store, tenant: str, quota: Quota) -> None:
    """Set a tenant's default quota."""
    row = QuotaRow(tenant=tenant, pool="", quota=quota, raised=None, version=0, updated_at=NOW, updated_by="benchmark")
    await store.put_quota(row, None, an_entry(action="put_quota"))


async def submit_mixed(store: Store, tenant: str, tasks: int) -> None:
    """This number of tasks of all sizes, in turn."""
    for _ in range(max(1, tasks // (20 * len(SIZES)))):
        for size in SIZES:
            await submit(store, 20, [tenant], spec=job(*size))


# shares


async def measure_shares(kind: str, store: Store, seconds: float) -> Figures:
    """Shares of ten tenants of an oversubscribed fleet."""
    tenants = {f"tenant-{number}": weight for number, weight in enumerate(WEIGHTS)}
    needed = SURPLUS * WORKERS * CORES * (seconds + WARM_UP_SECONDS) / CORE_SECONDS
    for tenant, weight in tenants.items():
        await give(store, tenant, Quota(weight=weight))
        await submit_mixed(store, tenant, int(needed * weight / sum(WEIGHTS)))
    async with fleet(store) as engine:
        leader = await engine.leader(POOL)
        await asyncio.sleep(WARM_UP_SECONDS)
        meter = Meter(kind)
        had, used, saturated = await _watch(leader, list(tenants), seconds)
        meter.stop()
    errors = {
        tenant: round(had[tenant] / sum(had.values()) / (weight / sum(WEIGHTS)) - 1, 4)
        for tenant, weight in tenants.items()
    }
    return {
        "cores": WORKERS * CORES,
        "weights": list(WEIGHTS),
        "share_seconds": seconds,
        "used": round(used, 3),
        "saturated": round(saturated, 3),
        "share_error_by_tenant": errors,
        "max_share_error": max(map(abs, errors.values())),
        "foreign_cores": meter.foreign_cores,
    }


async def _watch(leader: Leader, tenants: list[str], seconds: float) -> tuple[dict[str, float], float, float]:
    """Each tenant's mean dominant share, the share of cores in use, and of time in which all had queued tasks."""
    had = dict.fromkeys(tenants, 0.0)
    used, saturated, looks = 0.0, 0, 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        await asyncio.sleep(POLL_INTERVAL_SECONDS)
        memory = leader.shard.memory
        looks += 1
        for tenant in tenants:
            had[tenant] += dominant_share(memory.leases.use.get(tenant, ZERO_RESOURCES), memory.workers.capacity)
        used += sum(use.cpu_millis for use in memory.leases.use.values()) / memory.workers.capacity.cpu_millis
        saturated += {tenant for _, tenant in memory.queues.depth} >= set(tenants)
    return {tenant: total / looks for tenant, total in had.items()}, used / looks, saturated / looks


# isolation from a flood


async def measure_flood(store: Store, probes: int, flood: int) -> Figures:
    """P0 latency, without and with a flood of another tenant's P2."""
    most = WORKERS * CORES * 900
    await give(store, "flood", Quota(burst=Ceiling(cpu_millis=most)))
    async with fleet(store) as engine:
        ordinary = asyncio.create_task(_ordinary_work(store))
        quiet = await probe(engine, probes)
        began = time.perf_counter()
        flooding = asyncio.create_task(_submit_flood(store, flood))
        during = await probe(engine, 1_000_000, until=lambda _: flooding.done())
        await flooding
        took = time.perf_counter() - began
        leader = await engine.leader(POOL)
        await accuracy(lambda: leader.shard.memory.leases.use.get("flood", ZERO_RESOURCES).cpu_millis > most - 4_000)
        felt = await probe(engine, probes)
        waiting = dict(await store.count_intake(POOL, flood))
        ordinary.cancel()
    part = len(quiet) // PARTS_OF_NOISE
    parts = [milliseconds(quiet[first * part : (first + 1) * part], 95) for first in range(PARTS_OF_NOISE)]
    return {
        "probes": probes,
        "p0_p50_ms_quiet": milliseconds(quiet, 50),
        "p0_p95_ms_quiet": milliseconds(quiet, 95),
        "p0_noise_ms": round(max(parts) - min(parts), 2),
        "flood": flood,
        "flood_submission_s": round(took, 1),
        "flood_waiting": waiting.get(Priority.P2, 0),
        "p0_p95_ms_while_submitted": milliseconds(during, 95),
        "p0_p50_ms_flood": milliseconds(felt, 50),
        "p0_p95_ms_flood": milliseconds(felt, 95),
    }


async def _submit_flood(store: Store, runs: int) -> None:
    """This number of runs of one tenant, of all durations in turn."""
    for number in range(0, runs, FLOOD_PART):
        seconds = FLOOD_SECONDS[number // FLOOD_PART % len(FLOOD_SECONDS)]
        await submit(store, min(FLOOD_PART, runs - number), ["flood"], spec=job(4, 4, seconds))


async def _ordinary_work(store: Store) -> None:
    """Submit a few tasks of some tenants per second, until cancelled."""
    while True:
        for size in SIZES:
            await submit(store, 4, ["north", "south", "east", "west"], spec=job(*size), priority=Priority.P1)
            await asyncio.sleep(0.2)


# reclaim of a guarantee


async def measure_return(store: Store) -> Figures:
    """Time until a tenant has its guarantee while another tenant's burst uses all capacity."""
    promised = Resources(cpu_millis=WORKERS * CORES * 500)
    await give(store, "owner", Quota(guaranteed=promised))
    await submit(store, WORKERS * CORES // 4 + 50, ["guest"], spec=job(4, 4, 600.0))
    async with fleet(store, {"preemption_grace_seconds": str(GRACE_SECONDS)}) as engine:
        leader = await engine.leader(POOL)

        def has(tenant: str) -> int:
            return leader.shard.memory.leases.use.get(tenant, ZERO_RESOURCES).cpu_millis

        await accuracy(lambda: has("guest") == WORKERS * CORES * 1_000)
        began = time.perf_counter()
        await submit(store, WORKERS * CORES // 8, ["owner"], spec=job(4, 4, 600.0))
        await accuracy(lambda: has("owner") >= promised.cpu_millis, 0.01)
        took = time.perf_counter() - began
    return {
        "grace_s": GRACE_SECONDS,
        "allowed_s": GRACE_SECONDS + ALLOWANCE_SECONDS,
        "guarantee_return_s": round(took, 2),
    }


if __name__ == "__main__":
    run_benchmark(__doc__, main, seconds=40.0, probes=400, flood=500_000)
