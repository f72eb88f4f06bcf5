"""Read request bodies: bounded, with all faults reported."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from mainspring.core.admission.validate_job import Faults
from mainspring.core.text import strict_json
from mainspring.core.text.field_errors import name_faults
from mainspring.protocol.errors import Refused, TooLarge, Unreachable, refusal

_T = TypeVar("_T")

LARGE_BYTES = 64 * 1024
"""Bodies of this size are decoded in a thread, to keep the event loop free."""


async def read(request: Request, max_bytes: int) -> bytes:
    """Return the whole body. Raises TooLarge as soon as it exceeds `max_bytes` bytes."""
    header = request.headers.get("content-length", "")
    if header.isdecimal() and int(header) > max_bytes:
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    async for part in _stream(request):
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
    return b"".join(parts)


async def lines(request: Request, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the non-empty lines of a body of any length, as they arrive.

    Raises TooLarge for a line of more than `max_bytes` bytes.
    """
    rest = b""
    async for part in _stream(request):
        *whole, rest = (rest + part).split(b"\n") if b"\n" in part else [rest + part]
        for line in whole:
            if len(line) > max_bytes:
                raise TooLarge(f"a line has more than {max_bytes} bytes")
            if line.strip():
                yield line
        if len(rest) > max_bytes:
            raise TooLarge(f"a line has more than {max_bytes} bytes")
    if rest.strip():
        yield rest


def decode(text: bytes, kind: type[_T]) -> _T:
    """Decode a body into a struct; an empty body is an empty object. Raises Refused with all faults."""
    text = text or b"{}"
    try:
        value: _T = _decoder(kind).decode(text)  # type: ignore[arg-type, assignment]  # of this type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(text, kind, str(error)) from None
    if not strict_json.is_clean(text):
        found = strict_json.Reader().read(text.decode(), "")[1]
        if found:
            raise refusal("the body has", found)
    return value


async def _stream(request: Request) -> AsyncIterator[bytes]:
    try:
        async for part in request.stream():
            yield part
    except ClientDisconnect:
        # The client is gone; log it as an incomplete request.
        raise Unreachable("the client disconnected before the request was complete") from None


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(kind)


def _refusal(text: bytes, kind: type, first: str) -> Refused:
    """Collect all faults of an invalid body; msgspec reports only the first."""
    faults = Faults()
    try:
        value, found = strict_json.Reader().read(text.decode(), "")
        faults.extend(found)
        if not found or value is not None:
            name_faults(value, kind, "", faults)
    except UnicodeDecodeError as error:
        faults.add("", f"is not UTF-8 (byte {error.start})")
    if not faults.total():
        faults.add("", first[:1].lower() + first[1:])
    return refusal("the body has", faults.all())


def _too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"the body has more than {max_bytes} bytes")
