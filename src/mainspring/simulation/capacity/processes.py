"""Simulate several pools in parallel: each process does one after another, and pools are independent.

    this process ── the scenario and the seed, then the numbers of pools ──► python -m mainspring.simulation.capacity
                 ◄── progress, and the result of each pool ───────────────

All of it as lines of JSON. A process that is asked to stop (SIGTERM) gives what it has by then.
"""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import IO

import msgspec

from mainspring.protocol.clock import cpu_seconds
from mainspring.protocol.errors import Broken
from mainspring.simulation.capacity.driver import simulate_pool
from mainspring.simulation.capacity.measurements import PoolResult
from mainspring.simulation.capacity.scenario import Scenario

_STEP_SECONDS = 0.25
"""Interval of progress reports, in simulated seconds."""


class SimulationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to simulate."""

    scenario: Scenario
    seed: int


class ProgressReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a process: some more seconds were simulated, or a pool is done."""

    seconds: float = 0.0
    pool_result: PoolResult | None = None


class SimulationResult(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the pools, and whether the simulation was interrupted."""

    pools: list[PoolResult]
    was_interrupted: bool


def simulate_pools(
    scenario: Scenario, seed: int, *, processes: int, progress: Callable[[float], None] = lambda _: None
) -> SimulationResult:
    """Simulate all pools in some processes. `progress` gets the fraction that is done.

    When interrupted, it returns what there is; a second interrupt stops at once.
    """
    pools = iter(range(scenario.workers.pools))
    messages: Queue[ProgressReport | BaseException | None] = Queue()
    request = msgspec.json.encode(SimulationRequest(scenario=scenario, seed=seed))
    pool_processes = [_PoolProcess(request) for _ in range(min(processes, scenario.workers.pools))]
    lock = threading.Lock()

    def draw() -> int | None:
        with lock:
            return next(pools, None)

    threads = [
        threading.Thread(target=pool_process.work, args=(draw, messages), daemon=True)
        for pool_process in pool_processes
    ]
    for thread in threads:
        thread.start()
    try:
        return _collect(scenario, pool_processes, messages, progress)
    finally:
        for pool_process in pool_processes:
            pool_process.end()


def serve(requests: IO[bytes], replies: IO[bytes]) -> None:
    """Serve as one of the processes: simulate requested pools until there are no more."""
    request = msgspec.json.decode(requests.readline(), type=SimulationRequest)
    is_stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_stopped.set())
    for line in requests:
        reported = 0.0

        def watch(seconds: float) -> bool:
            nonlocal reported
            if seconds - reported >= _STEP_SECONDS:
                _reply(replies, ProgressReport(seconds=seconds - reported))
                reported = seconds
            return not is_stopped.is_set()

        pool_result = simulate_pool(request.scenario, int(line), request.seed, cpu=cpu_seconds, watch=watch)
        _reply(replies, ProgressReport(pool_result=pool_result))
        gc.collect()  # the simulated pool is a large reference cycle, which would not be collected soon
        if is_stopped.is_set():
            return


class _PoolProcess:
    """One process, and the thread that talks to it."""

    def __init__(self, request: bytes) -> None:
        # A session of its own: Ctrl-C at the terminal goes to the parent, which asks it to stop.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mainspring.simulation.capacity"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._request = request
        self._is_stopped = threading.Event()

    def work(self, draw: Callable[[], int | None], messages: Queue[ProgressReport | BaseException | None]) -> None:
        """Request one pool after another, and pass on the messages."""
        try:
            for report in self._talk(draw):
                messages.put(report)
        except (OSError, msgspec.MsgspecError, Broken) as error:
            messages.put(error)
        messages.put(None)

    def stop(self) -> None:
        """Ask it to return what it has."""
        self._is_stopped.set()
        self._process.send_signal(signal.SIGTERM)

    def end(self) -> None:
        """End the process in any case."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _talk(self, draw: Callable[[], int | None]) -> Iterator[ProgressReport]:
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise Broken("a process without pipes")
        to.write(self._request + b"\n")
        while not self._is_stopped.is_set() and (pool := draw()) is not None:
            to.write(b"%d\n" % pool)
            to.flush()
            while True:
                line = back.readline()
                if not line and self._is_stopped.is_set():
                    return  # before it had begun
                if not line:
                    raise Broken(f"the process that simulated pool {pool} exited with {self._process.wait()}")
                report = msgspec.json.decode(line, type=ProgressReport)
                yield report
                if report.pool_result is not None:
                    break


def _collect(
    scenario: Scenario, pool_processes: list[_PoolProcess], messages: Queue[ProgressReport | BaseException | None],
    progress: Callable[[float], None],
) -> SimulationResult:  # fmt: skip
    """Receive messages until all are done."""
    total = scenario.workers.pools * (scenario.lasts + scenario.warm_up)
    found: list[PoolResult] = []
    done, left, was_interrupted = 0.0, len(pool_processes), False
    while left:
        try:
            message = messages.get()
            if message is None:
                left -= 1
            elif isinstance(message, ProgressReport):
                done += message.seconds
                if message.pool_result is not None:
                    found.append(message.pool_result)
                progress(min(1.0, done / total))
            else:
                raise message
        except KeyboardInterrupt:
            if was_interrupted:
                raise
            was_interrupted = True
            for pool_process in pool_processes:
                pool_process.stop()
    return SimulationResult(pools=found, was_interrupted=was_interrupted)


def _reply(replies: IO[bytes], report: ProgressReport) -> None:
    replies.write(msgspec.json.encode(report) + b"\n")
    replies.flush()
