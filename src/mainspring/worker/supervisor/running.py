"""What a guard runs: leases beside each other, the orders of one lease one after another.

1. Between two jobs of a lease nothing else of it runs.
2. An attempt that was launched once is not launched again, also when a new agent says it again.
3. A job leaves `jobs` with its `Ended`, or when it was taken back before it began.
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
"""Tasks of one job have the same text: it is read once."""


class Running:
    """All that was launched and is not over."""

    def __init__(self, executors: Mapping[type[Work], Executor], say: Callable[[FromGuard], None]) -> None:
        self._executors = executors
        self._say = say
        self._read = lru_cache(_WORKS_IN_MIND)(read_work)
        self._lines: dict[str, deque[Job]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.jobs: dict[str, Job] = {}

    def launch(self, order: Order) -> None:
        """Put an order at the end of its lease's line."""
        attempt = order.assignment.attempt
        try:
            work = self._read(order.assignment.work)
        except (msgspec.DecodeError, ValueError) as error:
            job = Job(order, None, self._say)
            job.end(Outcome.FAILED, error=failure("Work", f"the work can't be read: {error}", klass="permanent"))
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
        """End an attempt, if it is here."""
        job = self.jobs.get(attempt)
        if job is not None:
            job.stop(grace_seconds)

    def prolong(self, attempt: str, until: datetime) -> None:
        """Let an attempt know, if it is here, until when it may run."""
        job = self.jobs.get(attempt)
        if job is not None:
            job.prolong(until)

    def withdraw(self, attempt: str) -> bool:
        """Take back an attempt that has not begun; False if it has, or is not here."""
        job = self.jobs.get(attempt)
        if job is None or not job.withdraw():
            return False
        del self.jobs[attempt]
        return True

    async def end_all(self, grace_seconds: float) -> None:
        """Stop everything, what waits before what runs; come back when all is over."""
        for job in list(reversed(self.jobs.values())):
            job.stop(grace_seconds)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for executor in set(self._executors.values()):
            await executor.close()

    async def _run(self, lease: str) -> None:
        """Work off one lease's line."""
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
        """Run the first of a line, with those behind it that the same executor can take along."""
        executor = self._executors[type(line[0].work)]  # type: ignore[index]  # it is not None
        jobs: list[Job] = []
        for job in line:
            if len(jobs) == executor.most or job.work is None or self._executors[type(job.work)] is not executor:
                break
            if not job.is_over:
                jobs.append(job)
        try:
            await executor.run(jobs)
        except Exception as error:  # the line goes on: the job's end tells of it
            log.exception("attempt.broken", attempt=jobs[0].attempt)
            jobs[0].end(Outcome.FAILED, error=failure("Guard", f"the worker failed to run it: {error}"))
