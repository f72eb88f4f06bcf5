"""Batch size, and which priorities are held back while the store is slow (HA-4).

The cost of a commit has a fixed part and a part per row. Batches aim at 25 ms for the rows, so that a P0 never waits
behind a long batch; but never under 200 rows while more wait, or a slow store would get ever more commits. When commits
as a whole are slow, P2 is held, then P1, until they are fast again.
"""

from __future__ import annotations

from mainspring.core.model.task import Priority

AIM_SECONDS = 0.025
LEAST_ROWS = 200
MOST_ROWS = 5_000
HOLD_P2_SECONDS = 0.5
HOLD_P1_SECONDS = 1.5
_WEIGHT = 0.2
_SMALL_ROWS = 2 * LEAST_ROWS
"""Commits up to this size update the estimate of the fixed cost, larger ones the cost per row.

If the fixed cost rises, the cost per row seems to rise first; batches then shrink until they are small, which corrects
the estimate.
"""

_MOST_TIMES = 4.0
"""The cost per row rises at most by this factor per commit: a single delayed commit says little about the next ones,
and a lasting change shows after a few."""


class Pace:
    """Learns the cost of commits and derives the batch size from it."""

    def __init__(self) -> None:
        self._every = 0.001
        self._per_row = AIM_SECONDS / 1_000
        self._usual = 0.0
        self.hold: Priority | None = None

    def observe(self, rows: int, seconds: float) -> None:
        """Record the duration of a commit with this number of rows."""
        if rows <= _SMALL_ROWS:
            fixed = max(seconds - rows * self._per_row, 0.0)
            self._every += _WEIGHT * (fixed - self._every)
        else:
            growing = max(seconds - self._every, 0.0) / rows
            believed = min(growing, _MOST_TIMES * max(self._per_row, AIM_SECONDS / MOST_ROWS))
            self._per_row += _WEIGHT * (believed - self._per_row)
        self._usual += _WEIGHT * (seconds - self._usual)
        self.hold = self._decide_hold()

    def rows(self) -> int:
        """Return the maximum number of rows of the next batch."""
        return int(min(max(AIM_SECONDS / max(self._per_row, 1e-7), LEAST_ROWS), MOST_ROWS))

    def _decide_hold(self) -> Priority | None:
        """Return the priority from which on work is held; released when commits take half of the limit."""
        ease = 0.5 if self.hold is not None else 1.0
        if self._usual > HOLD_P1_SECONDS * (ease if self.hold is Priority.P1 else 1.0):
            return Priority.P1
        return Priority.P2 if self._usual > HOLD_P2_SECONDS * ease else None
