"""A proxy between a store and PostgreSQL that can swallow everything, or lose one answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

_PORT = 5432


class Proxy:
    """What happens to the bytes that pass. Both ends are Unix sockets."""

    def __init__(self, real: Path) -> None:
        self._real = real
        self._connections: set[asyncio.Task[None]] = set()
        self.swallow = False
        """Take everything from both sides and pass nothing on: a network that is silently gone."""
        self.lose_answer_to: bytes | None = None
        """When the client has sent this, pass it on, wait for the server's answer, and hang up instead of giving it."""
        self.answers_lost = 0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until one side hangs up."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        server_reader, server_writer = await asyncio.open_unix_connection(str(self._real))
        asked = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(self._requests(reader, server_writer, asked))
                directions.create_task(self._answers(server_reader, writer, asked))
        except* (ConnectionError, _HungUp, asyncio.CancelledError):
            pass  # however it ended, both sides are closed now
        finally:
            self._connections.discard(task)
            server_writer.close()
            writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if self.swallow:
                continue
            if self.lose_answer_to is not None and self.lose_answer_to in data:
                asked.set()
            writer.write(data)
            await writer.drain()
        raise _HungUp

    async def _answers(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event) -> None:
        while data := await reader.read(65536):
            if self.swallow:
                continue
            if asked.is_set():
                self.answers_lost += 1
                self.lose_answer_to = None
                raise _HungUp
            writer.write(data)
            await writer.drain()
        raise _HungUp

    async def close(self) -> None:
        """Hang up on everybody."""
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _HungUp(Exception):
    """One side is gone."""


@asynccontextmanager
async def proxied(url: str, directory: Path) -> AsyncIterator[tuple[str, Proxy]]:
    """A proxy before the server at `url`, and the address to reach it by."""
    parts = urlsplit(url)
    (host,) = parse_qs(parts.query)["host"]
    proxy = Proxy(Path(host) / f".s.PGSQL.{_PORT}")
    server = await asyncio.start_unix_server(proxy.connect, str(directory / f".s.PGSQL.{_PORT}"))
    try:
        yield urlunsplit(parts._replace(query=f"host={directory}&port={_PORT}")), proxy
    finally:
        server.close()
        await proxy.close()
        await server.wait_closed()
