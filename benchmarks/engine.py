"""Throughput of no-op tasks through intake, shard and store, relative to the store's own limit.

The limit is measured in the same run: the batches of the best drain are recorded and replayed to a new store by a bare
loop, merged to the best size. Then a P0 tenant's latency is measured while another tenant's P2 backlog drains.

Other drains run in turn with all sharing features enabled: ten tenants, each with a weight, a guarantee, a burst and a
task limit, and a pool with zones, policies and freezes; the tasks of two tenants are each in a concurrency group and in
a rate group. No limit is reached. `shared_ratio` compares the best of both. Tasks in a group are dispatched one by one,
not by shape, since each is counted when it starts: `grouped_ratio` is the same with the tasks of all tenants in groups.

    python -m benchmarks.engine --store postgres --tasks 50000 -o json
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta

from benchmarks.load import Working, insert, p0_waits, submit
from benchmarks.measure import Figures, Meter, durability, fresh_store, milliseconds, percentile, run_benchmark
from benchmarks.rules import LABELED, SHARED, set_rules
from mainspring.app.build import POOL, Engine, EngineOptions
from mainspring.core.model.batch import Batch
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.ids import entropy
from mainspring.store.ports.store import Store

TENANTS = tuple(f"tenant-{number}" for number in range(10))
DRAINS = 3
"""The best of several counts, as for the replays: the machine is noisy."""
MERGES = (1, 2, 4, 8)


async def main(kind: str, tasks: int, backlog: int, probes: int) -> Figures:
    """Run the benchmark on one kind of store."""
    drains = []
    shared: list[Meter] = []
    grouped: list[Meter] = []
    figures: Figures = {}
    for _ in range(DRAINS):
        async with fresh_store(kind) as store:
            figures = await durability(kind, store)
            runs = await submit(store, tasks, TENANTS)
            drains.append((*await drain(kind, store, tasks), runs))
        for in_groups, meters in ((TENANTS[:2], shared), (TENANTS, grouped)):
            async with fresh_store(kind) as store:
                await submit_shared(store, tasks, in_groups)
                meters.append((await drain(kind, store, tasks))[1])
    batches, meter, runs = min(drains, key=lambda one: one[1].seconds)
    limits = {}
    for merge in MERGES:
        async with fresh_store(kind) as store:
            limits[merge] = tasks / await replay(store, runs, list(merged(batches, merge)))
    async with fresh_store(kind) as store:
        await submit(store, backlog, ["flood"])
        waits = await p0_waits(store, probes, until=_flood_is_over)
    best = max(limits, key=lambda merge: limits[merge])
    sizes = [batch.rows() for batch in batches if batch.rows()]
    rate = tasks / meter.seconds
    return figures | {
        "tasks": tasks,
        "tasks_per_s": round(rate),
        "tasks_per_s_by_drain": [round(tasks / one.seconds) for _, one, _ in drains],
        "shared_tasks_per_s": round(tasks / min(one.seconds for one in shared)),
        "shared_tasks_per_s_by_drain": [round(tasks / one.seconds) for one in shared],
        "shared_ratio": round(meter.seconds / min(one.seconds for one in shared), 3),
        "grouped_tasks_per_s": round(tasks / min(one.seconds for one in grouped)),
        "grouped_ratio": round(meter.seconds / min(one.seconds for one in grouped), 3),
        "limit_tasks_per_s": round(limits[best]),
        "limit_by_merge": {merge: round(limit) for merge, limit in limits.items()},
        "ratio": round(rate / limits[best], 3),
        "cpu_us_per_task": round(1e6 * meter.cpu_seconds / tasks, 1),
        "foreign_cores": meter.foreign_cores,
        "batches": len(sizes),
        "rows_per_task": round(sum(sizes) / tasks, 1),
        "rows_per_batch_p50": percentile(sizes, 50),
        "rows_per_batch_max": max(sizes),
        "p0_backlog": backlog,
        "p0_probes": len(waits),
        "p0_ready_to_assigned_ms_p50": milliseconds(waits, 50),
        "p0_ready_to_assigned_ms_p95": milliseconds(waits, 95),
    }


async def submit_shared(store: Store, tasks: int, in_groups: Sequence[str]) -> None:
    """Enable all sharing features, and submit this many tasks, round robin by tenant."""
    await set_rules(store, TENANTS)
    for tenant in TENANTS:
        spec = SHARED if tenant in in_groups else LABELED
        await submit(store, tasks // len(TENANTS), [tenant], spec=spec)


async def drain(kind: str, store: Store, tasks: int) -> tuple[list[Batch], Meter]:
    """Drain the intake; return the written batches and the resources used."""
    batches: list[Batch] = []
    ended = 0
    done = asyncio.Event()

    def committed(batch: Batch, _seconds: float) -> None:
        nonlocal ended
        batches.append(batch)
        ended += sum(1 for run in batch.runs if run.ended_at is not None)
        if ended >= tasks:
            done.set()

    engine = Engine(store, SystemClock(), EngineOptions(on_lead=lambda leader: leader.add_listener(committed)))
    async with engine.running(), Working(engine):
        meter = Meter(kind)
        await done.wait()
        meter.stop()
    return batches, meter


def _flood_is_over(leader: Leader) -> bool:
    return not any("flood" in leader.shard.memory.runs.unstarted.tenants(priority) for priority in Priority)


async def replay(store: Store, runs: Sequence[Run], batches: Sequence[Batch]) -> float:
    """Replay recorded batches as fast as possible; return the seconds."""
    await store.ensure_shard(POOL)
    await insert(store, runs)
    term = await store.campaign(POOL, "replay", entropy() >> 1, timedelta(seconds=30))
    assert term is not None
    began = time.perf_counter()
    for number, batch in enumerate(batches, start=term.batch_no + 1):
        await store.commit(term, number, batch)
    return time.perf_counter() - began


def merged(batches: Sequence[Batch], merge: int) -> Iterator[Batch]:
    """The same rows in the same order for each task and run, in batches up to `merge` times as long.

    Of each window of batches, the first write of every task and run makes one batch, the second writes the next.
    """
    for first in range(0, len(batches), merge):
        layers: list[Batch] = []
        written: Counter[str] = Counter()
        for batch in batches[first : first + merge]:
            _lay(batch, layers, written)
        yield from layers


def _lay(batch: Batch, layers: list[Batch], written: Counter[str]) -> None:
    def layer(subject: str, *, again: bool) -> Batch:
        written[subject] += again
        while len(layers) < max(1, written[subject]):
            layers.append(Batch())
        return layers[max(1, written[subject]) - 1]

    for run in batch.runs:
        layer(run.id, again=True).runs.append(run)
    for task in batch.new_tasks:
        layer(task.id, again=True).new_tasks.append(task)
    for change in batch.tasks:
        layer(change.task.id, again=True).tasks.append(change)
    for transition in batch.transitions:
        layer(transition.task_id, again=False).transitions.append(transition)
    for attempt in batch.attempts:
        layer(attempt.task_id, again=False).attempts.append(attempt)
    for worker in batch.workers:
        layer(worker.id, again=True).workers.append(worker)


if __name__ == "__main__":
    run_benchmark(__doc__, main, tasks=50_000, backlog=100_000, probes=200)
