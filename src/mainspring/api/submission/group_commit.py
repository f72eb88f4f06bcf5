"""What comes while something is being written waits for it, and goes together: group commit without a timer.

A commit each would limit how much can be taken. One that comes alone does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from mainspring.event_loop import start_task
from mainspring.protocol.errors import Overloaded

MOST_TOGETHER = 1_000
MOST_BYTES_TOGETHER = 8 * 1024 * 1024
MOST_WAITING = 20_000

_W = TypeVar("_W")
_E = TypeVar("_E")


class Gatherer(Generic[_W, _E]):
    """Puts those together who wait for the same thing.

    `write` takes some at once and says how each of them ended; `size` is about how many bytes one has.
    """

    def __init__(
        self, write: Callable[[Sequence[_W]], Awaitable[Sequence[_E | Exception]]], size: Callable[[_W], int]
    ) -> None:
        self._write = write
        self._size = size
        self._waiting: deque[tuple[_W, asyncio.Future[_E]]] = deque()
        self._writing: asyncio.Task[None] | None = None

    async def add(self, one: _W) -> _E:
        """Have one written with those who come at the same time. Raises Overloaded if too many wait already."""
        if len(self._waiting) >= MOST_WAITING:
            raise Overloaded(f"{len(self._waiting)} runs wait to be written already")
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
            except Exception as error:  # noqa: BLE001 - whatever it is, each of those who wait is told
                ends = [error] * len(group)
            for (_, ended), end in zip(group, ends, strict=True):
                if ended.done():
                    continue  # whoever waited has gone away
                if isinstance(end, Exception):
                    ended.set_exception(end)
                else:
                    ended.set_result(end)

    def _take_group(self) -> list[tuple[_W, asyncio.Future[_E]]]:
        group: list[tuple[_W, asyncio.Future[_E]]] = []
        size = 0
        while self._waiting and len(group) < MOST_TOGETHER and size < MOST_BYTES_TOGETHER:
            group.append(self._waiting.popleft())
            size += self._size(group[-1][0])
        return group
