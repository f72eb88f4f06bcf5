"""How long a batch may be, and what is held back while the store is slow (HA-4).

The cost of a commit has a part that every commit pays and a part that grows with its rows. A batch aims at 25 ms for
the second, so that a P0 never waits behind a long one; but never under 200 rows while more wait, or a slow store would
be asked for ever more commits. When commits take long altogether, P2 is held, then P1, until they are quick again.
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
"""A commit of at most so many rows tells what every commit costs, a longer one what a row adds to that.

If every commit gets dearer, rows seem to first; then batches shrink until they are small, and the truth comes out.
"""

_MOST_TIMES = 4.0
"""No row counts as more than so many times as dear as before: one commit that had to wait, for a disk or for its turn,
tells little about the next ones. If they stay dear, it is known after a few of them."""


class Pace:
    """Learns from each commit."""

    def __init__(self) -> None:
        self._every = 0.001
        self._per_row = AIM_SECONDS / 1_000
        self._usual = 0.0
        self.hold: Priority | None = None

    def observe(self, rows: int, seconds: float) -> None:
        """A commit of so many rows took so long."""
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
        """How many rows the next batch may have."""
        return int(min(max(AIM_SECONDS / max(self._per_row, 1e-7), LEAST_ROWS), MOST_ROWS))

    def _decide_hold(self) -> Priority | None:
        """What is held stays held until commits take half as long as when it was."""
        ease = 0.5 if self.hold is not None else 1.0
        if self._usual > HOLD_P1_SECONDS * (ease if self.hold is Priority.P1 else 1.0):
            return Priority.P1
        return Priority.P2 if self._usual > HOLD_P2_SECONDS * ease else None
