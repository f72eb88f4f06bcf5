"""Status of pools: queues, usage by tenant, and degradation.

The leader of a pool is asked, wherever it is. Callers of one tenant see its own queues, and totals of the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.request_components import RequestComponent
from mainspring.api.routes.sharing.quotas import terms
from mainspring.api.services import ServerInfo
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.core.fairness.pool_status import PoolStatus, TenantStatus
from mainspring.core.fairness.sharing_rules import AllRules, rules_for
from mainspring.core.model.resources import ZERO_RESOURCES
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.protocol.clock import Clock
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.sharing import LevelView, QueueLineView, QueueView, ReservationView, TenantUseView
from mainspring.store.ports.store import Store

router = Router()

MAX_COUNTED = 100_000
"""Counting limit of runs in intake, per priority."""


@dataclass(frozen=True, slots=True)
class PoolStatuses(RequestComponent):
    """The status of each pool, from its leader."""

    server: ServerInfo
    store: Store
    leaders: LeaderRouter

    async def name(self, pool: str | None) -> str:
        """Return the name of a pool, default the default pool. Raises NotFound."""
        name = self.server.pool if pool is None else pool
        if name not in self.leaders.leads():
            await _check_pool(self.store, name)
        return name

    async def of(self, pool: str | None, tenant: str | None) -> PoolStatus:
        """Read the status of a pool, detailed for one tenant or all. Raises NotFound or NotLeading."""
        return await self.leaders.pool_status(await self.name(pool), tenant)


@router.get("/queue", operation="get_queue", role=Role.VIEWER)
async def get_queue(principal: Principal, store: Store, pools: PoolStatuses, pool: str | None = None) -> QueueView:
    """Get the queues of a pool in dispatch order, with reasons; default: the default pool."""
    pool_status = await pools.of(pool, permissions.tenant_to_read(principal, None))
    intake = await store.count_intake(pool_status.pool, MAX_COUNTED)
    return view_of(
        QueueView,
        pool_status,
        capacity=quantities.show(pool_status.capacity),
        used=quantities.show(pool_status.used),
        dispatch_paused_from=None
        if pool_status.dispatch_paused_from is None
        else pool_status.dispatch_paused_from.name,
        intake={priority.name: count for priority, count in intake.items()},
        waiting=pool_status.queued,
        queues=[
            view_of(QueueLineView, one, priority=one.priority.name, reason=one.reason or "")
            for one in pool_status.queues
        ],
        reservations=[view_of(ReservationView, one, priority=one.priority.name) for one in pool_status.reservations],
    )


@router.get("/use", operation="list_use", role=Role.VIEWER)
async def list_use(
    principal: Principal, pools: PoolStatuses, rules: SharingRulesCache, paging: PageRequest, pool: str | None = None
) -> Page[TenantUseView]:
    """List each tenant's usage of a pool and its limits, largest share first."""
    end = (paging.after_number() or 0) + paging.limit
    pool_status = await pools.of(pool, permissions.tenant_to_read(principal, None))
    current = await rules.refresh()
    found = pool_status.tenants[end - paging.limit : end]
    return paging.page(found, lambda tenant: _use_view(tenant, pool_status, current), lambda _: [str(end)])


@router.get("/tenants/{name}/use", operation="get_tenant_use", role=Role.VIEWER)
async def get_tenant_use(
    name: str, principal: Principal, pools: PoolStatuses, rules: SharingRulesCache, pool: str | None = None
) -> TenantUseView:
    """Get one tenant's usage of a pool and its limits; default: the default pool."""
    if not principal.sees(name):
        raise not_found("tenant", name)
    pool_status = await pools.of(pool, name)
    current = await rules.refresh()
    found = pool_status.tenants[0] if pool_status.tenants else _idle(name, pool_status, current)
    return _use_view(found, pool_status, current)


@router.get("/level", operation="get_level", role=Role.VIEWER, rate_class=RateClass.NONE)
async def get_level(
    server: ServerInfo, store: Store, degradation: DegradationMonitor, clock: Clock, pool: str | None = None
) -> LevelView:
    """Get the degradation level of a pool as seen by this server; default: the worst pool."""
    if pool is not None and pool not in degradation.pools():
        await _check_pool(store, pool)
    worst = max(
        degradation.pools().items(), key=lambda item: item[1].severity, default=(server.pool, degradation.now())
    )
    name = pool or worst[0]
    level = degradation.of(name)
    ago = timedelta(seconds=clock.monotonic() - level.since)
    return LevelView(
        pool=name,
        level=level.degree.value,
        since=clock.wall() - ago,
        why=level.why,
        accepts=level.accepts,
        shedding=degradation.shedding(name),
    )


async def _check_pool(store: Store, pool: str) -> None:
    """Raise NotFound if there is no such pool."""
    if pool not in {row.id for row in await store.shards()}:
        raise not_found("pool", pool)


def _idle(tenant: str, pool_status: PoolStatus, rules: AllRules) -> TenantStatus:
    """Return the status of a tenant without work in a pool."""
    return TenantStatus(
        tenant=tenant, quota=rules_for(pool_status.pool, rules).quota(tenant, pool_status.at), queued={}, running=0,
        use=ZERO_RESOURCES, share=0.0, fair_share=0.0, is_on_burst=False,
    )  # fmt: skip


def _use_view(tenant: TenantStatus, pool_status: PoolStatus, rules: AllRules) -> TenantUseView:
    return view_of(
        TenantUseView, tenant, pool=pool_status.pool, quota=terms(tenant.quota), use=quantities.show(tenant.use),
        p0=rules.granted_p0(tenant.tenant, pool_status.at),
    )  # fmt: skip
