"""Workers that one look found for a shape, compared again for the next tasks of that shape (PLC-2).

To look for workers in a large fleet costs ten times what it costs to compare those that were found once more, and most
turns place many tasks of few shapes. What has changed on a worker since counts: it is compared as it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mainspring.core.model.resources import Resources
from mainspring.core.model.worker import Worker

SERVES = 8
"""After so many tasks somebody has to look again: others may have come to fit better. In `benchmarks.placement` 16 need
2 % more workers, and 4 look nearly twice as often."""


class Shortlist:
    """The workers that will do for a shape, until they have served often enough."""

    def __init__(self, workers: Sequence[Worker], score: Callable[[Worker], float]) -> None:
        self._score = score
        self._seats = [_Seat(worker, score(worker)) for worker in workers]
        self._left = SERVES

    def best(self, will_do: Callable[[Worker], bool]) -> Worker | None:
        """The best of those that still will do; None if somebody has to look again."""
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
    """A worker with its score, and what was used of it then: that is another object after each change."""

    __slots__ = ("score", "used", "worker")

    def __init__(self, worker: Worker, score: float) -> None:
        self.worker = worker
        self.score = score
        self.used: Resources = worker.used
