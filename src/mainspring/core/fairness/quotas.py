"""Quotas: the guarantee of a tenant in a pool, and the limit of its use there (ADM-5, PLC-5).

    |<-- guaranteed -->|<------- burst ------->|
    never waits for        from spare capacity,     beyond: waits, whatever is free
    another's burst        reclaimable

1. A quota counts in one pool: a guarantee needs capacity that backs it. One for the pool "" applies in every pool that
   has none of its own for that tenant.
2. A tenant's use is the sum of its live leases there; a group of short tasks counts once.
3. P0 ignores quotas (PLC-4), but its use counts.
4. Only listed resources count: a guarantee of 8 cores does not limit memory.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.fairness.capacity_bookings import Booking, largest
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources


class Ceiling(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Limits per resource; None: unlimited."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    disk_bytes: int | None = None


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The quota of one tenant in one pool."""

    weight: float = 1.0
    """Its weight in fair sharing."""
    max_tasks: int | None = None
    """Limit of running tasks. A group of short tasks that share one lease counts once."""
    guaranteed: Resources = ZERO_RESOURCES
    burst: Ceiling = Ceiling()
    """Limit beyond the guarantee."""
    max_fan_out: int | None = None
    """Limit of the size of a fan-out, if a job allows more."""
    failures_per_hour: int = 1_000
    """Failed tasks per hour from which on the tenant is throttled."""


DEFAULT_QUOTA = Quota()


class QuotaOverride(msgspec.Struct, frozen=True, kw_only=True):
    """A temporary quota (OPS-2)."""

    quota: Quota
    until: datetime
    by: str
    why: str


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's quota in a pool. The fields are the columns of `quotas`, in the same order."""

    tenant: str
    pool: str
    """Empty: every pool that has none of its own."""
    quota: Quota
    raised: QuotaOverride | None
    version: int
    updated_at: datetime
    updated_by: str
    bookings: tuple[Booking, ...] = ()
    """Times at which more is guaranteed (PLC-11)."""

    def at(self, now: datetime) -> Quota:
        """Return the quota that applies at an instant."""
        held = self.raised.quota if self.raised is not None and now < self.raised.until else self.quota
        if not self.bookings:
            return held
        guaranteed = largest(held.guaranteed, self.bookings, now)
        return held if guaranteed is held.guaranteed else msgspec.structs.replace(held, guaranteed=guaranteed)

    def may_have_guarantee(self) -> bool:
        """Return whether anything is guaranteed at any time."""
        raised = () if self.raised is None else (self.raised.quota,)
        return bool(self.bookings) or any(quota.guaranteed != ZERO_RESOURCES for quota in (self.quota, *raised))

    def changes_at(self, now: datetime) -> datetime | None:
        """Earliest time at which the quota may change without an action; None if never."""
        ends = [None if self.raised is None else self.raised.until]
        ends += [booking.changes_at(now) for booking in self.bookings]
        return min((end for end in ends if end is not None and end > now), default=None)


class P0Grant(msgspec.Struct, frozen=True, kw_only=True):
    """Permission of a tenant to use P0 (ADM-3). The fields are the columns of `p0_grants`, in the same order."""

    tenant: str
    by: str
    why: str
    since: datetime
    until: datetime | None
    """None: until it is revoked."""

    def holds_at(self, now: datetime) -> bool:
        """Return whether it is in force at an instant."""
        return self.until is None or now < self.until


def is_guaranteed(quota: Quota, use: Resources) -> bool:
    """Return whether a tenant that uses this much is within its guarantee."""
    if quota.guaranteed == ZERO_RESOURCES:
        return False
    promised = [name for name in NAMES if getattr(quota.guaranteed, name)]
    return bool(promised) and all(getattr(use, name) <= getattr(quota.guaranteed, name) for name in promised)


def excess(quota: Quota, use: Resources, tasks: int) -> str | None:
    """The limit of its quota that a tenant with this usage and number of leases exceeds; None if it is within all."""
    if quota.max_tasks is not None and tasks > quota.max_tasks:
        return "max_tasks"
    for name in NAMES:
        most = getattr(quota.burst, name)
        if most is not None and getattr(use, name) > getattr(quota.guaranteed, name) + most:
            return name
    return None


def zero_limit(quota: Quota) -> str | None:
    """The limit under which no ordinary task could ever start; None if there is none.

    Devices and disk are not checked: most work asks for neither.
    """
    if quota.max_tasks == 0:
        return "max_tasks"
    for name in ("cpu_millis", "memory_bytes"):
        if getattr(quota.burst, name) == 0 and not getattr(quota.guaranteed, name):
            return name
    return None
