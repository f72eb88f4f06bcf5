"""How long things take, counted in buckets: a few numbers that can be added up, and that percentiles come from.

A bucket holds what takes from BASE ** n to BASE ** (n + 1) milliseconds, so that a percentile is never more than 5 %
off. Stores count by the same formula, `floor(ln(milliseconds) / ln(BASE))`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

BASE = 1.1
"""Each bucket is so many times as wide as the one before."""
LEAST_MILLISECONDS = 1.0
"""What is shorter counts as this long, and what is negative as well: nothing starts before it is due."""


def bucket_of(seconds: float) -> int:
    """The bucket of a length."""
    return math.floor(math.log(max(LEAST_MILLISECONDS, seconds * 1000)) / math.log(BASE))


def middle_of(bucket: int) -> float:
    """The length that a bucket stands for, in seconds."""
    return float(round(BASE ** (bucket + 0.5) / 1000, 4))


def percentile(buckets: Mapping[int, int], share: float) -> float | None:
    """The length, in seconds, that this share of all stays within; None if there is nothing."""
    total = sum(buckets.values())
    wanted = share * total
    counted = 0
    for bucket in sorted(buckets):
        counted += buckets[bucket]
        if counted >= wanted:
            return middle_of(bucket)
    return None
