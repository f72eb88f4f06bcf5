"""Task durations: a distribution defined by a few of its quantiles."""

from __future__ import annotations

import math
from bisect import bisect_left
from itertools import accumulate
from zlib import crc32

import msgspec

_BITS = 12
STEPS = 1 << _BITS
_SHORTEST = 0.25
"""The minimum, as a fraction of p10."""
_LONGEST = 2.0
"""The maximum, as a multiple of p99."""


class DurationSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Duration percentiles in seconds, interpolated logarithmically."""

    p10: float
    p50: float
    p90: float
    p99: float


class DurationModel:
    """Draws durations from texts: the same text always gives the same duration."""

    def __init__(self, takes: DurationSpec) -> None:
        points = [
            (0.0, takes.p10 * _SHORTEST), (0.1, takes.p10), (0.5, takes.p50), (0.9, takes.p90), (0.99, takes.p99),
            (1.0, takes.p99 * _LONGEST),
        ]  # fmt: skip
        self._steps = [_between(points, (step + 0.5) / STEPS) for step in range(STEPS)]
        self._weights = list(accumulate(self._steps))
        self.mean = self._weights[-1] / STEPS

    def of(self, text: str) -> float:
        """The duration for a text."""
        return self._steps[crc32(text.encode()) >> (32 - _BITS)]

    def left(self, one: float, other: float) -> float:
        """Remaining duration of a task found running, from two numbers from 0 to 1.

        Long tasks are found more often, at any point of their time.
        """
        return other * self._steps[min(bisect_left(self._weights, one * self._weights[-1]), STEPS - 1)]


def chance(text: str) -> float:
    """A number from 0 to 1, always the same for a text."""
    return crc32(text.encode()) / 2**32


def _between(points: list[tuple[float, float]], part: float) -> float:
    """The duration at this quantile."""
    place = next(number for number in range(1, len(points)) if part <= points[number][0])
    (low, short), (high, long) = points[place - 1], points[place]
    return short * math.exp((part - low) / (high - low) * math.log(long / short))
