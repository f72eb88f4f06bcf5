"""State of one attempt on this worker. `state_machine.py` shows the transitions."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

from mainspring.protocol import wire
from mainspring.worker.agent.instructions import Mark, Record


class Phase(Enum):
    """Where an attempt is on this worker."""

    WAITING = 1
    LAUNCHED = 2
    RUNNING = 3
    ENDED = 4


NOT_STARTED = frozenset({Phase.WAITING, Phase.LAUNCHED})
WITH_SUPERVISOR = frozenset({Phase.LAUNCHED, Phase.RUNNING})


class AttemptState(msgspec.Struct):
    """One attempt of this worker."""

    phase: Phase
    lease: str = ""
    assignment: wire.Assignment | None = None
    """None after a restart: the spool does not contain it, as it holds a secret and is never started from there."""
    needs: wire.Offer = wire.Offer(0, 0)
    recall_requested: bool = False
    pid: int = 0
    created: float = 0.0
    checkpoint: str | None = None
    progress: wire.Progress | None = None
    extension_requested: float | None = None
    """Seconds of extension that the attempt requested and that are not answered yet."""
    result: wire.Result | None = None

    def unconfirmed(self, attempt: str) -> Iterator[wire.FromWorker]:
        """Messages that the server may have missed, except the result."""
        if self.phase is Phase.RUNNING:
            yield wire.Started(attempt)
            if self.progress is not None:
                yield wire.Heartbeat((self.progress,))
        if self.checkpoint is not None:
            yield wire.Checkpoint(attempt, self.checkpoint)
        if self.extension_requested is not None and self.phase is not Phase.ENDED:
            yield wire.Extend(attempt, self.extension_requested)

    def replay(self, record: Record) -> None:
        """Apply a spool record."""
        match record.mark:
            case Mark.STARTED:
                self.phase, self.pid, self.created = Phase.RUNNING, record.pid, record.created
            case Mark.SAVED:
                self.checkpoint = record.document
            case Mark.ENDED:
                self.phase, self.result = Phase.ENDED, record.result
            case Mark.RECEIVED | Mark.FORGOTTEN | Mark.UNKNOWN:
                pass  # adding and removing attempts is up to the caller
