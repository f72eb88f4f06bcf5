"""Sandbox around a task process: user, rlimits, cgroup, file system view. Opened before it starts, closed afterwards.

The rules are in `confinement.py`; this module applies them with the means of this machine.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import structlog

from mainspring.core.work.isolation import Isolation
from mainspring.worker.executors.attempt_handle import exit_failure, failure
from mainspring.worker.sandbox.cgroups import Cgroup, Cgroups, find_cgroups, name_of
from mainspring.worker.sandbox.confinement import HOMES, TEMPORARY, Confinement, View, limits, sandbox_argv, view_of
from mainspring.worker.sandbox.prctl import die_with_parent, set_no_new_privileges
from mainspring.worker.sandbox.task_user import TaskUser, find_user, first_inaccessible
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings

log = structlog.get_logger(__name__)

_UMASK_OF_TASKS = 0o022
"""For tasks of another user, whatever the worker's own is."""
STATE_FOLDER = ".mainspring"
"""Folder with our state: the store, the spools."""


class Sandbox(msgspec.Struct, kw_only=True):
    """Sandbox of one process and its descendants."""

    confinement: Confinement
    own: Path
    """The directory that is writable inside."""
    view: View
    user: TaskUser | None = None
    rlimits: tuple[tuple[int, int, int], ...] = ()
    cgroup: Cgroup | None = None
    entrances: list[int] = []
    """Open files of the cgroup, while a process is being started."""

    def argv(self, argv: Sequence[str], directory: Path) -> Sequence[str]:
        """Return the command line to start instead. Raises Refused if the directory is not visible inside."""
        if not self.confinement.is_sandbox():
            return argv
        return sandbox_argv(argv, self.view, self.own, directory, network=self.confinement.network)

    def environment(self) -> dict[str, str]:
        """Return the variables that differ inside."""
        if self.confinement.is_sandbox():
            return {"HOME": str(self.own)}
        return {} if self.user is None else {"HOME": self.user.home}

    def open_entrances(self) -> None:
        """Open the cgroup for a process to be started. Raises OSError."""
        self.entrances = [] if self.cgroup is None else self.cgroup.open_process_files()

    def close_entrances(self) -> None:
        """Close the cgroup files: the process has joined."""
        for file in self.entrances:
            os.close(file)
        self.entrances = []

    def enter(self) -> None:
        """Enter the sandbox. Runs between fork and exec: a few system calls, and no locks."""
        for file in self.entrances:
            os.write(file, b"0")
        for which, soft, hard in self.rlimits:
            resource.setrlimit(which, (soft, hard))
        if self.user is not None:
            os.umask(_UMASK_OF_TASKS)
            os.setgroups(self.user.groups)
            os.setgid(self.user.gid)
            os.setuid(self.user.uid)
        if self.confinement.is_limited():
            set_no_new_privileges()
        die_with_parent()

    def error_of(self, code: int, last_lines: str = "") -> str:
        """Return the error of a process that exited with this code in the sandbox."""
        if self.cgroup is None:
            return exit_failure(code, last_lines)
        events = self.cgroup.events()
        if events.out_of_memory:
            limit = self.cgroup.memory_bytes
            had = f" of {limit / 2**20:.0f} MiB" if limit else ""
            message = f"killed: memory limit{had} exceeded"
            more: dict[str, str | float] = {"last_lines": last_lines} if last_lines else {}
            return failure(
                "OutOfMemory", message, error_class="resource", limit_bytes=limit, peak_bytes=events.peak_bytes, **more
            )
        note = "process limit reached" if events.refused_forks else ""
        return exit_failure(code, last_lines, note)


class Sandboxes:
    """Opens the sandboxes of one supervisor."""

    def __init__(self, state_dir: Path, settings: SupervisorSettings) -> None:
        """Raises Refused if the task user does not exist."""
        self.settings = settings
        self.user = find_user(settings.task_user) if settings.task_user else None
        self._cgroups: Cgroups | None = None
        self._searched_cgroups = False
        self._state_dir = state_dir
        self._view = machine_view(state_dir, settings, self.user)

    def prepare(self) -> None:
        """Give the task user access to its own directories, and to nothing else."""
        if self.user is not None:
            os.umask(0o077)
            for entry in self._state_dir.iterdir():
                entry.chmod(0o700 if entry.is_dir() else 0o600, follow_symlinks=False)
            for place in (self._state_dir, self._state_dir / "attempts", self._state_dir / "children"):
                place.mkdir(exist_ok=True)
                place.chmod(0o711)
        if self.settings.isolation is not Isolation.NONE:
            self._find_cgroups()

    def open(self, name: str, confinement: Confinement, own: Path, memory_bytes: int) -> Sandbox:
        """Open a sandbox with this memory limit; 0 if none was requested. Raises OSError."""
        settings = self.settings
        cgroup: Cgroup | None = None
        rlimits: tuple[tuple[int, int, int], ...] = ()
        if confinement.is_limited():
            cgroups = self._find_cgroups()
            if cgroups is not None:
                cgroup = cgroups.open(name, memory_bytes or settings.memory_bytes, settings.task_processes)
            has_own_user = self.user is not None
            rlimits = limits(
                processes=settings.task_processes if cgroup is None and has_own_user else 0,
                memory_bytes=memory_bytes if cgroup is None else 0,
                file_bytes=settings.task_file_bytes,
            )
        return Sandbox(
            confinement=confinement, own=own, view=self._view, user=self.user, rlimits=rlimits, cgroup=cgroup
        )

    def unconfined(self, own: Path) -> Sandbox:
        """Return a no-op sandbox, for programs of the worker itself."""
        return Sandbox(confinement=Confinement(), own=own, view=self._view)

    def close(self, sandbox: Sandbox) -> None:
        """Close a sandbox whose processes have ended."""
        if sandbox.cgroup is not None and self._cgroups is not None:
            self._cgroups.close(sandbox.cgroup)

    def end(self) -> None:
        """Remove the cgroups."""
        if self._cgroups is not None:
            self._cgroups.end()

    def _find_cgroups(self) -> Cgroups | None:
        """Detect cgroups on first use, and end those of a killed supervisor."""
        if not self._searched_cgroups:
            self._searched_cgroups = True
            self._cgroups = find_cgroups(name_of(self._state_dir))
            if self._cgroups is not None and (left := self._cgroups.clear_leftovers()):
                log.warning("supervisor.found_cgroups", removed=left)
        return self._cgroups


def machine_view(state_dir: Path, settings: SupervisorSettings, user: TaskUser | None) -> View:
    """Return the sandbox view of this machine: no homes, no temporary files, of the worker only Python and code."""
    homes = [str(Path.home()), *([] if user is None else [user.home])]
    kept = [str(state_dir), *(f"{place}/{STATE_FOLDER}" for place in settings.python_path)]
    named = [Path(place).resolve() for place in (*TEMPORARY, *HOMES, *settings.hidden, *homes, *kept)]
    python = [Path(place).resolve() for place in (sys.prefix, sys.base_prefix)]
    ours = [Path(__file__).resolve().parents[3], *map(Path, settings.python_path), *map(Path, settings.shown)]
    handlers = [Path(one).parent for one in settings.handlers if one.endswith(".py")]
    shown = [place for place in (*python, *ours, *handlers) if place.exists()]
    return view_of(
        [place for place in named if place.is_dir() and place != Path("/")],
        [place for place in shown if user is None or first_inaccessible(user, place) is None],
        [place for place in named if place.is_file()],
    )
