"""Usual durations of tasks (LIV-4)."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.duration_stats import MAX_KEYS, ROWS_PER_BATCH, SAMPLES, DurationStats, percentile
from tests.core.builders import NOON


def test_a_row_is_written_ten_seconds_after_a_change() -> None:
    """One row, however many samples arrive meanwhile."""
    durations = DurationStats()
    for number in range(100):
        durations.record("acme", "nightly", "extract", float(number), life=number / 20)

    assert durations.rows_to_write("pool", life=9.9, now=NOON) == []
    (row,) = durations.rows_to_write("pool", life=10, now=NOON)
    assert (row.tenant, row.job, row.task, row.count) == ("acme", "nightly", "extract", 100)
    assert row.samples == tuple(float(number) for number in range(100 - SAMPLES, 100))
    assert (row.p50_seconds, row.p90_seconds, row.p99_seconds) == (67, 93, 99)
    assert durations.rows_to_write("pool", life=100, now=NOON) == []


def test_a_few_rows_are_written_at_a_time() -> None:
    """A batch stays short; the others follow."""
    durations = DurationStats()
    for number in range(2 * ROWS_PER_BATCH + 1):
        durations.record("acme", "nightly", f"t{number}", 1.0, life=0)
    sizes = [len(durations.rows_to_write("pool", life=10, now=NOON)) for _ in range(4)]
    assert sizes == [ROWS_PER_BATCH, ROWS_PER_BATCH, 1, 0]


def test_loaded_samples_are_continued() -> None:
    """HA-3."""
    first, second = DurationStats(), DurationStats()
    for number in range(SAMPLES):
        first.record("acme", "nightly", "extract", float(number), life=0)
    rows = first.rows_to_write("pool", life=10, now=NOON)

    second.load(rows)
    second.record("acme", "nightly", "extract", 1000.0, life=0)
    (row,) = second.rows_to_write("pool", life=10, now=NOON + timedelta(seconds=10))

    assert (row.count, row.samples[0], row.samples[-1]) == (SAMPLES + 1, 1.0, 1000.0)


def test_the_number_of_tasks_is_bounded() -> None:
    """The task written least recently is evicted."""
    durations = DurationStats()
    durations.record("acme", "nightly", "first", 1.0, life=0)
    for number in range(MAX_KEYS):
        durations.record("acme", "nightly", f"t{number}", 1.0, life=0)
    assert durations.samples("acme", "nightly", "first") == ()
    assert durations.samples("acme", "nightly", f"t{MAX_KEYS - 1}") == (1.0,)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=SAMPLES), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_a_sample_by_nearest_rank(samples: list[float], share: float) -> None:
    ordered = sorted(samples)
    found = percentile(ordered, share)
    assert sum(one <= found for one in ordered) >= share * len(ordered)
    assert sum(one < found for one in ordered) < share * len(ordered)
