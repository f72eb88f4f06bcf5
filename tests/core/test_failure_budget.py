"""The failure budget: failed tasks of a tenant in the last hour (ADM-5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.core.limits.failure_budget import FailureCounts

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def minutes(number: float) -> timedelta:
    return timedelta(minutes=number)


def test_failures_count_for_an_hour_by_tenant() -> None:
    failure_counts = FailureCounts()
    for minute in (0, 2, 30, 58):
        failure_counts.record("pool", "acme", NOON + minutes(minute))
    failure_counts.record("pool", "other", NOON)

    assert failure_counts.count("acme", NOON + minutes(59)) == 4
    assert failure_counts.count("acme", NOON + minutes(60)) == 2
    assert failure_counts.count("acme", NOON + minutes(90)) == 1
    assert failure_counts.count("other", NOON) == 1


def test_a_row_has_the_count_of_its_five_minutes() -> None:
    failure_counts = FailureCounts()
    failure_counts.record("pool", "acme", NOON + minutes(1))

    row = failure_counts.record("pool", "acme", NOON + minutes(4.9))
    later = failure_counts.record("pool", "acme", NOON + minutes(5))

    assert (row.shard, row.tenant, row.since, row.failures) == ("pool", "acme", NOON, 2)
    assert (later.since, later.failures) == (NOON + minutes(5), 1)


def test_counting_continues_from_the_rows() -> None:
    before, after = FailureCounts(), FailureCounts()
    rows = [before.record("pool", "acme", NOON + minutes(minute)) for minute in (0, 1, 10)]

    after.load(rows[1:])

    assert after.count("acme", NOON + minutes(20)) == 3
    assert after.record("pool", "acme", NOON + minutes(11)).failures == 2


def test_dropped_counts_stay_dropped() -> None:
    failure_counts = FailureCounts()
    failure_counts.record("pool", "acme", NOON)
    assert failure_counts.has("acme")

    assert failure_counts.count("acme", NOON + minutes(60)) == 0
    assert not failure_counts.has("acme")
    assert failure_counts.count("acme", NOON + minutes(60)) == 0
