"""Settings of a supervisor: `supervisor.json` in its directory, written by the agent."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import msgspec

from mainspring.core.work.isolation import Isolation
from mainspring.core.work.map_reduce import Invoker
from mainspring.worker.executors.container_engine import Engine

SETTINGS_FILE = "supervisor.json"
SOCKET_FILE = "supervisor.sock"
LOCK_FILE = "supervisor.lock"
LOGS = "logs"
"""Logs of attempts, `logs/<attempt>`, which tasks can't access. There is no file without output."""


class SupervisorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervisor runs attempts."""

    handlers: tuple[str, ...] = ()
    """Modules or `.py` files whose `@task` functions are served by name."""
    python_path: tuple[str, ...] = ()
    """Import directories of children, before all others."""
    children: int = 0
    """Warm Python processes to keep. 0: one per core."""
    log_cap_bytes: int = 16 * 1024 * 1024
    """Output of an attempt beyond this is dropped."""
    orphan_seconds: float = 10.0
    """How long a supervisor without an agent waits for another one, if there was no recent contact with a server."""
    orphan_grace_seconds: float = 2.0
    """Grace period of attempts that are stopped then."""
    invoker: Invoker | None = None
    """Default invoker of map-reduces (FLD-8)."""
    isolation: Isolation = Isolation.NONE
    """Minimum isolation level (WRK-4)."""
    task_user: str = ""
    """User that runs the tasks; empty: the supervisor's own."""
    memory_bytes: int = 0
    """Memory that the worker offers: the limit of tasks that request none. 0: no limit."""
    task_processes: int = 4_096
    """Maximum processes and threads of an attempt."""
    task_file_bytes: int = 0
    """Maximum file size of an attempt. 0: no limit."""
    hidden: tuple[str, ...] = ()
    """Paths hidden in a sandbox, besides homes and temporary directories."""
    shown: tuple[str, ...] = ()
    """Paths visible in a sandbox although a parent is hidden."""
    container_engine: Engine | None = None
    """Container engine; without it no task runs in a container (WRK-3)."""
    allow_private_http: bool = False
    """Whether HTTP tasks may call this machine and private networks (SEC-5)."""
    artifacts: str = ""
    """Artifact storage: `file:///directory` or `s3://bucket/prefix`. Empty: below the state directory."""
    max_artifact_bytes: int = 10 * 1024**3
    max_artifacts_bytes: int = 50 * 1024**3
    """Total of one attempt."""
    keep_artifacts_seconds: int = 0
    """Retention of artifacts after the end of their run; 0: forever."""
    servers: tuple[str, ...] = ()
    """Servers that list the artifacts to fetch."""
    ca_cert: str = ""
    """CA certificate file of the servers, if the system does not trust it."""
    kubernetes: str = ""
    """Kubeconfig context, or `in-cluster`; empty: no Kubernetes tasks (WRK-3)."""
    kubernetes_namespaces: tuple[str, ...] = ()
    """Allowed namespaces, the default first. Empty: the namespace of the context."""
    container_start_seconds: float = 120.0
    """A pod whose container can't be started, for example without its image, fails after this time."""
    ray: str = ""
    """Address of a Ray dashboard; empty: no Ray tasks (WRK-3)."""
    poll_seconds: float = 0.5
    """Poll interval of a running command's files: progress, checkpoint, extension."""


def read_settings(state_dir: Path) -> SupervisorSettings:
    """Return the settings of this directory, or the defaults."""
    path = state_dir / SETTINGS_FILE
    return msgspec.json.decode(path.read_bytes(), type=SupervisorSettings) if path.exists() else SupervisorSettings()


def try_lock(path: Path) -> int | None:
    """Lock a file, created if needed, for as long as the returned descriptor is open. None: another process has it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def log_path(state_dir: Path, attempt: str) -> Path:
    """Return the log file of an attempt."""
    return state_dir / LOGS / attempt
