"""Recent usage of tenants: the tie-breaker between equal shares (PLC-4).

A share is what a tenant has at an instant. With more tenants than leases, most of them have a share of zero: the
one with the least recent usage is next. Usage is a fraction of the pool times seconds, divided by the weight, so of
one lease for all each tenant gets its part of the time.

Unused time is not saved up: a tenant that was away starts about where the tenants are that are served now.
"""

from __future__ import annotations

from collections.abc import Iterable

from mainspring.core.model.resources import Resources, dominant_share

MIN_SECONDS = 0.01
"""Minimum duration that is charged for a lease, so that also tasks that take no time take turns."""
_DECAY = 0.99
_FEW = 1_000


class RecentUsage:
    """The recent usage of each tenant, at one priority."""

    def __init__(self) -> None:
        self._used: dict[str, float] = {}
        self._level = 0.0
        """The usage of the tenants that were served recently."""
        self._largest = 0.0
        """The largest recent charge for one lease: a tenant falls behind by that much without having been away."""
        self._most = _FEW

    def copy(self) -> RecentUsage:
        """Return an independent copy."""
        other = RecentUsage()
        other._used, other._level = dict(self._used), self._level
        other._largest, other._most = self._largest, self._most
        return other

    def of(self, tenant: str) -> float:
        """The usage of a tenant, comparable with others."""
        return self._used.get(tenant, 0.0)

    def add(self, tenant: str, resources: Resources, pool: Resources, *, seconds: float, weight: float) -> None:
        """Charge a tenant for a lease of this duration."""
        used = dominant_share(resources, pool) * (MIN_SECONDS + seconds) / weight
        least = self._level - self._largest
        self._used[tenant] = max(self._used.get(tenant, 0.0), least) + used
        self._largest = max(used, _DECAY * self._largest)
        if len(self._used) > self._most:
            self._used = {one: value for one, value in self._used.items() if value > least}
            self._most = max(_FEW, 2 * len(self._used))

    def serve(self, tenant: str) -> None:
        """Note that a tenant without leases was served: of all that waited it had the least usage."""
        self._level = max(self._level, self._used.get(tenant, 0.0))

    def least_used_first(self, tenants: Iterable[str]) -> list[str]:
        """Sort tenants by usage, least first; stable."""
        used = self._used
        return sorted(tenants, key=lambda tenant: used.get(tenant, 0.0))
