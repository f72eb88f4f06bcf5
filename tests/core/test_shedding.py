"""What becomes of a submission while more waits than should (ADM-6)."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.backpressure import Fate, Verdict, decide_fate, slowed_wish, what_is_shed
from mainspring.core.admission.degradation import Degree, Level
from mainspring.core.model.settings import Tuning
from mainspring.core.model.task import Priority

TUNING = Tuning(shed_half_p2_at=100, shed_p2_at=200, slow_p1_at=400, slowed_p1_per_second=7)
P0, P1, P2 = Priority.P0, Priority.P1, Priority.P2
ACCEPTED, SLOWED, SHED, CLOSED = Fate.ACCEPTED, Fate.SLOWED, Fate.SHED, Fate.CLOSED


def decide(priority: Priority, waiting: int, *, turn: int = 0, degree: Degree = Degree.NORMAL) -> Verdict:
    """What becomes of one submission."""
    level = Level(degree=degree, why="nobody leads the pool")
    return decide_fate(priority, pool="default", waiting=waiting, turn=turn, tuning=TUNING, level=level)


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
def test_the_table(waiting: int, fates: tuple[Fate, ...]) -> None:
    """P0, P1, and two P2 one after the other."""
    found = [decide(P0, waiting), decide(P1, waiting), decide(P2, waiting), decide(P2, waiting, turn=1)]
    assert tuple(verdict.fate for verdict in found) == fates


@given(waiting=st.integers(100, 199), first=st.integers(0, 1_000), number=st.integers(1, 100))
def test_half_of_p2_is_every_second_one(waiting: int, first: int, number: int) -> None:
    fates = [decide(P2, waiting, turn=turn).fate for turn in range(first, first + 2 * number)]
    assert fates.count(ACCEPTED) == number
    assert all(one is not other for one, other in pairwise(fates))


@given(waiting=st.integers(0, 2_000_000_000), turn=st.integers(0, 10), degree=st.sampled_from(Degree))
def test_p0_is_never_shed_and_refusals_have_a_retry_after(waiting: int, turn: int, degree: Degree) -> None:
    for priority in Priority:
        verdict = decide(priority, waiting, turn=turn, degree=degree)
        assert verdict.fate is not SHED or priority is P2
        assert (verdict.retry_after_seconds > 0) == (verdict.fate in {SHED, CLOSED})
        assert bool(verdict.why) == (verdict.fate is not ACCEPTED)
        assert (verdict.fate is CLOSED) == (degree in {Degree.PARTIAL, Degree.MAJOR})


@given(fewer=st.integers(0, 1_000), more=st.integers(0, 1_000), turn=st.integers(0, 1))
def test_more_waiting_runs_never_relax_the_verdict(fewer: int, more: int, turn: int) -> None:
    order = [ACCEPTED, SLOWED, SHED]
    fewer, more = sorted((fewer, more))
    for priority in Priority:
        easier, harder = decide(priority, fewer, turn=turn).fate, decide(priority, more, turn=turn).fate
        assert order.index(easier) <= order.index(harder)


def test_throttled_p1_uses_a_rate_limit_of_its_pool() -> None:
    wish = slowed_wish("default", TUNING)
    assert (wish.limit, wish.most, wish.per_seconds, wish.wanted) == ("slowed:pool:default", 7, 1.0, 1)


@pytest.mark.parametrize(
    ("waiting", "told"), [(99, ""), (100, "half of P2"), (200, "P2"), (399, "P2"), (400, "P2, and P1 slowed")]
)
def test_the_description_matches_what_is_shed(waiting: int, told: str) -> None:
    assert what_is_shed(waiting, TUNING) == told
