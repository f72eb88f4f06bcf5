"""Cost of a diagnosis with advice at 100,000 queued tasks, and accuracy of its forecasts.

Cost: a leader's memory with a full fleet and 100,000 queued tasks, in one queue or in 10,000. For a sample of tasks,
the diagnosis is computed (`diagnose`), a snapshot is copied (`copy`: both block the loop), and advice is searched
(`advise`: in a thread). `all_ms` is the sum of the three, as CPU time of one thread, without garbage collection.

Over HTTP: a server process with a store and a full worker, as in production, and 100,000 queued tasks in its leader's
memory. Some of them are diagnosed sequentially; times are wall clock, as seen by the client.

    why_p50_ms, why_p99_ms       GET /tasks/{id}/diagnosis, with advice; `under_50_ms` says whether the p99 is
    by_leader, advised           the share of responses from the leader, and with advice
    sums_p50_ms, sums_p99_ms     GET /queue/reasons: `mainspring why --queue`

Accuracy: a mixed load (`tests/shard/mixed_load.py`) in virtual time. `ranges_true` is the share of forecast ranges that
contain the real start, `ranges_given` the number of forecasts.

    python -m benchmarks.diagnosis -o json
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

from benchmarks.measure import Figures, milliseconds, run_benchmark
from mainspring.client.client import Client
from mainspring.core.explain.diagnosis import Expected, ExpectedKind
from mainspring.core.model.job import Job, JobSpec, TaskSpec, compile_job
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.protocol.wire import Offer
from mainspring.shard import events as happened
from mainspring.shard.explain.advice import advise
from mainspring.shard.explain.diagnose import diagnose
from mainspring.shard.explain.forecast import forecast_start, take_snapshot
from mainspring.shard.shard import Shard
from tests.e2e.cluster import ServerCluster, tasks_of, until
from tests.shard.mixed_load import MixedLoad

WAITING = 100_000
WORKERS = 200
SAMPLES = 60
HTTP_SAMPLES = 200
TASKS_OF_A_RUN, KINDS = 100, 50
"""Over HTTP: tasks per run, and jobs with distinct requirements."""
QUICK_MS = 50.0
_FILLED_WITHIN_SECONDS = 600.0
_BETWEEN_SECONDS = 0.1
"""Pause between requests: read-only introspection has a fifth of the leader's time; beyond that, rows are used."""
_GIB = 1 << 30
_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def waiting_shard(queues: int, random: Random) -> tuple[Shard, datetime, list[str]]:
    """A shard with a full fleet and queued tasks in this many queues; with a sample of task ids."""
    shard, now = Shard("pool", seed=(1, 0)), _NOW
    for number in range(WORKERS):
        offer = Offer(4_000, 16 * _GIB)
        name = f"w{number}"
        shard.handle([_registered(name, offer)], now=now)
    tenants = [f"tenant{number}" for number in range(max(1, min(100, queues // 100)))]
    kinds = [_job(number, random) for number in range(max(1, queues // len(tenants)))]
    for tenant in tenants:
        for kind in kinds:
            for _ in range(20):
                shard.memory.durations.record(tenant, kind.spec.name, "t", random.uniform(20, 60), life=0.0)
    for number in range(0, WAITING, 500):
        now += timedelta(milliseconds=10)
        events = [
            _arrived(one, kinds[one % len(kinds)], tenants[one // len(kinds) % len(tenants)], now)
            for one in range(number, number + 500)
        ]
        shard.handle(events, now=now, budget=4_000)
        _start_all(shard, now)
    while shard.has_more():
        shard.handle([], now=now, budget=4_000)
    _start_all(shard, now)
    asked = random.sample(range(WAITING - 1_000), SAMPLES - 1)
    ids = [f"task_{one:06}.0" for one in (WAITING - 1, *asked)]
    return shard, now + timedelta(seconds=5), [one for one in ids if _is_queued(shard, one)]


def _is_queued(shard: Shard, task_id: str) -> bool:
    task = shard.memory.runs.find(task_id)
    return task is not None and task.worker_id is None


def _job(number: int, random: Random) -> Job:
    """A job with one task, with unique requirements."""
    needs = Resources(1_000 + number % 3_000, random.choice((1, 2, 4)) * _GIB + number)
    return compile_job(f"job_{number}", JobSpec(name=f"kind{number}", tasks=(TaskSpec(name="t", resources=needs),)))


def _registered(name: str, offer: Offer) -> happened.WorkerRegistered:
    return happened.WorkerRegistered(
        worker=name, session=name, offer=offer, labels={}, zone="", version="", holds=()
    )  # fmt: skip


def _arrived(number: int, job: Job, tenant: str, now: datetime) -> happened.RunArrived:
    run = Run(
        id=f"run_{number:06}", shard="pool", tenant=tenant, job_id=job.id, priority=Priority.P1, params="{}",
        task_count=1, submitted_by="user", created_at=now, start_at=now,
    )  # fmt: skip
    return happened.RunArrived(run=run, job=job)


def _start_all(shard: Shard, now: datetime) -> None:
    events = [
        happened.AttemptStarted(worker=task.worker_id or "", session=task.worker_id or "", attempt=attempt)
        for attempt, task in shard.memory.attempts.items()
        if task.started_at is None
    ]
    shard.handle(events, now=now, budget=4_000)


def cost(queues: int, random: Random) -> Figures:
    """Measure the parts of a diagnosis."""
    shard, now, asked = waiting_shard(queues, random)
    parts: dict[str, list[float]] = {"diagnose": [], "copy": [], "advise": [], "all": []}
    gc.collect()
    gc.disable()
    for task_id in asked:
        began = time.thread_time()
        found = diagnose(shard.memory, task_id, now)
        diagnosed = time.thread_time()
        snapshot = take_snapshot(shard.memory, task_id, now)
        copied = time.thread_time()
        assert found is not None, task_id
        advise(found, snapshot)
        ended = time.thread_time()
        for name, seconds in zip(
            parts, (diagnosed - began, copied - diagnosed, ended - copied, ended - began), strict=True
        ):
            parts[name].append(seconds)
    gc.enable()
    figures: Figures = {"lines": sum(1 for _ in shard.memory.queues.queues()), "asked": len(asked)}
    for name, values in parts.items():
        figures[f"{name}_ms_p50"] = milliseconds(values, 50)
        figures[f"{name}_ms_p99"] = milliseconds(values, 99)
    return figures


def over_http(random: Random) -> Figures:
    """Measure the latency of a real server."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder, ServerCluster(Path(folder)) as cluster:
        server = cluster.server()
        cluster.worker(server, name="full", cpu=4)
        with server.client() as client:
            runs = _fill(client)
            tasks = [
                task for run in random.sample(runs, 20) for task in tasks_of(client, run) if task.state == "QUEUED"
            ]
            asked = random.sample(tasks, HTTP_SAMPLES)
            found = []
            answers = [_lasts(lambda one=one: found.append(client.diagnosis("tasks", one.id))) for one in asked]  # type: ignore[misc]
            sums = [_lasts(client.queue_reasons) for _ in range(HTTP_SAMPLES // 10)]
            waiting = sum(client.queue().waiting.values())
    return {
        "waiting": waiting,
        "asked": len(asked),
        "by_leader": round(sum(one.by == "leader" for one in found) / len(found), 3),
        "advised": round(sum(bool(one.suggestions) for one in found) / len(found), 3),
        "why_p50_ms": milliseconds(answers, 50),
        "why_p99_ms": milliseconds(answers, 99),
        "under_50_ms": milliseconds(answers, 99) < QUICK_MS,
        "sums_p50_ms": milliseconds(sums, 50),
        "sums_p99_ms": milliseconds(sums, 99),
    }


def _fill(client: Client) -> list[str]:
    """Queue the tasks: at P0, since a leader keeps only a limited number of others in memory."""
    for kind in range(KINDS):
        needs = {"cpu_millis": 1_000 + kind, "memory_bytes": _GIB}
        tasks = [
            {"name": f"t{one}", "work": {"shell": "sleep 3600"}, "resources": needs} for one in range(TASKS_OF_A_RUN)
        ]
        client.submit_job({"name": f"kind{kind}", "tasks": tasks})
    runs = [client.submit(f"kind{number % KINDS}", priority="P0").id for number in range(1 + WAITING // TASKS_OF_A_RUN)]
    until(lambda: sum(client.queue().waiting.values()) >= WAITING, "all of them wait", _FILLED_WITHIN_SECONDS)
    return runs


def _lasts(ask: Callable[[], object]) -> float:
    time.sleep(_BETWEEN_SECONDS)
    began = time.perf_counter()
    ask()
    return time.perf_counter() - began


def truth(seeds: range) -> Figures:
    """Measure the accuracy of forecasts."""
    asked = given = true = 0
    for seed in seeds:
        load = MixedLoad(seed)
        load.submit_some(40)
        load.advance(30)
        said: dict[str, tuple[datetime, Expected]] = {}
        for _ in range(8):
            waiting = [task.id for task in load.queued() if task.id not in said]
            for task_id in load.random.sample(waiting, min(8, len(waiting))):
                said[task_id] = load.now, forecast_start(take_snapshot(load.shard.memory, task_id, load.now))
                load.first_starts.pop(task_id, None)
            load.advance(20)
        load.advance_until(said, 5_000)
        asked += len(said)
        for task_id, (_, expected) in said.items():
            start = load.first_starts.get(task_id)
            if expected.kind is ExpectedKind.RANGE and expected.earliest and expected.latest:
                given += 1
                true += start is not None and expected.earliest <= start <= expected.latest
    return {
        "starts_asked": asked,
        "ranges_given": round(given / max(1, asked), 3),
        "ranges_true": round(true / max(1, given), 3),
    }


def main(seed: int) -> Figures:
    """Run the benchmark."""
    return {
        "waiting": WAITING,
        "workers": WORKERS,
        "in_one_line": cost(1, Random(seed)),
        "in_10000_lines": cost(10_000, Random(seed)),
        "over_http": over_http(Random(seed)),
        **truth(range(seed, seed + 4)),
    }


if __name__ == "__main__":
    run_benchmark(__doc__, main, seed=1)
