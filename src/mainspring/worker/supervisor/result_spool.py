"""Unacknowledged results: in memory, and in a file for the next supervisor.

A supervisor that is killed loses its processes; results of attempts that had ended are in the file. It may contain
results that were acknowledged since: agents handle duplicates.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
import structlog

from mainspring.worker.supervisor.frames import HEADER_BYTES, encode_frame
from mainspring.worker.supervisor.supervisor_wire import AttemptEnded

log = structlog.get_logger(__name__)

_MAX_FILE_BYTES = 8 * 1024 * 1024
_PORTION_BYTES = 8 * 1024 * 1024
_SMALL_COUNT = 8
"""This few messages fit into a frame whatever they contain."""

W = TypeVar("W")


class ResultSpool:
    """Results by attempt."""

    def __init__(self, path: Path) -> None:
        self._new: list[AttemptEnded] = []
        self._results: dict[str, AttemptEnded] = {end.attempt: end for end in _read(path)}
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size_bytes = os.fstat(self._file).st_size
        self._limit_bytes = _MAX_FILE_BYTES

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._results

    def all(self) -> tuple[AttemptEnded, ...]:
        """Return all unacknowledged results, the oldest first."""
        return tuple(self._results.values())

    def add(self, end: AttemptEnded) -> None:
        """Add a result. It is in the file after `flush`."""
        self._results[end.attempt] = end
        self._new.append(end)

    def flush(self) -> None:
        """Write new results. They survive a killed supervisor, but not necessarily a power loss."""
        for portion in portions(self._new):
            self._append(portion)
        self._new = []

    def forget(self, attempts: Iterable[str]) -> None:
        """Remove acknowledged results."""
        for attempt in attempts:
            self._results.pop(attempt, None)
        if not self._results or self._size_bytes > self._limit_bytes:
            self._rewrite()

    def _rewrite(self) -> None:
        """Rewrite the file with the remaining results."""
        os.ftruncate(self._file, 0)
        self._size_bytes = 0
        self._new = []
        for portion in portions(self.all()):
            self._append(portion)
        self._limit_bytes = max(_MAX_FILE_BYTES, 2 * self._size_bytes)

    def _append(self, ends: Sequence[AttemptEnded]) -> None:
        frame = encode_frame(ends)
        left = memoryview(frame)
        try:
            while left:
                left = left[os.write(self._file, left) :]
        except OSError as error:
            # The disk is full: the agent still gets them from memory, but a next supervisor would not.
            log.warning("result_spool.unwritten", ends=len(ends), because=str(error))
            os.ftruncate(self._file, self._size_bytes)
        else:
            self._size_bytes += len(frame)


def portions(messages: Sequence[W]) -> list[Sequence[W]]:
    """Split messages into lists that fit into a frame: results may have 1 MiB of output each."""
    if len(messages) <= _SMALL_COUNT:
        return [messages] if messages else []
    found: list[Sequence[W]] = []
    begin, size = 0, 0
    for at, message in enumerate(messages):
        size += _size(message) if isinstance(message, AttemptEnded) else 0
        if size > _PORTION_BYTES:
            found.append(messages[begin : at + 1])
            begin, size = at + 1, 0
    return [*found, messages[begin:]] if begin < len(messages) else found


def _size(end: AttemptEnded) -> int:
    """Return the approximate size of a result in a frame."""
    size = len(end.output or "")
    return size + sum(len(one.path) + len(one.location) + 100 for one in end.artifacts) if end.artifacts else size


def _read(path: Path) -> list[AttemptEnded]:
    """Read the results of a file, whose last frame may be torn."""
    data = path.read_bytes() if path.exists() else b""
    ends: list[AttemptEnded] = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + HEADER_BYTES], "big")
        frame = data[at + HEADER_BYTES : at + HEADER_BYTES + size]
        if len(frame) < size:
            break
        ends += msgspec.msgpack.decode(frame, type=list[AttemptEnded])
        at += HEADER_BYTES + size
    return ends
