"""The client limits the size and duration of responses (SEC-6)."""

from __future__ import annotations

import httpx2
import pytest

from mainspring.client.client import Client
from mainspring.client.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_SECONDS, ResponseBuffer
from mainspring.protocol.errors import TooLarge, Unreachable
from tests.client.scripted_server import Answer, scripted

PART = bytes(16 << 20)


def an_answer(**headers: str) -> httpx2.Response:
    """A response whose body has not been read."""
    return httpx2.Response(200, headers=headers, request=httpx2.Request("GET", "http://127.0.0.1/api/v1/runs"))


def test_parts_are_joined_to_the_response() -> None:
    buffer = ResponseBuffer(an_answer(**{"content-encoding": "gzip", "x-log-offset": "7"}), until=1.0)
    buffer.add(b"one ", 0.0)
    buffer.add(b"two", 1.0)

    build = buffer.build()

    assert build.content == b"one two"
    assert build.headers["x-log-offset"] == "7"


def test_reading_stops_when_a_response_is_too_large() -> None:
    buffer = ResponseBuffer(an_answer(), until=1.0)
    for _ in range(MAX_RESPONSE_BYTES // len(PART)):
        buffer.add(PART, 0.0)

    with pytest.raises(TooLarge, match="536870912 bytes"):
        buffer.add(b"x", 0.0)


def test_reading_stops_when_a_response_takes_too_long() -> None:
    buffer = ResponseBuffer(an_answer(), until=MAX_RESPONSE_SECONDS)
    buffer.add(b"x", MAX_RESPONSE_SECONDS)

    with pytest.raises(Unreachable, match="did not end within 900 s"):
        buffer.add(b"x", MAX_RESPONSE_SECONDS + 1)


def test_a_response_with_a_too_large_content_length_is_not_read() -> None:
    huge = Answer(200, b"{}", {"Content-Length": str(MAX_RESPONSE_BYTES + 1)}, cut_off=True)
    with (
        scripted(huge) as script,
        Client(script.url, retry_timeout_seconds=0) as client,
        pytest.raises(TooLarge) as refused,
    ):
        client.server()

    assert refused.value.hint.endswith("smaller limit")
