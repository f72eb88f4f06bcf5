"""Shortlists: workers found by one search for a shape, reused for the next tasks of that shape (PLC-2).

A search in a large fleet costs ten times what it costs to compare its results again, and most turns place many tasks
of few shapes. Workers are compared in their current state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.core.model.resources import Resources
from mainspring.core.model.worker import Worker

SERVES = 8
"""Tasks after which the search is repeated: other workers may fit better by then. In `benchmarks.placement` 16 need 2 %
more workers, and 4 search nearly twice as often.
"""


class Shortlist:
    """Feasible workers for a shape, until they have been used often enough."""

    def __init__(self, workers: Sequence[Worker], score: Callable[[Worker], float]) -> None:
        self._score = score
        self._seats = [_Seat(worker, score(worker)) for worker in workers]
        self._left = SERVES

    def best(self, will_do: Callable[[Worker], bool]) -> Worker | None:
        """Return the best that is still feasible; None if a new search is due."""
        while self._seats and self._left:
            best = self._seats[0]
            for seat in self._seats:
                if seat.used is not seat.worker.used:
                    seat.used, seat.score = seat.worker.used, self._score(seat.worker)
                if seat.score > best.score:
                    best = seat
            if will_do(best.worker):
                self._left -= 1
                return best.worker
            self._seats.remove(best)
        return None


class _Seat:
    """A worker with its score, and its usage then: another object after each change."""

    __slots__ = ("score", "used", "worker")

    def __init__(self, worker: Worker, score: float) -> None:
        self.worker = worker
        self.score = score
        self.used: Resources = worker.used
