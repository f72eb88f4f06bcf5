"""Duration histogram: percentiles within the error bound."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.lifecycle.duration_histogram import BASE, bucket_of, midpoint_of, percentile

lengths = st.floats(min_value=0.001, max_value=1e7)


@given(st.lists(lengths, min_size=1), st.floats(min_value=0.01, max_value=1))
def test_a_percentile_is_within_5_percent_of_a_sample(seconds: list[float], share: float) -> None:
    ordered = sorted(seconds)
    exact = ordered[math.ceil(share * len(ordered)) - 1]

    found = percentile(Counter(map(bucket_of, seconds)), share)

    assert found is not None
    assert abs(found - exact) <= 0.05 * exact + 0.0001  # the last digit is rounded


@given(lengths)
def test_a_duration_is_within_its_bucket(seconds: float) -> None:
    bucket = bucket_of(seconds)

    assert BASE**bucket * 0.999999 <= seconds * 1000 <= BASE ** (bucket + 1) * 1.000001
    assert bucket_of(midpoint_of(bucket) + 0.00005) in (bucket, bucket + 1)


def test_durations_below_a_millisecond_are_in_the_first_bucket() -> None:
    assert [bucket_of(seconds) for seconds in (-5, 0, 0.0001, 0.001)] == [0, 0, 0, 0]


def test_percentiles_of_an_empty_and_a_large_histogram() -> None:
    assert percentile({}, 0.5) is None
    buckets = {bucket_of(1): 99, bucket_of(100): 1}
    assert [percentile(buckets, share) for share in (0.5, 0.99)] == [midpoint_of(bucket_of(1))] * 2
    assert percentile(buckets, 1) == midpoint_of(bucket_of(100))
