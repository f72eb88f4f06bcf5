"""Reads the body of a request: no further than allowed, and with every fault named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache

import msgspec
from starlette.requests import ClientDisconnect, Request

from mainspring.core.admission.validate_job import Faults
from mainspring.core.text import strict_json
from mainspring.core.text.field_errors import name_faults
from mainspring.protocol.errors import Fault, Refused, TooLarge, Unreachable

LARGE_BYTES = 64 * 1024
"""What is of this size is read in a thread, so that nobody waits for it."""


async def read(request: Request, most: int) -> bytes:
    """The whole body. Raises TooLarge as soon as it is known to be longer than `most` bytes."""
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    size = 0
    async for part in _stream(request):
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


async def lines(request: Request, longest: int) -> AsyncIterator[bytes]:
    """The lines of a body, as they arrive, without empty ones; the body may be of any length.

    Raises TooLarge for a line of more than `longest` bytes.
    """
    rest = b""
    async for part in _stream(request):
        *whole, rest = (rest + part).split(b"\n") if b"\n" in part else [rest + part]
        for line in whole:
            if len(line) > longest:
                raise TooLarge(f"a line has more than {longest} bytes")
            if line.strip():
                yield line
        if len(rest) > longest:
            raise TooLarge(f"a line has more than {longest} bytes")
    if rest.strip():
        yield rest


def decode(text: bytes, kind: type) -> object:
    """A body as a struct; an empty one is an empty object. Raises Refused, with every fault that can be named."""
    text = text or b"{}"
    try:
        value: object = _decoder(kind).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _refusal(text, kind, str(error)) from None
    if not strict_json.is_clean(text):
        found = strict_json.Reader().read(text.decode(), "")[1]
        if found:
            raise _say(found)
    return value


async def _stream(request: Request) -> AsyncIterator[bytes]:
    try:
        async for part in request.stream():
            yield part
    except ClientDisconnect:
        # Nobody is there to hear the answer; for the log it is a request that did not arrive.
        raise Unreachable("the caller went away before the request was complete") from None


@cache
def _decoder(kind: type) -> msgspec.json.Decoder[object]:
    return msgspec.json.Decoder(kind)


def _refusal(text: bytes, kind: type, first: str) -> Refused:
    """What is wrong with a body that could not be read; msgspec itself only ever says the first fault."""
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
    return _say(faults.all())


def _say(faults: list[Fault]) -> Refused:
    return Refused(f"the body has {len(faults)} fault{'s' if len(faults) > 1 else ''}", faults)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"the body has more than {most} bytes")
