"""When each task began, in a piece of memory that all processes share.

A task calls `mark(number)`, which takes less than a microsecond, whatever it is run by: a process, a thread or a
coroutine. A moment is one of `time.monotonic()`, which is the same for all processes of a machine. 0 is "not yet".

Only the standard library is used: tasks of other systems import this.
"""

from __future__ import annotations

import array
import mmap
import os
import struct
import time
from pathlib import Path

PATH_VARIABLE = "PEERS_MARKS"
SLOTS = 200_000
_SIZE = 8
_mark_of_this_process: Marks | None = None


class Marks:
    """The moments, by the numbers of the tasks."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SLOTS * _SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SLOTS * _SIZE)

    def set(self, number: int) -> None:
        """This task begins now."""
        struct.pack_into("d", self._map, number * _SIZE, time.monotonic())

    def get(self, number: int) -> float:
        """When it began; 0 if it has not."""
        return float(struct.unpack_from("d", self._map, number * _SIZE)[0])

    def several(self, first: int, count: int) -> array.array[float]:
        """When so many tasks began."""
        found = array.array("d")
        found.frombytes(self._map[first * _SIZE : (first + count) * _SIZE])
        return found

    def clear(self) -> None:
        """Nothing has begun."""
        self._map[:] = bytes(SLOTS * _SIZE)


def mark(number: int) -> None:
    """What every task does: it says that it has begun. Where to, the environment says."""
    global _mark_of_this_process  # noqa: PLW0603 - a forked worker opens it once, at its first task
    if _mark_of_this_process is None:
        _mark_of_this_process = Marks(Path(os.environ[PATH_VARIABLE]))
    _mark_of_this_process.set(number)
