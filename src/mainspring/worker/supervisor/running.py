"""Running attempts of a supervisor: leases in parallel, the attempts of one lease one after another.

1. At most one attempt of a lease runs at a time.
2. An attempt is launched once, even if a new agent repeats the launch.
3. A handle leaves `jobs` with its `Ended`, or when it is withdrawn before it started.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

import msgspec
import structlog

from mainspring.core.work.work import Work, read_work
from mainspring.event_loop import start_task
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.executor import Executor, Job, failure
from mainspring.worker.supervisor.supervisor_wire import FromGuard, Order

log = structlog.get_logger(__name__)

_WORKS_IN_MIND = 1_000
"""Tasks of one job have the same text, which is parsed once."""


class Running:
    """All launched attempts that have not ended."""

    def __init__(self, executors: Mapping[type[Work], Executor], say: Callable[[FromGuard], None]) -> None:
        self._executors = executors
        self._say = say
        self._read = lru_cache(_WORKS_IN_MIND)(read_work)
        self._lines: dict[str, deque[Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.jobs: dict[str, Job] = {}

    def launch(self, order: Order) -> None:
        """Append an attempt to its lease's queue."""
        attempt = order.assignment.attempt
        try:
            work = self._read(order.assignment.work)
        except (msgspec.DecodeError, ValueError) as error:
            job = Job(order, None, self._say)
            job.end(Outcome.FAILED, error=failure("Work", f"invalid work: {error}", klass="permanent"))
            return
        job = self.jobs[attempt] = Job(order, work, self._say)
        line = self._lines.get(order.lease)
        if line is not None:
            line.append(job)
            return
        self._lines[order.lease] = deque([job])
        task = start_task(self._run(order.lease), "lease_runner")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop(self, attempt: str, grace_seconds: float) -> None:
        """Stop an attempt, if it is here."""
        job = self.jobs.get(attempt)
        if job is not None:
            job.stop(grace_seconds)

    def prolong(self, attempt: str, until: datetime) -> None:
        """Pass a new deadline to an attempt, if it is here."""
        job = self.jobs.get(attempt)
        if job is not None:
            job.prolong(until)

    def withdraw(self, attempt: str) -> bool:
        """Take back an attempt that has not started; False if it has, or is unknown."""
        job = self.jobs.get(attempt)
        if job is None or not job.withdraw():
            return False
        del self.jobs[attempt]
        return True

    async def end_all(self, grace_seconds: float) -> None:
        """Stop everything, waiting attempts first; return when all have ended."""
        for job in list(reversed(self.jobs.values())):
            job.stop(grace_seconds)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for executor in set(self._executors.values()):
            await executor.close()

    async def _run(self, lease: str) -> None:
        """Process the queue of one lease."""
        line = self._lines[lease]
        while line:
            if line[0].is_over:
                job = line.popleft()
                if self.jobs.get(job.attempt) is job:
                    del self.jobs[job.attempt]
            elif line[0].work is None:
                line[0].begin(0)
                line[0].end(Outcome.SUCCEEDED, output="null")
            else:
                await self._run_some(line)
        del self._lines[lease]

    async def _run_some(self, line: deque[Job]) -> None:
        """Run the head of a queue, with those behind it that the same executor takes."""
        executor = self._executors[type(line[0].work)]  # type: ignore[index]  # it is not None
        jobs: list[Job] = []
        for job in line:
            if len(jobs) == executor.most or job.work is None or self._executors[type(job.work)] is not executor:
                break
            if not job.is_over:
                jobs.append(job)
        try:
            await executor.run(jobs)
        except Exception as error:  # reported as the attempt's error; the queue continues
            log.exception("attempt.broken", attempt=jobs[0].attempt)
            jobs[0].end(Outcome.FAILED, error=failure("Supervisor", f"internal error of the worker: {error}"))
