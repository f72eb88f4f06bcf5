"""Compute figures from start times. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from benchmarks.measure import percentile

_WARMING = 0.1
"""Excluded share of a drain: workers start one after another, and the first tasks run before all are up."""


def steady_rate(moments: Sequence[float], ended_at: float | None = None) -> float | None:
    """Tasks per second from the start of the first tenth to the last start, or to `ended_at`.

    None if too few have started.
    """
    begun = sorted(moment for moment in moments if moment > 0)
    if len(begun) < 2:
        return None
    first = int(len(begun) * _WARMING)
    seconds = (begun[-1] if ended_at is None else max(ended_at, begun[-1])) - begun[first]
    return (len(begun) - 1 - first) / seconds if seconds > 0 else None


def whole_rate(moments: Sequence[float]) -> float | None:
    """Tasks per second from the first start to the last."""
    begun = sorted(moment for moment in moments if moment > 0)
    if len(begun) < 2 or begun[-1] == begun[0]:
        return None
    return (len(begun) - 1) / (begun[-1] - begun[0])


def missing(moments: Sequence[float]) -> int:
    """Number of tasks that have not started."""
    return sum(1 for moment in moments if moment <= 0)


def steps(moments: Sequence[float]) -> list[float]:
    """Seconds from each step of a chain to the next; steps that never started are excluded, with their neighbors."""
    return [after - before for before, after in itertools.pairwise(moments) if before > 0 and after > 0]


def in_milliseconds(seconds: Sequence[float], percent: float) -> float | None:
    """A percentile, in milliseconds; None without values."""
    return 1_000 * percentile(seconds, percent) if seconds else None


def rounded(value: float) -> float:
    """Rounded to three significant digits; the rest is noise."""
    return float(f"{value:.3g}")
