"""Status of pools: queues, usage by tenant, and degradation.

The leader of a pool is asked, wherever it is. Callers of one tenant see its own queues, and totals of the others.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.api.auth import permissions
from mainspring.api.http.problems import not_found, refusal
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing.quotas import terms
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.rate_limits import Counts
from mainspring.api.views import quantities, run_views
from mainspring.api.views.run_views import USUAL_PAGE, Cursor, Limit
from mainspring.core.fairness.pool_status import KeptRoom, LineStanding, Standing, TenantStanding
from mainspring.core.fairness.sharing_rules import AllRules, rules_for
from mainspring.core.model.resources import NOTHING
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.sharing import KeptRoomView, LevelView, LineView, QueueView, TenantUseView

router = Router()

MOST_COUNTED = 100_000
"""Counting limit of runs in intake, per priority."""


@router.get("/queue", operation="get_queue", role=Role.VIEWER)
async def get_queue(principal: Principal, services: Services, pool: str | None = None) -> QueueView:
    """Get the queues of a pool in dispatch order, with reasons; default: the default pool."""
    standing = await _standing(services, pool, permissions.tenant_to_look_at(principal, None))
    intake = await services.store.count_intake(standing.pool, MOST_COUNTED)
    return QueueView(
        pool=standing.pool,
        at=standing.at,
        workers=standing.workers,
        capacity=quantities.show(standing.capacity),
        used=quantities.show(standing.used),
        held_from=None if standing.held_from is None else standing.held_from.name,
        intake={priority.name: count for priority, count in intake.items()},
        waiting=standing.queued,
        lines=[_line_view(line) for line in standing.lines],
        kept=[_kept_view(room) for room in standing.kept],
        stopping=standing.stopping,
    )


@router.get("/use", operation="list_use", role=Role.VIEWER)
async def list_use(
    principal: Principal, services: Services, pool: str | None = None, limit: Limit = USUAL_PAGE, cursor: Cursor = ""
) -> Page[TenantUseView]:
    """List each tenant's usage of a pool and its limits, largest share first."""
    place = _read_place(cursor)
    standing = await _standing(services, pool, permissions.tenant_to_look_at(principal, None))
    rules = await services.rules.refresh()
    found = standing.tenants[place : place + limit]
    shown = [_use_view(tenant, standing, rules) for tenant in found]
    return run_views.page(found, shown, limit, [str(place + limit)])


@router.get("/tenants/{name}/use", operation="get_tenant_use", role=Role.VIEWER)
async def get_tenant_use(name: str, principal: Principal, services: Services, pool: str | None = None) -> TenantUseView:
    """Get one tenant's usage of a pool and its limits; default: the default pool."""
    if not principal.sees(name):
        raise not_found("tenant", name)
    standing = await _standing(services, pool, name)
    rules = await services.rules.refresh()
    found = standing.tenants[0] if standing.tenants else _idle(name, standing, rules)
    return _use_view(found, standing, rules)


@router.get("/level", operation="get_level", role=Role.VIEWER, counts=Counts.NONE)
async def get_level(services: Services, pool: str | None = None) -> LevelView:
    """Get the degradation level of a pool as seen by this server; default: the worst pool."""
    levels = services.levels
    if pool is not None and pool not in levels.pools():
        await check_pool(services, pool)
    worst = max(levels.pools().items(), key=lambda item: item[1].severity, default=(services.pool, levels.now()))
    name = pool or worst[0]
    level = levels.of(name)
    ago = timedelta(seconds=services.clock.monotonic() - level.since)
    return LevelView(
        pool=name,
        level=level.degree.value,
        since=services.clock.wall() - ago,
        why=level.why,
        accepts=level.accepts,
        shedding=levels.shedding(name),
    )


async def _standing(services: Services, pool: str | None, tenant: str | None) -> Standing:
    """Read the status of a pool, detailed for one tenant or all. Raises NotFound or NotLeading."""
    name = services.pool if pool is None else pool
    if name not in services.shards.leads():
        await check_pool(services, name)
    return await services.shards.standing(name, tenant)


async def check_pool(services: Services, pool: str) -> None:
    """Raise NotFound if there is no such pool."""
    if pool not in {row.id for row in await services.store.shards()}:
        raise not_found("pool", pool)


def _read_place(cursor: str) -> int:
    """Parse a cursor into an offset. Raises Refused."""
    (place,) = run_views.read_cursor(cursor, 1)
    if place and not (place.isascii() and place.isdecimal() and len(place) < 10):
        raise refusal("the request has 1 fault", "query:cursor", "is not a cursor of this list")
    return int(place or 0)


def _idle(tenant: str, standing: Standing, rules: AllRules) -> TenantStanding:
    """Return the status of a tenant without work in a pool."""
    return TenantStanding(
        tenant=tenant, quota=rules_for(standing.pool, rules).quota(tenant, standing.at), queued={}, rooms=0,
        use=NOTHING, share=0.0, entitled=0.0, is_on_burst=False,
    )  # fmt: skip


def _use_view(tenant: TenantStanding, standing: Standing, rules: AllRules) -> TenantUseView:
    return TenantUseView(
        tenant=tenant.tenant,
        pool=standing.pool,
        quota=terms(tenant.quota),
        queued=tenant.queued,
        rooms=tenant.rooms,
        use=quantities.show(tenant.use),
        share=tenant.share,
        entitled=tenant.entitled,
        is_on_burst=tenant.is_on_burst,
        blocked_by=tenant.blocked_by,
        p0=rules.granted_p0(tenant.tenant, standing.at),
    )


def _line_view(line: LineStanding) -> LineView:
    return LineView(
        priority=line.priority.name, tenant=line.tenant, wants=line.wants, waiting=line.waiting, since=line.since,
        why=line.why, reason=line.reason or "",
    )  # fmt: skip


def _kept_view(room: KeptRoom) -> KeptRoomView:
    return KeptRoomView(
        task=room.task, tenant=room.tenant, priority=room.priority.name, worker=room.worker, until=room.until,
        why=room.why,
    )  # fmt: skip
