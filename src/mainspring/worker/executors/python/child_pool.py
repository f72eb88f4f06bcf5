"""Warm children for Python functions with the same confinement. They are started on demand; when all are busy for a
while another one is started, and surplus ones are ended when idle.

Sandboxed children are never shared: they end after the slice that they were started for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mainspring.worker.executors.python.child_link import ChildLink

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
