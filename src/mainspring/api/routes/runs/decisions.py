"""Decision log: scheduling decisions about tasks, with reasons (PLC-8).

Preempted tasks may belong to other tenants: callers of one tenant see only their number.
"""

from __future__ import annotations

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.routing import Router
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.core.model.decisions import Decision, DecisionKind
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.rest.decisions import DecisionView, PreemptedTaskView, RequestView
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import Instant
from mainspring.store.ports.front import DecisionFilter
from mainspring.store.ports.store import Store

router = Router()


@router.get("/tasks/{task_id}/decisions", operation="list_task_decisions", role=Role.VIEWER)
async def list_task_decisions(task_id: str, visible: VisibleRows, paging: PageRequest) -> Page[DecisionView]:
    """List the decisions about a task within their retention, latest first. Placements are sampled."""
    await visible.task(task_id)
    return await _page(visible.store, visible.principal, DecisionFilter(task_id=task_id), paging)


@router.get("/decisions", operation="list_decisions", role=Role.VIEWER)
async def list_decisions(
    principal: Principal,
    store: Store,
    paging: PageRequest,
    task: str | None = None,
    run: str | None = None,
    worker: str | None = None,
    kind: DecisionKind | None = None,
    tenant: str | None = None,
    since: Instant | None = None,
    before: Instant | None = None,
) -> Page[DecisionView]:
    """List decisions, latest first.

    Preemptions are complete; placements are sampled at `decisions_sampled_per_1000` per mille; a task shape without a
    fitting worker is recorded at most once in 10 seconds.
    """
    wanted = DecisionFilter(
        tenant=permissions.tenant_to_read(principal, tenant), task_id=task, run_id=run, worker=worker, kind=kind,
        since=since, before=before,
    )  # fmt: skip
    return await _page(store, principal, wanted, paging)


async def _page(store: Store, principal: Principal, wanted: DecisionFilter, paging: PageRequest) -> Page[DecisionView]:
    rows = await store.list_decisions(wanted, paging.position(), paging.limit)
    return paging.page(rows, lambda row: _view(row, principal), lambda row: [row.at.isoformat(), row.id])


def _view(row: Decision, principal: Principal) -> DecisionView:
    victims = [
        view_of(PreemptedTaskView, one, priority=one.priority.name) for one in row.victims if principal.sees(one.tenant)
    ]
    return view_of(
        DecisionView, row, pool=row.shard, priority=row.priority.name, request=_request(row.request),
        worker=row.worker_id, free=None if row.free is None else quantities.show(row.free), victims=victims,
        victim_total=row.victim_count,
    )  # fmt: skip


def _request(shape: Shape) -> RequestView:
    return view_of(
        RequestView, shape, resources=quantities.show(shape.resources), labels=dict(shape.labels),
        prefer=dict(shape.prefer),
    )  # fmt: skip
