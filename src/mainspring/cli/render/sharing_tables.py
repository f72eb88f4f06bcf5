"""Tables and facts about tenants, quotas, groups, pools, policies, freezes, queues and decisions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Cell, Fact, Facts, Table, format_labels, format_number, format_when
from mainspring.cli.render.quantities import format_amount, format_amounts, format_usage
from mainspring.client.client import Client
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.admin import TenantView
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.sharing import (
    Amounts,
    BookingView,
    FreezeView,
    GrantView,
    GroupView,
    PolicyView,
    PoolView,
    QueueLineView,
    QuotaTerms,
    QuotaView,
    RaisedView,
    ReservationView,
    TenantUseView,
)


class TenantRow(TenantView, frozen=True, kw_only=True):
    """A tenant and its usage of a pool."""

    use: TenantUseView | None
    """None if the pool has no leader, or the tenant has no work there."""
    p0: GrantView | None
    """The tenant's P0 grant."""


class QuotaRow(QuotaView, frozen=True, kw_only=True):
    """A quota and its usage."""

    use: TenantUseView | None


def _of_use(read: Callable[[TenantUseView], Cell]) -> Callable[[TenantRow, datetime], Cell]:
    """Return a column about the usage of a tenant, empty if it is unknown."""
    return lambda tenant, _: None if tenant.use is None else read(tenant.use)


TENANTS = Table.of(
    TenantRow,
    "name running cpu memory queued share fair_share burst title detail",
    wide="p0 contact version updated=updated_at updated_by created=created_at created_by",
    running=_of_use(lambda use: use.running),
    cpu=_of_use(lambda use: format_amount("cpu", use.use.cpu)),
    memory=_of_use(lambda use: format_amount("memory", use.use.memory)),
    queued=_of_use(lambda use: format_queued_counts(use.queued)),
    share=_of_use(lambda use: format_part(use.share)),
    fair_share=_of_use(lambda use: format_part(use.fair_share)),
    burst=_of_use(lambda use: "yes" if use.is_on_burst else None),
    detail=lambda tenant, _: (tenant.use is not None and tenant.use.blocked_by) or tenant.note,
    p0=lambda tenant, _: None if tenant.p0 is None else "granted",
    id=lambda tenant: tenant.name,
)
TENANT_FACTS = Table.of(
    TenantView,
    "tenant=name title contact note version created=created_at updated=updated_at updated_by",
    version=lambda tenant, _: tenant.version or None,
    id=lambda tenant: tenant.name,
)
QUOTAS = Table.of(
    QuotaView,
    "tenant pool weight tasks guaranteed burst override_until updated=updated_at",
    wide="bookings fan_out failures_per_hour version updated_by",
    pool=lambda quota, _: quota.pool or "*",
    weight=lambda quota, now: f"{effective_quota(quota, now).weight:g}",
    tasks=lambda quota, now: effective_quota(quota, now).max_tasks,
    guaranteed=lambda quota, now: format_amounts(effective_quota(quota, now).guaranteed),
    burst=lambda quota, now: format_amounts(effective_quota(quota, now).burst),
    override_until=lambda quota, now: None if (one := active_override(quota, now)) is None else one.until,
    bookings=lambda quota, _: ",".join(booking.name for booking in quota.bookings) or None,
    fan_out=lambda quota, now: effective_quota(quota, now).max_fan_out,
    failures_per_hour=lambda quota, now: effective_quota(quota, now).failures_per_hour,
    id=lambda quota: f"{quota.tenant}/{quota.pool}" if quota.pool else quota.tenant,
)
GROUPS = Table.of(
    GroupView,
    "name limit=most per=per_seconds tenant updated=updated_at detail=note",
    wide="version updated_by",
    id=lambda group: group.name,
)
POOLS = Table.of(
    PoolView,
    "name leader labels zones max_per_task detail=note",
    wide="version updated=updated_at updated_by",
    zones=lambda pool, _: ",".join(pool.zones) or "any",
    max_per_task=lambda pool, _: format_amounts(pool.max_resources),
    id=lambda pool: pool.name,
)
POLICIES = Table.of(
    PolicyView,
    "name job_label pool_labels=requires pools detail=note",
    wide="version updated=updated_at updated_by",
    job_label=lambda policy, _: format_labels({policy.label: policy.value}),
    pools=lambda policy, _: ",".join(policy.pools) or "none",
    id=lambda policy: policy.name,
)
FREEZES = Table.of(
    FreezeView, "kind subject since until by reason=why", id=lambda freeze: f"{freeze.kind} {freeze.subject}".rstrip()
)
QUEUES = Table.of(
    QueueLineView,
    "priority tenant waiting since request=wants reason",
    reason=lambda line, _: line.why or "next",
    id=lambda line: f"{line.priority}/{line.tenant}/{line.wants}",
)
RESERVATIONS = Table.of(
    ReservationView, "task tenant priority worker until reason=why", id=lambda reservation: reservation.task
)
DECISIONS = Table.of(
    DecisionView,
    "at kind task=name request worker reason=why",
    wide="priority free score task_id attempt tenant pool workers_checked=workers_examined victims version id",
    request=lambda decision, _: format_request(decision),
    free=lambda decision, _: format_nonzero(decision.free),
    score=lambda decision, _: None if decision.score is None else f"{decision.score:.2f}",
    victims=lambda decision, _: format_victims(decision),
    id=lambda decision: decision.id,
)


def active_override(quota: QuotaView, now: datetime) -> RaisedView | None:
    """Return the temporary override of a quota if it is active."""
    return quota.raised if quota.raised is not None and now < quota.raised.until else None


def effective_quota(quota: QuotaView, now: datetime) -> QuotaTerms:
    """Return the effective quota: the base or override, with active bookings."""
    override = active_override(quota, now)
    terms = quota.quota if override is None else override.quota
    promised = [terms.guaranteed, *(booking.guaranteed for booking in quota.bookings if booking.holds)]
    most = {name: max(getattr(one, name) or 0 for one in promised) or None for name in Amounts.__struct_fields__}
    return replace(terms, guaranteed=Amounts(**most))


def format_queued_counts(waiting: dict[str, int]) -> str | None:
    """Format waiting counts by priority: `P1 3  P2 12`; None if there are none."""
    return "  ".join(f"{name} {number:,}" for name, number in sorted(waiting.items()) if number) or None


def format_part(part: float) -> str:
    """Format a percentage with fixed width, so that a column sorts by it."""
    return f"{part:>4.0%}"


def format_request(decision: DecisionView) -> str:
    """Format the request of a task on one line."""
    request = decision.request
    parts = [
        format_nonzero(request.resources),
        format_labels(request.labels),
        f"zone {request.zone}" if request.zone else "",
    ]
    return ", ".join(filter(None, parts))


def format_victims(decision: DecisionView) -> str:
    """Format the preempted tasks that the caller may see, and the number of others."""
    named = [victim.task_id for victim in decision.victims]
    others = decision.victim_total - len(named)
    return ", ".join([*named, *([f"{others} more"] if others else [])])


def format_nonzero(amounts: Amounts | None) -> str:
    """Format amounts without zero GPUs and disk."""
    return format_amounts(amounts and replace(amounts, gpu=amounts.gpu or None, disk=amounts.disk or None))


def read_use(client: Client, tenant: str, pool: str | None) -> TenantUseView | None:
    """Fetch the usage of a tenant in a pool; None if the pool has no leader."""
    try:
        return client.tenant_use(tenant, pool)
    except Unavailable:
        # Only the leader knows the usage; show the rest without it.
        return None


def quota_facts(quota: QuotaRow, printing: Printing) -> Facts:
    """Return facts about a quota and its usage."""
    now = SystemClock().wall()
    facts: list[Fact] = [
        ("tenant", quota.tenant),
        ("pool", quota.pool or "all pools without their own quota"),
        *_limits(effective_quota(quota, now)),
    ]
    if (override := active_override(quota, now)) is not None:
        facts += [
            ("override until", format_when(override.until, printing)),
            ("override by", override.by),
            ("override reason", override.why),
            ("base quota", _format_quota(quota.quota)),
        ]
    facts += [("booking", _format_booking(booking, printing)) for booking in quota.bookings]
    facts += [
        ("updated", format_when(quota.updated_at, printing) or "never (defaults)"),
        ("updated by", quota.updated_by),
        *([] if quota.use is None else use_facts(quota.use)),
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
        ("blocked by", use.blocked_by),
    ]


def _format_running_tasks(running: int, most: int | None) -> str:
    """Format the number of running tasks and their limit."""
    if most is not None:
        return f"{running} of {most} tasks running"
    return f"{format_number(running, 'task')} running"


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
