"""The server itself: liveness, readiness, leadership, metrics and the OpenAPI document."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth.principal import Role
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http.routing import API, JSON, Router
from mainspring.api.services import ServerInfo
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views.view_of import view_of
from mainspring.background import BackgroundLoops
from mainspring.protocol.errors import NotLeading, NotReady
from mainspring.protocol.rest.runs import ServerView
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics

router = Router(prefix="")

_HEARD_WITHIN = timedelta(seconds=30)


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health status."""

    status: str = "ok"


@router.get("/healthz", operation="get_health", role=None)
async def get_health() -> Health:
    """Check that the process is up, and nothing else."""
    return Health()


@router.get("/readyz", operation="get_readiness", role=None)
async def get_readiness(store: Store, background: BackgroundLoops) -> Health:
    """Check that the store answers, every shard has a leader, and no background loop keeps failing."""
    now = await store.time()
    lost = [shard for shard in await store.shards() if shard.lease_until <= now]
    if lost:
        raise NotLeading(f"{len(lost)} shards have no leader")
    failing = background.failing()
    if failing:
        loops = ", ".join(f"{one.name} ({one.health.code}, {one.health.failures} failures in a row)" for one in failing)
        raise NotReady(f"background loops keep failing: {loops}")
    return Health()


@router.get(f"{API}/server", operation="get_server", role=Role.VIEWER)
async def get_server(server: ServerInfo, store: Store, leaders: LeaderRouter) -> ServerView:
    """Get this server's name, the shards that it leads, and the other servers."""
    servers = await store.servers(_HEARD_WITHIN)
    return view_of(ServerView, server, leads=leaders.leads(), servers=[one.name for one in servers])


@router.get(
    "/metrics",
    operation="get_metrics",
    role=Role.VIEWER,
    answers="text/plain",
    rate_class=RateClass.NONE,
    all_tenants=True,
)
async def get_metrics(metrics: Metrics) -> Response:
    """Get Prometheus metrics. For callers with access to all tenants."""
    return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


@router.get("/openapi.json", operation="get_openapi", role=Role.VIEWER, rate_class=RateClass.NONE)
async def get_openapi(request: Request) -> Response:
    """Get this document."""
    return Response(request.app.state.openapi(), media_type=JSON)
