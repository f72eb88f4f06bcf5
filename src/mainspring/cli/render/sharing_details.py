"""Facts about quotas and usage of tenants."""

from __future__ import annotations

from mainspring.cli.options import Printing
from mainspring.cli.render.facts import say_when
from mainspring.cli.render.quantities import say_amounts, say_use
from mainspring.cli.render.sharing_tables import QuotaLine, held, is_raised, say_waiting
from mainspring.client.client import Client
from mainspring.definitions.quantities import say_seconds
from mainspring.protocol.clock import MachineClock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.sharing import BookingView, GrantView, QuotaTerms, TenantUseView

Facts = list[tuple[str, str | int | None]]


def read_use(client: Client, tenant: str, pool: str | None) -> TenantUseView | None:
    """Fetch the usage of a tenant in a pool; None if the pool has no leader."""
    try:
        return client.tenant_use(tenant, pool)
    except Unavailable:
        # Only the leader knows the usage; show the rest without it.
        return None


def quota_facts(line: QuotaLine, printing: Printing) -> Facts:
    """Return facts about a quota and its usage."""
    now = MachineClock().wall()
    facts: Facts = [
        ("tenant", line.tenant),
        ("pool", line.pool or "all without a quota of their own"),
        *_limits(held(line, now)),
    ]
    if line.raised is not None and is_raised(line, now):
        facts += [
            ("override until", say_when(line.raised.until, printing)),
            ("override by", line.raised.by),
            ("override reason", line.raised.why),
            ("base quota", _said(line.quota)),
        ]
    facts += [("booking", _say_booking(booking, printing)) for booking in line.bookings]
    facts += [
        ("updated", say_when(line.updated_at, printing) or "never (defaults)"),
        ("updated by", line.updated_by),
        *([] if line.use is None else use_facts(line.use)),
    ]
    return facts


def _say_booking(booking: BookingView, printing: Printing) -> str:
    """Format a booking on one line: `nightly: 16 cores for 2h 00m, 0 2 * * * UTC; active now`."""
    lead = f", lead {say_seconds(booking.lead_seconds)}" if booking.lead_seconds else ""
    when = f"next {say_when(booking.next_at, printing)}" if booking.next_at is not None else "no further windows"
    return (
        f"{booking.name}: {say_amounts(booking.guaranteed)} for {say_seconds(booking.seconds)}, {booking.cron} "
        f"{booking.zone}{lead}; {'active now' if booking.holds else when}"
    )


def use_facts(use: TenantUseView) -> Facts:
    """Return facts about a tenant's usage of a pool against its quota."""
    most = use.quota.max_tasks
    shared = f"{use.share:.0%}; fair share {use.entitled:.0%} (weight {use.quota.weight:g})"
    return [
        (f"in pool {use.pool}", _say_rooms(use.rooms, most)),
        *say_use(use.use, use.quota.guaranteed, use.quota.burst),
        ("share", shared if use.rooms or any(use.queued.values()) else None),
        ("on burst", "yes, may be reclaimed" if use.is_on_burst else None),
        ("queued", say_waiting(use.queued)),
        ("held by", use.blocked_by),
    ]


def _say_rooms(rooms: int, most: int | None) -> str:
    """Format the number of running tasks and their limit."""
    if most is not None:
        return f"{rooms} of {most} tasks running"
    return "1 task running" if rooms == 1 else f"{rooms} tasks running"


def grant_facts(grant: GrantView | None, printing: Printing) -> Facts:
    """Return facts about a tenant's P0 grant."""
    if grant is None:
        return []
    until = "until revoked" if grant.until is None else f"until {say_when(grant.until, printing)}"
    return [("P0", f"granted by {grant.by}, {until}"), ("P0 reason", grant.why)]


def _limits(quota: QuotaTerms) -> Facts:
    return [
        ("weight", f"{quota.weight:g}"),
        ("guaranteed", say_amounts(quota.guaranteed) or "nothing"),
        ("burst", say_amounts(quota.burst) or "unlimited"),
        ("tasks", "unlimited" if quota.max_tasks is None else f"{quota.max_tasks} at a time"),
        ("fan-out", quota.max_fan_out),
        ("failures", f"{quota.failures_per_hour:,} per hour before throttling"),
    ]


def _said(quota: QuotaTerms) -> str:
    """Format a quota on one line."""
    parts = [
        f"{say_amounts(quota.guaranteed) or 'nothing'} guaranteed",
        f"{say_amounts(quota.burst) or 'unlimited'} burst",
        "" if quota.max_tasks is None else f"{quota.max_tasks} tasks",
    ]
    return "; ".join(filter(None, parts))
