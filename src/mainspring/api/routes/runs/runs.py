"""Runs: what became of them, and what people want of them. How they are made is in `submission.py`."""

from __future__ import annotations

from collections import Counter

import msgspec
from starlette.responses import Response

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.http import list_filters, preferences
from mainspring.api.http.list_filters import Counting, PriorityName, Query
from mainspring.api.http.preferences import Prefer
from mainspring.api.http.problems import not_found, refusal
from mainspring.api.http.routing import Router, json_response
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.actions import carry_out, reason
from mainspring.api.submission.gate import refuse
from mainspring.api.views import run_deadlines, run_graphs, run_views
from mainspring.api.views.run_views import USUAL_PAGE, Cursor, Limit
from mainspring.core.model.run import Run, RunState
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.query.filters import Listed, fits
from mainspring.protocol.rest.overviews import DeadlineView, GraphView
from mainspring.protocol.rest.runs import ActRequest, Done, Page, PriorityRequest, RunView, TaskView
from mainspring.shard.events import Act, CancelRun, ChangePriority, PauseRun, ResumeRun, RetryRun
from mainspring.store.ports.front import ListedRun, TaskFilter

router = Router()

_NEWEST_FIRST = "-created_at"
_ID = "run_"


@router.get("/runs", operation="list_runs", role=Role.VIEWER)
async def list_runs(
    principal: Principal,
    services: Services,
    q: Query = "",
    state: list[RunState] | None = None,
    job: str | None = None,
    priority: PriorityName | None = None,
    tenant: str | None = None,
    count: Counting | None = None,
    sort: str = _NEWEST_FIRST,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = "",
) -> Page[RunView]:
    """Runs, the newest first, also those that have moved to history.

    `q` is a filter (docs/reference/filters.md); what the other parameters say must hold as well. `count` says how many
    there are in all: `exact`, or `bounded` for up to 10,000.
    """
    if sort != _NEWEST_FIRST:
        raise refusal("the request has 1 fault", "query:sort", f"must be {_NEWEST_FIRST}: runs have this order only")
    wanted = await list_filters.wanted_of(
        services, principal, Listed.RUNS, q, tenant=tenant, job=job, priority=priority, states=state
    )
    chosen = await list_filters.run_filter(services, principal, wanted)
    counted = await list_filters.count_runs(services, chosen, count)
    (before,) = run_views.read_cursor(cursor, 1)
    if before and not before.startswith(_ID):
        raise refusal("the request has 1 fault", "query:cursor", "is not one that this list gave")
    rows = await services.store.list_runs(msgspec.structs.replace(chosen, before=before or None), limit)
    return run_views.page(rows, map(run_views.run_view, rows), limit, [rows[-1].run.id] if rows else [], counted)


@router.get("/runs/{run_id}", operation="get_run", role=Role.VIEWER, returns=RunView)
async def get_run(run_id: str, principal: Principal, services: Services, prefer: Prefer = None) -> Response:
    """One run, with how many of its tasks are in which state.

    With `Prefer: wait=30` it is answered when the run is over, or after 30 s; at most a minute is waited.
    """
    found = await find_run(services, principal, run_id)
    seconds = preferences.seconds_to_wait(prefer)
    if seconds:
        await services.waits.until_over(run_id, seconds)
        found = await find_run(services, principal, run_id)
    return json_response(await whole_view(services, found), 200, preferences.applied(seconds))


@router.get("/runs/{run_id}/graph", operation="get_run_graph", role=Role.VIEWER)
async def get_run_graph(run_id: str, principal: Principal, services: Services) -> GraphView:
    """The graph of a run: tasks by name with what they need, each after that, and how many are in which state.

    All tasks of a fan-out are one node. What outputs have added to the run is there as well. A graph of more than
    10,000 nodes is refused.
    """
    return await run_graphs.graph_of(services, await find_run(services, principal, run_id))


@router.get("/runs/{run_id}/deadline", operation="get_run_deadline", role=Role.VIEWER)
async def get_run_deadline(run_id: str, principal: Principal, services: Services) -> DeadlineView:
    """By when a run is to be over, how long it can wait, and which of its tasks take longest. 404 if by no time."""
    return await run_deadlines.deadline_of(services, await find_run(services, principal, run_id))


@router.get("/runs/{run_id}/tasks", operation="list_tasks_of_run", role=Role.VIEWER)
async def list_tasks_of_run(
    run_id: str,
    principal: Principal,
    services: Services,
    q: Query = "",
    state: list[TaskState] | None = None,
    name: str | None = None,
    count: Counting | None = None,
    limit: Limit = USUAL_PAGE,
    cursor: Cursor = "",
) -> Page[TaskView]:
    """The tasks of a run, by id, also of one that has moved to history. `q` and `count` as for all tasks."""
    found = await find_run(services, principal, run_id)
    (after,) = run_views.read_cursor(cursor, 1)
    wanted = await list_filters.wanted_of(services, principal, Listed.TASKS, q, run=run_id, states=state, name=name)
    chosen = msgspec.structs.replace(list_filters.task_filter(wanted), after=after)
    if found.in_history:
        every = sorted(await services.store.tasks(run_id), key=lambda task: task.id)
        fitting = [task for task in every if _fits(task, chosen)]
        counted = list_filters.counted(len(fitting), count)
        rows = [task for task in fitting if task.id > after][:limit]
    else:
        counted = await list_filters.count_tasks(services, chosen, count)
        rows = await services.store.list_tasks(chosen, limit)
    return run_views.page(rows, map(run_views.task_view, rows), limit, [rows[-1].id] if rows else [], counted)


@router.post("/runs/{run_id}/cancel", operation="cancel_run", role=Role.OPERATOR)
async def cancel_run(run_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor) -> Done:
    """End a run: what has not started never does, what runs is asked to stop."""
    return await _act(CancelRun, run_id, body, principal, services, audit)


@router.post("/runs/{run_id}/pause", operation="pause_run", role=Role.OPERATOR)
async def pause_run(run_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor) -> Done:
    """Start nothing more of a run. What runs goes on."""
    return await _act(PauseRun, run_id, body, principal, services, audit)


@router.post("/runs/{run_id}/resume", operation="resume_run", role=Role.OPERATOR)
async def resume_run(run_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor) -> Done:
    """Go on with a run that is paused, or that was held for a fault."""
    return await _act(ResumeRun, run_id, body, principal, services, audit)


@router.post("/runs/{run_id}/retry", operation="retry_run", role=Role.OPERATOR)
async def retry_run(run_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor) -> Done:
    """Start again every task of a run that failed, with all that was cancelled or skipped because of it."""
    return await _act(RetryRun, run_id, body, principal, services, audit)


@router.post("/runs/{run_id}/priority", operation="change_priority", role=Role.OPERATOR)
async def change_priority(
    run_id: str, body: PriorityRequest, principal: Principal, services: Services, audit: Auditor
) -> Done:
    """Give a run, and what is not over of it, another priority. What runs goes on."""
    priority = read_priority(body.priority)
    found = await find_run(services, principal, run_id)
    refuse("the body", await services.gate.check_priority(priority, found.run.tenant))
    act = priority_act(found.run, priority, principal, reason(body.why), audit)
    return await carry_out(services, found.run.shard, act)


async def whole_view(services: Services, found: ListedRun) -> RunView:
    """A run with how many of its tasks are in which state."""
    counts: Counter[str] = Counter()
    if found.run.adopted_at is not None:  # before that it has no tasks
        for states in (await services.store.task_states(found.run.id, found.run.task_count)).values():
            counts.update(states)
    return run_views.run_view(found, counts)


def read_priority(said: str | None) -> Priority:
    """The priority that a body asks for, in any case. Raises Refused."""
    priority = Priority.__members__.get((said or "").upper())
    if priority is None:
        why = f"must be one of {', '.join(Priority.__members__)}"
        raise refusal("the body has 1 fault", "priority", why)
    return priority


def priority_act(run: Run, priority: Priority, principal: Principal, why: str, audit: Auditor) -> ChangePriority:
    """The act that gives a run another priority."""
    entry = audit.entry(run.id, tenant=run.tenant, why=why)
    return ChangePriority(run_id=run.id, priority=priority, by=principal.name, why=why, audit=entry)


def run_act(kind: type[Act], run: Run, principal: Principal, why: str, audit: Auditor) -> Act:
    """An act on a run that asks for nothing more."""
    entry = audit.entry(run.id, tenant=run.tenant, why=why)
    return kind(run_id=run.id, by=principal.name, why=why, audit=entry)


async def find_run(services: Services, principal: Principal, run_id: str) -> ListedRun:
    """A run that whoever asks may see. Raises NotFound, also for somebody else's."""
    found = await services.store.find_run(run_id)
    if found is None or not principal.sees(found.run.tenant):
        raise not_found("run", run_id)
    return found


async def _act(
    kind: type[Act], run_id: str, body: ActRequest, principal: Principal, services: Services, audit: Auditor
) -> Done:
    found = await find_run(services, principal, run_id)
    act = run_act(kind, found.run, principal, reason(body.why), audit)
    return await carry_out(services, found.run.shard, act)


def _fits(task: Task, wanted: TaskFilter) -> bool:
    """Whether a task is one of those that are wanted, as the store would say."""
    return (
        (not wanted.states or task.state in wanted.states)
        and wanted.worker in {None, task.worker_id}
        and (wanted.name is None or fits(wanted.name, task.name))
        and wanted.priority in {None, task.priority}
        and (wanted.since_before is None or task.since < wanted.since_before)
        and wanted.tenant in {None, task.tenant}
    )
