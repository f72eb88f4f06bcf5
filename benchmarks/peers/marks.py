"""Start times of tasks, in shared memory.

A task calls `mark(number)`, which takes less than a microsecond, in a process, a thread or a coroutine. Times are those
of `time.monotonic()`, which all processes of a machine share. 0 means not started.

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
    """Start times, by task number."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(SLOTS * _SIZE))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), SLOTS * _SIZE)

    def set(self, number: int) -> None:
        """Record the start of a task."""
        struct.pack_into("d", self._map, number * _SIZE, time.monotonic())

    def get(self, number: int) -> float:
        """Return the start time; 0 if not started."""
        return float(struct.unpack_from("d", self._map, number * _SIZE)[0])

    def several(self, first: int, count: int) -> array.array[float]:
        """Return the start times of several tasks."""
        found = array.array("d")
        found.frombytes(self._map[first * _SIZE : (first + count) * _SIZE])
        return found

    def clear(self) -> None:
        """Reset all start times."""
        self._map[:] = bytes(SLOTS * _SIZE)


def mark(number: int) -> None:
    """The work of every task: record its start, in the file named by the environment."""
    global _mark_of_this_process  # noqa: PLW0603 - a forked worker opens it once, at its first task
    if _mark_of_this_process is None:
        _mark_of_this_process = Marks(Path(os.environ[PATH_VARIABLE]))
    _mark_of_this_process.set(number)
