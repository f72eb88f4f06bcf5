"""A real HTTP server on loopback with scripted responses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple, Self


class Request(NamedTuple):
    """A received request."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        """The content of the only message."""
        [message] = self.body["messages"]
        return str(message["content"])


class ActionStatus(NamedTuple):
    """A response. Status 0 closes the connection; -1 never responds."""

    status: int
    body: str
    headers: tuple[str, ...] = ()


def says(text: str | None) -> ActionStatus:
    """Return an answer in the chat format."""
    return ActionStatus(
        200, json.dumps({"id": "x", "choices": [{"index": 0, "message": {"content": text}}, {"message": {}}]})
    )


class FakeChatApi:
    """The server; a function maps requests to replies."""

    def __init__(self, answer: Callable[[Request], ActionStatus]) -> None:
        self._answer = answer
        self._server: asyncio.Server | None = None
        self.requests: list[Request] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.url = f"http://{host}:{port}/v1/chat/completions"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # The client disconnected, for example after a timeout.
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *rest = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        request = Request(line, headers, body)
        self.requests.append(request)
        reply = self._answer(request)
        if reply.status < 0:
            await reader.read()
        if reply.status <= 0:
            return
        content = reply.body.encode()
        lines = [f"HTTP/1.1 {reply.status} X", f"Content-Length: {len(content)}", "Connection: close", *reply.headers]
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
        await writer.drain()
