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
from pathlib import Path
from typing import cast

import structlog

from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Broken, Refused, Unavailable
from mainspring.protocol.wire import Outcome
from mainspring.worker.artifacts.transfer import Artifacts, Remains
from mainspring.worker.executors.attempt_files import ARTIFACTS, INPUTS
from mainspring.worker.executors.command import clean_environment
from mainspring.worker.executors.executor import Job, failure
from mainspring.worker.executors.python.child_output import ChildOutput
from mainspring.worker.executors.python.child_wire import (
    CURRENT,
    GIVEN,
    LIMIT,
    NO_LIMIT,
    PAGE_BYTES,
    STOP,
    UNTIL,
    Answered,
    Call,
    Called,
    Checkpointed,
    Drained,
    FromChild,
    Left,
    Progressed,
    Ready,
    Requested,
    open_page,
)
from mainspring.worker.sandbox.confinement import Confinement
from mainspring.worker.sandbox.sandbox import Cell, Cells
from mainspring.worker.sandbox.task_user import give
from mainspring.worker.supervisor.frames import FrameReader, encode_frame
from mainspring.worker.supervisor.process_groups import Processes, guard_variable
from mainspring.worker.supervisor.supervisor_settings import GuardSettings

log = structlog.get_logger(__name__)

_PROGRAM = (sys.executable, "-P", "-m", "mainspring.worker.executors.python.child")
_LARGEST_SLICE_BYTES = 8 * 1024 * 1024
_START_SECONDS = 60.0
_LOOK_SECONDS = 0.001
_REST_SECONDS = 0.001
"""While a child has calls for about this long, its messages are read at this interval. A no-op call costs the worker 81
us with it, and 90 if the supervisor wakes up for every answer; a longer interval gains nothing."""
_END_SECONDS = 2.0
"""Time for a child that disconnected to exit by itself, with its own exit code."""


class ChildLink:
    """One child."""

    def __init__(
        self,
        state_dir: Path,
        settings: GuardSettings,
        clock: Clock,
        processes: Processes,
        cells: Cells,
        confinement: Confinement,
        artifacts: Artifacts,
        number: int,
    ) -> None:
        self._state_dir = state_dir
        self._settings = settings
        self._clock = clock
        self._processes = processes
        self._cells = cells
        self._confinement = confinement
        self._artifacts = artifacts
        self._keeping: list[asyncio.Task[None]] = []
        self._cell: Cell | None = None
        self._number = number
        self._directory = state_dir / "children" / str(number)
        self._serial = 0
        self._jobs: dict[int, Job] = {}
        self._killing: asyncio.Task[None] | None = None
        self._killed_serial = 0
        self._pid = 0
        self._page = memoryview(b"")
        self.is_alive = False

    async def start(self) -> None:
        """Start the process, and wait until it is ready. Raises Unavailable, Refused or OSError."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if self._cells.user is not None:
            give(self._directory, self._cells.user)
        self._cell = self._cells.open(f"child-{self._number}", self._confinement, self._directory, 0)
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as file, theirs:
            file.truncate(PAGE_BYTES)
            self._page = open_page(file.fileno())
            self._page[LIMIT] = NO_LIMIT
            try:
                self._pid = self._processes.spawn(
                    [*_PROGRAM, str(theirs.fileno()), str(file.fileno()), *self._settings.handlers],
                    environment=self._environment() | self._cell.environment(),
                    directory=self._directory,
                    output=writing,
                    keep=(theirs.fileno(), file.fileno()),
                    keeps_orphans=True,
                    cell=self._cell,
                )
            except (OSError, Refused):
                os.close(reading)
                ours.close()
                raise
            finally:
                os.close(writing)
        self.is_alive = True
        self._output = ChildOutput(self._state_dir, self._settings.log_cap_bytes, self._page, reading, self._jobs)
        reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self._words: FrameReader[FromChild] = FrameReader(reader, list[FromChild])
        try:
            async with asyncio.timeout(_START_SECONDS):
                heard = await self._words.next()
        except (TimeoutError, ConnectionError):
            heard = []
        if not heard or not isinstance(heard[0], Ready):
            raise Unavailable("the Python child process did not become ready")
        if heard[0].has_printed:
            self._drain()

    def fits(self, memory_bytes: int) -> bool:
        """Set the memory limit for the next slice; False if earlier calls already use more."""
        try:
            if self._cell is not None and self._cell.cgroup is not None:
                self._cell.cgroup.limit_memory(memory_bytes or self._settings.memory_bytes)
        except OSError:
            return False
        return True

    async def run(self, jobs: Sequence[Job], secrets: Mapping[str, Mapping[str, str]]) -> None:
        """Call these one after another. Those that have not ended afterwards have not started."""
        if not jobs:
            return
        self._output.secrets = secrets
        self._page[LIMIT] = NO_LIMIT
        calls: list[Call] = []
        size_bytes = 0
        for job in jobs:
            size_bytes += _size_bytes(job)
            if calls and size_bytes > _LARGEST_SLICE_BYTES:
                break
            self._serial += 1
            calls.append(Call(self._serial, job.assignment, dict(secrets.get(job.attempt, {}))))
        self._writer.write(encode_frame(calls))
        for call, job in zip(calls, jobs, strict=False):
            self._hand(job, call.serial)
        self._look_later(calls[0].serial)
        await self._hear_all()
        self._looking.cancel()
        await asyncio.gather(*self._keeping)
        self._keeping.clear()

    async def fetch(self, job: Job) -> None:
        """Fetch the attempt's inputs. If that fails, the attempt ends."""
        folder = self._directory / job.attempt
        error = await self._artifacts.fetch(job, folder / INPUTS)
        if error is not None:
            shutil.rmtree(folder, ignore_errors=True)
            job.end(Outcome.FAILED, error=error)
        elif self._cells.user is not None:
            give(folder, self._cells.user)

    async def close(self) -> None:
        """Kill the process."""
        if self._pid and self.is_alive:
            self._processes.kill(self._pid)
            await self._bury()
        if self._cell is not None:
            self._cells.close(self._cell)
            self._cell = None
        shutil.rmtree(self._directory, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        places = [*self._settings.python_path, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        variables = clean_environment(os.environ) | guard_variable(self._state_dir)
        return variables | {"PYTHONPATH": os.pathsep.join(places), "MAINSPRING_CHILD": str(self._number)}

    def _hand(self, job: Job, serial: int) -> None:
        self._jobs[serial] = job
        job.hand(
            stop=lambda grace_seconds: self._stop(serial, grace_seconds),
            recall=lambda: self._recall(serial),
            prolong=lambda until: self._prolong(serial, until),
        )

    # messages of the child

    async def _hear_all(self) -> None:
        """Process messages until the child has no calls left or has exited."""
        heard_at, pace = self._clock.monotonic(), 0.0
        while self._jobs and self.is_alive:
            if len(self._jobs) * pace > _REST_SECONDS / 2:
                await self._rest()
            try:
                heard = await self._words.next()
            except (ConnectionError, Broken):
                heard = []
            if not heard:
                await self._bury()
            before = len(self._jobs)
            for word in heard:
                self._hear(word)
            now = self._clock.monotonic()
            pace, heard_at = (now - heard_at) / max(1, before - len(self._jobs)), now

    async def _rest(self) -> None:
        """Let messages accumulate, to read them together. Output ends the wait, as the printing call waits for us."""
        transport = cast("asyncio.Transport", self._writer.transport)
        transport.pause_reading()
        self._output.printed.clear()
        try:
            async with asyncio.timeout(_REST_SECONDS):
                await self._output.printed.wait()
        except TimeoutError:
            pass  # nothing was printed, the usual case
        if not transport.is_closing():
            transport.resume_reading()

    def _look_later(self, first: int) -> None:
        self._looking = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look, first)

    def _look(self, first: int) -> None:
        """Check in the page whether the first call of a slice runs: the child reports it only with its next message."""
        serial = self._page[CURRENT]
        if serial < first:
            self._look_later(first)
        elif serial in self._jobs and serial <= self._page[LIMIT]:
            self._jobs[serial].begin(self._pid)

    def _hear(self, word: FromChild) -> None:
        match word:
            case Called():
                job = self._jobs[word.serial]
                if job.is_over:
                    log.error("attempt.started_after_recall", attempt=job.attempt)
                    self._processes.kill(self._pid)
                else:
                    job.begin(self._pid)
            case Answered():
                self._answer(word)
            case Left():
                self._jobs.pop(word.serial).put_back()
            case Progressed():
                if word.serial in self._jobs:
                    self._jobs[word.serial].move(word.percent, word.note)
            case Checkpointed():
                if word.serial in self._jobs:
                    self._jobs[word.serial].save(word.document)
            case Requested():
                if word.serial in self._jobs:
                    self._jobs[word.serial].ask(word.seconds)
            case Ready():
                raise Broken("a child reported ready twice")

    def _answer(self, word: Answered) -> None:
        log_bytes = 0
        if word.has_printed:
            log_bytes = self._drain(word.serial)
        self._forget_killing()
        job = self._jobs.pop(word.serial)
        left = Remains(outcome=word.outcome, output=word.output, error=word.error)
        if word.has_left or (job.work is not None and job.work.fetch):
            self._keeping.append(start_task(self._keep(job, left, log_bytes), "artifact_upload"))
        else:
            job.end(left.outcome, output=left.output, error=left.error, log_bytes=log_bytes)

    async def _keep(self, job: Job, left: Remains, log_bytes: int) -> None:
        """Store the artifacts of an ended call, moved to where the next call can't reach them."""
        folder = self._state_dir / "attempts" / job.attempt
        folder.parent.mkdir(exist_ok=True, mode=0o700)
        with suppress(OSError):  # The folder does not exist.
            (self._directory / job.attempt).rename(folder)
        if not folder.is_symlink():
            left = await self._artifacts.keep(job, folder / ARTIFACTS, left)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        folder.unlink(missing_ok=True)
        job.end(left.outcome, output=left.output, error=left.error, log_bytes=log_bytes, artifacts=left.artifacts)

    def _drain(self, serial: int = 0) -> int:
        """Read the rest of a call's output, and let the child continue. Return the size of the call's log."""
        self._output.read_all()
        self._writer.write(encode_frame([Drained()]))
        return self._output.close_log(serial)

    async def _bury(self) -> None:
        """The child exited or disconnected: fail the call that it was running."""
        self.is_alive = False
        code = await self._exit_code()
        await self._processes.clear(self._pid, f"MAINSPRING_CHILD={self._number}\0".encode())
        self._processes.forget(self._pid)
        self._output.close()
        self._writer.close()
        self._forget_killing()
        self._end_current(code)
        for job in self._jobs.values():
            job.put_back()
        self._jobs.clear()

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
        serial = self._page[CURRENT]
        job = self._jobs.pop(serial, None)
        if job is None or job.is_over:
            return
        last_lines = self._output.last_lines(serial)
        log_bytes = self._output.close_log(serial)
        job.begin(self._pid)
        if serial == self._killed_serial:
            job.end(Outcome.STOPPED, log_bytes=log_bytes)
        elif code is None:
            job.end(
                Outcome.FAILED, error=failure("Child", "the child process closed its connection"), log_bytes=log_bytes
            )
        else:
            assert self._cell is not None
            job.end(Outcome.FAILED, error=self._cell.error_of(code, last_lines), log_bytes=log_bytes)

    # requests to the child

    def _recall(self, serial: int) -> bool:
        """Prevent a call from starting; whether that succeeded."""
        self._page[LIMIT] = min(self._page[LIMIT], self._page[CURRENT])
        return bool(self._page[CURRENT] < serial)

    def _stop(self, serial: int, grace_seconds: float) -> None:
        """Raise SystemExit in the function, and kill the child after the grace period. A call that has not started is
        skipped."""
        if self._recall(serial):
            self._jobs[serial].end(Outcome.STOPPED)
            return
        if self._page[STOP] != serial:
            self._page[STOP] = serial
            self._processes.ask_to_end(self._pid)
        self._forget_killing()
        self._killing = start_task(self._kill_after(serial, grace_seconds), "kill_after_grace")

    def _prolong(self, serial: int, until: datetime) -> None:
        self._page[UNTIL] = int(until.timestamp() * 1_000)
        self._page[GIVEN] = serial

    async def _kill_after(self, serial: int, grace_seconds: float) -> None:
        await self._clock.sleep(grace_seconds)
        if serial in self._jobs:
            self._killed_serial = serial
            self._processes.kill(self._pid)

    def _forget_killing(self) -> None:
        if self._killing is not None:
            self._killing.cancel()
            self._killing = None


def _size_bytes(job: Job) -> int:
    """Return the approximate size of a call in a frame."""
    one = job.assignment
    return (
        len(one.work)
        + len(one.params)
        + sum(map(len, one.inputs.values()))
        + len(one.checkpoint or "")
        + len(one.item or "")
    )
