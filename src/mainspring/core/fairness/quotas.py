"""What a tenant is promised in a pool, and what it may use there (ADM-5, PLC-5).

    |<-- guaranteed -->|<------- burst ------->|
    never waits for        from what is spare,       beyond: waits, whatever is free
    another's burst        given back if asked

1. A quota counts in one pool: a guarantee means something only where there is room to keep it with. One for the pool ""
   holds in every pool that has none of its own for that tenant.
2. What a tenant uses is the sum over its live leases there; a group of short tasks counts once.
3. P0 waits for no quota (PLC-4), and its use counts all the same.
4. Only what is said counts: a guarantee of 8 cores says nothing of memory.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.fairness.capacity_bookings import Booking, largest
from mainspring.core.model.resources import NAMES, NOTHING, Resources


class Ceiling(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The most of each resource; None: as much as there is."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None
    gpus: int | None = None
    disk_bytes: int | None = None


class Quota(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one tenant is promised and allowed in one pool."""

    weight: float = 1.0
    """Its part of what is shared, against the weights of the others."""
    max_tasks: int | None = None
    """At a time. A group of short tasks that share one room is one of them."""
    guaranteed: Resources = NOTHING
    burst: Ceiling = Ceiling()
    """Beyond what is guaranteed."""
    max_fan_out: int | None = None
    """The most that one fan-out may make, if a job allows more."""
    failures_per_hour: int = 1_000
    """Failed tasks after which the tenant is throttled until there are fewer."""


USUAL_QUOTA = Quota()


class Raise(msgspec.Struct, frozen=True, kw_only=True):
    """Another quota for a while (OPS-2)."""

    quota: Quota
    until: datetime
    by: str
    why: str


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's quota in a pool, as somebody set it. The fields are the columns of `quotas`, in the same order."""

    tenant: str
    pool: str
    """Empty: every pool that has none of its own."""
    quota: Quota
    raised: Raise | None
    version: int
    updated_at: datetime
    updated_by: str
    bookings: tuple[Booking, ...] = ()
    """When more is guaranteed than at other times (PLC-11)."""

    def at(self, now: datetime) -> Quota:
        """What holds at an instant."""
        held = self.raised.quota if self.raised is not None and now < self.raised.until else self.quota
        if not self.bookings:
            return held
        guaranteed = largest(held.guaranteed, self.bookings, now)
        return held if guaranteed is held.guaranteed else msgspec.structs.replace(held, guaranteed=guaranteed)

    def may_guarantee(self) -> bool:
        """Whether anything is guaranteed at any time."""
        raised = () if self.raised is None else (self.raised.quota,)
        return bool(self.bookings) or any(quota.guaranteed != NOTHING for quota in (self.quota, *raised))

    def changes_at(self, now: datetime) -> datetime | None:
        """When something else may hold by itself, at the earliest; None if that never happens."""
        ends = [None if self.raised is None else self.raised.until]
        ends += [booking.changes_at(now) for booking in self.bookings]
        return min((end for end in ends if end is not None and end > now), default=None)


class P0Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant may ask for P0 (ADM-3). The fields are the columns of `p0_grants`, in the same order."""

    tenant: str
    by: str
    why: str
    since: datetime
    until: datetime | None
    """None: until it is taken back."""

    def holds_at(self, now: datetime) -> bool:
        """Whether it counts at an instant."""
        return self.until is None or now < self.until


def is_guaranteed(quota: Quota, use: Resources) -> bool:
    """Whether a tenant that uses this much stays within its guarantee."""
    if quota.guaranteed == NOTHING:
        return False
    promised = [name for name in NAMES if getattr(quota.guaranteed, name)]
    return bool(promised) and all(getattr(use, name) <= getattr(quota.guaranteed, name) for name in promised)


def excess(quota: Quota, use: Resources, tasks: int) -> str | None:
    """Which limit of its quota a tenant that uses this much, in so many rooms, is beyond; None if it is within all."""
    if quota.max_tasks is not None and tasks > quota.max_tasks:
        return "max_tasks"
    for name in NAMES:
        most = getattr(quota.burst, name)
        if most is not None and getattr(use, name) > getattr(quota.guaranteed, name) + most:
            return name
    return None


def shuts_out(quota: Quota) -> str | None:
    """The limit under which nothing that asks for anything could ever start; None if there is none.

    Devices and disk are not among them: most work asks for neither.
    """
    if quota.max_tasks == 0:
        return "max_tasks"
    for name in ("cpu_millis", "memory_bytes"):
        if getattr(quota.burst, name) == 0 and not getattr(quota.guaranteed, name):
            return name
    return None
