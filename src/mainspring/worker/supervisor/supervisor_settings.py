"""What a guard is told when it starts: `guard.json` in its directory, written by the agent."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mainspring.core.work.isolation import Isolation
from mainspring.core.work.map_reduce import Invoker
from mainspring.worker.executors.container_engine import Engine

SETTINGS_FILE = "guard.json"
SOCKET_FILE = "guard.sock"
LOGS = "logs"
"""What an attempt printed: `logs/<attempt>`, which it can't reach itself. There is none if it printed nothing."""


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a guard runs what it is given."""

    handlers: tuple[str, ...] = ()
    """Modules, or files that end in `.py`, whose `@task` functions are served by name."""
    python_path: tuple[str, ...] = ()
    """Directories where children find modules, before all others."""
    children: int = 0
    """Warm Python processes that are kept. 0: one for each core."""
    most_children: int = 64
    """So many at once, if functions run that long."""
    log_cap_bytes: int = 16 * 1024 * 1024
    """What an attempt prints beyond this is read and thrown away."""
    orphan_seconds: float = 10.0
    """So long a guard without an agent waits for another one (WRK-10)."""
    orphan_grace_seconds: float = 2.0
    """From SIGTERM to SIGKILL when none has come. Both together must be shorter than the server's patience, 15 s."""
    secret_prefix: str = ""
    """References `env:NAME` reach only variables of the worker whose names begin like this. Never `MAINSPRING_*`."""
    invoker: Invoker | None = None
    """Who answers the prompts of map-reduces that name nobody themselves (FLD-8)."""
    isolation: Isolation = Isolation.NONE
    """Everything runs at least this far apart (WRK-4)."""
    task_user: str = ""
    """Tasks run as this user; as the guard's own if it is empty."""
    memory_bytes: int = 0
    """What the worker offers: a task that asks for no memory gets no more than that. 0: no limit."""
    task_processes: int = 4_096
    """So many processes and threads an attempt may have at once."""
    task_file_bytes: int = 0
    """No file of an attempt gets larger. 0: no limit."""
    hidden: tuple[str, ...] = ()
    """What a sandbox does not show, besides homes and what is temporary."""
    shown: tuple[str, ...] = ()
    """What a sandbox shows although it is below something hidden."""
    container_engine: Engine | None = None
    """What runs containers; without it no task runs in one (WRK-3)."""
    allow_private_http: bool = False
    """Whether HTTP calls of tasks may go to this machine and its network (SEC-5)."""
    artifacts: str = ""
    """Where files of attempts go: `file:///directory` or `s3://bucket/prefix`. Empty: below its own directory."""
    largest_artifact_bytes: int = 10 * 1024**3
    largest_artifacts_bytes: int = 50 * 1024**3
    """All those of one attempt together."""
    keep_artifacts_seconds: int = 0
    """So long after the end of their run artifacts are kept; 0: for ever."""
    servers: tuple[str, ...] = ()
    """Whom to ask what there is to fetch."""
    ca_cert: str = ""
    """A file with the certificate that the servers' are signed with, if the machine does not know it."""
    kubernetes: str = ""
    """A context of the kubeconfig, or `in-cluster`; without one no task runs on Kubernetes (WRK-3)."""
    kubernetes_namespaces: tuple[str, ...] = ()
    """Those that tasks may ask for, the usual one first; that of the context if none is named."""
    container_start_seconds: float = 120.0
    """A pod whose container can't be started, for want of its image for example, is given up after so long."""
    ray: str = ""
    """The address of a Ray cluster's dashboard; without one no task runs on Ray (WRK-3)."""
    look_seconds: float = 0.5
    """How often the files of a running command are looked at: its progress, its checkpoint."""

    def warm_children(self) -> int:
        """How many children are kept."""
        return self.children or os.cpu_count() or 1


def read_settings(state_dir: Path) -> GuardSettings:
    """The settings in this directory; the defaults if there are none."""
    path = state_dir / SETTINGS_FILE
    return msgspec.json.decode(path.read_bytes(), type=GuardSettings) if path.exists() else GuardSettings()


def log_path(state_dir: Path, attempt: str) -> Path:
    """Where the log of an attempt is."""
    return state_dir / LOGS / attempt
