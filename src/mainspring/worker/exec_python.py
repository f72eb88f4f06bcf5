"""Python functions, in a pool of warm children (WRK-3): a process per call would cost 100 times as much.

The jobs of a lease go to one child, a slice at a time. Children are started when they are needed; when all are busy
for a while another one is started, and the surplus is ended when it has nothing to do.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from pathlib import Path

from mainspring.clock import Clock
from mainspring.core.work import ImportedFunction, ServedFunction
from mainspring.errors import Refused, Unavailable
from mainspring.wire import Outcome
from mainspring.worker.capture import Mask
from mainspring.worker.child_link import ChildLink
from mainspring.worker.executors import Job, failure
from mainspring.worker.groups import Processes
from mainspring.worker.guard_settings import GuardSettings
from mainspring.worker.secret_values import Secrets

_PATIENCE_SECONDS = 0.1
"""So long a slice waits for a child before another one is started."""


class FunctionExecutor:
    """Calls the functions of jobs in children."""

    most = 32

    def __init__(
        self, state_dir: Path, settings: GuardSettings, clock: Clock, processes: Processes, secrets: Secrets
    ) -> None:
        self._state_dir = state_dir
        self._settings = settings
        self._clock = clock
        self._processes = processes
        self._secrets = secrets
        self._numbers = itertools.count(1)
        self._children: set[ChildLink] = set()
        self._free: asyncio.LifoQueue[ChildLink] = asyncio.LifoQueue()
        self._came_back = asyncio.Condition()
        self._returned = 0

    async def run(self, jobs: Sequence[Job]) -> None:
        """Call the functions of these, one after another, in one child."""
        secrets = await self._resolve(jobs)
        if all(job.is_over for job in jobs):
            return
        try:
            child = await self._take_child()
        except (Unavailable, OSError) as error:
            jobs[0].end(Outcome.FAILED, error=failure("Child", str(error), klass="infrastructure"))
            return
        try:
            await child.run([job for job in jobs if not job.is_over], secrets)
        finally:
            await self._give_back(child)

    async def close(self) -> None:
        """End the children."""
        for child in list(self._children):
            await self._end(child)

    async def _resolve(self, jobs: Sequence[Job]) -> dict[str, dict[str, str]]:
        """The secrets of each attempt that has some. A job whose secrets can't be resolved is over."""
        secrets: dict[str, dict[str, str]] = {}
        for job in jobs:
            assert isinstance(job.work, ImportedFunction | ServedFunction)
            if not job.work.secrets:
                continue
            try:
                values = secrets[job.attempt] = await self._secrets.resolve(job.work.secrets)
                job.mask = Mask(values.values())
            except Refused as error:
                job.end(Outcome.FAILED, error=failure("Secret", str(error), klass="permanent"))
        return secrets

    async def _take_child(self) -> ChildLink:
        """A child that has nothing to do. Raises Unavailable or OSError if none can be started."""
        while self._free.empty():
            if len(self._children) < self._settings.warm_children() or await self._all_are_long():
                return await self._start()
        return self._free.get_nowait()

    async def _all_are_long(self) -> bool:
        """Wait for a child. True if none came back for a while, and one more may be started: by one at a time."""
        before = self._returned
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async with self._came_back:
                    await self._came_back.wait()
                return False
        except TimeoutError:
            is_stuck = before == self._returned and len(self._children) < self._settings.most_children
            self._returned += is_stuck
            return is_stuck

    async def _give_back(self, child: ChildLink) -> None:
        surplus = self._free.qsize() >= self._settings.warm_children()
        if child.is_alive and not surplus:
            self._free.put_nowait(child)
            self._returned += 1
            async with self._came_back:
                self._came_back.notify()
        else:
            await self._end(child)

    async def _start(self) -> ChildLink:
        child = ChildLink(self._state_dir, self._settings, self._clock, self._processes, next(self._numbers))
        self._children.add(child)
        try:
            await child.start()
        except BaseException:
            await self._end(child)
            raise
        return child

    async def _end(self, child: ChildLink) -> None:
        self._children.discard(child)
        await child.close()
