"""Python executor: calls functions in warm children (WRK-3); a process per call would cost 100 times as much.

The attempts of a lease go to one child, a slice at a time. Each confinement has its own children.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable, Sequence

from mainspring.core.work.work import ImportedFunction, ServedFunction
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_handle import AttemptHandle, failure
from mainspring.worker.executors.executor import Executor, Runtime
from mainspring.worker.executors.python.child_link import ChildLink
from mainspring.worker.sandbox.confinement import Confinement, confinement_of

_MAX_CHILDREN = 64
_WAIT_SECONDS = 0.1
"""Time that a slice waits for a child before another one is started."""


class ChildPool:
    """Children with one confinement."""

    def __init__(self, make: Callable[[], ChildLink], *, warm: int, limit: int, is_kept: bool) -> None:
        """Up to `warm` children start without waiting, and stay alive if `is_kept`; at most `limit` run at once."""
        self._make = make
        self._warm = warm
        self._limit = limit
        self._kept = warm if is_kept else 0
        self._children: set[ChildLink] = set()
        self._free: asyncio.LifoQueue[ChildLink] = asyncio.LifoQueue()
        self._child_returned = asyncio.Condition()
        self._returned = 0

    async def take(self, memory_bytes: int) -> ChildLink:
        """Return an idle child with this memory limit. Raises Unavailable, Refused or OSError."""
        while True:
            child = await self._take_any()
            if child.set_memory_limit(memory_bytes):
                return child
            await self._end(child)

    async def give_back(self, child: ChildLink) -> None:
        """Return a child to the pool."""
        surplus = self._free.qsize() >= self._kept
        if child.is_alive and not surplus:
            self._free.put_nowait(child)
        else:
            await self._end(child)
        self._returned += 1
        async with self._child_returned:
            self._child_returned.notify()

    async def close(self) -> None:
        """End all children."""
        for child in list(self._children):
            await self._end(child)

    async def _take_any(self) -> ChildLink:
        while self._free.empty():
            if len(self._children) < self._warm or await self._all_busy():
                return await self._start()
        return self._free.get_nowait()

    async def _all_busy(self) -> bool:
        """Wait for a child. True if none returned for a while and one more may be started, one at a time."""
        before = self._returned
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                async with self._child_returned:
                    await self._child_returned.wait()
                return False
        except TimeoutError:
            should_start = before == self._returned and len(self._children) < self._limit
            self._returned += should_start
            return should_start

    async def _start(self) -> ChildLink:
        child = self._make()
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


class FunctionExecutor(Executor):
    """Calls functions in children."""

    max_batch = 64
    """About 60 ms of short calls: others wait 100 ms for a child before one more is started."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._numbers = itertools.count(1)
        self._pools: dict[Confinement, ChildPool] = {}

    async def run(self, handles: Sequence[AttemptHandle]) -> None:
        """Call these one after another in one child, up to the first with another confinement."""
        secrets = await self._resolve(handles)
        handles = [handle for handle in handles if not handle.has_ended]
        if not handles:
            return
        confinement = self._confinement_of(handles[0])
        pool = self._pool_of(confinement)
        try:
            child = await pool.take(handles[0].assignment.memory_bytes)
        except (Unavailable, Refused, OSError) as error:
            handles[0].end(Outcome.FAILED, error=failure("Child", str(error), error_class="infrastructure"))
            return
        first = handles[0].work
        batch = list(
            itertools.takewhile(
                lambda handle: handle.work is first or self._confinement_of(handle) == confinement, handles
            )
        )
        try:
            for handle in batch:
                if handle.work is not None and handle.work.fetch:
                    await child.fetch(handle)
            await child.run([handle for handle in batch if not handle.has_ended], secrets)
        finally:
            await pool.give_back(child)

    async def close(self) -> None:
        """End the children."""
        for pool in self._pools.values():
            await pool.close()

    def _confinement_of(self, handle: AttemptHandle) -> Confinement:
        assert handle.work is not None
        return confinement_of(handle.work, self._settings.isolation)

    def _pool_of(self, confinement: Confinement) -> ChildPool:
        if confinement not in self._pools:
            self._pools[confinement] = ChildPool(
                lambda: ChildLink(self._runtime, confinement, next(self._numbers)),
                warm=self._settings.children or os.cpu_count() or 1,
                limit=_MAX_CHILDREN,
                is_kept=not confinement.is_sandbox(),
            )
        return self._pools[confinement]

    async def _resolve(self, handles: Sequence[AttemptHandle]) -> dict[str, dict[str, str]]:
        """Resolve secrets by attempt. An attempt whose secrets can't be resolved ends."""
        secrets: dict[str, dict[str, str]] = {}
        for handle in handles:
            assert isinstance(handle.work, ImportedFunction | ServedFunction)
            if not handle.work.secrets:
                continue
            values = await self.resolve_secrets(handle, handle.work.secrets)
            if values is not None:
                secrets[handle.attempt] = values
        return secrets
