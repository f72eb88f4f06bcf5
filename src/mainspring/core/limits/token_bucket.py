"""How fast one run may make work while others wait: a bucket of tokens (DAG-2, DAG-9).

    growth       tasks that a fan-out or an output makes
    readiness    tasks that become ready at once

How fast is set in `core/model/settings.py`. Time is the shard's life in seconds, which the caller gives. A bucket that
nobody takes from fills up to its burst.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """A rate, and how much may go at once."""

    per_second: float
    burst: int


class Paced(StrEnum):
    """What one run may do only so fast."""

    GROWTH = "growth"
    READINESS = "readiness"


LEAST_PART = 50
"""Nobody is woken up for less than this."""


class Bucket:
    """What is left of a pace."""

    def __init__(self, pace: Pace, life: float) -> None:
        self._pace = pace
        self._left = float(pace.burst)
        self._life = life

    def left(self, life: float) -> int:
        """How many may go now."""
        grown = max(0.0, life - self._life) * self._pace.per_second
        self._left = min(float(self._pace.burst), self._left + grown)
        self._life = max(life, self._life)
        return int(self._left)

    def take(self, many: int) -> None:
        """So many have gone, of those that were left."""
        self._left = max(0.0, self._left - many)

    def seconds_to(self, many: int) -> float:
        """How long until so many may go."""
        return max(0.0, (min(many, self._pace.burst) - self._left) / self._pace.per_second)
