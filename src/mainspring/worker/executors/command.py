"""Command executor: a program with arguments, or a /bin/sh script (WRK-3 to WRK-8).

Arguments and `env` values are templates. Shell scripts are not: they get values through the environment, so that no
value can inject a command. Of the worker's own environment only PATH, HOME, LANG and TZ are inherited.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mainspring.core.work.work import Argv, ShellText, Work
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.wire import Assignment, Outcome
from mainspring.worker.executors.attempt_files import AttemptFiles
from mainspring.worker.executors.attempt_handle import AttemptHandle, AttemptResult, result_of
from mainspring.worker.executors.executor import Executor
from mainspring.worker.executors.task_templates import rendered_argv, rendered_env, template_values
from mainspring.worker.logs.capture import Capture
from mainspring.worker.sandbox.confinement import confinement_of
from mainspring.worker.sandbox.sandbox import Sandbox
from mainspring.worker.supervisor.process_groups import Processes, supervisor_variable

INHERITED = ("PATH", "HOME", "LANG", "TZ")
_READ_BYTES = 1024 * 1024


class CommandExecutor(Executor):
    """Runs each attempt in its own process."""

    async def run_one(self, handle: AttemptHandle) -> None:
        """Run an attempt: fetch its inputs, start the process, follow it to its end."""
        work, one = handle.work, handle.assignment
        assert work is not None
        files = AttemptFiles(self._state_dir, one, self.deadline_of(one), self._sandboxes.user)
        command = _Command(self._clock, self._processes)
        handle.bind(stop=command.stop, recall=lambda: False, prolong=files.prolong)
        secrets = await self.resolve_secrets(handle, self.secrets_of(work))
        if secrets is None:
            return
        capture = self.open_log(handle, secrets)
        argv, given = self.command_of(work, one)
        if handle.stop_requested():
            handle.end(Outcome.STOPPED)
            return
        files.make()
        fault = await self._artifacts.fetch(handle, files.inputs)
        if fault is not None or handle.stop_requested():
            await files.clear()
            handle.end(Outcome.STOPPED if handle.stop_requested() else Outcome.FAILED, error=fault)
            return
        sandbox: Sandbox | None = None
        try:
            variables = given | secrets | self.write_inputs(work, files)
            argv, environment, directory, sandbox = self.prepare(handle, argv, variables, files)
            command.start(argv, environment, directory, capture, sandbox)
        except (Refused, Unavailable, OSError, ValueError) as error:
            if sandbox is not None:
                self._sandboxes.close(sandbox)
            await files.clear()
            why = error.strerror if isinstance(error, OSError) else str(error)
            kind = Unavailable if isinstance(error, Unavailable) else Refused
            raise kind(f"cannot start {argv[0]}: {why}") from None
        handle.begin(command.pid)
        await self._run_to_end(handle, command, files, capture, sandbox)
        self._sandboxes.close(sandbox)

    def prepare(
        self, handle: AttemptHandle, argv: list[str], variables: dict[str, str], files: AttemptFiles
    ) -> tuple[list[str], dict[str, str], Path, Sandbox]:
        """Return arguments, environment, working directory and sandbox of the process.

        Raises Refused, Unavailable or OSError.
        """
        work, one = handle.work, handle.assignment
        assert work is not None
        directory = files.directory(work.directory)
        if not directory.is_dir():
            # Another worker may have it, or this one later.
            raise Unavailable(f"directory {work.directory} does not exist")
        files.release_to_user()
        confinement = confinement_of(work, self._settings.isolation)
        sandbox = self._sandboxes.open(one.attempt, confinement, files.root, one.memory_bytes)
        inherited = clean_environment(os.environ) | sandbox.environment()
        return argv, inherited | self.variables_of(files) | variables, directory, sandbox

    def variables_of(self, files: AttemptFiles) -> dict[str, str]:
        """Return the variables that identify the attempt."""
        return supervisor_variable(self._state_dir) | files.environment()

    async def clean_up(self, handle: AttemptHandle, code: int) -> None:
        """Clean up after the process exited with this code: end remote parts that are not our processes."""

    def secrets_of(self, work: Work) -> Mapping[str, str]:
        """Return the secrets of the command: variable to reference."""
        return work.secrets

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """Return the arguments of the command, and the job's variables. Raises ExpressionFailed."""
        values = template_values(assignment)
        given = rendered_env(work.env, values)
        match work:
            case Argv():
                return rendered_argv("run", work.run, values), given
            case ShellText():
                return ["/bin/sh", "-c", work.shell], given
            case _:
                raise AssertionError(f"{type(work).__name__} is not a command")

    def write_inputs(self, work: Work, files: AttemptFiles) -> dict[str, str]:
        """Write extra input files; return the variables that locate them. Raises OSError."""
        return {}

    def error_of(self, code: int, capture: Capture, files: AttemptFiles, sandbox: Sandbox) -> str:
        """Return the error of a command that exited with this code."""
        return sandbox.error_of(code, capture.last_lines())

    async def _run_to_end(
        self, handle: AttemptHandle, command: _Command, files: AttemptFiles, capture: Capture, sandbox: Sandbox
    ) -> None:
        """Follow the attempt from process start to the end of everything that it started."""
        polling = start_task(self._poll(handle, files), "progress_reader")
        code = await command.exited()
        await self.clean_up(handle, code)
        await command.finish(f"MAINSPRING_ATTEMPT_ID={handle.attempt}\0".encode())
        polling.cancel()
        _report_changes(handle, files)
        log_bytes = capture.close()
        result = AttemptResult(outcome=Outcome.STOPPED)
        if not command.was_stopped:
            result = result_of(self.error_of(code, capture, files, sandbox) if code else None, files.output)
        result = await self._artifacts.keep(handle, files.artifacts, result)
        await files.clear()
        handle.finish(result, log_bytes)

    async def _poll(self, handle: AttemptHandle, files: AttemptFiles) -> None:
        while True:
            await self._clock.sleep(self._settings.poll_seconds)
            _report_changes(handle, files)


class _Command:
    """Process of one attempt, and the pipe with its output."""

    def __init__(self, clock: Clock, processes: Processes) -> None:
        self._clock = clock
        self._processes = processes
        self._capture: Capture | None = None
        self._pipe = -1
        self._killing: asyncio.Task[None] | None = None
        self._is_over = False
        self.pid = 0
        self.was_stopped = False

    def start(
        self, argv: Sequence[str], environment: Mapping[str, str], directory: Path, capture: Capture, sandbox: Sandbox
    ) -> None:
        """Start the process. Raises OSError, ValueError or Refused."""
        reading, writing = os.pipe()
        try:
            self.pid = self._processes.spawn(
                argv, environment=environment, directory=directory, output=writing, sandbox=sandbox
            )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._pipe, self._capture = reading, capture
        asyncio.get_running_loop().add_reader(reading, self._read)

    def stop(self, grace_seconds: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period. No-op if the process has exited."""
        if self._is_over or not self.pid or (self._processes.has_ended(self.pid) and not self.was_stopped):
            return
        if not self.was_stopped:
            self.was_stopped = True
            self._processes.terminate(self.pid)
        if self._killing is not None:
            self._killing.cancel()
        self._killing = start_task(self._kill_after(grace_seconds), "kill_after_grace")

    async def exited(self) -> int:
        """Wait for the process; return its exit code."""
        code = await self._processes.exit_of(self.pid)
        self._is_over = True
        if self._killing is not None:
            self._killing.cancel()
        return code

    async def finish(self, marker: bytes) -> None:
        """Kill the remaining processes, and read the rest of the output."""
        await self._processes.clear(self.pid, marker)
        self._processes.forget(self.pid)
        while self._read():
            pass
        asyncio.get_running_loop().remove_reader(self._pipe)
        os.close(self._pipe)

    async def _kill_after(self, grace_seconds: float) -> None:
        await self._clock.sleep(grace_seconds)
        self._processes.kill(self.pid)

    def _read(self) -> bool:
        """Read from the pipe; False if it was empty."""
        with suppress(BlockingIOError):
            data = os.read(self._pipe, _READ_BYTES)
            if data and self._capture is not None:
                self._capture.feed(data)
                return True
            asyncio.get_running_loop().remove_reader(self._pipe)
        return False


def clean_environment(environment: Mapping[str, str], *more: str) -> dict[str, str]:
    """Return the part of the worker's environment that tasks inherit, and these variables of it."""
    return {name: environment[name] for name in (*INHERITED, *more) if name in environment}


def _report_changes(handle: AttemptHandle, files: AttemptFiles) -> None:
    """Report changes of the attempt's files."""
    if (progress := files.new_progress()) is not None:
        handle.report_progress(progress.percent, progress.note)
    if (document := files.new_checkpoint()) is not None:
        handle.report_checkpoint(document)
    if (seconds := files.new_extension_request()) is not None:
        handle.request_extension(seconds)
