"""Frames over a stream: four bytes of length (big endian), then a msgpack list of messages.

Used between agent and supervisor, and between supervisor and children. Messages of one turn share a frame: encoding and
writing thousands of small ones separately would cost more than their content. A reader has one message type:

    reading = FrameReader(reader, list[FromSupervisor])
    for message in await reading.next(): ..
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from mainspring.protocol.errors import Broken

MAX_FRAME_BYTES = 64 * 1024 * 1024
HEADER_BYTES = 4
_READ_BYTES = 256 * 1024
_ENCODER = msgspec.msgpack.Encoder()

W = TypeVar("W")


def encode_frame(messages: Sequence[object]) -> bytes:
    """Encode messages as one frame."""
    frame = bytearray(HEADER_BYTES)
    _ENCODER.encode_into(messages, frame, HEADER_BYTES)
    size = len(frame) - HEADER_BYTES
    if size > MAX_FRAME_BYTES:
        raise Broken(f"a frame of {size} bytes is larger than {MAX_FRAME_BYTES}")
    frame[:HEADER_BYTES] = size.to_bytes(HEADER_BYTES, "big")
    return bytes(frame)


def write_frame(writer: asyncio.StreamWriter, messages: Sequence[object]) -> None:
    """Send messages in one frame; nothing if there are none. `await writer.drain()` is up to the caller."""
    if messages:
        writer.write(encode_frame(messages))


class FrameReader(Generic[W]):
    """Reads complete frames from a stream."""

    def __init__(self, reader: asyncio.StreamReader, kind: type[list[W]]) -> None:
        self._reader = reader
        self._decoder: msgspec.msgpack.Decoder[list[W]] = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()

    async def next(self) -> list[W]:
        """Return the messages of all frames that have arrived, in order, waiting for the first. Empty at the end.

        Raises ConnectionError if the stream ends within a frame, and Broken if a frame is malformed.
        """
        messages: list[W] = []
        while not messages:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                if self._buffer:
                    raise ConnectionResetError("the stream ended within a frame")
                return []
            self._buffer += data
            self._cut(messages)
        return messages

    def _cut(self, messages: list[W]) -> None:
        """Remove the complete frames from the buffer."""
        at = 0
        while len(self._buffer) - at >= HEADER_BYTES:
            size = int.from_bytes(self._buffer[at : at + HEADER_BYTES], "big")
            if size > MAX_FRAME_BYTES:
                raise Broken(f"a frame of {size} bytes is larger than {MAX_FRAME_BYTES}")
            end = at + HEADER_BYTES + size
            if len(self._buffer) < end:
                break
            try:
                messages.extend(self._decoder.decode(self._buffer[at + HEADER_BYTES : end]))
            except msgspec.MsgspecError as error:
                raise Broken(f"malformed frame: {error}") from error
            at = end
        del self._buffer[:at]
