"""Cursor of a pod log that is read over several connections, without duplicates or gaps.

Lines have timestamps. After a lost connection, the log is requested from the second of the last line on, and known
lines are skipped.
"""

from __future__ import annotations

import re

_LINE = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


class LogCursor:
    """How far a log was read."""

    def __init__(self) -> None:
        self._last: tuple[bytes, bytes] = (b"", b"")
        self._count = 0
        """Lines seen with the last timestamp."""
        self._zone = b""
        self._again = 0
        self._rest = b""

    def since(self) -> str | None:
        """Return the `sinceTime` to request; None for all."""
        return (self._last[0] + self._zone).decode() if self._zone else None

    def begin(self) -> None:
        """Start a new connection: its first lines may be known."""
        self._again = 0
        self._rest = b""

    def take(self, data: bytes) -> bytes:
        """Return the new output in a chunk of the response."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        return b"".join(self._new(line + b"\n") for line in lines)

    def end(self) -> bytes:
        """End the connection: return a last line without newline."""
        rest, self._rest = self._rest, b""
        return self._new(rest) if rest else b""

    def _new(self, line: bytes) -> bytes:
        found = _LINE.match(line)
        if found is None:
            return line
        at = (found[1], (found[2] or b"").ljust(9, b"0"))
        if at < self._last:
            return b""
        if at == self._last:
            self._again += 1
            if self._again <= self._count:
                return b""
            self._count += 1
        else:
            self._last, self._zone, self._count, self._again = at, found[3], 1, 1
        return line[found.end() :]
