"""Output of one Python child, attributed to attempts. Maintains invariant 1 of `child_wire.py`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from mainspring.worker.executors.executor import AttemptHandle
from mainspring.worker.executors.python.child_wire import BYTES_READ, CURRENT, READING
from mainspring.worker.logs.capture import Capture, Mask
from mainspring.worker.supervisor.supervisor_settings import log_path

_READ_BYTES = 1024 * 1024


class ChildOutput:
    """The supervisor's end of a child's output pipe."""

    def __init__(
        self, state_dir: Path, cap_bytes: int, page: memoryview, pipe: int, handles: Mapping[int, AttemptHandle]
    ) -> None:
        """`handles` are the child's current calls by serial; the mapping is live."""
        self._state_dir = state_dir
        self._cap_bytes = cap_bytes
        self._page = page
        self._pipe = pipe
        self._handles = handles
        self._log: Capture | None = None
        self._log_serial = 0
        self.secrets: Mapping[str, Mapping[str, str]] = {}
        """Secret values by attempt."""
        self.printed = asyncio.Event()
        """Set when output arrives."""
        os.set_blocking(pipe, False)
        asyncio.get_running_loop().add_reader(pipe, self.read)

    def read(self) -> bool:
        """Read available output into the log of the current call; False if there was none."""
        self._page[READING] = 1
        try:
            data = os.read(self._pipe, _READ_BYTES)
            if not data:
                asyncio.get_running_loop().remove_reader(self._pipe)
        except BlockingIOError:
            data = b""
        serial = self._page[CURRENT]
        self._page[BYTES_READ] += len(data)
        self._page[READING] = 0
        if data:
            self.printed.set()
        if data and serial in self._handles:
            self._log_of(serial).feed(data)
        return bool(data)

    def read_all(self) -> None:
        """Read all available output."""
        while self.read():
            pass

    def close(self) -> None:
        """Read the rest and close the pipe."""
        self.read_all()
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)

    def last_lines(self, serial: int) -> str:
        """Return the end of a call's output."""
        return self._log.last_lines() if self._log is not None and self._log_serial == serial else ""

    def close_log(self, serial: int) -> int:
        """Close the log of a call; return its size."""
        if self._log is None or self._log_serial != serial:
            return 0
        log_bytes = self._log.close()
        self._log = None
        return log_bytes

    def _log_of(self, serial: int) -> Capture:
        if self._log is None or self._log_serial != serial:
            attempt = self._handles[serial].attempt
            mask = Mask(self.secrets.get(attempt, {}).values())
            self._log_serial = serial
            self._log = Capture(log_path(self._state_dir, attempt), self._cap_bytes, mask)
        return self._log
