"""Running attempts of a supervisor: leases in parallel, the attempts of one lease one after another.

1. At most one attempt of a lease runs at a time.
2. An attempt is launched once, even if a new agent repeats the launch.
3. A handle leaves `handles` with its `AttemptEnded`, or when it is withdrawn before it started.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from itertools import islice, takewhile

import msgspec
import structlog

from mainspring.core.work.work import Work, read_work
from mainspring.event_loop import start_task
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_handle import AttemptHandle, failure
from mainspring.worker.executors.executor import Executor
from mainspring.worker.supervisor.supervisor_wire import FromSupervisor, LaunchRequest

log = structlog.get_logger(__name__)

_MAX_CACHED_WORKS = 1_000
"""Tasks of one job have the same text, which is parsed once."""


class AttemptRunner:
    """All launched attempts that have not ended."""

    def __init__(self, executors: Mapping[type[Work], Executor], send: Callable[[FromSupervisor], None]) -> None:
        self._executors = executors
        self._send = send
        self._read = lru_cache(_MAX_CACHED_WORKS)(read_work)
        self._queues: dict[str, deque[AttemptHandle]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.handles: dict[str, AttemptHandle] = {}

    def launch(self, request: LaunchRequest) -> None:
        """Append an attempt to its lease's queue."""
        attempt = request.assignment.attempt
        try:
            work = self._read(request.assignment.work)
        except (msgspec.DecodeError, ValueError) as error:
            handle = AttemptHandle(request, None, self._send)
            handle.end(Outcome.FAILED, error=failure("Work", f"invalid work: {error}", error_class="permanent"))
            return
        handle = self.handles[attempt] = AttemptHandle(request, work, self._send)
        queue = self._queues.get(request.lease)
        if queue is not None:
            queue.append(handle)
            return
        self._queues[request.lease] = deque([handle])
        task = start_task(self._run(request.lease), "lease_runner")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def withdraw(self, attempt: str) -> bool:
        """Take back an attempt that has not started; False if it has, or is unknown."""
        handle = self.handles.get(attempt)
        if handle is None or not handle.withdraw():
            return False
        del self.handles[attempt]
        return True

    async def end_all(self, grace_seconds: float) -> None:
        """Stop everything, waiting attempts first; return when all have ended."""
        for handle in list(reversed(self.handles.values())):
            handle.stop(grace_seconds)
        while self._tasks:
            await asyncio.wait(self._tasks)
        for executor in set(self._executors.values()):
            await executor.close()

    async def _run(self, lease: str) -> None:
        """Process the queue of one lease."""
        queue = self._queues[lease]
        while queue:
            if queue[0].has_ended:
                handle = queue.popleft()
                if self.handles.get(handle.attempt) is handle:
                    del self.handles[handle.attempt]
            elif queue[0].work is None:
                queue[0].begin(0)
                queue[0].end(Outcome.SUCCEEDED, output="null")
            else:
                await self._run_batch(queue)
        del self._queues[lease]

    async def _run_batch(self, queue: deque[AttemptHandle]) -> None:
        """Run the head of a queue, with those behind it that the same executor takes."""
        executor = self._executors[type(queue[0].work)]  # type: ignore[index]  # it is not None
        same = takewhile(lambda one: one.work is not None and self._executors[type(one.work)] is executor, queue)
        handles = list(islice((handle for handle in same if not handle.has_ended), executor.max_batch))
        try:
            await executor.run(handles)
        except Exception as error:  # reported as the attempt's error; the queue continues
            log.exception("attempt.broken", attempt=handles[0].attempt)
            handles[0].end(Outcome.FAILED, error=failure("Supervisor", f"internal error of the worker: {error}"))
