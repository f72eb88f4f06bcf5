"""Group commit: requests that arrive during a write join the next one. There is no timer.

One commit per request would limit throughput. A single request does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mainspring.event_loop import start_task
from mainspring.protocol.errors import Overloaded

MAX_GROUP_SIZE = 1_000
MAX_GROUP_BYTES = 8 * 1024 * 1024
MAX_WAITING = 20_000

_W = TypeVar("_W")
_E = TypeVar("_E")


class GroupCommit(Generic[_W, _E]):
    """Groups concurrent writes.

    `write` writes a group and returns one result per item; `size` estimates the bytes of an item.
    """

    def __init__(
        self, write: Callable[[Sequence[_W]], Awaitable[Sequence[_E | Exception]]], size: Callable[[_W], int]
    ) -> None:
        self._write = write
        self._size = size
        self._waiting: deque[tuple[_W, asyncio.Future[_E]]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def add(self, one: _W) -> _E:
        """Write an item together with concurrent ones. Raises Overloaded if the queue is full."""
        if len(self._waiting) >= MAX_WAITING:
            raise Overloaded(f"{len(self._waiting)} runs are waiting to be written")
        ended: asyncio.Future[_E] = asyncio.get_running_loop().create_future()
        self._waiting.append((one, ended))
        if self._writing is None or self._writing.done():
            self._writing = start_task(self._write_waiting(), "group_commit")
        return await ended

    async def _write_waiting(self) -> None:
        while self._waiting:
            group = self._take_group()
            ends: Sequence[_E | Exception]
            try:
                ends = await self._write([one for one, _ in group])
            except Exception as error:  # noqa: BLE001 - every waiter gets the error
                ends = [error] * len(group)
            for (_, ended), end in zip(group, ends, strict=True):
                if ended.done():
                    continue  # the waiter is gone
                if isinstance(end, Exception):
                    ended.set_exception(end)
                else:
                    ended.set_result(end)

    def _take_group(self) -> list[tuple[_W, asyncio.Future[_E]]]:
        group: list[tuple[_W, asyncio.Future[_E]]] = []
        size = 0
        while self._waiting and len(group) < MAX_GROUP_SIZE and size < MAX_GROUP_BYTES:
            group.append(self._waiting.popleft())
            size += self._size(group[-1][0])
        return group
