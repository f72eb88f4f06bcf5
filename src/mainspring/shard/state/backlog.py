"""Backlog: work of the shard itself that may exceed a turn, and continues in later ones.

1. An open bulk operation or propagation of a run that is not held is in a queue here, or deferred.
2. Deferred work of a run returns to its queues with one timer (`shard/tasks/run_pacing.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TypeVar

from mainspring.shard.events import BulkOperationStep, Event, PropagationStep, TaskUndecided

_Step = TypeVar("_Step", bound=Event)


class WorkQueue(deque[_Step]):
    """Steps to be done, in order, as the events that do them."""

    def discard(self, step: _Step) -> None:
        """Remove a step, if it is in the queue. It is the first one, unless events are applied one at a time."""
        if step in self:
            self.remove(step)


class Backlog:
    """Work that is left for later turns."""

    def __init__(self) -> None:
        self.undecided: WorkQueue[TaskUndecided] = WorkQueue()
        """Tasks found while loading that may be ready."""
        self.propagations: WorkQueue[PropagationStep] = WorkQueue()
        self.bulk_operations: WorkQueue[BulkOperationStep] = WorkQueue()
        self._deferred: dict[str, list[PropagationStep | BulkOperationStep]] = {}
        self.deferred: Mapping[str, Sequence[PropagationStep | BulkOperationStep]] = self._deferred
        """By run: steps that are in no queue until a timer returns them."""

    def __bool__(self) -> bool:
        return bool(self.propagations or self.undecided or self.bulk_operations)

    def add(self, step: PropagationStep | BulkOperationStep) -> None:
        """Add a step at the end of its queue."""
        if isinstance(step, PropagationStep):
            self.propagations.append(step)
        else:
            self.bulk_operations.append(step)

    def defer(self, step: PropagationStep | BulkOperationStep) -> bool:
        """Defer a step of a run; True if it is the first one, and the run needs a timer."""
        deferred = self._deferred.setdefault(step.run_id, [])
        deferred.append(step)
        return len(deferred) == 1

    def resume(self, run_id: str) -> None:
        """Return the deferred work of a run to its queues."""
        for step in self._deferred.pop(run_id, ()):
            self.add(step)
