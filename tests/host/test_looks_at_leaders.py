"""Whoever only looks gets a part of a leader's time, and is told when there is more."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mainspring.host.introspection_budget import MOST_SECONDS, PART, Looks
from mainspring.protocol.errors import Overloaded
from tests.host.virtual import VirtualClock


class ToldClock(VirtualClock):
    """A clock that is told what time it is."""

    now = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """So much later."""
        self.now += seconds


@pytest.fixture
def clock() -> ToldClock:
    """Nothing has happened yet."""
    return ToldClock()


def take(looks: Looks, clock: ToldClock, seconds: float) -> None:
    """A look that takes so long."""
    with looks.charge():
        clock.pass_seconds(seconds)


def test_looks_are_let_in_until_they_have_taken_too_much(clock: ToldClock) -> None:
    looks = Looks(clock)
    take(looks, clock, MOST_SECONDS)
    take(looks, clock, 0.5)
    with pytest.raises(Overloaded) as refused, looks.charge():
        raise AssertionError
    wait = refused.value.retry_after_seconds
    assert wait is not None
    clock.pass_seconds(wait + 0.01)
    take(looks, clock, 0.1)


def test_in_the_long_run_they_have_their_part(clock: ToldClock) -> None:
    """Somebody asks again and again, whatever the answer is."""
    looks, used, began = Looks(clock), 0.0, clock.monotonic()
    for _ in range(2_000):
        try:
            take(looks, clock, 0.1)
            used += 0.1
        except Overloaded:
            clock.pass_seconds(0.05)
    assert used < PART * (clock.monotonic() - began) + 2 * MOST_SECONDS


def test_a_look_that_fails_counts_too(clock: ToldClock) -> None:
    looks = Looks(clock)
    with suppress(ZeroDivisionError), looks.charge():
        clock.pass_seconds(2 * MOST_SECONDS)
        raise ZeroDivisionError
    with pytest.raises(Overloaded), looks.charge():
        raise AssertionError
