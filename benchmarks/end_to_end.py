"""Durable tasks per second, and start latency, with a real server, worker and functions.

Everything runs in separate processes: `mainspring server`, `mainspring worker` with its supervisor and warm children,
and the database. The store's own limit is measured in the same run, as in `benchmarks.engine`.

    python -m benchmarks.end_to_end --store postgres --tasks 20000 -o json

Latencies:

    submission     POST /api/v1/runs, from request to response: the run is durable
    start          from that request to the first line of the function, on an idle system
    ready_to_start the same without the submission
    chain_step     from the last line of one function to the first line of the next one of its run
    transition     from a worker's result to the reply after its commit
    heartbeat      from a worker's heartbeat to a reply that shows its receipt
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import msgspec
import psutil
import uvloop

from benchmarks import engine
from benchmarks.link_probe import LinkProbe
from benchmarks.load import submit
from benchmarks.measure import Figures, durability, fresh_store, milliseconds, run_benchmark
from mainspring.client.client import Client
from mainspring.protocol.rest.runs import RunRequest, TaskView
from tests.e2e.cluster import Process, Server, ServerCluster, ended, tasks_of, until
from tests.postgres import DURABLE, running_postgres
from tests.server_settings import GENEROUS

DRAINS = 3
PROBES = 300
PROBE_SECONDS = 0.02
"""A probe is not polled while it should start: the system is otherwise idle."""
SLOWEST_SUBMISSION_PER_S = 1_000
FASTEST_TASKS_PER_S = 8_000
"""A drain is not polled before it could have finished."""
POLL_SECONDS = 0.25
CHAIN = 10
CHAINS = 30
HANDLERS = "benchmarks/handlers.py"
_NOOP = {"name": "noop", "tasks": [{"name": "noop", "work": {"handler": "noop"}, "expected_seconds": 0.001}]}
_STAMP = {"name": "stamp", "tasks": [{"name": "stamp", "work": {"handler": "stamp"}}]}
_CHAIN = {
    "name": "chain",
    "tasks": [
        {"name": f"step-{n}", "work": {"handler": "stamp"}, "needs": [{"task": f"step-{n - 1}"}] if n else []}
        for n in range(CHAIN)
    ],
}


def main(kind: str, tasks: int) -> Figures:
    """Run the benchmark on one kind of store."""
    drains = []
    for _ in range(DRAINS):
        with temporary_cluster(kind) as (cluster, postgres):
            drains.append(_drain(cluster, postgres, tasks))
    best = max(drains, key=lambda one: one["tasks_per_s"])
    with temporary_cluster(kind) as (cluster, _):
        latencies = _latencies(cluster)
    limit = uvloop.run(_limit(kind, tasks))
    return {
        **uvloop.run(promises(kind)),
        "set": GENEROUS,
        "tasks": tasks,
        **best,
        "tasks_per_s_by_drain": [one["tasks_per_s"] for one in drains],
        "limit_tasks_per_s": round(limit),
        "ratio": round(best["tasks_per_s"] / limit, 3),
        **latencies,
    }


@contextmanager
def temporary_cluster(kind: str) -> Iterator[tuple[ServerCluster, psutil.Process | None]]:
    """An empty cluster on a new store, as durable as in production, with the database's process."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        if kind == "sqlite":
            with ServerCluster(Path(folder)) as cluster:
                yield cluster, None
            return
        with running_postgres(DURABLE) as url, ServerCluster(Path(folder), url) as cluster:
            yield cluster, uvloop.run(_process_of(url))


async def _process_of(url: str) -> psutil.Process:
    """The database's main process."""
    connection = await asyncpg.connect(url)
    try:
        return psutil.Process(psutil.Process(await connection.fetchval("SELECT pg_backend_pid()")).ppid())
    finally:
        await connection.close()


def _drain(cluster: ServerCluster, postgres: psutil.Process | None, tasks: int) -> dict[str, float]:
    """Submit no-ops that may all start at a future time, and measure until the last one has ended.

    Includes everything from intake to the last reply, and nothing before.
    """
    server = cluster.server()
    worker = cluster.worker(server, name="w", cpu=8, extra=["--handlers", HANDLERS, "--children", "2"])
    with server.client() as client:
        job = client.submit_job(_NOOP)
        start_at = datetime.now(UTC) + timedelta(seconds=max(5.0, tasks / SLOWEST_SUBMISSION_PER_S))
        began = time.perf_counter()
        requests = (RunRequest(job=job.id, start_at=start_at) for _ in range(tasks))
        assert all(line.id for line in client.submit_many(requests))
        submitted = time.perf_counter() - began
        left = (start_at - datetime.now(UTC)).total_seconds()
        assert left > 0, "submitting took longer than was thought"
        time.sleep(left)
        spent_before = _cpu(server, worker, cluster, postgres)
        time.sleep(tasks / FASTEST_TASKS_PER_S)
        until(lambda: not any(_unended(client)), "all runs end", seconds=600)
        spent = _cpu(server, worker, cluster, postgres)
        memory = _memory(server, worker, cluster)
        runs = list(client.runs())
    assert len(runs) == tasks
    assert {run.state for run in runs} == {"SUCCEEDED"}
    seconds = (max(run.ended_at for run in runs if run.ended_at is not None) - start_at).total_seconds()
    return {
        "tasks_per_s": round(tasks / seconds),
        "submitted_per_s": round(tasks / submitted),
        **{f"cpu_us_per_task_{name}": round(1e6 * (spent[name] - spent_before[name]) / tasks, 1) for name in spent},
        "cpu_us_per_task": round(1e6 * (sum(spent.values()) - sum(spent_before.values())) / tasks, 1),
        **{f"memory_mib_{name}": round(size / 2**20) for name, size in memory.items()},
    }


def _unended(client: Client) -> Iterator[object]:
    """Unfinished runs; zero once all have ended."""
    time.sleep(POLL_SECONDS)
    for state in ("RUNNING", "PENDING"):
        yield from client.runs(states=[state], limit=1)


def _cpu(server: Process, worker: Process, cluster: ServerCluster, postgres: psutil.Process | None) -> dict[str, float]:
    """CPU seconds of each part so far, including children."""
    parts = {name: sum(map(_seconds, processes)) for name, processes in _parts(server, worker, cluster).items()}
    if postgres is not None:
        # The parent has the time of closed connections' backends; those of open ones are added.
        parts["postgres"] = sum(map(_seconds, [postgres, *postgres.children(recursive=True)]))
    return parts


def _parts(server: Process, worker: Process, cluster: ServerCluster) -> Mapping[str, list[psutil.Process]]:
    supervisors = cluster.supervisors()
    return {
        "server": [psutil.Process(server.pid)],
        "agent": [psutil.Process(worker.pid)],
        "guard": supervisors,
        "children": [child for supervisor in supervisors for child in supervisor.children(recursive=True)],
    }


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _memory(server: Process, worker: Process, cluster: ServerCluster) -> dict[str, int]:
    return {
        name: sum(process.memory_info().rss for process in processes)
        for name, processes in _parts(server, worker, cluster).items()
    }


def _latencies(cluster: ServerCluster) -> Figures:
    """Measure latencies on an idle system."""
    server = cluster.server()
    cluster.worker(server, name="w", cpu=8, extra=["--handlers", HANDLERS, "--children", "2"])
    with server.client() as client:
        stamp = client.submit_job(_STAMP).id
        chain = client.submit_job(_CHAIN).id
        for _ in range(20):
            ended(client, client.submit(stamp).id)
        submissions, starts = [], []
        for _ in range(PROBES):
            sent = time.time()
            run = client.submit(stamp)
            submissions.append(time.time() - sent)
            time.sleep(PROBE_SECONDS)
            ended(client, run.id)
            starts.append(_stamps(tasks_of(client, run.id)[0])["began"] - sent)
        steps = [step for _ in range(CHAINS) for step in _chain_steps(client, chain)]
        probe = uvloop.run(_probe(server, client.submit_job(_unplaced()).id, client))
    ready = [max(0.0, start - submission) for start, submission in zip(starts, submissions, strict=True)]
    return {
        **_percentiles("submission", submissions),
        **_percentiles("start", starts),
        **_percentiles("ready_to_start", ready),
        **_percentiles("chain_step", steps),
        **_percentiles("transition", probe.transitions),
        **_percentiles("heartbeat", probe.beats),
    }


def _unplaced() -> dict[str, object]:
    """Work that only the probe worker may execute."""
    return {"name": "probe", "tasks": [{"name": f"t{n}", "labels": {"probe": "yes"}} for n in range(PROBES)]}


async def _probe(server: Server, job: str, client: Client) -> LinkProbe:
    probe = LinkProbe(server.address)
    client.submit(job)
    await probe.run(PROBES)
    return probe


def _chain_steps(client: Client, job: str) -> list[float]:
    """Seconds between the end of each step of a chain and the start of the next."""
    run = ended(client, client.submit(job).id)
    stamps = sorted((_stamps(task) for task in tasks_of(client, run.id)), key=lambda one: one["began"])
    return [after["began"] - before["ended"] for before, after in itertools.pairwise(stamps)]


def _stamps(task: TaskView) -> dict[str, float]:
    assert task.output is not None, task
    return msgspec.json.decode(task.output, type=dict[str, float])


def _percentiles(name: str, values: list[float]) -> Figures:
    return {f"{name}_ms_p{percent}": milliseconds(values, percent) for percent in (50, 95, 99)}


async def _limit(kind: str, tasks: int) -> float:
    """The store's own limit: the batches of a drain with virtual workers, replayed."""
    async with fresh_store(kind) as store:
        runs = await submit(store, tasks, ["tenant"])
        batches, _ = await engine.drain(kind, store, tasks)
    best = 0.0
    for merge in engine.MERGES:
        async with fresh_store(kind) as store:
            best = max(best, tasks / await engine.replay(store, runs, list(engine.merged(batches, merge))))
    return best


async def promises(kind: str) -> Figures:
    async with fresh_store(kind) as store:
        return await durability(kind, store)


if __name__ == "__main__":
    run_benchmark(__doc__, main, tasks=20_000)
