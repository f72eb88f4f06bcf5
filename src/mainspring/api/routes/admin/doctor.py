"""Health of a server, its store and its peers, for `mainspring doctor`.

It answers even if the store does not.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http.routing import Router
from mainspring.api.services import ServerInfo
from mainspring.api.views.view_of import view_of
from mainspring.background import BackgroundLoops
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.overviews import FailingLoopView, LeaseView, OverdueView, PeerView, ServerHealthView
from mainspring.store.ports.front import ServerRow
from mainspring.store.ports.schedules import ScheduleRow
from mainspring.store.ports.store import Store

router = Router()

ANSWER_TIMEOUT_SECONDS = 3.0
"""Timeout of the store."""
OVERDUE = timedelta(seconds=5)
"""Delay from which a schedule is overdue; normally it fires within a second."""
_SERVERS_WITHIN = timedelta(days=1)
_MAX_OVERDUE = 100


@router.get("/server-health", operation="get_server_health", role=Role.VIEWER)
async def get_server_health(
    principal: Principal, server: ServerInfo, store: Store, background: BackgroundLoops, clock: Clock
) -> ServerHealthView:
    """Report the health of this server and its store, the leaders and leases of pools, and overdue schedules.

    Callers of one tenant get neither server addresses nor the store's error message.
    """
    began = clock.monotonic()
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_SECONDS):
            now = await store.time()
            took, wall = clock.monotonic() - began, clock.wall()
            shards = await store.shards()
            servers = await store.servers(_SERVERS_WITHIN)
            tenant = permissions.tenant_to_read(principal, None)
            overdue = await store.next_schedules(tenant, now - OVERDUE, _MAX_OVERDUE)
    except (Unavailable, TimeoutError) as fault:
        why = str(fault) if principal.sees_all_tenants() else ""
        why = why or f"no answer within {ANSWER_TIMEOUT_SECONDS:.0f} s"
        return ServerHealthView(
            name=server.name, version=server.version, at=clock.wall(), store_seconds=None, store_fault=why,
            failing=_failing(background),
        )  # fmt: skip
    return ServerHealthView(
        name=server.name,
        version=server.version,
        at=wall,
        store_seconds=took,
        failing=_failing(background),
        ahead_seconds=(wall - now).total_seconds(),
        leases=[
            LeaseView(pool=row.id, leader=row.leader, seconds=(row.lease_until - now).total_seconds()) for row in shards
        ],
        servers=[_peer(row, now, with_address=principal.sees_all_tenants()) for row in servers],
        overdue=[_overdue(row, row.next_at, now) for row in overdue if row.next_at is not None],
    )


def _failing(background: BackgroundLoops) -> list[FailingLoopView]:
    return [view_of(FailingLoopView, one.health, name=one.name, pool=one.shard) for one in background.failing()]


def _peer(row: ServerRow, now: datetime, *, with_address: bool) -> PeerView:
    silent_seconds = (now - row.last_heartbeat_at).total_seconds()
    return view_of(PeerView, row, address=row.address if with_address else "", silent_seconds=silent_seconds)


def _overdue(row: ScheduleRow, due_at: datetime, now: datetime) -> OverdueView:
    return OverdueView(tenant=row.tenant, schedule=row.name, seconds=(now - due_at).total_seconds())
