"""A fake server: sends what the test tells it to, and records what workers send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TypeVar

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from mainspring.protocol.wire import (
    Answer,
    Assign,
    Assignment,
    Credit,
    Elsewhere,
    FromWorker,
    Log,
    LogKept,
    Register,
    Result,
    ToWorker,
    Verdict,
    Welcome,
)

PATIENCE_SECONDS = 30.0
_LOOK_SECONDS = 0.02
_DECODER: msgspec.msgpack.Decoder[list[FromWorker]] = msgspec.msgpack.Decoder(list[FromWorker])

M = TypeVar("M")


async def until_it_holds(condition: Callable[[], bool]) -> None:
    """Poll a condition that another process fulfills."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_LOOK_SECONDS)


class Desk:
    """A server for one worker."""

    def __init__(self) -> None:
        self.port = 0
        self.heard: list[FromWorker] = []
        self.frames: list[list[FromWorker]] = []
        """The same, by frame."""
        self.greets = True
        """Whether it sends a welcome."""
        self.answers = True
        """Whether it acknowledges results and logs."""
        self.points_to = ""
        """Address of the leader to redirect to, if set."""
        self.refuses: HTTPStatus | None = None
        self.tokens: list[str] = []
        self._link: ServerConnection | None = None
        self._something = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def say(self, *messages: ToWorker) -> None:
        """Send messages to the connected worker."""
        assert self._link is not None
        await self._link.send(msgspec.msgpack.encode(messages))

    async def assign(self, lease: str, *works: tuple[str, str]) -> None:
        """Assign a group of attempts with their works."""
        group = [Assignment(one, f"task_{one}", "run_1", "acme", one, 1, work, "{}", {}) for one, work in works]
        await self.say(Assign(lease, tuple(group)))

    async def hang_up(self) -> None:
        """Close the connection."""
        assert self._link is not None
        await self._link.close()

    async def wait_for(self, kind: type[M], fits: Callable[[M], bool] = lambda _: True, times: int = 1) -> M:
        """Wait for the n-th message of this kind."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = [one for one in self.heard if isinstance(one, kind) and fits(one)]
                if len(found) >= times:
                    return found[times - 1]
                self._something.clear()
                await self._something.wait()

    async def knocked(self, times: int) -> None:
        """Wait for this many connection attempts."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(self.tokens) < times:
                self._something.clear()
                await self._something.wait()

    async def result(self, attempt: str, times: int = 1) -> Result:
        """Wait for the result of an attempt."""
        return await self.wait_for(Result, lambda one: one.attempt == attempt, times)

    def log(self, attempt: str) -> bytes:
        """Return the log of an attempt, assembled from its pieces."""
        whole = bytearray()
        for piece in self.heard:
            if isinstance(piece, Log) and piece.attempt == attempt:
                whole[piece.offset : piece.offset + len(piece.data)] = piece.data
        return bytes(whole)

    async def serve(self, link: ServerConnection) -> None:
        """Serve one worker."""
        self._link = link
        try:
            async for data in link:
                assert isinstance(data, bytes)
                self.frames.append(_DECODER.decode(data))
                for message in self.frames[-1]:
                    self.heard.append(message)
                    await self._react(message)
                self._something.set()
        except ConnectionClosed:
            return  # a worker that was killed says no goodbye

    async def _react(self, message: FromWorker) -> None:
        if isinstance(message, Register) and self.points_to:
            await self.say(Elsewhere(self.points_to))
        elif isinstance(message, Register) and self.greets:
            await self.say(Welcome(message.session), Credit(1_000))
        elif isinstance(message, Result) and self.answers:
            await self.say(Answer(message.attempt, Verdict.APPLIED), Credit(1))
        elif isinstance(message, Log) and self.answers:
            await self.say(LogKept(message.attempt, message.offset + len(message.data)))

    def check(self, link: ServerConnection, request: Request) -> Response | None:
        """Check the token before the link is opened."""
        self.tokens.append(request.headers.get("Authorization", ""))
        self._something.set()
        if self.refuses is None:
            return None
        return link.respond(self.refuses, "no\n")


@asynccontextmanager
async def open_desk() -> AsyncIterator[Desk]:
    """Start a server on a free port."""
    desk = Desk()
    async with serve(desk.serve, "127.0.0.1", 0, process_request=desk.check, compression=None) as server:
        desk.port = next(iter(server.sockets)).getsockname()[1]
        yield desk
