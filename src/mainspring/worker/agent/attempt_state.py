"""An attempt in a worker's hands, and where it is there. `state_machine.py` draws the way through the phases."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import Enum

import msgspec

from mainspring.protocol.wire import Assignment, Beat, Checkpoint, Extend, FromWorker, Offer, Progress, Result, Started
from mainspring.worker.agent.instructions import NO_ROOM, Mark, Record


class Phase(Enum):
    """Where an attempt is, within this worker."""

    WAITING = 1
    HANDED_OVER = 2
    RUNNING = 3
    OVER = 4


MOST_REMEMBERED = 20_000
"""How many forgotten attempts are still known by name: far more than a session can repeat."""
NOT_BEGUN = frozenset({Phase.WAITING, Phase.HANDED_OVER})
WITH_GUARD = frozenset({Phase.HANDED_OVER, Phase.RUNNING})


class Held(msgspec.Struct):
    """An attempt that this worker has in hands."""

    phase: Phase
    lease: str = ""
    assignment: Assignment | None = None
    """None after a restart: the journal does not have it, for it holds a secret and is never started from there."""
    needs: Offer = NO_ROOM
    recalled: bool = False
    pid: int = 0
    created: float = 0.0
    checkpoint: str | None = None
    progress: Progress | None = None
    asked: float | None = None
    """So many seconds it asked for, and nothing has been said to that."""
    result: Result | None = None

    def words(self, attempt: str) -> Iterator[FromWorker]:
        """What a server may not have heard of it, but for its result."""
        if self.phase is Phase.RUNNING:
            yield Started(attempt)
            if self.progress is not None:
                yield Beat((self.progress,))
        if self.checkpoint is not None:
            yield Checkpoint(attempt, self.checkpoint)
        if self.asked is not None and self.phase is not Phase.OVER:
            yield Extend(attempt, self.asked)

    def replay(self, record: Record) -> None:
        """What a line of the journal says of it."""
        match record.mark:
            case Mark.STARTED:
                self.phase, self.pid, self.created = Phase.RUNNING, record.pid, record.created
            case Mark.SAVED:
                self.checkpoint = record.document
            case Mark.ENDED:
                self.phase, self.result = Phase.OVER, record.result
            case Mark.RECEIVED | Mark.FORGOTTEN | Mark.ASIDE:
                pass  # how it comes and goes is no part of it


class Forgotten:
    """Names of attempts that are no longer held, the latest ones."""

    def __init__(self) -> None:
        # Not a plain dict: that looks for its first key behind all those that it has lost, a tenth of an agent's time.
        self._names: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, attempt: str) -> bool:
        return attempt in self._names

    def add(self, attempt: str) -> None:
        """One more; the oldest goes if there are too many."""
        self._names[attempt] = None
        if len(self._names) > MOST_REMEMBERED:
            self._names.popitem(last=False)


class Running(msgspec.Struct, frozen=True):
    """An attempt whose process may be alive."""

    attempt: str
    pid: int
    created: float
