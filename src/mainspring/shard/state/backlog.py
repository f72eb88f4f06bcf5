"""Backlog: work of the shard itself that may exceed a turn, and continues in later ones.

1. An open bulk operation or propagation of a run that is not held is in a queue here, or deferred.
2. Deferred work of a run returns to its queues with one timer (`shard/tasks/run_pacing.py`).
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

import msgspec

from mainspring.core.model.batch import BulkOperationKind

_Key = TypeVar("_Key")
PositionKey = tuple[str, int]
"""Run and position of a task."""
OperationKey = tuple[str, BulkOperationKind, str]
"""Run, kind and parent of a bulk operation."""


class WorkQueue(deque[_Key]):
    """Keys of work to be done, in order."""

    def take(self, key: _Key) -> None:
        """Remove a key. It is the first one, unless events are applied one at a time."""
        if self and self[0] == key:
            self.popleft()
        elif key in self:
            self.remove(key)

    def discard(self, key: _Key) -> None:
        """Remove a key wherever it is."""
        while key in self:
            self.remove(key)


class DeferredWork(msgspec.Struct, kw_only=True):
    """Paced work of one run that was deferred."""

    bulk_operations: list[OperationKey] = []
    propagations: list[PositionKey] = []


class Backlog:
    """Work that is left for later turns."""

    def __init__(self) -> None:
        self.undecided: WorkQueue[PositionKey] = WorkQueue()
        """Tasks found while loading that may be ready."""
        self.propagations: WorkQueue[PositionKey] = WorkQueue()
        self.bulk_operations: WorkQueue[OperationKey] = WorkQueue()
        self.deferred: dict[str, DeferredWork] = {}
        """By run: work removed from the queues above until a timer returns it."""

    def __bool__(self) -> bool:
        return bool(self.propagations or self.undecided or self.bulk_operations)

    def resume(self, run_id: str) -> None:
        """Return the deferred work of a run to its queues."""
        deferred = self.deferred.pop(run_id, None)
        if deferred is not None:
            self.bulk_operations.extend(deferred.bulk_operations)
            self.propagations.extend(deferred.propagations)
