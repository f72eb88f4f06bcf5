"""Another process that holds the lock of a folder, for tests of contention."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_HOLD = """
import subprocess, sys
from pathlib import Path
import structlog
from mainspring.protocol.clock import SystemClock
from mainspring.folder.lock import FolderLock
structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
lock = FolderLock(Path(sys.argv[1]), SystemClock())
lock.acquire()
print("held", flush=True)
for line in sys.stdin:
    match line.strip():
        case "beat":
            print(lock.renew(), flush=True)
        case "beat on":
            print("beating", flush=True)
            while lock.renew():
                pass
        case "spawn":
            nowhere = subprocess.DEVNULL
            print(subprocess.Popen(["sleep", "60"], close_fds=False, stdin=nowhere, stdout=nowhere).pid, flush=True)
        case "release":
            lock.release()
            print("released", flush=True)
"""


class LockHolder:
    """The other process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.pid = process.pid

    def ask(self, word: str) -> str:
        """Send a command, and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> str:
        """Return the next line of its output."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Kill it with SIGKILL, and wait for it."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def lock_holder(root: Path) -> Iterator[LockHolder]:
    """Run a process that holds the lock of `root`; it is killed afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        holder = LockHolder(process)
        try:
            assert holder.hear() == "held"
            yield holder
        finally:
            process.kill()
