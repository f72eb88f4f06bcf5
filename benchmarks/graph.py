"""Cost of a completion in small and large graphs, and the effect of a large graph on P0 latency.

The cost is that of the shard, in CPU time per task from adoption to the end, without a store: the same number of tasks
in runs of 1,000 and in one run of 100,000, for three graph shapes. P0 latency is measured with the whole engine, while
a run of 100,000 tasks is adopted.

    python -m benchmarks.graph -o json
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from benchmarks.load import p0_waits, submit
from benchmarks.measure import Figures, durability, fresh_store, milliseconds, run_benchmark
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import Edge, Job, JobSpec, TaskSpec, compile_job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host.loop import Leader
from mainspring.protocol.wire import Assign, Offer, Outcome
from mainspring.shard.effects import Send
from mainspring.shard.events import AttemptEnded, AttemptStarted, Event, RunArrived, WorkerRegistered
from mainspring.shard.shard import Shard

SMALL, LARGE = 1_000, 100_000
LAYER = 100
_START = datetime(2026, 1, 1, tzinfo=UTC)


def wide(size: int) -> JobSpec:
    """One task, then all but two in parallel, then a join."""
    middle = [_task(f"m{number}", "first") for number in range(size - 2)]
    return JobSpec(name="wide", tasks=(_task("first"), *middle, _task("last", *(task.name for task in middle))))


def deep(size: int) -> JobSpec:
    """One after another."""
    names = [f"t{number}" for number in range(size)]
    return JobSpec(name="deep", tasks=tuple(_task(name, *names[max(0, at - 1) : at]) for at, name in enumerate(names)))


def diamond(size: int) -> JobSpec:
    """Layers of a hundred tasks, each with two upstreams in the previous layer."""
    tasks = []
    for number in range(size):
        layer, place = divmod(number, LAYER)
        needs = {f"t{layer - 1}.{place}", f"t{layer - 1}.{(place + 1) % LAYER}"} if layer else set()
        tasks.append(_task(f"t{layer}.{place}", *sorted(needs)))
    return JobSpec(name="diamond", tasks=tuple(tasks))


def _task(name: str, *needs: str) -> TaskSpec:
    return TaskSpec(name=name, needs=tuple(map(Edge, needs)), expected_seconds=0.001)


def cost(job: Job, runs: int) -> float:
    """CPU microseconds per task for sequential runs of a job, from adoption to the end."""
    shard = Shard("default", seed=(1, 0))
    clock = _ticks()
    offer = Offer(64_000, 1 << 40)
    hello = WorkerRegistered(worker="w", session="s", offer=offer, labels={}, zone="", version="", holds=())
    shard.handle([hello], now=next(clock))
    spent = 0.0
    for number in range(runs):
        run = Run(
            id=f"run_{number}",
            shard="default",
            tenant="t",
            job_id=job.id,
            priority=Priority.P2,
            params="{}",
            task_count=len(job.tasks),
            submitted_by="benchmark",
            created_at=_START,
            start_at=_START,
        )
        events: list[Event] = [RunArrived(run=run, job=job)]
        while events or shard.has_more():
            now = next(clock)
            began = time.thread_time()
            batch = shard.handle(events, now=now)
            spent += time.thread_time() - began
            events = list(_reports(batch))
        assert not shard.memory.runs, "the run has not ended"
    return 1e6 * spent / (runs * len(job.tasks))


def _reports(batch: Batch) -> Iterator[Event]:
    """The messages of a worker whose tasks take no time."""
    for effect in batch.effects:
        if isinstance(effect, Send) and isinstance(effect.message, Assign):
            for one in effect.message.group:
                yield AttemptStarted(worker="w", session="s", attempt=one.attempt)
                yield AttemptEnded(worker="w", session="s", attempt=one.attempt, outcome=Outcome.SUCCEEDED)


def _ticks() -> Iterator[datetime]:
    now = _START
    while True:
        now += timedelta(milliseconds=1)
        yield now


async def waits_during_adoption(kind: str, probes: int) -> tuple[Figures, list[float]]:
    """P0 latency while a run of 100,000 tasks is adopted, and the store's durability."""

    def adopted(leader: Leader) -> bool:
        runs = leader.shard.memory.runs.values()
        return any(run.run.task_count == LARGE and not run.bulk_operations for run in runs)

    async with fresh_store(kind) as store:
        await submit(store, 1, ["large"], spec=wide(LARGE))
        return await durability(kind, store), await p0_waits(store, probes, until=adopted)


async def main(kind: str, probes: int) -> Figures:
    """Run the benchmark."""
    shapes: dict[str, Callable[[int], JobSpec]] = {"wide": wide, "deep": deep, "diamond": diamond}
    figures: Figures = {}
    ratios = []
    for name, shape in shapes.items():
        small = min(cost(compile_job("job", shape(SMALL)), LARGE // SMALL) for _ in range(2))
        large = min(cost(compile_job("job", shape(LARGE)), 1) for _ in range(2))
        figures[f"{name}_us_per_task_1k"] = round(small, 1)
        figures[f"{name}_us_per_task_100k"] = round(large, 1)
        ratios.append(large / small)
    promises, waits = await waits_during_adoption(kind, probes)
    return (
        promises
        | figures
        | {
            "completion_cost_ratio_100k_to_1k": round(max(ratios), 2),
            "p0_probes": len(waits),
            "p0_wait_during_fanout_ms_p50": milliseconds(waits, 50),
            "p0_wait_during_fanout_ms_p95": milliseconds(waits, 95),
        }
    )


if __name__ == "__main__":
    run_benchmark(__doc__, main, probes=1_000)
