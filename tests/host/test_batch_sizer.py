"""Batch size, and which priorities are held while the store is slow (HA-4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority
from mainspring.host.batch_sizer import MAX_ROWS, MIN_ROWS, TARGET_SECONDS, BatchSizer
from tests.host.host_harness import HostHarness
from tests.shard.jobs import job, task

P0, P1, P2 = Priority


def after(seconds: float, *, commits: int = 60, rows: int = 1_000, batch_sizer: BatchSizer | None = None) -> BatchSizer:
    """A batch sizer after a number of equal commits."""
    batch_sizer = batch_sizer or BatchSizer()
    for _ in range(commits):
        batch_sizer.observe(rows, seconds)
    return batch_sizer


@given(st.lists(st.tuples(st.integers(0, 100_000), st.floats(0, 1_000)), max_size=50))
def test_a_batch_is_never_under_200_and_never_over_5000_rows(commits: list[tuple[int, float]]) -> None:
    """After any commits."""
    batch_sizer = BatchSizer()
    for rows, seconds in commits:
        batch_sizer.observe(rows, seconds)

    assert MIN_ROWS <= batch_sizer.rows() <= MAX_ROWS


def test_a_fast_store_gets_long_batches() -> None:
    """A thousand rows in a millisecond."""
    assert after(0.001).rows() == MAX_ROWS


def test_a_slow_store_gets_short_batches() -> None:
    """A thousand rows in a second: each costs a millisecond."""
    assert after(1.0).rows() == MIN_ROWS


def test_the_cost_of_rows_is_aimed_at_25_ms() -> None:
    """A fixed cost of ten milliseconds does not count."""
    batch_sizer = BatchSizer()
    for n in range(200):
        rows = 400 + 100 * (n % 5)
        batch_sizer.observe(rows, 0.01 + rows * 0.00001)
        batch_sizer.observe(1, 0.01)

    assert batch_sizer.rows() * 0.00001 == pytest.approx(TARGET_SECONDS, rel=0.25)


@pytest.mark.parametrize(("seconds", "hold"), [(0.01, None), (0.49, None), (0.6, P2), (1.4, P2), (1.6, P1), (10.0, P1)])
def test_a_slow_store_holds_p2_then_p1_and_never_p0(seconds: float, hold: Priority | None) -> None:
    """HA-4."""
    assert after(seconds).hold is hold


def test_one_slow_commit_holds_nothing() -> None:
    """A hiccup is not a slow store."""
    batch_sizer = after(0.01)
    batch_sizer.observe(1_000, 2.0)

    assert batch_sizer.hold is None


def test_one_slow_commit_does_not_make_batches_short() -> None:
    """The next ones cost what they did before; a lasting change shows after a few commits."""
    usual = after(0.02).rows()
    batch_sizer = after(0.02)
    batch_sizer.observe(1_000, 2.0)
    assert batch_sizer.rows() > usual / 2

    assert after(2.0, commits=12, batch_sizer=batch_sizer).rows() == MIN_ROWS


def test_a_store_without_measurable_cost_may_become_slow() -> None:
    """However long it seemed to be free."""
    assert after(1.0, commits=12, batch_sizer=after(0.0, commits=5_000)).rows() == MIN_ROWS


@pytest.mark.parametrize(("slow", "better", "hold"), [(0.6, 0.4, P2), (0.6, 0.2, None), (2.0, 1.0, P1), (2.0, 0.6, P2)])
def test_held_priorities_are_released_when_commits_take_half_as_long(
    slow: float, better: float, hold: Priority | None
) -> None:
    """HA-4: with hysteresis, so that it does not flap."""
    assert after(better, batch_sizer=after(slow)).hold is hold


def test_a_recovering_store_releases_p1_before_p2() -> None:
    """HA-4: by priority."""
    batch_sizer = after(3.0)
    seen: list[Priority | None] = []
    for _ in range(60):
        batch_sizer.observe(1_000, 0.01)
        if not seen or seen[-1] is not batch_sizer.hold:
            seen.append(batch_sizer.hold)

    assert seen == [P1, P2, None]


async def test_p2_waits_while_commits_are_slow_and_runs_when_they_are_fast_again(harness: HostHarness) -> None:
    """HA-4, from the store to the worker: P0 is served throughout."""
    leader = await harness.lead()
    harness.play()
    harness.store.commit_seconds = 1.0
    await harness.until(lambda: leader.shard.memory.queues.suspended_from is P2, within=60.0)
    (low,) = await harness.submit(job(task("low")), priority=P2)
    (high,) = await harness.submit(job(task("high")), priority=P0)

    assert await harness.ended(high, within=30.0) is RunState.SUCCEEDED
    assert (await harness.run(low)).ended_at is None

    harness.store.commit_seconds = 0.001
    assert await harness.ended(low, within=60.0) is RunState.SUCCEEDED
