"""Sharing parameters of a seed: guarantees, freezes, groups. Each seed draws its own."""

from __future__ import annotations

from random import Random

import msgspec
from msgspec.structs import replace

ALL_SHARED = 10
SHARED_EVERY = 5
"""The first seeds, and then each fifth, may have rules: a seed with rules takes nearly twice as long as one without."""
NOTHING_SHARED = 0.2
"""The fraction of these seeds without rules."""


class SharingMix(msgspec.Struct, frozen=True, kw_only=True):
    """The draw of one seed."""

    quotas: int = 0
    """How often quotas are set, raised or dropped."""
    promises: bool = False
    """Whether quotas have guarantees."""
    ceilings: bool = False
    """Whether quotas have a burst, and a number of tasks at a time."""
    budgets: bool = False
    """Whether quotas have small budgets of failures."""
    freezes: int = 0
    """How often something is frozen or unfrozen."""
    groups: int = 0
    """How many groups each tenant may have."""
    group_acts: int = 0
    """How often one is defined, changed or dropped."""
    policies: int = 0
    """How often a policy or the pool is changed."""
    affinity: float = 0.0
    """Probability that a job has tasks with affinity or anti-affinity."""
    sizes: bool = False
    """Whether tasks request different amounts of memory."""
    set_spool_full: int = 0
    """Number of runs of small tasks in sequence, so that no large capacity ever becomes free."""
    neighbor: bool = False
    """Whether another pool takes shares of the groups' limits."""
    grace_seconds: float = 30.0
    kept_seconds: float = 60.0
    keep_after_seconds: float = 5.0
    defragment: bool = False
    decisions_kept: int = 10
    """Sampled decisions per 1,000 placements."""
    deadlines: float = 0.0
    """Probability that a job has a deadline."""
    grants: int = 0
    """How often P0 is granted to a tenant, or revoked."""
    bookings: float = 0.0
    """Probability that a quota has bookings."""


def draw_sharing(seed: int) -> SharingMix:
    """Draw the sharing parameters of a seed."""
    random = Random(f"mix of sharing:{seed}")
    times = SharingMix(
        grace_seconds=random.choice((2.0, 5.0, 30.0)),
        kept_seconds=random.choice((5.0, 20.0, 60.0)),
        keep_after_seconds=random.choice((1.0, 5.0, 5.0)),
        defragment=random.random() < 0.4,
        decisions_kept=Random(f"mix of decisions:{seed}").choice((0, 10, 1_000, 1_000)),
        deadlines=Random(f"mix of deadlines:{seed}").choice((0.0, 0.0, 0.4, 0.8)),
    )
    may_have_rules = seed <= ALL_SHARED or seed % SHARED_EVERY == 0
    if random.random() < NOTHING_SHARED or not may_have_rules:
        return times
    groups = random.choice((0, 1, 2))
    return replace(
        times,
        quotas=random.choice((0, 6, 12, 30)),
        promises=random.random() < 0.7,
        ceilings=random.random() < 0.6,
        budgets=random.random() < 0.3,
        freezes=random.choice((0, 0, 4, 12)),
        groups=groups,
        group_acts=random.choice((3, 10)) if groups else 0,
        policies=random.choice((0, 0, 4)),
        affinity=random.choice((0.0, 0.0, 0.4)),
        sizes=random.random() < 0.5,
        set_spool_full=random.choice((0, 0, 0, 60)),
        neighbor=bool(groups) and random.random() < 0.5,
        grants=Random(f"mix of grants:{seed}").choice((0, 4, 8)),
        bookings=Random(f"mix of bookings:{seed}").choice((0.0, 0.4)),
    )
