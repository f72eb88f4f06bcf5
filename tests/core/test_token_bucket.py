"""Token buckets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.limits.token_bucket import Rate, TokenBucket

PACE = Rate(per_second=10, burst=20)


def test_a_full_bucket_has_its_burst_and_fills_up_again() -> None:
    bucket = TokenBucket(PACE, 100.0)
    assert bucket.left(100.0) == 20
    bucket.take(20)
    assert (bucket.left(100.0), bucket.left(100.5), bucket.left(200.0)) == (0, 5, 20)


def test_the_time_until_enough_tokens() -> None:
    bucket = TokenBucket(PACE, 0.0)
    assert bucket.seconds_to(20) == 0.0
    bucket.take(20)
    assert (bucket.seconds_to(5), bucket.seconds_to(1_000)) == (0.5, 2.0)


def test_without_passing_time_there_are_no_tokens() -> None:
    bucket = TokenBucket(PACE, 50.0)
    bucket.take(20)
    assert bucket.left(10.0) == 0
    assert bucket.left(50.0) == 0


@given(steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), max_size=50))
def test_no_more_is_taken_than_burst_and_rate_allow(steps: list[tuple[float, int]]) -> None:
    bucket, life, gone = TokenBucket(PACE, 0.0), 0.0, 0
    for seconds, wanted in steps:
        life += seconds
        taken = min(wanted, bucket.left(life))
        bucket.take(taken)
        gone += taken
        assert gone <= PACE.burst + PACE.per_second * life + 1e-6
