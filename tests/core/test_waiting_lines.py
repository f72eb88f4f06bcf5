"""Whoever waits as told is let in, and nobody waits longer for asking often (ADM-4)."""

from __future__ import annotations

import pytest

from mainspring.core.admission.retry_after_slots import LATE_SECONDS, LONGEST_WAIT_SECONDS, WaitingLine

GAP = 0.1


def tell(line: WaitingLine, who: str, now: float, soonest: float = 0.0) -> float:
    """When somebody is told to come, to a limit of which nothing is left."""
    return line.tell(who, now, soonest=soonest or now + 0.4, gap=GAP, period=1.0)


def test_slots_are_assigned_when_capacity_is_free_and_then_one_after_another() -> None:
    """At the same moment, five of them."""
    line = WaitingLine()
    assert [tell(line, who, 10.0) for who in "abcde"] == pytest.approx([10.4, 11.0, 11.1, 11.2, 11.3])


def test_an_early_client_gets_the_same_slot() -> None:
    """However often."""
    line = WaitingLine()
    told = {who: tell(line, who, 10.0) for who in "ab"}
    for now in (10.1, 10.2, 10.3):
        assert {who: tell(line, who, now) for who in "ab"} == told


def test_a_client_on_time_goes_before_new_clients() -> None:
    """And whoever comes too early does not."""
    line = WaitingLine()
    tell(line, "a", 10.0)
    tell(line, "b", 10.0)
    assert line.stands_before("new", 10.5)
    assert line.stands_before("b", 10.5)
    assert not line.stands_before("a", 10.5)
    line.leave("a")
    line.leave("b")
    assert not line.stands_before("new", 10.5)


def test_a_slot_is_valid_for_whole_seconds_and_expires() -> None:
    """Whoever never comes is in nobody's way after that."""
    line = WaitingLine()
    told = tell(line, "a", 10.0)
    assert line.stands_before("new", told + LATE_SECONDS)
    assert line.is_due("a", told + LATE_SECONDS)
    assert not line.stands_before("new", told + LATE_SECONDS + 0.01)


def test_a_client_on_time_without_capacity_gets_the_next_slot() -> None:
    """They don't go to the end of the line."""
    line = WaitingLine()
    for who in "abcdefgh":
        tell(line, who, 10.0)
    assert tell(line, "a", 10.4, soonest=10.45) == pytest.approx(10.45)


def test_retry_after_is_at_most_a_minute() -> None:
    """Of a limit of one in ten seconds."""
    line = WaitingLine()
    told = [line.tell(str(one), 10.0, soonest=11.0, gap=10.0, period=1.0) for one in range(20)]
    assert max(told) == 10.0 + LONGEST_WAIT_SECONDS
