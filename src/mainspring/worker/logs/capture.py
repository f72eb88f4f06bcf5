"""Capture the output of an attempt: mask secrets, enforce the size limit, write a file (WRK-5, WRK-8).

1. A secret never reaches the file, even if it arrives in pieces: a possible start of one is held back.
2. The file never exceeds the limit plus one line, which says how much was dropped.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import msgspec

MASK = "••••"
MIN_SECRET_LENGTH = 4
"""Shorter values are not masked: they would match everywhere."""
_MIN_BASE64_LENGTH = 8
_TAIL_BYTES = 2_048

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


class Mask:
    """Masks values in text, JSON and streams."""

    def __init__(self, values: Iterable[str]) -> None:
        lines = (line.strip() for value in values for line in value.splitlines())
        shown = {shape for line in lines if len(line) >= MIN_SECRET_LENGTH for shape in _encodings(line)}
        hidden = sorted(shown, key=len, reverse=True)
        self._text = re.compile("|".join(map(re.escape, hidden))) if hidden else None
        self._encoded = [word.encode() for word in hidden]
        self._bytes = re.compile(b"|".join(map(re.escape, self._encoded))) if hidden else None
        self._longest = max(map(len, self._encoded), default=0)
        self._pending = b""

    def text(self, text: str) -> str:
        """Mask a text."""
        return self._text.sub(MASK, text) if self._text is not None else text

    def json(self, document: str | None) -> str | None:
        """Mask JSON: strings, keys and numbers."""
        if document is None or self._text is None:
            return document
        return msgspec.json.encode(self._hide(msgspec.json.decode(document))).decode()

    def stream(self, data: bytes) -> bytes:
        """Return the output that may be written after this chunk."""
        if self._bytes is None:
            return data
        data = self._pending + data
        released: list[bytes] = []
        at, end = 0, self._partial_match_start(data, 0)
        for found in self._bytes.finditer(data):
            if found.start() >= end:
                break
            released += (data[at : found.start()], MASK.encode())
            at = found.end()
            if at > end:
                end = self._partial_match_start(data, at)
        released.append(data[at:end])
        self._pending = data[end:]
        return b"".join(released)

    def rest(self) -> bytes:
        """Return the held-back bytes at the end of the stream."""
        pending, self._pending = self._pending, b""
        return self._bytes.sub(MASK.encode(), pending) if self._bytes is not None else pending

    def _partial_match_start(self, data: bytes, after: int) -> int:
        """Return where an incomplete value may start; the end of `data` if nowhere."""
        for start in range(max(after, len(data) - self._longest + 1), len(data)):
            tail = data[start:]
            if any(len(word) > len(tail) and word.startswith(tail) for word in self._encoded):
                return start
        return len(data)

    def _hide(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._hide(one) for one in value]
            case dict():
                return {self.text(key): self._hide(one) for key, one in value.items()}
            case bool() | None:
                return value
            case int() | float():
                shown = str(value)
                return value if self.text(shown) == shown else MASK


def _encodings(value: str) -> Iterator[str]:
    """Yield a value and its encodings: JSON, URL, and base64 alone or inside longer data."""
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield quote(value, safe="")
    for ahead, touched in ((0, 0), (1, 2), (2, 3)):
        # Up to two bytes may precede it in its group of three; shared groups are unknown.
        text = bytes(ahead) + value.encode()
        within = slice(touched, len(text) // 3 * 4)
        for encoded in (base64.b64encode(text), base64.urlsafe_b64encode(text)):
            shape = encoded[within].decode()
            if len(shape) >= _MIN_BASE64_LENGTH:
                yield shape


class Capture:
    """Log file of one attempt."""

    def __init__(self, path: Path, cap_bytes: int, mask: Mask) -> None:
        self._path = path
        self._cap_bytes = cap_bytes
        self._mask = mask
        self._file: int | None = None
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._dropped_bytes = 0
        self.size_bytes = 0

    def feed(self, data: bytes) -> None:
        """Write output."""
        self._keep(self._mask.stream(data))

    def close(self) -> int:
        """Complete the file; return its size."""
        self._keep(self._mask.rest())
        if self._dropped_bytes:
            self._write(f"\n[the log is full: {self._dropped_bytes} more bytes were dropped]\n".encode())
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return self.size_bytes

    def last_lines(self) -> str:
        """Return the end of the output, including dropped output."""
        return b"".join(self._tail)[-_TAIL_BYTES:].decode(errors="replace")

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._remember(data)
        free_bytes = self._cap_bytes - self.size_bytes
        self._dropped_bytes += max(0, len(data) - free_bytes)
        if free_bytes > 0:
            self._write(data[:free_bytes])

    def _remember(self, data: bytes) -> None:
        data = data[-_TAIL_BYTES:]
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= _TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = os.open(self._path, flags, 0o600)
        left = memoryview(data)
        while left:
            try:
                written = os.write(self._file, left)
            except OSError:
                # The disk is full: the task continues, and the lost bytes count as dropped.
                self._dropped_bytes += len(left)
                return
            self.size_bytes += written
            left = left[written:]
