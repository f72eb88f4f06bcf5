"""The budget of read-only introspection on leaders."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mainspring.host.introspection_budget import MOST_SECONDS, PART, Looks
from mainspring.protocol.errors import Overloaded
from tests.host.virtual import VirtualClock


class ToldClock(VirtualClock):
    """A clock that the test sets."""

    now = 0.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


@pytest.fixture
def clock() -> ToldClock:
    """A clock at zero."""
    return ToldClock()


def take(looks: Looks, clock: ToldClock, seconds: float) -> None:
    """Charge a number of seconds."""
    with looks.charge():
        clock.pass_seconds(seconds)


def test_introspection_is_admitted_until_the_debt_is_too_large(clock: ToldClock) -> None:
    looks = Looks(clock)
    take(looks, clock, MOST_SECONDS)
    take(looks, clock, 0.5)
    with pytest.raises(Overloaded) as refused, looks.charge():
        raise AssertionError
    wait = refused.value.retry_after_seconds
    assert wait is not None
    clock.pass_seconds(wait + 0.01)
    take(looks, clock, 0.1)


def test_in_the_long_run_introspection_gets_its_share(clock: ToldClock) -> None:
    """With requests that are repeated at once."""
    looks, used, began = Looks(clock), 0.0, clock.monotonic()
    for _ in range(2_000):
        try:
            take(looks, clock, 0.1)
            used += 0.1
        except Overloaded:
            clock.pass_seconds(0.05)
    assert used < PART * (clock.monotonic() - began) + 2 * MOST_SECONDS


def test_failed_introspection_is_charged_too(clock: ToldClock) -> None:
    looks = Looks(clock)
    with suppress(ZeroDivisionError), looks.charge():
        clock.pass_seconds(2 * MOST_SECONDS)
        raise ZeroDivisionError
    with pytest.raises(Overloaded), looks.charge():
        raise AssertionError
