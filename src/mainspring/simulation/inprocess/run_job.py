"""`Job.run()`: a run in this process, in real time or with a clock that skips every wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from mainspring.client.results import RunResult
from mainspring.dsl.job import Job
from mainspring.protocol.clock import SystemClock
from mainspring.shard.state.timers import MAX_TURN_SECONDS
from mainspring.simulation.inprocess.in_process_engine import LocalEngine, quiet
from mainspring.simulation.inprocess.virtual_time import VirtualClock, VirtualLoop


def run_in_process(job: Job[..., Any], params: Mapping[str, Any]) -> RunResult:
    """Run a job, and wait for its end."""

    async def run() -> RunResult:
        return await _run(LocalEngine([job], SystemClock(), lambda _: None), job, params)

    return _run_outside_loop(run)


def run_in_virtual_time(job: Job[..., Any], params: Mapping[str, Any], start: datetime) -> RunResult:
    """Run a job on a virtual clock that begins at `start`."""
    loop = VirtualLoop()

    async def run() -> RunResult:
        engine = LocalEngine([job], VirtualClock(start, loop), loop.count_threads)
        loop.set_idle_estimate(lambda: idle_seconds(engine, loop))
        return await _run(engine, job, params)

    return _run_outside_loop(run, lambda: loop)


def idle_seconds(engine: LocalEngine, loop: VirtualLoop) -> float | None:
    """Seconds in which nothing happens without an outside event; None if not known.

    While functions run, their limits count a maximum per turn (`shard/state/timers.py`).
    """
    if engine.worker.calls:
        return min(MAX_TURN_SECONDS, loop.seconds_to_function())
    return engine.seconds_to_retry()


async def _run(engine: LocalEngine, job: Job[..., Any], params: Mapping[str, Any]) -> RunResult:
    async with engine.running():
        return await engine.run(job, params)


def _run_outside_loop(
    run: Callable[[], Coroutine[Any, Any, RunResult]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> RunResult:
    """Run on a new loop; in another thread if this one has a running loop (a notebook, an async test)."""

    def start() -> RunResult:
        with quiet(), asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(run())

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return start()
    with ThreadPoolExecutor(1, "mainspring-run") as pool:
        return pool.submit(start).result()
