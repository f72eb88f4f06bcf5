"""The clocks of the simulation: that of the hosts is the loop's, that of the store may run differently."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from mainspring.simulation.inprocess.virtual_time import VirtualClock
from tests.sim.loop import VirtualLoop

BEGINNING = datetime(2026, 3, 1, tzinfo=UTC)


class HostClock(VirtualClock):
    """What a host has: monotonic time, and nothing that tells the date."""

    def wall(self) -> datetime:
        """Hosts have no wall clock."""
        raise AssertionError("a host asked for the wall clock")


class StoreClock(VirtualClock):
    """The store's clock: another rate, and jumps."""

    def __init__(self, loop: VirtualLoop, rate: float) -> None:
        super().__init__(BEGINNING, loop)
        self._rate = rate
        self._shift = 0.0
        self.jumps: list[float] = []
        """When it jumped, by the loop's time."""

    def wall(self) -> datetime:
        """The store's time."""
        return BEGINNING + timedelta(seconds=self.monotonic() * self._rate + self._shift)

    def jump(self, seconds: float) -> None:
        """Go forward or back at once."""
        self._shift += seconds
        self.jumps.append(self.monotonic())
