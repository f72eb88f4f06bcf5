"""A proxy between a store and PostgreSQL that can drop everything, or lose one response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

_PORT = 5432


class Proxy:
    """Faults of the connection. Both ends are Unix sockets."""

    def __init__(self, real: Path) -> None:
        self._real = real
        self._connections: set[asyncio.Task[None]] = set()
        self.swallow = False
        """Drop everything in both directions: a network that fails silently."""
        self.lose_answer_to: bytes | None = None
        """When the client has sent this: forward it, wait for the response of the server, then close the connection."""
        self.answers_lost = 0

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client until either side closes the connection."""
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
            pass  # both sides are closed now in any case
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
        """Close all connections."""
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _HungUp(Exception):
    """One side has closed its connection."""


@asynccontextmanager
async def proxied(url: str, directory: Path) -> AsyncIterator[tuple[str, Proxy]]:
    """A proxy for the server at `url`, with its own URL."""
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
