"""Recent usage of tenants: the tie-breaker between equal shares (PLC-4).

A share is what a tenant has at an instant. With more tenants than leases most have nothing, and are equal in that: the
one with the least recent usage is next. Usage is a fraction of the pool times seconds, divided by the weight, so of
one lease for all each tenant gets its part of the time.

Unused time is not saved up: a tenant that was away starts about where the tenants are that are served now.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.model.resources import Resources, dominant_share

LEAST_SECONDS = 0.01
"""Minimum duration that is charged for a lease, so that also tasks that take no time take turns."""
_FADES = 0.99
_FEW = 1_000


class PastUse:
    """The recent usage of each tenant, at one priority."""

    def __init__(self) -> None:
        self._had: dict[str, float] = {}
        self._level = 0.0
        """The usage of the tenants that were served recently."""
        self._largest = 0.0
        """The largest recent charge for one lease: a tenant falls behind by that much without having been away."""
        self._most = _FEW

    def copy(self) -> PastUse:
        """Return an independent copy."""
        other = PastUse()
        other._had, other._level = dict(self._had), self._level
        other._largest, other._most = self._largest, self._most
        return other

    def of(self, tenant: str) -> float:
        """The usage of a tenant, comparable with others."""
        return self._had.get(tenant, 0.0)

    def add(self, tenant: str, room: Resources, pool: Resources, *, seconds: float, weight: float) -> None:
        """Charge a tenant for a lease of this duration."""
        had = dominant_share(room, pool) * (LEAST_SECONDS + seconds) / weight
        least = self._level - self._largest
        self._had[tenant] = max(self._had.get(tenant, 0.0), least) + had
        self._largest = max(had, _FADES * self._largest)
        if len(self._had) > self._most:
            self._had = {one: value for one, value in self._had.items() if value > least}
            self._most = max(_FEW, 2 * len(self._had))

    def serve(self, tenant: str) -> None:
        """Note that a tenant without leases was served: of all that waited it had the least usage."""
        self._level = max(self._level, self._had.get(tenant, 0.0))

    def least_first(self, tenants: Iterable[str]) -> list[str]:
        """Sort tenants by usage, least first; stable."""
        had = self._had
        return sorted(tenants, key=lambda tenant: had.get(tenant, 0.0))
