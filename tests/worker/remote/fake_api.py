"""A real HTTP server on loopback for fake APIs, with injected network faults."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Faults:
    """Faults between client and server."""

    def __init__(self) -> None:
        self.down = False
        """Cut every connection before the request is processed."""
        self.lost_answers: list[str] = []
        """Methods whose next request is processed and its response lost."""
        self.cut = 0
        """Number of connections cut by `down`."""
        self.asked: list[str] = []
        """`METHOD path` of each request while the server was up."""


class Unreliable:
    """ASGI middleware that injects the faults."""

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if self._faults.down:
            self._faults.cut += 1
            await _cut(send)
            return
        self._faults.asked.append(f"{scope['method']} {scope['path']}")
        if scope["method"] not in self._faults.lost_answers:
            await self._app(scope, receive, send)
            return
        self._faults.lost_answers.remove(scope["method"])

        async def swallow(message: Message) -> None:
            """The answer goes nowhere."""

        await self._app(scope, receive, swallow)
        await _cut(send)


async def _cut(send: Send) -> None:
    """Send an incomplete response: the client sees a broken connection."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
    await send({"type": "http.response.body", "body": b""})


@asynccontextmanager
async def serving(app: ASGIApp, faults: Faults, listener: socket.socket) -> AsyncIterator[str]:
    """Serve an application on a listening socket, which stays open; yield the address."""
    config = uvicorn.Config(Unreliable(app, faults), log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    task = asyncio.create_task(server.serve(sockets=[listener.dup()]))
    while not server.started:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0.005)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.force_exit = True
    server.should_exit = True
    await task
