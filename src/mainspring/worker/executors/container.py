"""Containers: a command of docker or podman, which runs the task's own in an image (WRK-3, WRK-4).

So what holds for commands holds for them: progress, output, checkpoints, logs, artifacts. The attempt's directory is
there under the same path; nothing else of the machine is. The root can't be written, /tmp is the container's own, there
is no network unless the task says so, and no privilege to be had.

1. Nothing of a task is in the words or in the environment of the engine: its variables go by a file of its own.
2. The container is gone before the end of the attempt is said. What a guard that was killed has left is found by its
   label when the next one starts, and ended.
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
"""With less no engine starts anything."""


class ContainerExecutor(CommandExecutor):
    """Runs each job in a container of its own."""

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
        """Attempts that were killed for want of memory, and what they had."""

    def clear_leftovers(self) -> None:
        """End what a guard that was killed has left, while other kinds of work start; containers wait for it."""
        if self._settings.container_engine is not None:
            self._clearing = start_task(self._clear(self._settings.container_engine), "leftover_containers")

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run the one job."""
        if self._clearing is not None:
            await asyncio.wait([self._clearing])
        await super().run(jobs)

    def command_of(self, work: Work, assignment: Assignment) -> tuple[list[str], dict[str, str]]:
        """The image and the words of the command, and the variables that the job adds. Raises ExpressionFailed."""
        assert isinstance(work, InContainer)
        values = template_values(assignment)
        run = [rendered(f"container.run[{number}]", word, values) for number, word in enumerate(work.container.run)]
        return [work.container.image, *run], self.variables_of(work, assignment)

    def inherited(self) -> dict[str, str]:
        """Nothing: the image has its own."""
        return {}

    def directory_of(self, work: Work, files: AttemptFiles) -> Path:
        """Where the engine runs, which does not matter to what is in the container."""
        place = _place_of(work.directory, files)
        if place.is_relative_to(files.work):
            place.mkdir(parents=True, exist_ok=True)
        return Path("/")

    def cell_of(self, job: Job, files: AttemptFiles) -> Cell:
        """The engine is the worker's own program: what it runs is kept apart by the container."""
        return self._cells.bare(files.root)

    def dressed(
        self, job: Job, words: list[str], environment: dict[str, str], files: AttemptFiles
    ) -> tuple[list[str], dict[str, str]]:
        """The command of the engine. The task's environment goes by a file that only this user can read."""
        engine, work = self._settings.container_engine, job.work
        assert isinstance(work, InContainer)
        if engine is None:
            raise Refused("this worker has no docker or podman that works")
        if ":" in str(files.root):
            raise Refused(f"no container can be shown a directory with a colon in its name: {files.root}")
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
        """Remove the container, which ends it if the engine did not live to see its end."""
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
        """What the container ended with, or why there was none."""
        last_lines = capture.last_lines()
        limit = self._exceeded.pop(files.root.name, None)
        if limit is not None:
            had = f"{limit / 2**20:.0f} MiB of memory" if limit else "memory"
            message = f"killed, as a container is whose {had} are used up"
            return failure("OutOfMemory", message, klass="resource", limit_bytes=limit, last_lines=last_lines)
        if code == _ENGINE_FAILED:
            said = last_lines.strip().splitlines()
            message = f"the container could not be run: {said[-1] if said else 'its engine does not say why'}"
            return failure("Container", message, klass="transient", last_lines=last_lines)
        return exit_failure(code, last_lines)

    def _limit_of(self, job: Job) -> int:
        """What it may use of memory; 0 for all."""
        wanted = job.assignment.memory_bytes or job.needs.memory_bytes or self._settings.memory_bytes
        return max(wanted, _LEAST_MEMORY_BYTES) if wanted else 0

    def _user_of(self, engine: Engine) -> str:
        """The user whom the attempt's files belong to, as the container sees it."""
        if not engine.has_users_of_machine:
            return "0:0"
        user = self._cells.user
        return f"{os.getuid()}:{os.getgid()}" if user is None else f"{user.uid}:{user.gid}"

    async def _clear(self, engine: Engine) -> None:
        """Remove every container of an earlier guard of this directory."""
        _, answer = await self._ask(
            engine, "ps", "--all", "--quiet", "--filter", f"label={GUARD_LABEL}={self._state_dir}"
        )
        left = answer.decode().split()
        for one in left:
            await self._ask(engine, *engine.remove_words, one)
        if left:
            log.warning("supervisor.found_containers", removed=len(left))

    async def _ask(self, engine: Engine, *words: str) -> tuple[int, bytes]:
        """What an engine answers. One that does not is as one that fails."""
        try:
            return await ask_program(
                self._processes,
                [*engine.words, *words],
                engine_environment(),
                seconds=_ASK_SECONDS,
                most_bytes=_MOST_ANSWERED,
            )
        except (TimeoutError, OSError) as error:
            log.warning("container_engine.failed", command=words[0], because=str(error) or "it took too long")
            return -1, b""


def _name_of(attempt: str) -> str:
    return f"mainspring-{attempt}"


def _place_of(wanted: str | None, files: AttemptFiles) -> Path:
    """The directory that a container starts in: the attempt's own or one below it, or an absolute one of the image."""
    return Path(os.path.normpath(files.work / (wanted or "")))


def _env_file(variables: Mapping[str, str]) -> bytes:
    """Variables as engines read them: a line each. Raises Refused for one that has several."""
    for name, value in variables.items():
        if "\n" in value or "\r" in value:
            raise Refused(
                f"the variable {name} has several lines, which no container can be given: use a file, or base64"
            )
    return "".join(f"{name}={value}\n" for name, value in variables.items()).encode()
