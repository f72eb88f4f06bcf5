"""Facts about quotas and usage of tenants."""

from __future__ import annotations

from mainspring.cli.options import Printing
from mainspring.cli.render.facts import format_when
from mainspring.cli.render.quantities import format_amounts, format_usage
from mainspring.cli.render.sharing_tables import QuotaRow, effective_quota, format_queued_counts, is_raised
from mainspring.client.client import Client
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.clock import SystemClock
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


def quota_facts(line: QuotaRow, printing: Printing) -> Facts:
    """Return facts about a quota and its usage."""
    now = SystemClock().wall()
    facts: Facts = [
        ("tenant", line.tenant),
        ("pool", line.pool or "all without a quota of their own"),
        *_limits(effective_quota(line, now)),
    ]
    if line.raised is not None and is_raised(line, now):
        facts += [
            ("override until", format_when(line.raised.until, printing)),
            ("override by", line.raised.by),
            ("override reason", line.raised.why),
            ("base quota", _format_quota(line.quota)),
        ]
    facts += [("booking", _format_booking(booking, printing)) for booking in line.bookings]
    facts += [
        ("updated", format_when(line.updated_at, printing) or "never (defaults)"),
        ("updated by", line.updated_by),
        *([] if line.use is None else use_facts(line.use)),
    ]
    return facts


def _format_booking(booking: BookingView, printing: Printing) -> str:
    """Format a booking on one line: `nightly: 16 cores for 2h 00m, 0 2 * * * UTC; active now`."""
    lead = f", lead {format_seconds(booking.lead_seconds)}" if booking.lead_seconds else ""
    when = f"next {format_when(booking.next_at, printing)}" if booking.next_at is not None else "no further windows"
    return (
        f"{booking.name}: {format_amounts(booking.guaranteed)} for {format_seconds(booking.seconds)}, {booking.cron} "
        f"{booking.zone}{lead}; {'active now' if booking.holds else when}"
    )


def use_facts(use: TenantUseView) -> Facts:
    """Return facts about a tenant's usage of a pool against its quota."""
    most = use.quota.max_tasks
    shared = f"{use.share:.0%}; fair share {use.fair_share:.0%} (weight {use.quota.weight:g})"
    return [
        (f"in pool {use.pool}", _format_running_tasks(use.running, most)),
        *format_usage(use.use, use.quota.guaranteed, use.quota.burst),
        ("share", shared if use.running or any(use.queued.values()) else None),
        ("on burst", "yes, may be reclaimed" if use.is_on_burst else None),
        ("queued", format_queued_counts(use.queued)),
        ("held by", use.blocked_by),
    ]


def _format_running_tasks(running: int, most: int | None) -> str:
    """Format the number of running tasks and their limit."""
    if most is not None:
        return f"{running} of {most} tasks running"
    return "1 task running" if running == 1 else f"{running} tasks running"


def grant_facts(grant: GrantView | None, printing: Printing) -> Facts:
    """Return facts about a tenant's P0 grant."""
    if grant is None:
        return []
    until = "until revoked" if grant.until is None else f"until {format_when(grant.until, printing)}"
    return [("P0", f"granted by {grant.by}, {until}"), ("P0 reason", grant.why)]


def _limits(quota: QuotaTerms) -> Facts:
    return [
        ("weight", f"{quota.weight:g}"),
        ("guaranteed", format_amounts(quota.guaranteed) or "nothing"),
        ("burst", format_amounts(quota.burst) or "unlimited"),
        ("tasks", "unlimited" if quota.max_tasks is None else f"{quota.max_tasks} at a time"),
        ("fan-out", quota.max_fan_out),
        ("failures", f"{quota.failures_per_hour:,} per hour before throttling"),
    ]


def _format_quota(quota: QuotaTerms) -> str:
    """Format a quota on one line."""
    parts = [
        f"{format_amounts(quota.guaranteed) or 'nothing'} guaranteed",
        f"{format_amounts(quota.burst) or 'unlimited'} burst",
        "" if quota.max_tasks is None else f"{quota.max_tasks} tasks",
    ]
    return "; ".join(filter(None, parts))
