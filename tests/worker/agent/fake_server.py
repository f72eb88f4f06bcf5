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
    FromWorker,
    Log,
    LogStored,
    Redirect,
    Register,
    Result,
    ToWorker,
    Verdict,
    Welcome,
)

TIMEOUT_SECONDS = 30.0
_POLL_SECONDS = 0.02
_DECODER: msgspec.msgpack.Decoder[list[FromWorker]] = msgspec.msgpack.Decoder(list[FromWorker])

M = TypeVar("M")


async def wait_until(condition: Callable[[], bool]) -> None:
    """Poll a condition that another process fulfills."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(_POLL_SECONDS)


class FakeServer:
    """A server for one worker."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[FromWorker] = []
        self.frames: list[list[FromWorker]] = []
        """The same, by frame."""
        self.sends_welcome = True
        """Whether it sends a welcome."""
        self.answers = True
        """Whether it acknowledges results and logs."""
        self.redirects_to = ""
        """Address of the leader to redirect to, if set."""
        self.refuses: HTTPStatus | None = None
        self.lost_after_seconds = 15.0
        self.tokens: list[str] = []
        self._link: ServerConnection | None = None
        self._wakeup = asyncio.Event()

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

    async def disconnect(self) -> None:
        """Close the connection."""
        assert self._link is not None
        await self._link.close()

    async def wait_for(self, kind: type[M], fits: Callable[[M], bool] = lambda _: True, times: int = 1) -> M:
        """Wait for the n-th message of this kind."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                found = [one for one in self.received if isinstance(one, kind) and fits(one)]
                if len(found) >= times:
                    return found[times - 1]
                self._wakeup.clear()
                await self._wakeup.wait()

    async def connection_attempts(self, times: int) -> None:
        """Wait for this many connection attempts."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.tokens) < times:
                self._wakeup.clear()
                await self._wakeup.wait()

    async def result(self, attempt: str, times: int = 1) -> Result:
        """Wait for the result of an attempt."""
        return await self.wait_for(Result, lambda one: one.attempt == attempt, times)

    def log(self, attempt: str) -> bytes:
        """Return the log of an attempt, assembled from its pieces."""
        whole = bytearray()
        for piece in self.received:
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
                    self.received.append(message)
                    await self._react(message)
                self._wakeup.set()
        except ConnectionClosed:
            return  # a worker that was killed says no goodbye

    async def _react(self, message: FromWorker) -> None:
        if isinstance(message, Register) and self.redirects_to:
            await self.say(Redirect(self.redirects_to))
        elif isinstance(message, Register) and self.sends_welcome:
            await self.say(Welcome(message.session, self.lost_after_seconds), Credit(1_000))
        elif isinstance(message, Result) and self.answers:
            await self.say(Answer(message.attempt, Verdict.APPLIED), Credit(1))
        elif isinstance(message, Log) and self.answers:
            await self.say(LogStored(message.attempt, message.offset + len(message.data)))

    def check(self, link: ServerConnection, request: Request) -> Response | None:
        """Check the token before the link is opened."""
        self.tokens.append(request.headers.get("Authorization", ""))
        self._wakeup.set()
        if self.refuses is None:
            return None
        return link.respond(self.refuses, "no\n")


@asynccontextmanager
async def open_fake_server() -> AsyncIterator[FakeServer]:
    """Start a server on a free port."""
    fake_server = FakeServer()
    async with serve(fake_server.serve, "127.0.0.1", 0, process_request=fake_server.check, compression=None) as server:
        fake_server.port = next(iter(server.sockets)).getsockname()[1]
        yield fake_server
