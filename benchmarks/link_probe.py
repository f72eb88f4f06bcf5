"""A minimal worker that sends single messages to an idle server, and measures the replies."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import TypeVar

import msgspec
from websockets.asyncio.client import ClientConnection, connect

from mainspring.protocol.wire import (
    Answer,
    Assign,
    FromWorker,
    Heartbeat,
    Offer,
    Outcome,
    Received,
    Register,
    Result,
    Started,
    Stop,
    ToWorker,
)

T = TypeVar("T")
_UNKNOWN_ATTEMPT = "att_000000000000-0000000000000000"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ToWorker]).decode


class LinkProbe:
    """Executes tasks labeled `probe` one at a time."""

    def __init__(self, address: str) -> None:
        self._url = address.replace("http", "ws", 1) + "/api/v1/worker-link"
        self.transitions: list[float] = []
        """Seconds from a result to the reply after its commit."""
        self.beats: list[float] = []
        """Seconds from a heartbeat to the reply to a message sent with it."""

    async def run(self, count: int) -> None:
        """Execute this many tasks."""
        async with connect(self._url, compression=None, max_size=None) as link:
            hello = Register("probe", "probe:1", Offer(1_000, 1 << 30), {"probe": "yes"})
            await _say(link, hello)
            words = _words(link)
            while len(self.transitions) < count:
                assignment = await _next(words, Assign)
                for one in assignment.group:
                    await _say(link, Received((one.attempt,)), Started(one.attempt))
                    await self._time_beat(link, words)
                    sent = time.perf_counter()
                    await _say(link, Result(one.attempt, Outcome.SUCCEEDED, "null"))
                    await _next(words, Answer)
                    self.transitions.append(time.perf_counter() - sent)

    async def _time_beat(self, link: ClientConnection, words: AsyncIterator[ToWorker]) -> None:
        """A receipt for an unknown attempt is answered with `Stop`, after the heartbeat before it was processed."""
        sent = time.perf_counter()
        await _say(link, Heartbeat(), Received((_UNKNOWN_ATTEMPT,)))
        await _next(words, Stop)
        self.beats.append(time.perf_counter() - sent)


async def _say(link: ClientConnection, *words: FromWorker) -> None:
    await link.send(_encode(list(words)))


async def _words(link: ClientConnection) -> AsyncIterator[ToWorker]:
    async for frame in link:
        assert isinstance(frame, bytes)
        for word in _decode(frame):
            yield word


async def _next(words: AsyncIterator[ToWorker], kind: type[T]) -> T:
    async for word in words:
        if isinstance(word, kind):
            return word
    raise EOFError("the server closed the link")
