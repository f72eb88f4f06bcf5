"""Backpressure: load shedding of submissions while too many runs wait (ADM-6).

    waiting runs       P0          P1           P2
    few                accepted    accepted     accepted
    shed_half_p2_at    accepted    accepted     every second one refused
    shed_p2_at         accepted    accepted     refused
    slow_p1_at         accepted    throttled    refused

Only new submissions are shed, never heartbeats and results of running tasks: they don't pass here.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.admission.degradation import CLOSED, PoolLevel
from mainspring.core.limits.rate_grants import RateRequest
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority

HALF_SHED_RETRY_SECONDS = 2.0
"""Retry-After while half of P2 is shed: the number of waiting runs is refreshed about as often."""
FULL_SHED_RETRY_SECONDS = 30.0
"""Retry-After while all of P2 is shed: a queue of that length takes a while to drain."""
CLOSED_RETRY_SECONDS = 5.0
"""Retry-After without a leader: a pool has a new leader after about this time."""


class VerdictKind(StrEnum):
    """Outcome of a submission."""

    ACCEPTED = "accepted"
    SLOWED = "slowed"
    """Accepted if the pool's rate limit (`slowed_rate_request`) grants it."""
    SHED = "shed"
    """Refused because too many runs wait."""
    CLOSED = "closed"
    """Refused because the pool accepts no new work."""


class Verdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Outcome of a submission, with the reason."""

    kind: VerdictKind
    why: str = ""
    retry_after_seconds: float = 0.0
    """Suggested delay before a retry, if refused."""


ACCEPT = Verdict(kind=VerdictKind.ACCEPTED)


def decide_admission(
    priority: Priority, *, pool: str, waiting: int, turn: int, scheduler_settings: SchedulerSettings, level: PoolLevel
) -> Verdict:
    """Decide on a submission to a pool with `waiting` runs.

    `turn` counts the P2 submissions while half of them are refused: every second one is accepted.
    """
    if level.degree in CLOSED:
        why = f"pool {pool} accepts no new work: {level.why}"
        return Verdict(kind=VerdictKind.CLOSED, why=why, retry_after_seconds=CLOSED_RETRY_SECONDS)
    if priority is Priority.P2 and waiting >= scheduler_settings.shed_p2_at:
        return _shed(pool, waiting, "P2 is refused", FULL_SHED_RETRY_SECONDS)
    if priority is Priority.P2 and waiting >= scheduler_settings.shed_half_p2_at and turn % 2:
        return _shed(pool, waiting, "every second P2 is refused", HALF_SHED_RETRY_SECONDS)
    if priority is Priority.P1 and waiting >= scheduler_settings.slow_p1_at:
        why = f"{waiting} runs wait in pool {pool}: P1 is limited to {scheduler_settings.slowed_p1_per_second}/s"
        return Verdict(kind=VerdictKind.SLOWED, why=why)
    return ACCEPT


def shed_classes(waiting: int, scheduler_settings: SchedulerSettings) -> str:
    """Describe what is refused or throttled; empty: nothing."""
    if waiting >= scheduler_settings.slow_p1_at:
        return "P2, and P1 slowed"
    if waiting >= scheduler_settings.shed_p2_at:
        return "P2"
    return "half of P2" if waiting >= scheduler_settings.shed_half_p2_at else ""


def slowed_rate_request(pool: str, scheduler_settings: SchedulerSettings) -> RateRequest:
    """Return the rate request that a throttled P1 submission has to pass first."""
    return RateRequest(
        limit=f"slowed:pool:{pool}", most=scheduler_settings.slowed_p1_per_second, per_seconds=1.0, wanted=1
    )


def _shed(pool: str, waiting: int, what: str, seconds: float) -> Verdict:
    why = f"{waiting} runs wait in pool {pool}: {what}"
    return Verdict(kind=VerdictKind.SHED, why=why, retry_after_seconds=seconds)
