"""Warm Python process that calls users' functions: `python -m mainspring.worker.executors.python.child`

It receives calls, runs them one after another, and answers each (see `child_wire.py`). Users' code is imported here and
nowhere else. The process is reused across calls; if a function crashes it, the supervisor starts another.

    argv: file descriptor of the socket, file descriptor of the page, then modules or files to import
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import sys
import termios
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_files import ARTIFACTS, INPUTS
from mainspring.worker.executors.python import child_wire as wire
from mainspring.worker.executors.python.function_calls import Functions, call_failure
from mainspring.worker.sandbox.prctl import become_subreaper
from mainspring.worker.supervisor.frames import HEADER_BYTES, encode_frame
from mainspring.worker.supervisor.process_groups import descendants_of

_NOTHING = b"\0\0\0\0"
"""FIONREAD result of an empty pipe."""


class Child:
    """One child process."""

    def __init__(self, link: socket.socket, page: memoryview, handlers: list[str]) -> None:
        self._link = link
        self._page = page
        self._functions = Functions(handlers)
        self._decoder = msgspec.msgpack.Decoder(list[wire.ToChild])
        self._calls: deque[wire.Call] = deque()
        self._unsent: list[wire.FromChild] = []
        self._lock = threading.Lock()
        self._pipe = os.dup(1)
        self._directory = Path.cwd()
        self._taken_before = 0
        self._is_calling = False
        self._was_stopped = False
        signal.signal(signal.SIGTERM, self._on_stop)

    def work(self) -> None:
        """Run calls until the supervisor disconnects."""
        self._functions.load()
        has_printed = self._after_call()
        self._queue(wire.Ready(tuple(self._functions.names()), self._functions.fault, has_printed))
        if has_printed:
            self._wait_until_drained()
        while True:
            self._flush()
            self._calls.extend(message for message in self._read() if isinstance(message, wire.Call))
            while self._calls:
                self._make(self._calls.popleft())

    def deadline(self, serial: int) -> datetime | None:
        """Return the extended deadline of a call; None if it was not extended."""
        if self._page[wire.EXTENDED] != serial:
            return None
        return datetime.fromtimestamp(self._page[wire.EXTENDED_UNTIL] / 1_000, UTC)

    def _make(self, call: wire.Call) -> None:
        """Run one call. Its answer is sent with the next message, or when there is nothing left to do.

        So is the start of the first call of a slice: the supervisor sees it in the page.
        """
        serial = call.serial
        self._page[wire.CURRENT] = serial
        if self._page[wire.LIMIT] < serial:
            self._queue(wire.Skipped(serial))
            return
        is_first = not self._unsent
        self._queue(wire.Called(serial))
        if not is_first:
            self._flush()
        backend = _CallBackend(self, serial, self._directory, call.assignment.attempt)
        outcome, output, error = self._call(call, backend)
        has_printed = self._after_call()
        self._queue(wire.CallEnded(serial, outcome, output, error, has_printed, backend.has_artifacts))
        if has_printed:
            self._wait_until_drained()

    def _call(self, call: wire.Call, backend: _CallBackend) -> tuple[Outcome, str | None, str | None]:
        """Run the call; return outcome, output, error."""
        self._was_stopped = False
        try:
            try:
                self._is_calling = True
                if self._page[wire.STOP] == call.serial:
                    self._stop_call()
                output, error = self._functions.call(call.assignment, call.secrets, backend)
            finally:
                self._is_calling = False
        except BaseException as raised:  # noqa: BLE001 - any exception of a function is its result
            if self._was_stopped:
                return Outcome.STOPPED, None, None
            if isinstance(raised, SystemExit) and not raised.code:
                return Outcome.SUCCEEDED, "null", None
            return Outcome.FAILED, None, call_failure(raised)
        return Outcome.SUCCEEDED if error is None else Outcome.FAILED, output, error

    def _on_stop(self, number: int, frame: FrameType | None) -> None:
        """SIGTERM handler: raise in the function to be stopped. One that has just returned keeps its result."""
        if self._is_calling and self._page[wire.STOP] == self._page[wire.CURRENT]:
            self._stop_call()

    def _stop_call(self) -> None:
        self._was_stopped = True
        raise SystemExit("stop requested")

    def _after_call(self) -> bool:
        """Kill leftover processes and flush output; whether output is pending that the next call must not mix with."""
        _end_descendants()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # The function closed it.
                stream.flush()
        # In this order: bytes that left the pipe were taken by a read in progress, which READING shows.
        if fcntl.ioctl(self._pipe, termios.FIONREAD, _NOTHING) != _NOTHING:
            return True
        while self._page[wire.READING]:
            os.sched_yield()
        return bool(self._page[wire.BYTES_READ] != self._taken_before)

    def _wait_until_drained(self) -> None:
        self._flush()
        while not any(isinstance(message, wire.Drained) for message in self._read()):
            pass
        self._taken_before = self._page[wire.BYTES_READ]

    def pass_on(self, message: wire.FromChild) -> None:
        """Send a message during a call. A stop waits until it is sent: half a frame would break the link."""
        is_interruptible = self._is_calling and threading.current_thread() is threading.main_thread()
        if is_interruptible:
            self._is_calling = False
        self._queue(message)
        self._flush()
        if is_interruptible:
            self._is_calling = True
            if self._page[wire.STOP] == self._page[wire.CURRENT] and not self._was_stopped:
                self._stop_call()

    def _queue(self, message: wire.FromChild) -> None:
        with self._lock:
            self._unsent.append(message)

    def _flush(self) -> None:
        with self._lock:
            if self._unsent:
                self._link.sendall(encode_frame(self._unsent))
                self._unsent.clear()

    def _read(self) -> list[wire.ToChild]:
        """Read the next frame; exit when the supervisor is gone."""
        size = int.from_bytes(self._take(HEADER_BYTES), "big")
        return self._decoder.decode(self._take(size))

    def _take(self, size: int) -> bytes:
        data = self._link.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            sys.exit(0)
        return data


class _CallBackend:
    """Context backend of a function call."""

    def __init__(self, child: Child, serial: int, directory: Path, attempt: str) -> None:
        self._child = child
        self._serial = serial
        self._directory = directory
        self._attempt = attempt
        self.has_artifacts = False
        """Whether the artifact folder was requested."""

    def report_progress(self, percent: float | None, note: str) -> None:
        """Send progress."""
        self._child.pass_on(wire.Progressed(self._serial, percent, note))

    def report_checkpoint(self, document: str) -> None:
        """Save a checkpoint."""
        self._child.pass_on(wire.Checkpointed(self._serial, document))

    def extend(self, seconds: float) -> None:
        """Request more time."""
        self._child.pass_on(wire.Requested(self._serial, seconds))

    def deadline(self) -> datetime | None:
        """Return the extended deadline, if there is one."""
        return self._child.deadline(self._serial)

    def artifacts(self) -> Path:
        """Return the artifact folder, created on first use."""
        self.has_artifacts = True
        folder = self._directory / self._attempt / ARTIFACTS
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def inputs(self) -> Path:
        """Return the folder with the fetched artifacts."""
        return self._directory / self._attempt / INPUTS


def _end_descendants() -> None:
    """Kill processes that a function started and did not wait for. Costs a microsecond if there are none."""
    while True:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        for pid in descendants_of(os.getpid()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        os.waitpid(-1, 0)


def main() -> None:
    """Run a child. Standard output and error are the pipe that the supervisor reads."""
    link = socket.socket(fileno=int(sys.argv[1]))
    link.set_inheritable(False)
    page = int(sys.argv[2])
    os.set_inheritable(page, False)
    become_subreaper()
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, errors="backslashreplace")  # type: ignore[union-attr]
    Child(link, wire.open_page(page), sys.argv[3:]).work()


if __name__ == "__main__":
    main()
