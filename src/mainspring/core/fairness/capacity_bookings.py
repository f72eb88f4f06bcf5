"""Capacity bookings: a larger guarantee of a tenant in a pool at recurring times (PLC-11).

    02:00 - lead                02:00                            02:00 + length
    |<-- others are reclaimed ->|<------- the tenant's own window -------->|
    the guarantee is larger during all of this; the rest of the quota is unchanged

Capacity comes back by the same rules as any guarantee (PLC-5): tenants on burst give it back within a grace period,
which `lead` has to cover.

1. A booking never lowers a guarantee: for each resource the largest one applies.
2. It begins and ends with whole seconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

import msgspec

from mainspring.core.admission.validate_job import Faults, check_name
from mainspring.core.model.resources import ZERO_RESOURCES, Resources, largest_of
from mainspring.core.schedules.cron import expression as cron
from mainspring.core.schedules.cron.occurrences import next_after, previous_before
from mainspring.core.schedules.time_zones import INSTANT, find_zone, to_instant, to_seconds, zone_fault

MAX_BOOKINGS = 20
"""Per tenant and pool."""
MIN_SECONDS = 60
MAX_SECONDS = 7 * 86_400
MAX_LEAD_SECONDS = 86_400


class Booking(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A booking of one tenant in one pool."""

    name: str
    cron: str
    zone: str
    seconds: int
    """Duration of a window."""
    lead_seconds: int = 0
    """How much earlier the guarantee applies."""
    guaranteed: Resources
    """In total, not in addition to the quota's guarantee."""
    by: str = ""
    why: str = ""

    def holds_at(self, now: datetime) -> bool:
        """Return whether it applies at an instant."""
        return _holds(self.cron, self.zone, self.seconds, self.lead_seconds, to_seconds(now))

    def next_at(self, now: datetime) -> datetime | None:
        """Return when the next window begins; None if there is none."""
        zone = find_zone(self.zone)
        return None if zone is None else next_after(cron.parse(self.cron), zone, now)

    def changes_at(self, now: datetime) -> datetime | None:
        """The next time at which it begins or ends to apply."""
        zone, lead = find_zone(self.zone), timedelta(seconds=self.lead_seconds)
        if zone is None:
            return None
        if self.holds_at(now):
            window = previous_before(cron.parse(self.cron), zone, now + lead + INSTANT)
            return None if window is None else window + timedelta(seconds=self.seconds)
        window = next_after(cron.parse(self.cron), zone, now + lead)
        return None if window is None else window - lead


def largest(promised: Resources, bookings: tuple[Booking, ...], now: datetime) -> Resources:
    """The guarantee at an instant, including bookings."""
    held = [booking.guaranteed for booking in bookings if booking.holds_at(now)]
    return largest_of((promised, *held)) if held else promised


def check(booking: Booking, now: datetime, faults: Faults) -> None:
    """Validate a booking."""
    check_name(booking.name, "name", faults)
    if not MIN_SECONDS <= booking.seconds <= MAX_SECONDS:
        faults.add("seconds", f"must be from {MIN_SECONDS} to {MAX_SECONDS}: at least a minute, at most a week")
    if not 0 <= booking.lead_seconds <= MAX_LEAD_SECONDS:
        faults.add("lead_seconds", f"must be from 0 to {MAX_LEAD_SECONDS}: at most a day")
    if booking.guaranteed == ZERO_RESOURCES:
        faults.add("guaranteed", "must reserve at least one resource")
    fault = zone_fault(booking.zone)
    faults.add("zone", fault)
    invalid = cron.faults_in(booking.cron)
    for why in invalid:
        faults.add("cron", why)
    if not invalid and fault is None:
        _check_windows(booking, now, faults)


def _check_windows(booking: Booking, now: datetime, faults: Faults) -> None:
    """There must be windows, and they must not touch: a permanent booking is a quota."""
    first = booking.next_at(now)
    second = None if first is None else booking.next_at(first)
    if first is None:
        faults.add("cron", "has no future window")
    elif second is not None and (second - first).total_seconds() <= booking.seconds + booking.lead_seconds:
        distance = (second - first).total_seconds()
        why = f"its windows would overlap: duration plus lead must be less than {distance:.0f}, their distance"
        faults.add("seconds", why)


# Asked for each lease of such a tenant: all calls within a second have one answer.
@lru_cache(maxsize=4_096)
def _holds(expression: str, zone_name: str, seconds: int, lead_seconds: int, second: int) -> bool:
    zone = find_zone(zone_name)
    if zone is None:
        return False
    last = previous_before(cron.parse(expression), zone, to_instant(second + lead_seconds) + INSTANT)
    return last is not None and to_seconds(last) + seconds > second
