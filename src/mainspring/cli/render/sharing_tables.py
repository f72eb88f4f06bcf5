"""Tables of tenants, quotas, groups, pools, policies, freezes, queues and decisions."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from mainspring.cli.render.output import Column, Table
from mainspring.cli.render.quantities import format_amount, format_amounts
from mainspring.cli.render.tables import format_labels
from mainspring.protocol.rest.admin import TenantView
from mainspring.protocol.rest.decisions import DecisionView
from mainspring.protocol.rest.sharing import (
    Amounts,
    FreezeView,
    GrantView,
    GroupView,
    PolicyView,
    PoolView,
    QueueLineView,
    QuotaTerms,
    QuotaView,
    ReservationView,
    TenantUseView,
)

_DEFAULT_POOLS = "*"


class TenantRow(TenantView, frozen=True, kw_only=True):
    """A tenant and its usage of a pool."""

    use: TenantUseView | None
    """None if the pool has no leader, or the tenant has no work there."""
    p0: GrantView | None
    """The tenant's P0 grant."""


class QuotaRow(QuotaView, frozen=True, kw_only=True):
    """A quota and its usage."""

    use: TenantUseView | None


def _override_until(quota: QuotaView, now: datetime) -> datetime | None:
    return quota.raised.until if quota.raised is not None and is_raised(quota, now) else None


TENANTS: Table[TenantRow] = Table(
    [
        Column("name", lambda tenant, _: tenant.name),
        Column("running", lambda tenant, _: None if tenant.use is None else tenant.use.running),
        Column("cpu", lambda tenant, _: None if tenant.use is None else format_amount("cpu", tenant.use.use.cpu)),
        Column(
            "memory", lambda tenant, _: None if tenant.use is None else format_amount("memory", tenant.use.use.memory)
        ),
        Column("queued", lambda tenant, _: None if tenant.use is None else format_queued_counts(tenant.use.queued)),
        Column("share", lambda tenant, _: None if tenant.use is None else format_part(tenant.use.share)),
        Column("fair_share", lambda tenant, _: None if tenant.use is None else format_part(tenant.use.fair_share)),
        Column("burst", lambda tenant, _: "yes" if tenant.use is not None and tenant.use.is_on_burst else None),
        Column("title", lambda tenant, _: tenant.title),
        Column("detail", lambda tenant, _: (tenant.use is not None and tenant.use.blocked_by) or tenant.note),
        Column("p0", lambda tenant, _: None if tenant.p0 is None else "granted", wide=True),
        Column("contact", lambda tenant, _: tenant.contact, wide=True),
        Column("version", lambda tenant, _: tenant.version, wide=True),
        Column("updated", lambda tenant, _: tenant.updated_at, wide=True),
        Column("updated_by", lambda tenant, _: tenant.updated_by, wide=True),
        Column("created", lambda tenant, _: tenant.created_at, wide=True),
        Column("created_by", lambda tenant, _: tenant.created_by, wide=True),
    ],
    id=lambda tenant: tenant.name,
)
QUOTAS: Table[QuotaView] = Table(
    [
        Column("tenant", lambda quota, _: quota.tenant),
        Column("pool", lambda quota, _: quota.pool or _DEFAULT_POOLS),
        Column("weight", lambda quota, now: f"{effective_quota(quota, now).weight:g}"),
        Column("tasks", lambda quota, now: effective_quota(quota, now).max_tasks),
        Column("guaranteed", lambda quota, now: format_amounts(effective_quota(quota, now).guaranteed)),
        Column("burst", lambda quota, now: format_amounts(effective_quota(quota, now).burst)),
        Column("override_until", _override_until),
        Column("updated", lambda quota, _: quota.updated_at),
        Column("bookings", lambda quota, _: ",".join(booking.name for booking in quota.bookings) or None, wide=True),
        Column("fan_out", lambda quota, now: effective_quota(quota, now).max_fan_out, wide=True),
        Column("failures_per_hour", lambda quota, now: effective_quota(quota, now).failures_per_hour, wide=True),
        Column("version", lambda quota, _: quota.version, wide=True),
        Column("updated_by", lambda quota, _: quota.updated_by, wide=True),
    ],
    id=lambda quota: f"{quota.tenant}/{quota.pool}" if quota.pool else quota.tenant,
)
GROUPS: Table[GroupView] = Table(
    [
        Column("name", lambda group, _: group.name),
        Column("limit", lambda group, _: group.most),
        Column("per", lambda group, _: None if group.per_seconds is None else timedelta(seconds=group.per_seconds)),
        Column("tenant", lambda group, _: group.tenant),
        Column("updated", lambda group, _: group.updated_at),
        Column("detail", lambda group, _: group.note),
        Column("version", lambda group, _: group.version, wide=True),
        Column("updated_by", lambda group, _: group.updated_by, wide=True),
    ],
    id=lambda group: group.name,
)
POOLS: Table[PoolView] = Table(
    [
        Column("name", lambda pool, _: pool.name),
        Column("leader", lambda pool, _: pool.leader),
        Column("labels", lambda pool, _: format_labels(pool.labels)),
        Column("zones", lambda pool, _: ",".join(pool.zones) or "any"),
        Column("max_per_task", lambda pool, _: format_amounts(pool.max_resources)),
        Column("detail", lambda pool, _: pool.note),
        Column("version", lambda pool, _: pool.version, wide=True),
        Column("updated", lambda pool, _: pool.updated_at, wide=True),
        Column("updated_by", lambda pool, _: pool.updated_by, wide=True),
    ],
    id=lambda pool: pool.name,
)
POLICIES: Table[PolicyView] = Table(
    [
        Column("name", lambda policy, _: policy.name),
        Column("job_label", lambda policy, _: format_labels({policy.label: policy.value})),
        Column("pool_labels", lambda policy, _: format_labels(policy.requires)),
        Column("pools", lambda policy, _: ",".join(policy.pools) or "none"),
        Column("detail", lambda policy, _: policy.note),
        Column("version", lambda policy, _: policy.version, wide=True),
        Column("updated", lambda policy, _: policy.updated_at, wide=True),
        Column("updated_by", lambda policy, _: policy.updated_by, wide=True),
    ],
    id=lambda policy: policy.name,
)
FREEZES: Table[FreezeView] = Table(
    [
        Column("kind", lambda freeze, _: freeze.kind),
        Column("subject", lambda freeze, _: freeze.subject),
        Column("since", lambda freeze, _: freeze.since),
        Column("until", lambda freeze, _: freeze.until),
        Column("by", lambda freeze, _: freeze.by),
        Column("reason", lambda freeze, _: freeze.why),
    ],
    id=lambda freeze: f"{freeze.kind} {freeze.subject}".rstrip(),
)
QUEUES: Table[QueueLineView] = Table(
    [
        Column("priority", lambda line, _: line.priority),
        Column("tenant", lambda line, _: line.tenant),
        Column("waiting", lambda line, _: line.waiting),
        Column("since", lambda line, _: line.since),
        Column("request", lambda line, _: line.wants),
        Column("reason", lambda line, _: line.why or "next"),
    ],
    id=lambda line: f"{line.priority}/{line.tenant}/{line.wants}",
)
RESERVATIONS: Table[ReservationView] = Table(
    [
        Column("task", lambda room, _: room.task),
        Column("tenant", lambda room, _: room.tenant),
        Column("priority", lambda room, _: room.priority),
        Column("worker", lambda room, _: room.worker),
        Column("until", lambda room, _: room.until),
        Column("reason", lambda room, _: room.why),
    ],
    id=lambda room: room.task,
)
DECISIONS: Table[DecisionView] = Table(
    [
        Column("at", lambda decision, _: decision.at),
        Column("kind", lambda decision, _: decision.kind),
        Column("task", lambda decision, _: decision.name),
        Column("request", lambda decision, _: format_request(decision)),
        Column("worker", lambda decision, _: decision.worker),
        Column("reason", lambda decision, _: decision.why),
        Column("priority", lambda decision, _: decision.priority, wide=True),
        Column("free", lambda decision, _: format_nonzero(decision.free), wide=True),
        Column("score", lambda decision, _: None if decision.score is None else f"{decision.score:.2f}", wide=True),
        Column("task_id", lambda decision, _: decision.task_id, wide=True),
        Column("attempt", lambda decision, _: decision.attempt, wide=True),
        Column("tenant", lambda decision, _: decision.tenant, wide=True),
        Column("pool", lambda decision, _: decision.pool, wide=True),
        Column("workers_checked", lambda decision, _: decision.workers_examined, wide=True),
        Column("victims", lambda decision, _: format_victims(decision), wide=True),
        Column("version", lambda decision, _: decision.version, wide=True),
        Column("id", lambda decision, _: decision.id, wide=True),
    ],
    id=lambda decision: decision.id,
)


def is_raised(quota: QuotaView, now: datetime) -> bool:
    """Whether a temporary override is active."""
    return quota.raised is not None and now < quota.raised.until


def effective_quota(quota: QuotaView, now: datetime) -> QuotaTerms:
    """Return the effective quota: the base or override, with active bookings."""
    terms = quota.raised.quota if quota.raised is not None and is_raised(quota, now) else quota.quota
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
