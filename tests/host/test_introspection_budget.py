"""The budget of read-only introspection on leaders."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mainspring.host.introspection_budget import MAX_DEBT_SECONDS, SHARE, IntrospectionBudget
from mainspring.protocol.errors import Overloaded
from mainspring.simulation.inprocess.virtual_time import VirtualClock


class ManualClock(VirtualClock):
    """A clock that the test sets."""

    now = 0.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return self.now

    def pass_seconds(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds


@pytest.fixture
def clock() -> ManualClock:
    """A clock at zero."""
    return ManualClock()


def take(introspection_budget: IntrospectionBudget, clock: ManualClock, seconds: float) -> None:
    """Charge a number of seconds."""
    with introspection_budget.charge():
        clock.pass_seconds(seconds)


def test_introspection_is_admitted_until_the_debt_is_too_large(clock: ManualClock) -> None:
    introspection_budget = IntrospectionBudget(clock)
    take(introspection_budget, clock, MAX_DEBT_SECONDS)
    take(introspection_budget, clock, 0.5)
    with pytest.raises(Overloaded) as refused, introspection_budget.charge():
        raise AssertionError
    wait = refused.value.retry_after_seconds
    assert wait is not None
    clock.pass_seconds(wait + 0.01)
    take(introspection_budget, clock, 0.1)


def test_in_the_long_run_introspection_gets_its_share(clock: ManualClock) -> None:
    """With requests that are repeated at once."""
    introspection_budget, used, began = IntrospectionBudget(clock), 0.0, clock.monotonic()
    for _ in range(2_000):
        try:
            take(introspection_budget, clock, 0.1)
            used += 0.1
        except Overloaded:
            clock.pass_seconds(0.05)
    assert used < SHARE * (clock.monotonic() - began) + 2 * MAX_DEBT_SECONDS


def test_failed_introspection_is_charged_too(clock: ManualClock) -> None:
    introspection_budget = IntrospectionBudget(clock)
    with suppress(ZeroDivisionError), introspection_budget.charge():
        clock.pass_seconds(2 * MAX_DEBT_SECONDS)
        raise ZeroDivisionError
    with pytest.raises(Overloaded), introspection_budget.charge():
        raise AssertionError
