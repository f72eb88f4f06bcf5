"""Batch size, and which priorities are held back while the store is slow (HA-4).

The cost of a commit has a fixed part and a part per row. Batches aim at 25 ms for the rows, so that a P0 never waits
behind a long batch; but never under 200 rows while more wait, or a slow store would get ever more commits. When commits
as a whole are slow, P2 is held, then P1, until they are fast again.
"""

from __future__ import annotations

from mainspring.core.model.task import Priority

TARGET_SECONDS = 0.025
MIN_ROWS = 200
MAX_ROWS = 5_000
HOLD_P2_SECONDS = 0.5
HOLD_P1_SECONDS = 1.5
_WEIGHT = 0.2
_SMALL_ROWS = 2 * MIN_ROWS
"""Commits up to this size update the estimate of the fixed cost, larger ones the cost per row.

If the fixed cost rises, the cost per row seems to rise first; batches then shrink until they are small, which corrects
the estimate.
"""

_MAX_COST_FACTOR = 4.0
"""The cost per row rises at most by this factor per commit: a single delayed commit says little about the next ones,
and a lasting change shows after a few."""


class BatchSizer:
    """Learns the cost of commits and derives the batch size from it."""

    def __init__(self) -> None:
        self._fixed_seconds = 0.001
        self._seconds_per_row = TARGET_SECONDS / 1_000
        self._average_seconds = 0.0
        self.hold: Priority | None = None

    def observe(self, rows: int, seconds: float) -> None:
        """Record the duration of a commit with this number of rows."""
        if rows <= _SMALL_ROWS:
            fixed = max(seconds - rows * self._seconds_per_row, 0.0)
            self._fixed_seconds += _WEIGHT * (fixed - self._fixed_seconds)
        else:
            row_seconds = max(seconds - self._fixed_seconds, 0.0) / rows
            clamped = min(row_seconds, _MAX_COST_FACTOR * max(self._seconds_per_row, TARGET_SECONDS / MAX_ROWS))
            self._seconds_per_row += _WEIGHT * (clamped - self._seconds_per_row)
        self._average_seconds += _WEIGHT * (seconds - self._average_seconds)
        self.hold = self._decide_hold()

    def rows(self) -> int:
        """Return the maximum number of rows of the next batch."""
        return int(min(max(TARGET_SECONDS / max(self._seconds_per_row, 1e-7), MIN_ROWS), MAX_ROWS))

    def _decide_hold(self) -> Priority | None:
        """Return the priority from which on work is held; released when commits take half of the limit."""
        release_factor = 0.5 if self.hold is not None else 1.0
        if self._average_seconds > HOLD_P1_SECONDS * (release_factor if self.hold is Priority.P1 else 1.0):
            return Priority.P1
        return Priority.P2 if self._average_seconds > HOLD_P2_SECONDS * release_factor else None
