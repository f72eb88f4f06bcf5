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
2. P0 is accepted as long as anything is (`accepted_part`): it is never shed (ADM-6).
3. A level outlasts its cause, to avoid flapping.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority

MAJOR_AFTER_SECONDS = 3.0
PARTIAL_AFTER_SECONDS = 10.0
EASE_SECONDS = 10.0
"""A pool stays degraded for this long after the last symptom."""
RAMP_SECONDS = 30.0
RAMP_FROM = 0.1
DEGRADED_PART = 0.5


class Degree(StrEnum):
    """Degradation level, from best to worst."""

    NORMAL = "normal"
    DEGRADED = "degraded"
    RECOVERY = "recovery"
    PARTIAL = "partial"
    MAJOR = "major"


CLOSED = frozenset({Degree.PARTIAL, Degree.MAJOR})
"""Levels without new work."""
_ORDER = {degree: place for place, degree in enumerate(Degree)}


class Seen(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Observed state of a pool."""

    silent_seconds: float = 0.0
    """Time since the store last answered."""
    leaderless_seconds: float = 0.0
    """Time for which the pool had no leader."""
    trouble: str = ""
    """What slows it down, if anything."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """Current level of a pool."""

    degree: Degree = Degree.NORMAL
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


def decide_level(before: Level, seen: Seen, at: float) -> Level:
    """Return the new level after this observation, at a monotonic time of the server."""
    troubled_at = at if seen.trouble else before.troubled_at
    degree, why = _decide_degree(before, seen, at)
    since = before.since if degree is before.degree else at
    accepts = _accepted(degree, at - since, is_troubled=bool(seen.trouble))
    return Level(degree=degree, since=since, why=why, accepts=accepts, troubled_at=troubled_at)


def accepted_part(level: Level, priority: Priority) -> float:
    """Return the fraction of the usual rates for runs of a priority."""
    if priority is Priority.P0 and level.degree not in CLOSED:
        return 1.0
    return level.accepts


def _decide_degree(before: Level, seen: Seen, at: float) -> tuple[Degree, str]:
    if seen.silent_seconds >= MAJOR_AFTER_SECONDS:
        return Degree.MAJOR, "the store is unreachable"
    if seen.leaderless_seconds >= PARTIAL_AFTER_SECONDS:
        return Degree.PARTIAL, "the pool has no leader"
    if before.degree in CLOSED:
        return Degree.RECOVERY, f"until now {before.why}"
    if before.degree is Degree.RECOVERY and at - before.since < RAMP_SECONDS:
        return Degree.RECOVERY, before.why
    if seen.trouble:
        return Degree.DEGRADED, seen.trouble
    if before.degree is Degree.DEGRADED and at - (before.troubled_at or before.since) < EASE_SECONDS:
        return Degree.DEGRADED, before.why
    return Degree.NORMAL, ""


def _accepted(degree: Degree, seconds: float, *, is_troubled: bool) -> float:
    """Return the accepted fraction of the usual rates after this time at a level."""
    if degree in CLOSED:
        return 0.0
    if degree is Degree.DEGRADED:
        return DEGRADED_PART
    if degree is Degree.RECOVERY:
        ramp = min(1.0, RAMP_FROM + (1.0 - RAMP_FROM) * seconds / RAMP_SECONDS)
        return min(ramp, DEGRADED_PART) if is_troubled else ramp
    return 1.0
