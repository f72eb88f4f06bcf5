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
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from mainspring.core.work.work import InContainer, Work
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import Assignment
from mainspring.worker.executors.attempt_files import AttemptFiles
from mainspring.worker.executors.command import CommandExecutor
from mainspring.worker.executors.container_engine import Engine, engine_environment
from mainspring.worker.executors.executor import Job, exit_failure, failure, rendered, template_values
from mainspring.worker.executors.secret_values import Secrets
from mainspring.worker.logs.capture import Capture
from mainspring.worker.sandbox.programs import ask_program
from mainspring.worker.sandbox.sandbox import Cell, Cells
from mainspring.worker.supervisor.process_groups import Processes
from mainspring.worker.supervisor.supervisor_settings import GuardSettings

log = structlog.get_logger(__name__)

GUARD_LABEL, ATTEMPT_LABEL = "mainspring.guard", "mainspring.attempt"
_ENV_FILE = "container.env"
_ENGINE_FAILED, _KILLED = 125, 137
_ASK_SECONDS = 60.0
_MOST_ANSWERED = 1024 * 1024
_TRIES = 3
_LEAST_MEMORY_BYTES = 16 * 1024 * 1024
"""Engines start nothing with less."""


class ContainerExecutor(CommandExecutor):
    """Runs each attempt in its own container."""

    def __init__(
        self,
        state_dir: Path,
        settings: GuardSettings,
        clock: Clock,
        processes: Processes,
        secrets: Secrets,
        cells: Cells,
    ) -> None:
        super().__init__(state_dir, settings, clock, processes, secrets, cells)
        self._clearing: asyncio.Task[None] | None = None
        self._exceeded: dict[str, int] = {}
        """Attempts that ran out of memory, with their limit."""

    def clear_leftovers(self) -> None:
        """Remove the containers of a killed supervisor in the background; containers wait for it, other work does
        not."""
        if self._settings.container_engine is not None:
            self._clearing = start_task(self._clear(self._settings.container_engine), "leftover_containers")

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run one attempt."""
        if self._clearing is not None:
            await asyncio.wait([self._clearing])
        await super().run(jobs)

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """Return the image with the command's arguments, and the job's variables. Raises ExpressionFailed."""
        assert isinstance(work, InContainer)
        values = template_values(assignment)
        run = [rendered(f"container.run[{number}]", word, values) for number, word in enumerate(work.container.run)]
        return [work.container.image, *run], self.variables_of(work, assignment)

    def inherited(self) -> dict[str, str]:
        """Nothing: the image has its own environment."""
        return {}

    def directory_of(self, work: Work, files: AttemptFiles) -> Path:
        """Return the engine's working directory, which the container does not see."""
        place = _place_of(work.directory, files)
        if place.is_relative_to(files.work):
            place.mkdir(parents=True, exist_ok=True)
        return Path("/")

    def cell_of(self, job: Job, files: AttemptFiles) -> Cell:
        """Run the engine unconfined: the container isolates what it runs."""
        return self._cells.bare(files.root)

    def dressed(
        self, job: Job, words: list[str], environment: dict[str, str], files: AttemptFiles
    ) -> tuple[list[str], dict[str, str]]:
        """Return the engine's command line. The task's variables are in a file that only this user can read."""
        engine, work = self._settings.container_engine, job.work
        assert isinstance(work, InContainer)
        if engine is None:
            raise Refused("this worker has no working docker or podman")
        if ":" in str(files.root):
            raise Refused(f"a directory with a colon in its name can't be mounted: {files.root}")
        variables = files.leave(_ENV_FILE, _env_file({"HOME": str(files.work)} | environment))
        said = [*engine.words, "run", "--name", _name_of(job.attempt), "--pull", work.container.pull]
        said += ["--label", f"{GUARD_LABEL}={self._state_dir}", "--label", f"{ATTEMPT_LABEL}={job.attempt}"]
        said += ["--env-file", str(variables), "--volume", f"{files.root}:{files.root}:Z"]
        said += ["--workdir", str(_place_of(work.directory, files)), "--user", self._user_of(engine)]
        said += ["--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]  # noqa: S108
        said += ["--pids-limit", str(self._settings.task_processes), "--log-driver", "none", *engine.run_words]
        if not work.network:
            said += ["--network", "none"]
        if engine.limits_memory and (limit := self._limit_of(job)):
            said += ["--memory", f"{limit}b", "--memory-swap", f"{limit}b"]
        image, *run = words
        return [*said, *(["--entrypoint", run[0]] if run else []), image, *run[1:]], engine_environment()

    async def settle(self, job: Job, code: int) -> None:
        """Remove the container, which also ends it if the engine client died first."""
        engine = self._settings.container_engine
        assert engine is not None
        name = _name_of(job.attempt)
        if code != 0:
            asked = "{{.State.OOMKilled}}"
            _, answer = await self._ask(engine, "container", "inspect", "--format", asked, name)
            if answer.strip() == b"true" or code == _KILLED:
                self._exceeded[job.attempt] = self._limit_of(job)
        for _ in range(_TRIES):
            removed, _ = await self._ask(engine, *engine.remove_words, name)
            if removed == 0 or (await self._ask(engine, "container", "inspect", name))[0] != 0:
                return
        log.error("container.left", attempt=job.attempt, container=name)

    def error_of(self, code: int, capture: Capture, files: AttemptFiles, cell: Cell) -> str:
        """Return the container's error, or why it did not start."""
        last_lines = capture.last_lines()
        limit = self._exceeded.pop(files.root.name, None)
        if limit is not None:
            had = f" of {limit / 2**20:.0f} MiB" if limit else ""
            message = f"killed: the container exceeded its memory limit{had}"
            return failure("OutOfMemory", message, klass="resource", limit_bytes=limit, last_lines=last_lines)
        if code == _ENGINE_FAILED:
            said = last_lines.strip().splitlines()
            message = f"the engine could not run the container: {said[-1] if said else 'no error message'}"
            return failure("Container", message, klass="transient", last_lines=last_lines)
        return exit_failure(code, last_lines)

    def _limit_of(self, job: Job) -> int:
        """Return the memory limit; 0 for none."""
        wanted = job.assignment.memory_bytes or job.needs.memory_bytes or self._settings.memory_bytes
        return max(wanted, _LEAST_MEMORY_BYTES) if wanted else 0

    def _user_of(self, engine: Engine) -> str:
        """Return the owner of the attempt's files, as the container sees it."""
        if not engine.has_users_of_machine:
            return "0:0"
        user = self._cells.user
        return f"{os.getuid()}:{os.getgid()}" if user is None else f"{user.uid}:{user.gid}"

    async def _clear(self, engine: Engine) -> None:
        """Remove all containers of an earlier supervisor of this directory."""
        _, answer = await self._ask(
            engine, "ps", "--all", "--quiet", "--filter", f"label={GUARD_LABEL}={self._state_dir}"
        )
        left = answer.decode().split()
        for one in left:
            await self._ask(engine, *engine.remove_words, one)
        if left:
            log.warning("supervisor.found_containers", removed=len(left))

    async def _ask(self, engine: Engine, *words: str) -> tuple[int, bytes]:
        """Run an engine command. An engine that does not answer counts as failed."""
        try:
            return await ask_program(
                self._processes,
                [*engine.words, *words],
                engine_environment(),
                seconds=_ASK_SECONDS,
                most_bytes=_MOST_ANSWERED,
            )
        except (TimeoutError, OSError) as error:
            log.warning("container_engine.failed", command=words[0], because=str(error) or "timed out")
            return -1, b""


def _name_of(attempt: str) -> str:
    return f"mainspring-{attempt}"


def _place_of(wanted: str | None, files: AttemptFiles) -> Path:
    """Return the container's working directory: below the attempt's own, or an absolute path in the image."""
    return Path(os.path.normpath(files.work / (wanted or "")))


def _env_file(variables: Mapping[str, str]) -> bytes:
    """Format variables for `--env-file`: one line each. Raises Refused for multi-line values."""
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            raise Refused(f"variable {name} has several lines, which containers do not support: use a file, or base64")
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode()
