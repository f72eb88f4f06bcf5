"""Detect the isolation levels of this machine by trying them, when a worker starts (WRK-4).

isolation/process     cgroup-v2, cgroup-v1, or rlimits: what limits memory and processes

isolation/sandbox     bubblewrap, if a sandbox can be opened

isolation/container   the container engine, docker or podman
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mainspring.core.work.isolation import Isolation, label_of
from mainspring.protocol.errors import Refused
from mainspring.worker.sandbox.cgroups import find_cgroups, name_of
from mainspring.worker.sandbox.confinement import sandbox_argv
from mainspring.worker.sandbox.sandbox import machine_view
from mainspring.worker.sandbox.task_user import TaskUser, find_user, run_as
from mainspring.worker.supervisor.supervisor_settings import SupervisorSettings

_SECONDS = 20.0
_MEMORY_BYTES = 1 << 30
_PROCESSES = 16


def offered_levels(state_dir: Path, settings: SupervisorSettings) -> dict[str, str]:
    """Return the isolation labels of a worker. Raises Refused if its own level is unavailable."""
    user = find_user(settings.task_user) if settings.task_user else None
    labels = {label_of(Isolation.PROCESS): _memory_limiter(state_dir)}
    fault = _fault_of_sandbox(state_dir, settings, user)
    if not fault:
        labels[label_of(Isolation.SANDBOX)] = "bubblewrap"
    elif settings.isolation is Isolation.SANDBOX:
        raise Refused(f"cannot open a sandbox: {fault}")
    if settings.container_engine is not None:
        labels[label_of(Isolation.CONTAINER)] = settings.container_engine.name
    return labels


def _memory_limiter(state_dir: Path) -> str:
    found = find_cgroups(f"{name_of(state_dir)}-trial")
    if found is None:
        return "rlimits"
    try:
        found.close(found.open("trial", _MEMORY_BYTES, _PROCESSES))
    except OSError:
        return "rlimits"
    finally:
        found.clear_leftovers()
        found.end()
    return f"cgroup-v{found.version}"


def _fault_of_sandbox(state_dir: Path, settings: SupervisorSettings, user: TaskUser | None) -> str:
    """Return why no sandbox can be opened; empty if one can."""
    view = machine_view(state_dir, settings, user)
    argv = sandbox_argv(["/bin/sh", "-c", ":"], view, Path("/usr"), Path("/usr"), network=False)
    try:
        done = run_as(user, argv, {"PATH": os.environ.get("PATH", os.defpath)}, _SECONDS)
    except FileNotFoundError:
        return "bubblewrap (bwrap) is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else (lines[-1] if lines else f"bwrap exited with {done.returncode}")
