"""Degradation levels of a pool, and the rate at which it accepts new work meanwhile (HA-5).

    NORMAL ──slow or deep──> DEGRADED ──clear for 10 s──> NORMAL
    any    ──no leader for 10 s──> PARTIAL   ──a leader──────┐
    any    ──no answer of the store for 3 s──> MAJOR ─answer─┤
    NORMAL or DEGRADED <──after 30 s── RECOVERY <────────────┘

| level | cause | new work |
|---|---|---|
| normal | none | all |
| degraded | the store is slow, or the queue is deep | at half the usual rates |
| partial | the pool has no leader | none; running tasks continue |
| major | the store is unreachable | none; running tasks continue, results wait |
| recovery | it was partial or major until now | ramped from a tenth to all, within 30 s |

1. Accepted work is never dropped: a level affects new submissions only.
2. P0 is accepted as long as anything is (`accepted_fraction`): it is never shed (ADM-6).
3. A level outlasts its cause, to avoid flapping.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority

MAJOR_AFTER_SECONDS = 3.0
PARTIAL_AFTER_SECONDS = 10.0
HOLD_DOWN_SECONDS = 10.0
"""A pool stays degraded for this long after the last symptom."""
RAMP_SECONDS = 30.0
RAMP_FROM = 0.1
DEGRADED_FRACTION = 0.5


class DegradationLevel(StrEnum):
    """Degradation level, from best to worst."""

    NORMAL = "normal"
    DEGRADED = "degraded"
    RECOVERY = "recovery"
    PARTIAL = "partial"
    MAJOR = "major"


CLOSED = frozenset({DegradationLevel.PARTIAL, DegradationLevel.MAJOR})
"""Levels without new work."""
_ORDER = {degree: place for place, degree in enumerate(DegradationLevel)}


class PoolObservation(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Observed state of a pool."""

    silent_seconds: float = 0.0
    """Time since the store last answered."""
    leaderless_seconds: float = 0.0
    """Time for which the pool had no leader."""
    trouble: str = ""
    """What slows it down, if anything."""


class PoolLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Current level of a pool."""

    degree: DegradationLevel = DegradationLevel.NORMAL
    since: float = 0.0
    """Monotonic time of the server, in seconds."""
    why: str = ""
    accepts: float = 1.0
    """Fraction of the usual rates at which new work is accepted."""
    troubled_at: float | None = None
    """Time of the last symptom."""

    @property
    def severity(self) -> int:
        """Larger is worse."""
        return _ORDER[self.degree]


def decide_level(before: PoolLevel, seen: PoolObservation, at: float) -> PoolLevel:
    """Return the new level after this observation, at a monotonic time of the server."""
    troubled_at = at if seen.trouble else before.troubled_at
    degree, why = _decide_degree(before, seen, at)
    since = before.since if degree is before.degree else at
    accepts = _accepted(degree, at - since, is_troubled=bool(seen.trouble))
    return PoolLevel(degree=degree, since=since, why=why, accepts=accepts, troubled_at=troubled_at)


def accepted_fraction(level: PoolLevel, priority: Priority) -> float:
    """Return the fraction of the usual rates for runs of a priority."""
    if priority is Priority.P0 and level.degree not in CLOSED:
        return 1.0
    return level.accepts


def _decide_degree(before: PoolLevel, seen: PoolObservation, at: float) -> tuple[DegradationLevel, str]:
    if seen.silent_seconds >= MAJOR_AFTER_SECONDS:
        return DegradationLevel.MAJOR, "the store is unreachable"
    if seen.leaderless_seconds >= PARTIAL_AFTER_SECONDS:
        return DegradationLevel.PARTIAL, "the pool has no leader"
    if before.degree in CLOSED:
        return DegradationLevel.RECOVERY, f"until now {before.why}"
    if before.degree is DegradationLevel.RECOVERY and at - before.since < RAMP_SECONDS:
        return DegradationLevel.RECOVERY, before.why
    if seen.trouble:
        return DegradationLevel.DEGRADED, seen.trouble
    if before.degree is DegradationLevel.DEGRADED and at - (before.troubled_at or before.since) < HOLD_DOWN_SECONDS:
        return DegradationLevel.DEGRADED, before.why
    return DegradationLevel.NORMAL, ""


def _accepted(degree: DegradationLevel, seconds: float, *, is_troubled: bool) -> float:
    """Return the accepted fraction of the usual rates after this time at a level."""
    if degree in CLOSED:
        return 0.0
    if degree is DegradationLevel.DEGRADED:
        return DEGRADED_FRACTION
    if degree is DegradationLevel.RECOVERY:
        ramp = min(1.0, RAMP_FROM + (1.0 - RAMP_FROM) * seconds / RAMP_SECONDS)
        return min(ramp, DEGRADED_FRACTION) if is_troubled else ramp
    return 1.0
