"""Frames over a stream: complete and in order, in chunks of any size."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.protocol.errors import Broken
from mainspring.worker.supervisor.frames import MAX_FRAME_BYTES, FrameReader, encode_frame


def reading(*pieces: bytes) -> FrameReader[int]:
    """A reader of a stream that ends after these chunks."""
    stream = asyncio.StreamReader()
    for piece in pieces:
        stream.feed_data(piece)
    stream.feed_eof()
    return FrameReader(stream, list[int])


async def test_frames_that_arrived_together_are_read_together() -> None:
    """In one turn; then the end."""
    frames = reading(encode_frame([1, 2]) + encode_frame([3]))

    assert await frames.next() == [1, 2, 3]
    assert await frames.next() == []


async def test_a_frame_that_arrives_in_chunks_is_assembled() -> None:
    """Byte by byte."""
    stream = asyncio.StreamReader()
    frames = FrameReader(stream, list[int])
    waiting = asyncio.ensure_future(frames.next())
    for byte in encode_frame([1, 2, 3]):
        assert not waiting.done()
        stream.feed_data(bytes([byte]))
        await asyncio.sleep(0)

    assert await waiting == [1, 2, 3]


async def test_a_stream_that_ends_within_a_frame_is_an_error() -> None:
    """The peer died."""
    with pytest.raises(ConnectionError):
        await reading(encode_frame([1])[:-1]).next()


@pytest.mark.parametrize("data", [encode_frame(["text"]), (MAX_FRAME_BYTES + 1).to_bytes(4, "big")])
async def test_a_malformed_frame_is_rejected(data: bytes) -> None:
    """Of another type, or too large."""
    with pytest.raises(Broken):
        await reading(data).next()
