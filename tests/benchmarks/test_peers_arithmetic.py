"""Rates and steps, computed from the start times of tasks."""

from __future__ import annotations

import pytest

from benchmarks.peers.arithmetic import in_milliseconds, missing, rounded, steady_rate, steps, whole_rate


def test_a_steady_rate_excludes_the_first_tenth() -> None:
    warming = [0.5 * number for number in range(1, 11)]
    steady = [5.0 + 0.01 * number for number in range(1, 91)]

    assert steady_rate(warming + steady) == pytest.approx(100)


def test_a_rate_does_not_depend_on_order() -> None:
    moments = [1.0 + 0.1 * number for number in range(20)]

    assert steady_rate(moments[::-1]) == pytest.approx(10)
    assert whole_rate(moments[::-1]) == pytest.approx(10)


def test_a_rate_until_everything_is_recorded_counts_the_wait_for_it() -> None:
    moments = [1.0 + 0.1 * number for number in range(11)]

    assert steady_rate(moments) == pytest.approx(10)
    assert steady_rate(moments, ended_at=2.9) == pytest.approx(9 / 1.8)


def test_an_early_record_does_not_raise_the_rate() -> None:
    moments = [1.0 + 0.1 * number for number in range(11)]

    assert steady_rate(moments, ended_at=1.5) == steady_rate(moments)


@pytest.mark.parametrize("moments", [[], [0.0, 0.0], [4.0], [4.0, 0.0]])
def test_fewer_than_two_tasks_have_no_rate(moments: list[float]) -> None:
    assert steady_rate(moments) is None
    assert whole_rate(moments) is None


def test_tasks_that_all_started_at_once_have_no_rate() -> None:
    assert steady_rate([3.0, 3.0, 3.0]) is None
    assert whole_rate([3.0, 3.0, 3.0]) is None


def test_tasks_that_have_not_started_are_counted() -> None:
    assert missing([1.0, 0.0, 2.0, 0.0]) == 2


def test_a_step_is_the_time_between_two_starts() -> None:
    assert steps([1.0, 1.5, 1.75]) == [0.5, 0.25]


def test_a_step_that_never_started_is_excluded_with_its_neighbors() -> None:
    assert steps([1.0, 0.0, 2.0, 2.5]) == [0.5]


def test_a_percentile_of_nothing_is_none() -> None:
    assert in_milliseconds([], 50) is None


def test_seconds_become_milliseconds() -> None:
    assert in_milliseconds([0.001, 0.003, 0.002], 50) == pytest.approx(2)


def test_only_significant_digits_are_kept() -> None:
    assert rounded(12_345.6) == 12_300
    assert rounded(0.0123456) == 0.0123
