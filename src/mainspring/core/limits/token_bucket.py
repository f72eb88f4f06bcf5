"""Token buckets: how fast one run may create work while others wait (DAG-2, DAG-9).

    growth       tasks that a fan-out or an output creates
    readiness    tasks that become ready at once

Rates are set in `core/model/settings.py`. Time is the shard's life in seconds, passed by the caller. An unused bucket
fills up to its burst.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate and a burst."""

    per_second: float
    burst: int


class PacedOperation(StrEnum):
    """Rate-limited operations of one run."""

    GROWTH = "growth"
    READINESS = "readiness"


MIN_PART = 50
"""Smallest amount worth a wakeup."""


class TokenBucket:
    """A token bucket."""

    def __init__(self, rate: Rate, life: float) -> None:
        self._rate = rate
        self._left = float(rate.burst)
        self._life = life

    def left(self, life: float) -> int:
        """Tokens available now."""
        refill = max(0.0, life - self._life) * self._rate.per_second
        self._left = min(float(self._rate.burst), self._left + refill)
        self._life = max(life, self._life)
        return int(self._left)

    def take(self, count: int) -> None:
        """Take available tokens."""
        self._left = max(0.0, self._left - count)

    def seconds_to(self, count: int) -> float:
        """Seconds until this many tokens are available."""
        return max(0.0, (min(count, self._rate.burst) - self._left) / self._rate.per_second)
