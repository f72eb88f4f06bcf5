"""Rate grants: no stretch of a period's length exceeds the limit, for any requests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import hypothesis.strategies as st
from hypothesis import given

from mainspring.core.limits.rate_grants import MAX_TAKES, STRETCHES, LimitRow, RateRequest, Take, allow, take

NOW = datetime(2026, 11, 16, 12, 0, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def a_request(wanted: int, *, most: int = 5, per_seconds: float = 10.0, limit: str = "a") -> RateRequest:
    """A request to a limit of five in ten seconds."""
    return RateRequest(limit=limit, most=most, per_seconds=per_seconds, wanted=wanted)


def unused(limit: str = "a") -> LimitRow:
    """A limit of which nothing was taken."""
    return LimitRow(limit=limit, takes=(), counts_until=NOW)


def test_a_request_is_granted_in_full_while_there_is_enough() -> None:
    answer = allow(a_request(3), [], NOW)
    assert (answer.granted, answer.more_at) == (3, None)


def test_the_remainder_is_granted_with_the_time_of_the_next() -> None:
    takes = [Take(NOW - 4 * SECOND, 2), Take(NOW - SECOND, 1)]
    answer = allow(a_request(4), takes, NOW)
    assert (answer.granted, answer.more_at) == (2, NOW + 6 * SECOND)


def test_the_next_is_available_when_the_first_take_is_a_period_old() -> None:
    answer = allow(a_request(1, most=2), [Take(NOW - 4 * SECOND, 1), Take(NOW - SECOND, 3)], NOW)
    assert (answer.granted, answer.more_at) == (0, NOW + 9 * SECOND)


def test_taking_all_at_once_means_waiting_for_a_full_period() -> None:
    answer = allow(a_request(9), [], NOW)
    assert (answer.granted, answer.more_at) == (5, NOW + 10 * SECOND)


def test_a_take_at_a_later_time_counts_from_then_on() -> None:
    """For callers without the exact time of the store: earlier takes are evaluated at the earlier time."""
    row = LimitRow(limit="a", takes=(Take(NOW - 10 * SECOND, 2), Take(NOW - 9 * SECOND, 1)), counts_until=NOW)
    (answer,), (changed,) = take([a_request(9)], {"a": row}, NOW, at=NOW + 2 * SECOND)
    assert (answer.granted, answer.more_at) == (4, NOW + SECOND)
    assert changed.takes == (Take(NOW - 9 * SECOND, 1), Take(NOW + 2 * SECOND, 4))
    assert changed.counts_until == NOW + 12 * SECOND

    (alone,), _ = take([a_request(9)], {"a": unused()}, NOW, at=NOW + 2 * SECOND)
    assert (alone.more_at, alone.wait_seconds) == (NOW + 12 * SECOND, 12.0)


def test_a_take_counts_for_one_period_and_not_at_its_end() -> None:
    takes = [Take(NOW - 10 * SECOND, 5)]
    assert allow(a_request(5), takes, NOW - timedelta(microseconds=1)).granted == 0
    assert allow(a_request(5), takes, NOW).granted == 5


def test_a_limit_of_zero_grants_nothing() -> None:
    assert allow(a_request(1, most=0), [], NOW).granted == 0
    assert allow(a_request(0), [], NOW).granted == 0


def test_requests_for_the_same_limit_are_granted_in_order() -> None:
    answers, changed = take(
        [a_request(3), a_request(1, limit="b"), a_request(3)], {"a": unused(), "b": unused("b")}, NOW
    )

    assert [answer.granted for answer in answers] == [3, 1, 2]
    assert {row.limit: sum(one.amount for one in row.takes) for row in changed} == {"a": 5, "b": 1}
    assert {row.counts_until for row in changed} == {NOW + 10 * SECOND}


def test_a_limit_without_a_grant_is_unchanged() -> None:
    full = LimitRow(limit="a", takes=(Take(NOW, 5),), counts_until=NOW)
    answers, changed = take([a_request(1)], {"a": full}, NOW)
    assert ([answer.granted for answer in answers], changed) == ([0], [])


def test_expired_takes_are_dropped() -> None:
    old = LimitRow(limit="a", takes=(Take(NOW - 11 * SECOND, 5), Take(NOW - SECOND, 1)), counts_until=NOW)
    _, (row,) = take([a_request(1)], {"a": old}, NOW)
    assert row.takes == (Take(NOW - SECOND, 1), Take(NOW, 1))


def test_a_clock_that_was_set_back_frees_nothing_early() -> None:
    ahead = LimitRow(limit="a", takes=(Take(NOW + SECOND, 3),), counts_until=NOW)
    (answer,), (row,) = take([a_request(5)], {"a": ahead}, NOW)
    assert answer.granted == 2
    assert row.takes == (Take(NOW + SECOND, 3), Take(NOW + SECOND, 2))


STEPS = st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 8)), min_size=1, max_size=200)


@given(steps=STEPS, most=st.integers(0, 40), per_seconds=st.sampled_from([0.001, 1.0, 7.3]), ahead=st.floats(0.0, 0.2))
def test_no_stretch_as_long_as_a_period_has_more_than_the_limit(
    steps: list[tuple[float, int]], most: int, per_seconds: float, ahead: float
) -> None:
    """The actual takes against the limit; and the stored takes stay few."""
    period = timedelta(seconds=per_seconds)
    row, now = unused(), NOW
    taken: list[Take] = []
    for gap, wanted in steps:
        now += gap * period / 20
        at = now + ahead * period
        (answer,), changed = take([a_request(wanted, most=most, per_seconds=per_seconds)], {"a": row}, now, at)
        row = changed[0] if changed else row
        taken.append(Take(at, answer.granted))
        assert len(row.takes) <= MAX_TAKES
        assert sum(one.amount for one in taken if one.at + period > now) <= most
        assert answer.granted == wanted or answer.more_at is not None


def test_merged_takes_count_for_at_most_a_thirty_second_of_a_period_longer() -> None:
    """A thousand takes of one, evenly over a period; all of the limit is free again soon after the next one."""
    period = timedelta(seconds=32)
    row = unused()
    for number in range(1_000):
        _, (row,) = take([a_request(1, most=1_000, per_seconds=32.0)], {"a": row}, NOW + number * period / 1_000)
    half = NOW + period * 1.5 + period / STRETCHES

    assert len(row.takes) <= MAX_TAKES
    assert allow(a_request(1_000, most=1_000, per_seconds=32.0), row.takes, NOW + period).granted <= 1
    assert 500 <= allow(a_request(1_000, most=1_000, per_seconds=32.0), row.takes, half).granted <= 533
