"""Degradation levels of a pool, from observations (HA-5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.admission.degradation import (
    CLOSED,
    RAMP_FROM,
    DegradationLevel,
    PoolLevel,
    PoolObservation,
    accepted_fraction,
    decide_level,
)
from mainspring.core.model.task import Priority

WELL = PoolObservation()
SLOW = PoolObservation(trouble="the store is slow")
SILENT = PoolObservation(silent_seconds=3.0)
LEADERLESS = PoolObservation(leaderless_seconds=10.0)


def follow(*story: tuple[float, PoolObservation]) -> PoolLevel:
    """The level after all of this was seen, each at its time."""
    level = PoolLevel()
    for at, seen in story:
        level = decide_level(level, seen, at)
    return level


@pytest.mark.parametrize(
    ("seen", "degree", "accepts"),
    [
        (WELL, DegradationLevel.NORMAL, 1.0),
        (SLOW, DegradationLevel.DEGRADED, 0.5),
        (PoolObservation(leaderless_seconds=9.9), DegradationLevel.NORMAL, 1.0),
        (LEADERLESS, DegradationLevel.PARTIAL, 0.0),
        (PoolObservation(silent_seconds=2.9), DegradationLevel.NORMAL, 1.0),
        (SILENT, DegradationLevel.MAJOR, 0.0),
        (PoolObservation(silent_seconds=9.0, leaderless_seconds=90.0, trouble="slow"), DegradationLevel.MAJOR, 0.0),
        (PoolObservation(leaderless_seconds=90.0, trouble="slow"), DegradationLevel.PARTIAL, 0.0),
    ],
)
def test_the_table(seen: PoolObservation, degree: DegradationLevel, accepts: float) -> None:
    level = follow((100.0, seen))
    assert (level.degree, level.accepts) == (degree, accepts)


def test_a_pool_is_degraded_until_ten_seconds_after_the_last_symptom() -> None:
    story = [(0.0, SLOW), (1.0, WELL), (5.0, SLOW), (14.9, WELL)]
    level = follow(*story)
    assert (level.degree, level.since, level.why) == (DegradationLevel.DEGRADED, 0.0, "the store is slow")
    assert follow(*story, (15.0, WELL)).degree is DegradationLevel.NORMAL


@pytest.mark.parametrize("outage", [SILENT, LEADERLESS])
def test_recovery_ramps_up_from_a_tenth_to_all_within_thirty_seconds(outage: PoolObservation) -> None:
    story = [(0.0, outage), (60.0, WELL)]
    assert follow(*story).degree is DegradationLevel.RECOVERY
    assert follow(*story).accepts == pytest.approx(RAMP_FROM)
    assert follow(*story, (75.0, WELL)).accepts == pytest.approx(0.55)
    assert follow(*story, (89.9, WELL)).degree is DegradationLevel.RECOVERY

    level = follow(*story, (90.0, WELL))
    assert (level.degree, level.accepts, level.since) == (DegradationLevel.NORMAL, 1.0, 90.0)


def test_recovery_with_a_slow_store_stays_at_half_and_ends_degraded() -> None:
    story = [(0.0, SILENT), (60.0, SLOW)]
    assert follow(*story).accepts == pytest.approx(RAMP_FROM)
    assert follow(*story, (85.0, SLOW)).accepts == 0.5
    assert follow(*story, (90.0, SLOW)).degree is DegradationLevel.DEGRADED


def test_an_outage_during_recovery_restarts_it() -> None:
    level = follow((0.0, SILENT), (60.0, WELL), (80.0, SILENT), (90.0, WELL))
    assert (level.degree, level.since, level.accepts) == (DegradationLevel.RECOVERY, 90.0, RAMP_FROM)


def test_p0_is_accepted_fully_unless_closed() -> None:
    assert accepted_fraction(follow((0.0, SLOW)), Priority.P0) == 1.0
    assert accepted_fraction(follow((0.0, SILENT), (1.0, WELL)), Priority.P0) == 1.0
    assert accepted_fraction(follow((0.0, LEADERLESS)), Priority.P0) == 0.0
    assert accepted_fraction(follow((0.0, SLOW)), Priority.P1) == 0.5


SEEN = st.builds(
    PoolObservation, silent_seconds=st.sampled_from([0.0, 1.0, 5.0]),
    leaderless_seconds=st.sampled_from([0.0, 5.0, 20.0]),
    trouble=st.sampled_from(["", "slow"]),
)  # fmt: skip


@given(story=st.lists(st.tuples(st.floats(0.5, 20.0), SEEN), max_size=40))
def test_nothing_is_accepted_exactly_while_closed_and_recovery_follows(
    story: list[tuple[float, PoolObservation]],
) -> None:
    level, at = PoolLevel(), 0.0
    for seconds, seen in story:
        at += seconds
        before, level = level, decide_level(level, seen, at)
        assert (level.accepts == 0.0) == (level.degree in CLOSED)
        assert level.since <= at
        if before.degree in CLOSED:
            assert level.degree in CLOSED | {DegradationLevel.RECOVERY}
        if level.degree is not DegradationLevel.NORMAL:
            assert level.why


@given(story=st.lists(st.tuples(st.floats(0.5, 20.0), SEEN), max_size=20))
def test_any_pool_is_normal_after_forty_quiet_seconds(story: list[tuple[float, PoolObservation]]) -> None:
    level, at = PoolLevel(), 0.0
    for seconds, seen in story:
        at += seconds
        level = decide_level(level, seen, at)
    for _ in range(41):
        at += 1.0
        level = decide_level(level, WELL, at)
    assert (level.degree, level.accepts) == (DegradationLevel.NORMAL, 1.0)
