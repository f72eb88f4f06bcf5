"""The supervisor's side of one Python child: start, send slices of calls, read messages, stop, clean up.

The protocol, and how output is attributed to attempts, are described in `child_wire.py`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import cast

import structlog

from mainspring.event_loop import start_task
from mainspring.protocol.errors import Broken, Refused, Unavailable
from mainspring.protocol.wire import Outcome
from mainspring.worker.executors.attempt_files import ARTIFACTS, INPUTS
from mainspring.worker.executors.attempt_handle import AttemptHandle, AttemptResult, failure
from mainspring.worker.executors.command import clean_environment
from mainspring.worker.executors.executor import Runtime
from mainspring.worker.executors.python import child_wire as wire
from mainspring.worker.logs.capture import Capture, Mask
from mainspring.worker.sandbox.confinement import Confinement
from mainspring.worker.sandbox.sandbox import Sandbox
from mainspring.worker.sandbox.task_user import change_owner
from mainspring.worker.supervisor.frames import FrameReader, encode_frame
from mainspring.worker.supervisor.process_groups import supervisor_variable
from mainspring.worker.supervisor.supervisor_settings import log_path

log = structlog.get_logger(__name__)

_PROGRAM = (sys.executable, "-P", "-m", "mainspring.worker.executors.python.child")
_MAX_SLICE_BYTES = 8 * 1024 * 1024
_START_SECONDS = 60.0
_POLL_SECONDS = 0.001
_BATCH_SECONDS = 0.001
"""While a child has calls for about this long, its messages are read at this interval. A no-op call costs the worker 81
us with it, and 90 if the supervisor wakes up for every answer; a longer interval gains nothing."""
_END_SECONDS = 2.0
"""Time for a child that disconnected to exit by itself, with its own exit code."""


_READ_BYTES = 1024 * 1024


class ChildOutput:
    """The supervisor's end of a child's output pipe."""

    def __init__(self, runtime: Runtime, page: memoryview, pipe: int, handles: Mapping[int, AttemptHandle]) -> None:
        """`handles` are the child's current calls by serial; the mapping is live."""
        self._runtime = runtime
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
        self._page[wire.READING] = 1
        try:
            data = os.read(self._pipe, _READ_BYTES)
            if not data:
                asyncio.get_running_loop().remove_reader(self._pipe)
        except BlockingIOError:
            data = b""
        serial = self._page[wire.CURRENT]
        self._page[wire.BYTES_READ] += len(data)
        self._page[wire.READING] = 0
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
            path = log_path(self._runtime.state_dir, attempt)
            self._log = Capture(path, self._runtime.settings.log_cap_bytes, mask)
        return self._log


class ChildLink:
    """One child."""

    def __init__(self, runtime: Runtime, confinement: Confinement, number: int) -> None:
        self._runtime = runtime
        self._processes = runtime.processes
        self._confinement = confinement
        self._uploads: list[asyncio.Task[None]] = []
        self._sandbox: Sandbox | None = None
        self._number = number
        self._directory = runtime.state_dir / "children" / str(number)
        self._serial = 0
        self._handles: dict[int, AttemptHandle] = {}
        self._killing: asyncio.Task[None] | None = None
        self._killed_serial = 0
        self._pid = 0
        self._page = memoryview(b"")
        self.is_alive = False

    async def start(self) -> None:
        """Start the process, and wait until it is ready. Raises Unavailable, Refused or OSError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._runtime.sandboxes.user is not None:
            change_owner(self._directory, self._runtime.sandboxes.user)
        self._sandbox = self._runtime.sandboxes.open(f"child-{self._number}", self._confinement, self._directory, 0)
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as file, theirs:
            file.truncate(wire.PAGE_BYTES)
            self._page = wire.open_page(file.fileno())
            self._page[wire.LIMIT] = wire.NO_LIMIT
            try:
                self._pid = self._processes.spawn(
                    [*_PROGRAM, str(theirs.fileno()), str(file.fileno()), *self._runtime.settings.handlers],
                    environment=self._environment() | self._sandbox.environment(),
                    directory=self._directory,
                    output=writing,
                    keep=(theirs.fileno(), file.fileno()),
                    keeps_orphans=True,
                    sandbox=self._sandbox,
                )
            except (OSError, Refused):
                os.close(reading)
                ours.close()
                raise
            finally:
                os.close(writing)
        self.is_alive = True
        self._output = ChildOutput(self._runtime, self._page, reading, self._handles)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._messages: FrameReader[wire.FromChild] = FrameReader(reader, list[wire.FromChild])
        try:
            async with asyncio.timeout(_START_SECONDS):
                received = await self._messages.next()
        except (TimeoutError, ConnectionError):
            received = []
        if not received or not isinstance(received[0], wire.Ready):
            raise Unavailable("the Python child process did not become ready")
        if received[0].has_printed:
            self._drain()

    def set_memory_limit(self, memory_bytes: int) -> bool:
        """Set the memory limit for the next slice; False if earlier calls already use more."""
        try:
            if self._sandbox is not None and self._sandbox.cgroup is not None:
                self._sandbox.cgroup.limit_memory(memory_bytes or self._runtime.settings.memory_bytes)
        except OSError:
            return False
        return True

    async def run(self, handles: Sequence[AttemptHandle], secrets: Mapping[str, Mapping[str, str]]) -> None:
        """Call these one after another. Those that have not ended afterwards have not started."""
        if not handles:
            return
        self._output.secrets = secrets
        self._page[wire.LIMIT] = wire.NO_LIMIT
        calls: list[wire.Call] = []
        size_bytes = 0
        for handle in handles:
            size_bytes += _size_bytes(handle)
            if calls and size_bytes > _MAX_SLICE_BYTES:
                break
            self._serial += 1
            calls.append(wire.Call(self._serial, handle.assignment, dict(secrets.get(handle.attempt, {}))))
        self._writer.write(encode_frame(calls))
        for call, handle in zip(calls, handles, strict=False):
            self._bind(handle, call.serial)
        self._poll_later(calls[0].serial)
        await self._receive_all()
        self._polling.cancel()
        await asyncio.gather(*self._uploads)
        self._uploads.clear()

    async def fetch(self, handle: AttemptHandle) -> None:
        """Fetch the attempt's inputs. If that fails, the attempt ends."""
        folder = self._directory / handle.attempt
        error = await self._runtime.artifacts.fetch(handle, folder / INPUTS)
        if error is not None:
            shutil.rmtree(folder, ignore_errors=True)
            handle.end(Outcome.FAILED, error=error)
        elif self._runtime.sandboxes.user is not None:
            change_owner(folder, self._runtime.sandboxes.user)

    async def close(self) -> None:
        """Kill the process."""
        if self._pid and self.is_alive:
            self._processes.kill(self._pid)
            await self._finish()
        if self._sandbox is not None:
            self._runtime.sandboxes.close(self._sandbox)
            self._sandbox = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        places = [
            *self._runtime.settings.python_path,
            *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
        ]
        variables = clean_environment(os.environ) | supervisor_variable(self._runtime.state_dir)
        return variables | {"PYTHONPATH": os.pathsep.join(places), "MAINSPRING_CHILD": str(self._number)}

    def _bind(self, handle: AttemptHandle, serial: int) -> None:
        self._handles[serial] = handle
        handle.bind(
            stop=lambda grace_seconds: self._stop(serial, grace_seconds),
            recall=lambda: self._recall(serial),
            prolong=lambda until: self._prolong(serial, until),
        )

    # messages of the child

    async def _receive_all(self) -> None:
        """Process messages until the child has no calls left or has exited."""
        received_at, seconds_per_call = self._runtime.clock.monotonic(), 0.0
        while self._handles and self.is_alive:
            if len(self._handles) * seconds_per_call > _BATCH_SECONDS / 2:
                await self._wait_for_batch()
            try:
                received = await self._messages.next()
            except (ConnectionError, Broken):
                received = []
            if not received:
                await self._finish()
            before = len(self._handles)
            for message in received:
                self._handle(message)
            now = self._runtime.clock.monotonic()
            seconds_per_call, received_at = (now - received_at) / max(1, before - len(self._handles)), now

    async def _wait_for_batch(self) -> None:
        """Let messages accumulate, to read them together. Output ends the wait, as the printing call waits for us."""
        transport = cast("asyncio.Transport", self._writer.transport)
        transport.pause_reading()
        self._output.printed.clear()
        with suppress(TimeoutError):  # nothing was printed, the usual case
            async with asyncio.timeout(_BATCH_SECONDS):
                await self._output.printed.wait()
        if not transport.is_closing():
            transport.resume_reading()

    def _poll_later(self, first: int) -> None:
        self._polling = asyncio.get_running_loop().call_later(_POLL_SECONDS, self._poll, first)

    def _poll(self, first: int) -> None:
        """Check in the page whether the first call of a slice runs: the child reports it only with its next message."""
        serial = self._page[wire.CURRENT]
        if serial < first:
            self._poll_later(first)
        elif serial in self._handles and serial <= self._page[wire.LIMIT]:
            self._handles[serial].begin(self._pid)

    def _handle(self, message: wire.FromChild) -> None:
        match message:
            case wire.Called():
                handle = self._handles[message.serial]
                if handle.has_ended:
                    log.error("attempt.started_after_recall", attempt=handle.attempt)
                    self._processes.kill(self._pid)
                else:
                    handle.begin(self._pid)
            case wire.CallEnded():
                self._answer(message)
            case wire.Skipped():
                self._handles.pop(message.serial).release()
            case wire.Progressed() if message.serial in self._handles:
                self._handles[message.serial].report_progress(message.percent, message.note)
            case wire.Checkpointed() if message.serial in self._handles:
                self._handles[message.serial].report_checkpoint(message.document)
            case wire.Requested() if message.serial in self._handles:
                self._handles[message.serial].request_extension(message.seconds)
            case wire.Progressed() | wire.Checkpointed() | wire.Requested():
                pass  # of a call that has ended
            case wire.Ready():
                raise Broken("a child reported ready twice")

    def _answer(self, message: wire.CallEnded) -> None:
        log_bytes = 0
        if message.has_printed:
            log_bytes = self._drain(message.serial)
        self._forget_killing()
        handle = self._handles.pop(message.serial)
        result = AttemptResult(outcome=message.outcome, output=message.output, error=message.error)
        if message.has_artifacts or (handle.work is not None and handle.work.fetch):
            self._uploads.append(start_task(self._keep(handle, result, log_bytes), "artifact_upload"))
        else:
            handle.finish(result, log_bytes)

    async def _keep(self, handle: AttemptHandle, result: AttemptResult, log_bytes: int) -> None:
        """Store the artifacts of an ended call, moved to where the next call can't reach them."""
        folder = self._runtime.state_dir / "attempts" / handle.attempt
        folder.parent.mkdir(exist_ok=True, mode=0o700)
        with suppress(OSError):  # The folder does not exist.
            (self._directory / handle.attempt).rename(folder)
        if not folder.is_symlink():
            result = await self._runtime.artifacts.keep(handle, folder / ARTIFACTS, result)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        folder.unlink(missing_ok=True)
        handle.finish(result, log_bytes)

    def _drain(self, serial: int = 0) -> int:
        """Read the rest of a call's output, and let the child continue. Return the size of the call's log."""
        self._output.read_all()
        self._writer.write(encode_frame([wire.Drained()]))
        return self._output.close_log(serial)

    async def _finish(self) -> None:
        """The child exited or disconnected: fail the call that it was running."""
        self.is_alive = False
        code = await self._exit_code()
        await self._processes.clear(self._pid, f"MAINSPRING_CHILD={self._number}\0".encode())
        self._processes.forget(self._pid)
        self._output.close()
        self._writer.close()
        self._forget_killing()
        self._end_current(code)
        for handle in self._handles.values():
            handle.release()
        self._handles.clear()

    async def _exit_code(self) -> int | None:
        """Return the exit code; None if it had to be killed."""
        try:
            async with asyncio.timeout(_END_SECONDS):
                return await self._processes.exit_of(self._pid)
        except TimeoutError:
            self._processes.kill(self._pid)
            await self._processes.exit_of(self._pid)
            return None

    def _end_current(self, code: int | None) -> None:
        serial = self._page[wire.CURRENT]
        handle = self._handles.pop(serial, None)
        if handle is None or handle.has_ended:
            return
        last_lines = self._output.last_lines(serial)
        log_bytes = self._output.close_log(serial)
        handle.begin(self._pid)
        error: str | None = None
        if serial != self._killed_serial:
            assert self._sandbox is not None
            closed = failure("Child", "the child process closed its connection")
            error = closed if code is None else self._sandbox.error_of(code, last_lines)
        handle.end(Outcome.STOPPED if error is None else Outcome.FAILED, error=error, log_bytes=log_bytes)

    # requests to the child

    def _recall(self, serial: int) -> bool:
        """Prevent a call from starting; whether that succeeded."""
        self._page[wire.LIMIT] = min(self._page[wire.LIMIT], self._page[wire.CURRENT])
        return bool(self._page[wire.CURRENT] < serial)

    def _stop(self, serial: int, grace_seconds: float) -> None:
        """Raise SystemExit in the function, and kill the child after the grace period. A call that has not started is
        skipped."""
        if self._recall(serial):
            self._handles[serial].end(Outcome.STOPPED)
            return
        if self._page[wire.STOP] != serial:
            self._page[wire.STOP] = serial
            self._processes.terminate(self._pid)
        self._forget_killing()
        self._killing = start_task(self._kill_after(serial, grace_seconds), "kill_after_grace")

    def _prolong(self, serial: int, until: datetime) -> None:
        self._page[wire.EXTENDED_UNTIL] = int(until.timestamp() * 1_000)
        self._page[wire.EXTENDED] = serial

    async def _kill_after(self, serial: int, grace_seconds: float) -> None:
        await self._runtime.clock.sleep(grace_seconds)
        if serial in self._handles:
            self._killed_serial = serial
            self._processes.kill(self._pid)

    def _forget_killing(self) -> None:
        if self._killing is not None:
            self._killing.cancel()
            self._killing = None


def _size_bytes(handle: AttemptHandle) -> int:
    """Return the approximate size of a call in a frame."""
    one = handle.assignment
    return sum(map(len, (one.work, one.params, *one.inputs.values(), one.checkpoint or "", one.item or "")))
