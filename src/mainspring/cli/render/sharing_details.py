"""What tenants use, and may use, in facts for people."""

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
    """What a tenant uses of a pool; None if nobody leads the pool now."""
    try:
        return client.tenant_use(tenant, pool)
    except Unavailable:
        # Who leads the pool counts what is in use. What was asked for can be shown without it.
        return None


def quota_facts(line: QuotaLine, printing: Printing) -> Facts:
    """A quota, and what is used of it."""
    now = MachineClock().wall()
    facts: Facts = [
        ("tenant", line.tenant),
        ("pool", line.pool or "every one without a quota of its own"),
        *_limits(held(line, now)),
    ]
    if line.raised is not None and is_raised(line, now):
        facts += [
            ("raised until", say_when(line.raised.until, printing)),
            ("raised by", line.raised.by),
            ("raised because", line.raised.why),
            ("then again", _said(line.quota)),
        ]
    facts += [("booked", _say_booking(booking, printing)) for booking in line.bookings]
    facts += [
        ("set", say_when(line.updated_at, printing) or "never: it is as for everybody"),
        ("set by", line.updated_by),
        *([] if line.use is None else use_facts(line.use)),
    ]
    return facts


def _say_booking(booking: BookingView, printing: Printing) -> str:
    """What is booked, in one line: `nightly: 16 cores for 2h 00m, 0 2 * * * UTC, holds now`."""
    lead = f", from {say_seconds(booking.lead_seconds)} before" if booking.lead_seconds else ""
    when = f"next {say_when(booking.next_at, printing)}" if booking.next_at is not None else "and never again"
    return (
        f"{booking.name}: {say_amounts(booking.guaranteed)} for {say_seconds(booking.seconds)}, {booking.cron} "
        f"{booking.zone}{lead}; {'holds now' if booking.holds else when}"
    )


def use_facts(use: TenantUseView) -> Facts:
    """What a tenant uses of a pool, against its quota there."""
    most = use.quota.max_tasks
    shared = f"{use.share:.0%}; a weight of {use.quota.weight:g} entitles it to {use.entitled:.0%} now"
    return [
        (f"in pool {use.pool}", _say_rooms(use.rooms, most)),
        *say_use(use.use, use.quota.guaranteed, use.quota.burst),
        ("share", shared if use.rooms or any(use.queued.values()) else None),
        ("on burst", "yes: it may have to give some of it back" if use.is_on_burst else None),
        ("queued", say_waiting(use.queued)),
        ("held by", use.blocked_by),
    ]


def _say_rooms(rooms: int, most: int | None) -> str:
    """How many tasks run, of how many that may."""
    if most is not None:
        return f"{rooms} of {most} tasks run"
    return "1 task runs" if rooms == 1 else f"{rooms} tasks run"


def grant_facts(grant: GrantView | None, printing: Printing) -> Facts:
    """Whether a tenant may ask for P0."""
    if grant is None:
        return []
    until = "until it is taken back" if grant.until is None else f"until {say_when(grant.until, printing)}"
    return [("P0", f"granted by {grant.by}, {until}"), ("P0 because", grant.why)]


def _limits(quota: QuotaTerms) -> Facts:
    return [
        ("weight", f"{quota.weight:g}"),
        ("guaranteed", say_amounts(quota.guaranteed) or "nothing"),
        ("burst", say_amounts(quota.burst) or "as much as there is"),
        ("tasks", "without a limit" if quota.max_tasks is None else f"{quota.max_tasks} at a time"),
        ("fan-out", quota.max_fan_out),
        ("failures", f"{quota.failures_per_hour:,} an hour, then it is throttled"),
    ]


def _said(quota: QuotaTerms) -> str:
    """A quota in one line."""
    parts = [
        f"{say_amounts(quota.guaranteed) or 'nothing'} guaranteed",
        f"{say_amounts(quota.burst) or 'as much as there is'} on burst",
        "" if quota.max_tasks is None else f"{quota.max_tasks} tasks",
    ]
    return "; ".join(filter(None, parts))
