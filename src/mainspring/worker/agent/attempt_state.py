"""State of one attempt on this worker. `state_machine.py` shows the transitions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum

import msgspec

from mainspring.protocol.wire import Assignment, Beat, Checkpoint, Extend, FromWorker, Offer, Progress, Result, Started
from mainspring.worker.agent.instructions import NO_ROOM, Mark, Record


class Phase(Enum):
    """Where an attempt is on this worker."""

    WAITING = 1
    HANDED_OVER = 2
    RUNNING = 3
    OVER = 4


MOST_REMEMBERED = 20_000
"""Forgotten attempts that are still known by id: far more than a session can repeat."""
NOT_BEGUN = frozenset({Phase.WAITING, Phase.HANDED_OVER})
WITH_GUARD = frozenset({Phase.HANDED_OVER, Phase.RUNNING})


class Held(msgspec.Struct):
    """One attempt of this worker."""

    phase: Phase
    lease: str = ""
    assignment: Assignment | None = None
    """None after a restart: the spool does not contain it, as it holds a secret and is never started from there."""
    needs: Offer = NO_ROOM
    recalled: bool = False
    pid: int = 0
    created: float = 0.0
    checkpoint: str | None = None
    progress: Progress | None = None
    asked: float | None = None
    """Seconds of extension that the attempt requested and that are not answered yet."""
    result: Result | None = None

    def words(self, attempt: str) -> Iterator[FromWorker]:
        """Messages that the server may have missed, except the result."""
        if self.phase is Phase.RUNNING:
            yield Started(attempt)
            if self.progress is not None:
                yield Beat((self.progress,))
        if self.checkpoint is not None:
            yield Checkpoint(attempt, self.checkpoint)
        if self.asked is not None and self.phase is not Phase.OVER:
            yield Extend(attempt, self.asked)

    def replay(self, record: Record) -> None:
        """Apply a spool record."""
        match record.mark:
            case Mark.STARTED:
                self.phase, self.pid, self.created = Phase.RUNNING, record.pid, record.created
            case Mark.SAVED:
                self.checkpoint = record.document
            case Mark.ENDED:
                self.phase, self.result = Phase.OVER, record.result
            case Mark.RECEIVED | Mark.FORGOTTEN | Mark.ASIDE:
                pass  # adding and removing attempts is up to the caller


class Forgotten:
    """Ids of the latest attempts that this worker no longer has."""

    def __init__(self) -> None:
        # Not a plain dict: finding its first key scans all deleted slots, which took a tenth of an agent's time.
        self._names: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._names

    def add(self, attempt: str) -> None:
        """Add an id; drop the oldest beyond the limit."""
        self._names[attempt] = None
        if len(self._names) > MOST_REMEMBERED:
            self._names.popitem(last=False)


class Running(msgspec.Struct, frozen=True):
    """An attempt whose process may be alive."""

    attempt: str
    pid: int
    created: float
