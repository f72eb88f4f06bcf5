"""Workers: status, cordon, drain and evict (WRK-9).

Workers serve all tenants of their pool. Callers of one tenant see them too, but only its own tasks on them, and not the
reasons of cordons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http.cursors import PageRequest, find_in_pages
from mainspring.api.http.problems import not_found
from mainspring.api.http.routing import Router
from mainspring.api.submission.actions import Actions
from mainspring.api.views import run_views
from mainspring.core.model.batch import WorkerRow
from mainspring.core.model.task import TaskState
from mainspring.protocol.rest.runs import ActionRequest, ActionResult, Page, WorkerView
from mainspring.shard.events import CordonWorker, DrainWorker, EvictWorker, UncordonWorker, WorkerAction
from mainspring.store.ports.front import TaskFilter
from mainspring.store.ports.store import Store

router = Router()

_HELD_STATES = (TaskState.ASSIGNED, TaskState.RUNNING)
_PAGE_SIZE = 100
_MAX_COUNTED = 50_000


@router.get("/workers", operation="list_workers", role=Role.VIEWER)
async def list_workers(
    principal: Principal, store: Store, paging: PageRequest, pool: str | None = None
) -> Page[WorkerView]:
    """List workers by id, including recent ones that are gone."""
    rows = await store.list_workers(pool, paging.after(), paging.limit)
    running = await _count_held(store, principal)
    return paging.page(rows, lambda row: _view(principal, row, running), lambda row: [row.id])


@router.get("/workers/{worker_id}", operation="get_worker", role=Role.VIEWER)
async def get_worker(worker_id: str, principal: Principal, store: Store) -> WorkerView:
    """Get a worker."""
    row = await _find_worker(store, worker_id)
    return _view(principal, row, await _count_held(store, principal, worker_id))


def _add_action(verb: str, kind: type[WorkerAction], about: str) -> None:
    """Add the route of an action on a worker; it requires access to all tenants."""

    async def act(
        worker_id: str, body: ActionRequest, principal: Principal, store: Store, actions: Actions
    ) -> ActionResult:
        permissions.check_all_tenants(principal)
        return await actions.on_worker(await _find_worker(store, worker_id), kind, body.why)

    act.__doc__ = about
    router.post(f"/workers/{{worker_id}}/{verb}", operation=f"{verb}_worker", role=Role.OPERATOR)(act)


_add_action("cordon", CordonWorker, "Cordon a worker: it gets no new tasks; its running tasks continue.")
_add_action("uncordon", UncordonWorker, "Uncordon a worker.")
_add_action("drain", DrainWorker, "Drain a worker: it gets no new tasks, and unstarted ones are recalled.")
_add_action("evict", EvictWorker, "Drain a worker, and move its running tasks to other workers.")


def _view(principal: Principal, row: WorkerRow, running: Mapping[str | None, int]) -> WorkerView:
    return run_views.worker_view(row, running=running.get(row.id, 0), with_reasons=principal.sees_all_tenants())


async def _count_held(store: Store, principal: Principal, worker: str | None = None) -> Mapping[str | None, int]:
    """Count the tasks that each worker holds, of those visible to the caller; at most _MAX_COUNTED in total."""
    tenant = permissions.tenant_to_read(principal, None)
    held = await store.list_tasks(TaskFilter(tenant=tenant, worker=worker, states=_HELD_STATES), _MAX_COUNTED)
    return Counter(task.worker_id for task in held)


async def _find_worker(store: Store, worker_id: str) -> WorkerRow:
    """Find a worker. Raises NotFound."""
    row = await find_in_pages(lambda after: store.list_workers(None, after, _PAGE_SIZE), lambda one: one.id, worker_id)
    if row is None:
        raise not_found("worker", worker_id)
    return row
