"""What a guard is told when it starts: `guard.json` in its directory, written by the agent."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from mainspring.core.mapping import Invoker

SETTINGS_FILE = "guard.json"
SOCKET_FILE = "guard.sock"
LOG_FILE = "log"
"""What an attempt printed: `attempts/<attempt>/log`. There is none if it printed nothing."""


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
    return state_dir / "attempts" / attempt / LOG_FILE
