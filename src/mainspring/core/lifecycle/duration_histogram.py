"""Duration histogram with exponential buckets, which can be added up and give percentiles.

A bucket holds durations from BASE ** n to BASE ** (n + 1) milliseconds, so a percentile is never more than 5 % off.
Stores count by the same formula, `floor(ln(milliseconds) / ln(BASE))`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

BASE = 1.1
"""Growth factor of the bucket width."""
MIN_MILLISECONDS = 1.0
"""Minimum duration; shorter and negative ones are clamped: nothing starts before it is due."""


def bucket_of(seconds: float) -> int:
    """Return the bucket of a duration."""
    return math.floor(math.log(max(MIN_MILLISECONDS, seconds * 1000)) / math.log(BASE))


def midpoint_of(bucket: int) -> float:
    """Return the duration at the middle of a bucket, in seconds."""
    return float(round(BASE ** (bucket + 0.5) / 1000, 4))


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return a percentile in seconds; None if the histogram is empty."""
    total = sum(buckets.values())
    wanted = share * total
    counted = 0
    for bucket in sorted(buckets):
        counted += buckets[bucket]
        if counted >= wanted:
            return midpoint_of(bucket)
    return None
