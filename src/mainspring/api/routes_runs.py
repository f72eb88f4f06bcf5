"""Runs: what became of them, and what people want of them. How they are made is in `routes_submission.py`."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Literal

from mainspring.api import permissions, views
from mainspring.api.acts import carry_out, reason
from mainspring.api.problems import not_found, refusal
from mainspring.api.routing import Router
from mainspring.api.services import Principal, Role, Services
from mainspring.api.views import USUAL_PAGE, Cursor, Limit
from mainspring.core.runs import FINAL_RUN, RunState
from mainspring.core.tasks import Priority, TaskState
from mainspring.rest import ActRequest, Done, Page, RunView, TaskView
from mainspring.shard.events import Act, CancelRun, PauseRun, ResumeRun, RetryRun
from mainspring.store.port_front import ListedRun, RunFilter, TaskFilter

router = Router()

PriorityName = Literal["P0", "P1", "P2"]


@router.get("/runs", role=Role.VIEWER)
async def list_runs(
    principal: Principal,
    services: Services,
    state: list[RunState] | None = None,
    job: str | None = None,
    priority: PriorityName | None = None,
    tenant: str | None = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = "",
) -> Page[RunView]:
    """Runs, the newest first, without those that have moved to history."""
    wanted = RunFilter(
        tenant=permissions.tenant_to_look_at(principal, tenant),
        job=job,
        states=tuple(state or ()),
        priority=Priority[priority] if priority is not None else None,
        before=read_place(cursor),
    )
    rows = await services.store.list_runs(wanted, limit)
    place = [rows[-1].run.created_at.isoformat(), rows[-1].run.id] if rows else []
    return views.page(rows, map(views.run_view, rows), limit, place)


@router.get("/runs/{run_id}", role=Role.VIEWER)
async def get_run(run_id: str, principal: Principal, services: Services) -> RunView:
    """One run, with how many of its tasks are in which state."""
    found = await find_run(services, principal, run_id)
    counts = Counter(task.state for task in await services.store.tasks(run_id))
    return views.run_view(found, counts)


@router.get("/runs/{run_id}/tasks", role=Role.VIEWER)
async def list_tasks_of_run(
    run_id: str,
    principal: Principal,
    services: Services,
    state: list[TaskState] | None = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = "",
) -> Page[TaskView]:
    """The tasks of a run, by id, also of one that has moved to history."""
    found = await find_run(services, principal, run_id)
    (after,) = views.read_cursor(cursor, 1)
    rows = await services.store.list_tasks(TaskFilter(run_id=run_id, states=tuple(state or ()), after=after), limit)
    if not rows and found.run.state in FINAL_RUN:
        every = sorted(await services.store.tasks(run_id), key=lambda task: task.id)
        rows = [task for task in every if task.id > after and (not state or task.state in state)][:limit]
    return views.page(rows, map(views.task_view, rows), limit, [rows[-1].id] if rows else [])


@router.post("/runs/{run_id}/cancel", role=Role.OPERATOR)
async def cancel_run(run_id: str, body: ActRequest, principal: Principal, services: Services) -> Done:
    """End a run: what has not started never does, what runs is asked to stop."""
    return await _act(CancelRun, run_id, body, principal, services)


@router.post("/runs/{run_id}/pause", role=Role.OPERATOR)
async def pause_run(run_id: str, body: ActRequest, principal: Principal, services: Services) -> Done:
    """Start nothing more of a run. What runs goes on."""
    return await _act(PauseRun, run_id, body, principal, services)


@router.post("/runs/{run_id}/resume", role=Role.OPERATOR)
async def resume_run(run_id: str, body: ActRequest, principal: Principal, services: Services) -> Done:
    """Go on with a run that is paused, or that was held for a fault."""
    return await _act(ResumeRun, run_id, body, principal, services)


@router.post("/runs/{run_id}/retry", role=Role.OPERATOR)
async def retry_run(run_id: str, body: ActRequest, principal: Principal, services: Services) -> Done:
    """Start again every task of a run that failed, with all that was cancelled or skipped because of it."""
    return await _act(RetryRun, run_id, body, principal, services)


async def find_run(services: Services, principal: Principal, run_id: str) -> ListedRun:
    """A run that whoever asks may see. Raises NotFound, also for somebody else's."""
    found = await services.store.find_run(run_id)
    if found is None or not principal.sees(found.run.tenant):
        raise not_found("run", run_id)
    return found


async def _act(kind: type[Act], run_id: str, body: ActRequest, principal: Principal, services: Services) -> Done:
    found = await find_run(services, principal, run_id)
    act = kind(run_id=run_id, by=principal.name, why=reason(body.why))
    return await carry_out(services, found.run.shard, act)


def read_place(cursor: str) -> tuple[datetime, str] | None:
    """The time and the id that a list goes on behind; None for its beginning. Raises Refused."""
    if not cursor:
        return None
    time, behind = views.read_cursor(cursor, 2)
    try:
        at = datetime.fromisoformat(time)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        raise refusal("the request has 1 fault", "query:cursor", "is not one that this list gave")
    return at, behind
