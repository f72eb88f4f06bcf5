"""Latency and throughput of HTTP workers, against a separate server process.

    python -m benchmarks.claims --store postgres -o json

Tasks are queued. One worker claims them one at a time, starts and completes each, sequentially on one connection. Then
several workers do the same concurrently.

    claim_p50_ms, claim_p99_ms          POST /scheduler/claim-runs, with work waiting
    start_p99_ms, complete_p99_ms       the following calls; each response follows a durable commit
    tasks_per_second                    claimed, started and completed by WORKERS concurrent workers
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchmarks.measure import Figures, Meter, durability, milliseconds, run_benchmark
from mainspring.app.build import open_store
from mainspring.client.client import Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.claims import ClaimRequest, CompleteRequest, StartRequest
from tests.e2e.cluster import ServerCluster, until
from tests.postgres import DURABLE, running_postgres
from tests.server_settings import GENEROUS

P = ParamSpec("P")
T = TypeVar("T")
TASKS = 2_000
WORKERS = 8
WARM_UP = 50
JOB = {"name": "claimed", "tasks": [{"name": f"t{number}"} for number in range(TASKS)]}


async def main(kind: str) -> Figures:
    """Run the benchmark on one kind of store."""
    with tempfile.TemporaryDirectory(prefix="mainspring-bench-") as folder:
        async with _url(kind, Path(folder)) as url:
            store = await open_store(url, SystemClock())
            figures = await durability(kind, store)
            await store.close()
            meter = Meter(kind)
            figures |= await asyncio.to_thread(_of_server, Path(folder), url)
    return figures | {"set": GENEROUS, "foreign_cores": meter.stop().foreign_cores}


def _of_server(folder: Path, url: str) -> Figures:
    """Latencies and throughput, as seen by the client."""
    with ServerCluster(folder, url) as cluster:
        server = cluster.server()
        with server.client() as client:
            run = client.submit(client.submit_job(JOB).id)
            until(lambda: client.count_tasks(states=["QUEUED"], run=run.id).value == TASKS, "all tasks wait")
            alone = _Worker(server.address, "alone")
            alone.drain(TASKS // 2)
            many = [_Worker(server.address, f"one-of-many-{number}") for number in range(WORKERS)]
            began = time.perf_counter()
            with ThreadPoolExecutor(WORKERS) as pool:
                list(pool.map(lambda worker: worker.drain(TASKS // 2 // WORKERS), many))
            lasted = time.perf_counter() - began
    return {
        "tasks": TASKS,
        "claim_p50_ms": milliseconds(alone.claims[WARM_UP:], 50),
        "claim_p99_ms": milliseconds(alone.claims[WARM_UP:], 99),
        "start_p99_ms": milliseconds(alone.starts[WARM_UP:], 99),
        "complete_p99_ms": milliseconds(alone.completes[WARM_UP:], 99),
        "workers": WORKERS,
        "tasks_per_second": round(sum(len(worker.claims) for worker in many) / lasted, 1),
    }


class _Worker:
    """Executes claims, and records the latency of each call."""

    def __init__(self, address: str, name: str) -> None:
        self._address = address
        self._name = name
        self.claims: list[float] = []
        self.starts: list[float] = []
        self.completes: list[float] = []

    def drain(self, tasks: int) -> None:
        """Execute this many tasks sequentially."""
        wanted = ClaimRequest(worker_id=self._name, wait_seconds=10)
        begun = StartRequest(worker_id=self._name)
        with Client(server=self._address) as client:
            for _ in range(tasks):
                (run,) = _timed(self.claims, client.claim_runs, wanted)
                _timed(self.starts, client.start_claimed_run, run.run_id, begun)
                _timed(self.completes, client.complete_claimed_run, run.run_id, CompleteRequest())


def _timed(lasted: list[float], ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    began = time.perf_counter()
    answer = ask(*args, **kwargs)
    lasted.append(time.perf_counter() - began)
    return answer


@asynccontextmanager
async def _url(kind: str, folder: Path) -> AsyncIterator[str]:
    """URL of an empty store of this kind, as durable as in production."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'bench.db'}"
        return
    with running_postgres(DURABLE) as url:
        yield url


if __name__ == "__main__":
    run_benchmark(__doc__, main)
