"""Response bodies of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator


async def read_bounded(pieces: AsyncIterator[bytes], max_bytes: int) -> tuple[bytes, bool]:
    """Return a body of at most this size, and whether it is complete; the rest of a longer one is not read."""
    body = bytearray()
    async for piece in pieces:
        body += piece
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True
