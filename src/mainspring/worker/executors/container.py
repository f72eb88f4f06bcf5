"""Container executor: runs the task's command in an image with docker or podman (WRK-3, WRK-4).

It is a command executor, so progress, output, checkpoints, logs and artifacts work as for commands. The attempt's
directory is mounted under the same path, and nothing else of the host. The root file system is read-only, /tmp is
private, there is no network unless the task asks for it, and privileges can't be gained.

1. Nothing of a task is in the engine's arguments or environment: its variables are passed in an env file.
2. The container is removed before the end of the attempt is reported. Containers of a supervisor that was killed are
   found by their label at the next start, and removed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from mainspring.core.work.work import InContainer, Work
from mainspring.event_loop import start_task
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Assignment
from mainspring.worker.executors.attempt_files import AttemptFiles
from mainspring.worker.executors.attempt_handle import AttemptHandle, exit_failure, failure
from mainspring.worker.executors.command import CommandExecutor
from mainspring.worker.executors.container_engine import Engine, engine_environment
from mainspring.worker.executors.executor import Runtime
from mainspring.worker.executors.task_templates import rendered_argv, rendered_env, template_values
from mainspring.worker.logs.capture import Capture
from mainspring.worker.sandbox.sandbox import Sandbox

log = structlog.get_logger(__name__)

SUPERVISOR_LABEL, ATTEMPT_LABEL = "mainspring.supervisor", "mainspring.attempt"
_ENV_FILE = "container.env"
_ENGINE_FAILED, _KILLED = 125, 137
_ASK_SECONDS = 60.0
_MAX_ANSWER_BYTES = 1024 * 1024
_TRIES = 3
_MIN_MEMORY_BYTES = 16 * 1024 * 1024
"""Engines start nothing with less."""


class ContainerExecutor(CommandExecutor):
    """Runs each attempt in its own container."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._clearing: asyncio.Task[None] | None = None
        self._exceeded: dict[str, int] = {}
        """Attempts that ran out of memory, with their limit."""

    def clear_leftovers(self) -> None:
        """Remove the containers of a killed supervisor in the background; containers wait for it, other work does
        not."""
        if self._settings.container_engine is not None:
            self._clearing = start_task(self._clear(self._settings.container_engine), "leftover_containers")

    async def run_one(self, handle: AttemptHandle) -> None:
        """Run an attempt, once the leftovers are gone."""
        if self._clearing is not None:
            await asyncio.wait([self._clearing])
        await super().run_one(handle)

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """Return the image with the command's arguments, and the job's variables. Raises ExpressionFailed."""
        assert isinstance(work, InContainer)
        values = template_values(assignment)
        run = rendered_argv("container.run", work.container.run, values)
        return [work.container.image, *run], rendered_env(work.env, values)

    def prepare(
        self, handle: AttemptHandle, argv: list[str], variables: dict[str, str], files: AttemptFiles
    ) -> tuple[list[str], dict[str, str], Path, Sandbox]:
        """Return the engine's command line, to be run unconfined: the container isolates what it runs.

        The task's variables are in a file that only this user can read.
        """
        engine, work = self._settings.container_engine, handle.work
        assert isinstance(work, InContainer)
        if engine is None:
            raise Refused("this worker has no working docker or podman")
        if ":" in str(files.root):
            raise Refused(f"a directory with a colon in its name can't be mounted: {files.root}")
        directory = files.directory(work.directory)  # an absolute path is one in the image
        files.release_to_user()
        variables = {"HOME": str(files.work)} | self.variables_of(files) | variables
        env_file = files.write_inputs(_ENV_FILE, _env_file(variables))
        command = [*engine.argv, "run", "--name", _name_of(handle.attempt), "--pull", work.container.pull]
        command += ["--label", f"{SUPERVISOR_LABEL}={self._state_dir}", "--label", f"{ATTEMPT_LABEL}={handle.attempt}"]
        command += ["--env-file", str(env_file), "--volume", f"{files.root}:{files.root}:Z"]
        command += ["--workdir", str(directory), "--user", self._user_of(engine)]
        command += ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]  # noqa: S108
        command += ["--pids-limit", str(self._settings.task_processes), "--log-driver", "none", *engine.run_args]
        if not work.network:
            command += ["--network", "none"]
        if engine.limits_memory and (limit := self._limit_of(handle)):
            command += ["--memory", f"{limit}b", "--memory-swap", f"{limit}b"]
        image, *run = argv
        command += [*(["--entrypoint", run[0]] if run else []), image, *run[1:]]
        return command, engine_environment(), Path("/"), self._sandboxes.unconfined(files.root)

    async def clean_up(self, handle: AttemptHandle, code: int) -> None:
        """Remove the container, which also ends it if the engine client died first."""
        engine = self._settings.container_engine
        assert engine is not None
        name = _name_of(handle.attempt)
        if code != 0:
            template = "{{.State.OOMKilled}}"
            _, answer = await self._ask(engine, "container", "inspect", "--format", template, name)
            if answer.strip() == b"true" or code == _KILLED:
                self._exceeded[handle.attempt] = self._limit_of(handle)
        for _ in range(_TRIES):
            removed, _ = await self._ask(engine, *engine.remove_args, name)
            if removed == 0 or (await self._ask(engine, "container", "inspect", name))[0] != 0:
                return
        log.error("container.left", attempt=handle.attempt, container=name)

    def error_of(self, code: int, capture: Capture, files: AttemptFiles, sandbox: Sandbox) -> str:
        """Return the container's error, or why it did not start."""
        last_lines = capture.last_lines()
        limit = self._exceeded.pop(files.root.name, None)
        if limit is not None:
            had = f" of {limit / 2**20:.0f} MiB" if limit else ""
            message = f"killed: the container exceeded its memory limit{had}"
            return failure("OutOfMemory", message, error_class="resource", limit_bytes=limit, last_lines=last_lines)
        if code == _ENGINE_FAILED:
            lines = last_lines.strip().splitlines()
            message = f"the engine could not run the container: {lines[-1] if lines else 'no error message'}"
            return failure("Container", message, error_class="transient", last_lines=last_lines)
        return exit_failure(code, last_lines)

    def _limit_of(self, handle: AttemptHandle) -> int:
        """Return the memory limit; 0 for none."""
        wanted = handle.assignment.memory_bytes or handle.needs.memory_bytes or self._settings.memory_bytes
        return max(wanted, _MIN_MEMORY_BYTES) if wanted else 0

    def _user_of(self, engine: Engine) -> str:
        """Return the owner of the attempt's files, as the container sees it."""
        if not engine.uses_host_users:
            return "0:0"
        user = self._sandboxes.user
        return f"{os.getuid()}:{os.getgid()}" if user is None else f"{user.uid}:{user.gid}"

    async def _clear(self, engine: Engine) -> None:
        """Remove all containers of an earlier supervisor of this directory."""
        _, answer = await self._ask(
            engine, "ps", "--all", "--quiet", "--filter", f"label={SUPERVISOR_LABEL}={self._state_dir}"
        )
        left = answer.decode().split()
        for one in left:
            await self._ask(engine, *engine.remove_args, one)
        if left:
            log.warning("supervisor.found_containers", removed=len(left))

    async def _ask(self, engine: Engine, *argv: str) -> tuple[int, bytes]:
        """Run an engine command. An engine that does not answer counts as failed."""
        try:
            full = (*engine.argv, *argv)
            return await self._processes.run(
                full, engine_environment(), seconds=_ASK_SECONDS, max_bytes=_MAX_ANSWER_BYTES
            )
        except (TimeoutError, OSError) as error:
            log.warning("container_engine.failed", command=argv[0], because=str(error) or "timed out")
            return -1, b""


def _name_of(attempt: str) -> str:
    return f"mainspring-{attempt}"


def _env_file(variables: Mapping[str, str]) -> bytes:
    """Format variables for `--env-file`: one line each. Raises Refused for multi-line values."""
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            raise Refused(f"variable {name} has several lines, which containers do not support: use a file, or base64")
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode()
