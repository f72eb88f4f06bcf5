"""Retry-After slots: clients that come back on time are admitted, and polling delays no other client (ADM-4)."""

from __future__ import annotations

import pytest

from mainspring.core.admission.retry_after_slots import LATE_SECONDS, MAX_WAIT_SECONDS, RetryAfterSlots

GAP = 0.1


def tell(line: RetryAfterSlots, who: str, now: float, earliest: float = 0.0) -> float:
    """Assign a slot of a limit that is used up."""
    return line.tell(who, now, earliest=earliest or now + 0.4, gap=GAP, period=1.0)


def test_slots_are_assigned_when_capacity_is_free_and_then_one_after_another() -> None:
    """At the same moment, five of them."""
    line = RetryAfterSlots()
    assert [tell(line, who, 10.0) for who in "abcde"] == pytest.approx([10.4, 11.0, 11.1, 11.2, 11.3])


def test_an_early_client_gets_the_same_slot() -> None:
    """With any frequency."""
    line = RetryAfterSlots()
    slot = {who: tell(line, who, 10.0) for who in "ab"}
    for now in (10.1, 10.2, 10.3):
        assert {who: tell(line, who, now) for who in "ab"} == slot


def test_a_client_on_time_goes_before_new_clients() -> None:
    """A client that comes too early is not admitted."""
    line = RetryAfterSlots()
    tell(line, "a", 10.0)
    tell(line, "b", 10.0)
    assert line.is_ahead_of("new", 10.5)
    assert line.is_ahead_of("b", 10.5)
    assert not line.is_ahead_of("a", 10.5)
    line.leave("a")
    line.leave("b")
    assert not line.is_ahead_of("new", 10.5)


def test_a_slot_is_valid_for_whole_seconds_and_expires() -> None:
    """A client that never comes back delays no other client."""
    line = RetryAfterSlots()
    slot = tell(line, "a", 10.0)
    assert line.is_ahead_of("new", slot + LATE_SECONDS)
    assert line.is_due("a", slot + LATE_SECONDS)
    assert not line.is_ahead_of("new", slot + LATE_SECONDS + 0.01)


def test_a_client_on_time_without_capacity_gets_the_next_slot() -> None:
    """They don't go to the end of the line."""
    line = RetryAfterSlots()
    for who in "abcdefgh":
        tell(line, who, 10.0)
    assert tell(line, "a", 10.4, earliest=10.45) == pytest.approx(10.45)


def test_retry_after_is_at_most_a_minute() -> None:
    """Of a limit of one in ten seconds."""
    line = RetryAfterSlots()
    slot = [line.tell(str(one), 10.0, earliest=11.0, gap=10.0, period=1.0) for one in range(20)]
    assert max(slot) == 10.0 + MAX_WAIT_SECONDS
