"""Input before, after and instead of a request is bounded, and affects no other client (SEC-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from mainspring.api.http.connections import MAX_DISCARDED_BYTES, MAX_HEAD_BYTES
from tests.api.api_server import DEADLINE_SECONDS, ApiServers, Server

GIGABYTE = 1_000_000_000
PIECE = b"x" * 64 * 1024
MOST_IN_FLIGHT = 16 << 20
"""Data buffered by the kernel between two sockets."""
POST = b"POST /api/v1/runs HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    """A listening server."""
    async with ApiServers(tmp_path) as api_servers:
        server = await api_servers.server()
        yield server
        async with server.http() as client:
            assert (await client.get("/healthz")).status_code == 200, "other clients are served"


async def send(server: Server, start: bytes, piece: bytes = b"", most: int = 0) -> tuple[bytes, int]:
    """Send a start and then a piece repeatedly, until the server closes or a number of bytes is sent.

    Returns the response, and how many bytes the server accepted.
    """
    port = int(server.address.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answering = asyncio.create_task(reader.read())
    sent = 0
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                writer.write(start)
                await writer.drain()
                while sent < most and not answering.done():
                    writer.write(piece)
                    await writer.drain()
                    sent += len(piece)
            except ConnectionError:
                pass  # the server closed the connection, as expected
            try:
                answer = await answering
            except ConnectionError:
                answer = b""  # the reset arrived before the last bytes were read
    finally:
        writer.transport.abort()
    return answer, sent


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (POST + b"content-length: %d\r\n\r\n" % GIGABYTE, PIECE),
        (CHUNKED, b"%x\r\n%s\r\n" % (len(PIECE), PIECE)),
        (CHUNKED, b"10\r\n%s\r\n" % PIECE[:16] * 1_000),
    ],
    ids=["length", "chunked", "small chunks"],
)
async def test_a_gigabyte_is_rejected_unread(server: Server, start: bytes, piece: bytes) -> None:
    answer, sent = await send(server, start, piece, GIGABYTE)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b'"code":"too_large"' in answer
    assert sent < MOST_IN_FLIGHT


async def test_an_oversized_body_with_expect_continue_is_rejected_immediately(server: Server) -> None:
    answer, _ = await send(server, POST + b"expect: 100-continue\r\ncontent-length: %d\r\n\r\n" % GIGABYTE)

    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_the_body_of_an_unauthenticated_client_is_not_read(tmp_path: Path) -> None:
    async with ApiServers(tmp_path) as api_servers:
        server = await api_servers.server(open_locally=False)
        answer, sent = await send(server, POST + b"content-length: %d\r\n\r\n" % GIGABYTE, PIECE, GIGABYTE)

    assert answer.startswith(b"HTTP/1.1 401 ")
    assert sent < MOST_IN_FLIGHT


async def test_a_connection_continues_after_a_small_unread_body(server: Server) -> None:
    body = b"x" * (MAX_DISCARDED_BYTES // 2)
    refused = b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
    last = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"

    answer, _ = await send(server, refused + last)

    assert answer.startswith(b"HTTP/1.1 404 ")
    assert b"HTTP/1.1 200 " in answer


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nlong: ", PIECE),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n", b"a: b\r\n" * 1_000),
        (b"GET /healthz?" + PIECE, PIECE),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nlong: " + PIECE * 3 + b"\r\n\r\n", b""),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"a: bbbbbbbb\r\n" * 10_000 + b"\r\n", b""),
        (b"GET /api/v1/worker-link HTTP/1.1\r\nupgrade: websocket\r\nconnection: upgrade\r\nlong: ", PIECE),
    ],
    ids=["value", "number", "path", "whole value", "whole number", "link"],
)
async def test_an_endless_head_is_rejected(server: Server, start: bytes, piece: bytes) -> None:
    answer, sent = await send(server, start, piece, GIGABYTE if piece else 0)

    assert answer.startswith(b"HTTP/1.1 431 ")
    assert b'"code":"too_large"' in answer
    assert sent < MOST_IN_FLIGHT


async def test_a_large_head_within_the_limit_is_accepted(server: Server) -> None:
    filling = b"a: " + b"b" * (MAX_HEAD_BYTES - 1_000) + b"\r\n"

    answer, _ = await send(
        server, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n" + filling + b"\r\n"
    )

    assert answer.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("piece", [b"a: b\r\n" * 1_000, PIECE], ids=["number", "value"])
async def test_endless_trailers_close_the_connection(server: Server, piece: bytes) -> None:
    _, sent = await send(server, CHUNKED + b"2\r\n{}\r\n0\r\ntrailer: ", piece, GIGABYTE)

    assert sent < MOST_IN_FLIGHT


@pytest.mark.parametrize("nonsense", [b"\x16\x03\x01\x02\x00" * 20, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_invalid_http_is_answered_with_a_problem(server: Server, nonsense: bytes) -> None:
    """SEC-7."""
    answer, _ = await send(server, nonsense)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in answer
    assert b'"code":"refused"' in answer
