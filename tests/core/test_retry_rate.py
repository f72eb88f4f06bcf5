"""The rate limit of retries (RTY-3)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.limits.retry_rate import RetryRateLimiter


@given(
    max_per_second=st.integers(1, 6),
    max_per_signature=st.integers(1, 6),
    retries=st.lists(st.tuples(st.floats(0, 20), st.sampled_from("abc")), max_size=200),
)
def test_no_limit_is_ever_exceeded(
    max_per_second: int, max_per_signature: int, retries: list[tuple[float, str]]
) -> None:
    """Per second in total and per signature; none is earlier than due, and none is lost."""
    pace = RetryRateLimiter(max_per_second, max_per_signature)
    given_out = [(pace.take(1e9 + due, signature, now=1e9), 1e9 + due, signature) for due, signature in retries]
    assert all(taken >= due for taken, due, _ in given_out)
    assert max(Counter(int(taken) for taken, *_ in given_out).values(), default=0) <= max_per_second
    assert max(Counter((int(taken), one) for taken, _, one in given_out).values(), default=0) <= max_per_signature


def test_a_retry_with_a_free_slot_is_not_delayed() -> None:
    """The usual case."""
    pace = RetryRateLimiter(5_000, 500)
    assert [pace.take(100.25, "a", now=90), pace.take(100.75, "b", now=90)] == [100.25, 100.75]


def test_ten_thousand_alike_take_twenty_seconds() -> None:
    """500 in each, without a gap."""
    pace = RetryRateLimiter(5_000, 500)
    seconds = Counter(int(pace.take(1000.5, "a", now=1000)) for _ in range(10_000))
    assert seconds == {1000 + n: 500 for n in range(20)}


def test_one_signature_leaves_slots_for_the_others() -> None:
    """RTY-7: a storm delays no other retry."""
    pace = RetryRateLimiter(5_000, 500)
    for _ in range(50_000):
        pace.take(1000.5, "storm", now=1000)
    assert pace.take(1000.5, "other", now=1000) == 1000.5


def test_past_seconds_are_dropped() -> None:
    """A shard lives for a long time, and meets many signatures."""
    pace = RetryRateLimiter(5_000, 500)
    for number in range(10_000):
        pace.take(float(number), f"s{number}", now=float(number))
    assert len(pace._by_signature) <= 2_000


def test_a_new_limit_applies_from_then_on() -> None:
    """OPS-5: a full second stays full, others have more slots, or fewer."""
    pace = RetryRateLimiter(2, 1)
    assert [pace.take(10.0, name, now=0.0) for name in ("a", "b", "c")] == [10.0, 10.0, 11.0]

    pace.retune(5, 3)
    assert [int(pace.take(10.0, "a", now=0.0)) for _ in range(3)] == [11, 11, 11]

    pace.retune(1, 1)
    assert [int(pace.take(20.0, "d", now=0.0)) for _ in range(2)] == [20, 21]
