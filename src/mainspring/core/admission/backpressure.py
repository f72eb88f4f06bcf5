"""What becomes of a submission while more waits than should (ADM-6).

    runs that wait     P0    P1              P2
    few                in    in              in
    shed_half_p2_at    in    in              every second one
    shed_p2_at         in    in              refused
    slow_p1_at         in    at a low rate   refused

Only what is new is shed. Beats and results of what runs are never: they are not asked about here.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mainspring.core.admission.degradation import CLOSED, Level
from mainspring.core.limits.rate_grants import Wish
from mainspring.core.model.settings import Tuning
from mainspring.core.model.task import Priority

HALF_SECONDS = 2.0
"""The next one may be taken: how many wait is looked at about so often."""
FULL_SECONDS = 30.0
"""A queue as long as that is not short again in a moment."""
CLOSED_SECONDS = 5.0
"""A pool has a leader again about so long after its last one died."""


class Fate(StrEnum):
    """What becomes of it."""

    ACCEPTED = "accepted"
    SLOWED = "slowed"
    """Taken if the pool's allowance for it (`slowed_wish`) grants one."""
    SHED = "shed"
    """Refused because too much waits."""
    CLOSED = "closed"
    """Refused because the pool takes nothing new now."""


class Verdict(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What becomes of a submission, and why."""

    fate: Fate
    why: str = ""
    retry_after_seconds: float = 0.0
    """When it is worth trying again, if it is refused."""


ACCEPT = Verdict(fate=Fate.ACCEPTED)


def decide_fate(priority: Priority, *, pool: str, waiting: int, turn: int, tuning: Tuning, level: Level) -> Verdict:
    """What becomes of a submission to a pool in which so many runs wait.

    `turn` counts those of P2 that have come while half of them are refused: every second one is taken.
    """
    if level.degree in CLOSED:
        why = f"pool {pool} takes nothing new now: {level.why}"
        return Verdict(fate=Fate.CLOSED, why=why, retry_after_seconds=CLOSED_SECONDS)
    if priority is Priority.P2 and waiting >= tuning.shed_p2_at:
        return _shed(pool, waiting, "no P2 is taken", FULL_SECONDS)
    if priority is Priority.P2 and waiting >= tuning.shed_half_p2_at and turn % 2:
        return _shed(pool, waiting, "every second P2 is refused", HALF_SECONDS)
    if priority is Priority.P1 and waiting >= tuning.slow_p1_at:
        why = f"{waiting} runs wait in pool {pool}: P1 are taken at {tuning.slowed_p1_per_second} a second"
        return Verdict(fate=Fate.SLOWED, why=why)
    return ACCEPT


def what_is_shed(waiting: int, tuning: Tuning) -> str:
    """What is refused or slowed down while so many runs wait; empty: nothing."""
    if waiting >= tuning.slow_p1_at:
        return "P2, and P1 slowed"
    if waiting >= tuning.shed_p2_at:
        return "P2"
    return "half of P2" if waiting >= tuning.shed_half_p2_at else ""


def slowed_wish(pool: str, tuning: Tuning) -> Wish:
    """What a P1 that is slowed down takes from the store first."""
    return Wish(limit=f"slowed:pool:{pool}", most=tuning.slowed_p1_per_second, per_seconds=1.0, wanted=1)


def _shed(pool: str, waiting: int, what: str, seconds: float) -> Verdict:
    why = f"{waiting} runs wait in pool {pool}: {what}"
    return Verdict(fate=Fate.SHED, why=why, retry_after_seconds=seconds)
