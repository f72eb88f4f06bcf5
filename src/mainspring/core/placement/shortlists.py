"""Shortlists: workers found by one search for a shape, reused for the next tasks of that shape (PLC-2).

A search in a large fleet costs ten times what it costs to compare its results again, and most turns place many tasks
of few shapes. Workers are compared in their current state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.core.model.resources import Resources
from mainspring.core.model.worker import Worker

MAX_USES = 8
"""Tasks after which the search is repeated: other workers may fit better by then. In `benchmarks.placement` 16 need 2 %
more workers, and 4 search nearly twice as often.
"""


class Shortlist:
    """Feasible workers for a shape, until they have been used often enough."""

    def __init__(self, workers: Sequence[Worker], score: Callable[[Worker], float]) -> None:
        self._score = score
        self._entries = [_Entry(worker, score(worker)) for worker in workers]
        self._left = MAX_USES

    def best(self, can_take: Callable[[Worker], bool]) -> Worker | None:
        """Return the best that is still feasible; None if a new search is due."""
        while self._entries and self._left:
            best = self._entries[0]
            for entry in self._entries:
                if entry.used is not entry.worker.used:
                    entry.used, entry.score = entry.worker.used, self._score(entry.worker)
                if entry.score > best.score:
                    best = entry
            if can_take(best.worker):
                self._left -= 1
                return best.worker
            self._entries.remove(best)
        return None


class _Entry:
    """A worker with its score, and its usage then: another object after each change."""

    __slots__ = ("score", "used", "worker")

    def __init__(self, worker: Worker, score: float) -> None:
        self.worker = worker
        self.score = score
        self.used: Resources = worker.used
