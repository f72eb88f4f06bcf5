"""An attempt in a worker's hands, and where it is there. `duties.py` draws the way through the phases."""

from __future__ import annotations

from enum import Enum

import msgspec

from mainspring.wire import Assignment, Progress, Result


class Phase(Enum):
    """Where an attempt is, within this worker."""

    WAITING = 1
    HANDED_OVER = 2
    RUNNING = 3
    OVER = 4


NOT_BEGUN = frozenset({Phase.WAITING, Phase.HANDED_OVER})
WITH_GUARD = frozenset({Phase.HANDED_OVER, Phase.RUNNING})


class Held(msgspec.Struct):
    """An attempt that this worker has in hands."""

    phase: Phase
    lease: str = ""
    assignment: Assignment | None = None
    """None after a restart: the journal does not have it, for it holds a secret and is never started from there."""
    recalled: bool = False
    pid: int = 0
    created: float = 0.0
    checkpoint: str | None = None
    progress: Progress | None = None
    result: Result | None = None


class Running(msgspec.Struct, frozen=True):
    """An attempt whose process may be alive."""

    attempt: str
    pid: int
    created: float
