"""The heap of timers: in order, and bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.timers import Timers

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def timer(name: str) -> TimerDue:
    """A timer of something."""
    return TimerDue(kind=TimerKind.RETRY, subject=name)


def test_timers_fire_in_order_and_not_early() -> None:
    """The earliest first; of two that are due together the one that was set first."""
    timers = Timers(lambda timer: False)
    for name, due in (("c", 3.0), ("a", 1.0), ("b", 2.0), ("d", 3.0)):
        timers.set(due, timer(name))
    assert timers.next_due() == 1.0

    assert [one.subject for one in timers.pop_due(2.0, 10)] == ["a", "b"]
    assert timers.pop_due(2.9, 10) == []
    assert [one.subject for one in timers.pop_due(3.0, 10)] == ["c", "d"]
    assert timers.next_due() is None


def test_the_number_of_fired_timers_is_limited() -> None:
    """The rest are due in the next turn."""
    timers = Timers(lambda timer: False)
    for n in range(10):
        timers.set(1.0, timer(str(n)))

    assert len(timers.pop_due(1.0, 4)) == 4
    assert timers.next_due() == 1.0
    assert len(timers.pop_due(1.0, 40)) == 6


def test_a_stale_timer_does_not_fire() -> None:
    """Its subject has changed."""
    timers = Timers(lambda timer: timer.subject == "old")
    timers.set(1.0, timer("old"))
    timers.set(1.0, timer("new"))

    assert [one.subject for one in timers.pop_due(5.0, 1)] == ["new"]


def test_pending_timers_can_be_listed() -> None:
    """All except stale ones; they still fire."""
    timers = Timers(lambda timer: timer.subject == "old")
    for name in ("old", "new"):
        timers.set(1.0, timer(name))

    assert [one.subject for one in timers.pending()] == ["new"]
    assert [one.subject for one in timers.pop_due(1.0, 10)] == ["new"]


def test_stale_timers_do_not_pile_up() -> None:
    """HA-3: a million retries leave a heap of valid timers."""
    stale: set[str] = set()
    timers = Timers(lambda timer: timer.subject in stale)
    for n in range(100_000):
        timers.set(float(n), timer(str(n)))
        if n >= 10:
            stale.add(str(n - 10))

    assert len(timers._heap) < 5_000
    assert len(timers.pop_due(1e9, 1_000_000)) == 10


def test_a_duration_counts_down_while_a_turn_is_open() -> None:
    """Otherwise a waiting loop would ask again and again until the next turn."""
    memory = ShardMemory("pool")
    memory.timers.advance(NOW)
    memory.timers.set_after(10.0, TimerKind.RETRY, "a")

    assert memory.timers.seconds_to_next(NOW) == 10.0
    assert memory.timers.seconds_to_next(NOW + timedelta(seconds=1)) == 9.0


def test_a_stall_counts_no_more_than_two_seconds() -> None:
    """A jump of the clock ends nothing."""
    memory = ShardMemory("pool")
    memory.timers.advance(NOW)
    memory.timers.set_after(10.0, TimerKind.RETRY, "a")

    assert memory.timers.seconds_to_next(NOW + timedelta(hours=1)) == 8.0
