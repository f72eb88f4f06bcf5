"""Load shedding of submissions while too many runs wait (ADM-6)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.backpressure import (
    Verdict,
    VerdictKind,
    decide_admission,
    shed_classes,
    slowed_rate_request,
)
from mainspring.core.admission.degradation import DegradationLevel, PoolLevel
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority

TUNING = SchedulerSettings(shed_half_p2_at=100, shed_p2_at=200, slow_p1_at=400, slowed_p1_per_second=7)
P0, P1, P2 = Priority.P0, Priority.P1, Priority.P2
ACCEPTED, SLOWED, SHED, CLOSED = VerdictKind.ACCEPTED, VerdictKind.SLOWED, VerdictKind.SHED, VerdictKind.CLOSED


def decide(
    priority: Priority, waiting: int, *, turn: int = 0, degree: DegradationLevel = DegradationLevel.NORMAL
) -> Verdict:
    """Decide one submission."""
    level = PoolLevel(degree=degree, why="nobody leads the pool")
    return decide_admission(
        priority, pool="default", waiting=waiting, turn=turn, scheduler_settings=TUNING, level=level
    )


@pytest.mark.parametrize(
    ("waiting", "fates"),
    [
        (0, (ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED)),
        (99, (ACCEPTED, ACCEPTED, ACCEPTED, ACCEPTED)),
        (100, (ACCEPTED, ACCEPTED, ACCEPTED, SHED)),
        (199, (ACCEPTED, ACCEPTED, ACCEPTED, SHED)),
        (200, (ACCEPTED, ACCEPTED, SHED, SHED)),
        (399, (ACCEPTED, ACCEPTED, SHED, SHED)),
        (400, (ACCEPTED, SLOWED, SHED, SHED)),
        (10_000_000, (ACCEPTED, SLOWED, SHED, SHED)),
    ],
)
def test_the_table(waiting: int, fates: tuple[VerdictKind, ...]) -> None:
    """P0, P1, and two P2 one after the other."""
    found = [decide(P0, waiting), decide(P1, waiting), decide(P2, waiting), decide(P2, waiting, turn=1)]
    assert tuple(verdict.kind for verdict in found) == fates


@given(waiting=st.integers(100, 199), first=st.integers(0, 1_000), number=st.integers(1, 100))
def test_half_of_p2_is_every_second_one(waiting: int, first: int, number: int) -> None:
    fates = [decide(P2, waiting, turn=turn).kind for turn in range(first, first + 2 * number)]
    assert fates.count(ACCEPTED) == number
    assert all(one is not other for one, other in pairwise(fates))


@given(waiting=st.integers(0, 2_000_000_000), turn=st.integers(0, 10), degree=st.sampled_from(DegradationLevel))
def test_p0_is_never_shed_and_refusals_have_a_retry_after(waiting: int, turn: int, degree: DegradationLevel) -> None:
    for priority in Priority:
        verdict = decide(priority, waiting, turn=turn, degree=degree)
        assert verdict.kind is not SHED or priority is P2
        assert (verdict.retry_after_seconds > 0) == (verdict.kind in {SHED, CLOSED})
        assert bool(verdict.why) == (verdict.kind is not ACCEPTED)
        assert (verdict.kind is CLOSED) == (degree in {DegradationLevel.PARTIAL, DegradationLevel.MAJOR})


@given(fewer=st.integers(0, 1_000), more=st.integers(0, 1_000), turn=st.integers(0, 1))
def test_more_waiting_runs_never_relax_the_verdict(fewer: int, more: int, turn: int) -> None:
    order = [ACCEPTED, SLOWED, SHED]
    fewer, more = sorted((fewer, more))
    for priority in Priority:
        easier, harder = decide(priority, fewer, turn=turn).kind, decide(priority, more, turn=turn).kind
        assert order.index(easier) <= order.index(harder)


def test_throttled_p1_uses_a_rate_limit_of_its_pool() -> None:
    wish = slowed_rate_request("default", TUNING)
    assert (wish.limit, wish.most, wish.per_seconds, wish.wanted) == ("slowed:pool:default", 7, 1.0, 1)


@pytest.mark.parametrize(
    ("waiting", "told"), [(99, ""), (100, "half of P2"), (200, "P2"), (399, "P2"), (400, "P2, and P1 slowed")]
)
def test_the_description_matches_what_is_shed(waiting: int, told: str) -> None:
    assert shed_classes(waiting, TUNING) == told
