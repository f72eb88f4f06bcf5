"""What tenants had of late, for those who have equal shares now (PLC-4).

A share is what a tenant has at an instant. Where there are more tenants than rooms most have nothing, and are equal in
that: whoever had least before is next. What a tenant had is a part of the pool times seconds, divided by its weight, so
of one room for all each gets its part of the time.

Nobody saves up: a tenant that was away begins about where those are who are served now.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.model.resources import Resources, dominant_share

LEAST_SECONDS = 0.01
"""To have had a room at all counts as so long: also tasks that take no time go round."""
_FADES = 0.99
_FEW = 1_000


class PastUse:
    """What each tenant had, at one priority."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._level = 0.0
        """What they had who were served of late."""
        self._largest = 0.0
        """What one room came to at most, of late: whoever has a room falls behind by so much without having been away.
        """
        self._most = _FEW

    def copy(self) -> PastUse:
        """The same, apart."""
        other = PastUse()
        other._had, other._level = dict(self._had), self._level
        other._largest, other._most = self._largest, self._most
        return other

    def of(self, tenant: str) -> float:
        """What a tenant had, to be compared with others."""
        return self._had.get(tenant, 0.0)

    def add(self, tenant: str, room: Resources, pool: Resources, *, seconds: float, weight: float) -> None:
        """A tenant had a room for so long."""
        had = dominant_share(room, pool) * (LEAST_SECONDS + seconds) / weight
        least = self._level - self._largest
        self._had[tenant] = max(self._had.get(tenant, 0.0), least) + had
        self._largest = max(had, _FADES * self._largest)
        if len(self._had) > self._most:
            self._had = {one: value for one, value in self._had.items() if value > least}
            self._most = max(_FEW, 2 * len(self._had))

    def serve(self, tenant: str) -> None:
        """A tenant that had nothing has a room now: of all that waited it had least."""
        self._level = max(self._level, self._had.get(tenant, 0.0))

    def least_first(self, tenants: Iterable[str]) -> list[str]:
        """These, whoever had least first, and in their order those who had as much."""
        had = self._had
        return sorted(tenants, key=lambda tenant: had.get(tenant, 0.0))
