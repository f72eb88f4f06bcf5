"""How well a pool can be served, and how much new work it is given meanwhile (HA-5).

    NORMAL ──slow or deep──> DEGRADED ──nothing of it for 10 s──> NORMAL
    any    ──no leader for 10 s──> PARTIAL   ──a leader──────┐
    any    ──the store silent for 3 s──> MAJOR ──an answer──┤
    NORMAL or DEGRADED <──after 30 s── RECOVERY <───────────┘

| level | why | new work |
|---|---|---|
| normal | nothing is wrong | all |
| degraded | the store is slow, or the queue is deep | at half the usual rates |
| partial | nobody leads the pool | none; what runs goes on |
| major | the store can't be reached | none; what runs goes on, and results wait |
| recovery | it was partial or major until now | from a tenth to all, within 30 s |

1. Whatever is accepted is accepted for good: a level is about what is still outside.
2. P0 is taken as ever while anything is (`accepted_part`): it is never shed (ADM-6).
3. A level ends later than its cause, so that it does not come and go.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority

MAJOR_AFTER_SECONDS = 3.0
PARTIAL_AFTER_SECONDS = 10.0
EASE_SECONDS = 10.0
"""A pool is degraded for so long after the last sign of it."""
RAMP_SECONDS = 30.0
RAMP_FROM = 0.1
DEGRADED_PART = 0.5


class Degree(StrEnum):
    """How bad it is, from the least to the worst."""

    NORMAL = "normal"
    DEGRADED = "degraded"
    RECOVERY = "recovery"
    PARTIAL = "partial"
    MAJOR = "major"


CLOSED = frozenset({Degree.PARTIAL, Degree.MAJOR})
"""Nothing new is taken."""
_ORDER = {degree: place for place, degree in enumerate(Degree)}


class Seen(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What was observed of a pool."""

    silent_seconds: float = 0.0
    """How long the store has not answered."""
    leaderless_seconds: float = 0.0
    """How long the pool has been seen without a leader."""
    trouble: str = ""
    """What slows it down, if something does."""


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """How a pool stands."""

    degree: Degree = Degree.NORMAL
    since: float = 0.0
    """In seconds of the server's monotonic clock."""
    why: str = ""
    accepts: float = 1.0
    """The part of the usual rates at which new work is taken."""
    troubled_at: float | None = None
    """When something was last seen that slows it down."""

    @property
    def severity(self) -> int:
        """A larger one is worse."""
        return _ORDER[self.degree]


def decide_level(before: Level, seen: Seen, at: float) -> Level:
    """How a pool stands now that this was seen of it, at an instant of the server's monotonic clock."""
    troubled_at = at if seen.trouble else before.troubled_at
    degree, why = _decide_degree(before, seen, at)
    since = before.since if degree is before.degree else at
    accepts = _accepted(degree, at - since, is_troubled=bool(seen.trouble))
    return Level(degree=degree, since=since, why=why, accepts=accepts, troubled_at=troubled_at)


def accepted_part(level: Level, priority: Priority) -> float:
    """The part of the usual rates at which runs of a priority are taken."""
    if priority is Priority.P0 and level.degree not in CLOSED:
        return 1.0
    return level.accepts


def _decide_degree(before: Level, seen: Seen, at: float) -> tuple[Degree, str]:
    if seen.silent_seconds >= MAJOR_AFTER_SECONDS:
        return Degree.MAJOR, "the store can't be reached"
    if seen.leaderless_seconds >= PARTIAL_AFTER_SECONDS:
        return Degree.PARTIAL, "nobody leads the pool"
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
    """The part of the usual rates that a pool takes which has been at a level for so long."""
    if degree in CLOSED:
        return 0.0
    if degree is Degree.DEGRADED:
        return DEGRADED_PART
    if degree is Degree.RECOVERY:
        ramp = min(1.0, RAMP_FROM + (1.0 - RAMP_FROM) * seconds / RAMP_SECONDS)
        return min(ramp, DEGRADED_PART) if is_troubled else ramp
    return 1.0
