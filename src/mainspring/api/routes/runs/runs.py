"""Runs: state and actions. They are created in `submission.py`."""

from __future__ import annotations

from collections import Counter

import msgspec
from starlette.responses import Response

from mainspring.api.auth.principal import Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import list_filters, preferences
from mainspring.api.http.cursors import PageRequest, unknown_cursor
from mainspring.api.http.list_filters import CountMode, ListFilters, PriorityName, Query
from mainspring.api.http.preferences import Prefer
from mainspring.api.http.problems import refusal, refuse
from mainspring.api.http.routing import Router, json_response
from mainspring.api.live.run_waits import RunWaiters
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import Actions
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.views import run_deadlines, run_graphs, run_views
from mainspring.core.model.run import RunState
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.query.filters import ListKind, matches
from mainspring.protocol.rest.overviews import DeadlineView, GraphView
from mainspring.protocol.rest.runs import ActionRequest, ActionResult, Page, PriorityRequest, RunView, TaskView
from mainspring.shard.events import CancelRun, ChangePriority, PauseRun, ResumeRun, RetryRun, RunAction
from mainspring.store.ports.front import ListedRun, TaskFilter
from mainspring.store.ports.store import Store

router = Router()

_NEWEST_FIRST = "-created_at"
_ID = "run_"


@router.get("/runs", operation="list_runs", role=Role.VIEWER)
async def list_runs(
    store: Store,
    lists: ListFilters,
    paging: PageRequest,
    q: Query = "",
    state: list[RunState] | None = None,
    job: str | None = None,
    priority: PriorityName | None = None,
    tenant: str | None = None,
    count: CountMode | None = None,
    sort: str = _NEWEST_FIRST,
) -> Page[RunView]:
    """List runs, newest first, including those in history.

    `q` is a filter (docs/reference/filters.md), combined with the other parameters by AND. `count` adds the total:
    `exact`, or `bounded` up to 10,000.
    """
    if sort != _NEWEST_FIRST:
        raise refusal("query:sort", f"must be {_NEWEST_FIRST}: the only supported order")
    wanted = await lists.parse(ListKind.RUNS, q, tenant=tenant, job=job, priority=priority, states=state)
    chosen = await lists.for_runs(wanted)
    counted = await lists.count_runs(chosen, count)
    before = paging.after()
    if before and not before.startswith(_ID):
        raise unknown_cursor()
    rows = await store.list_runs(msgspec.structs.replace(chosen, before=before or None), paging.limit)
    return paging.page(rows, run_views.run_view, lambda row: [row.run.id], counted)


@router.get("/runs/{run_id}", operation="get_run", role=Role.VIEWER, returns=RunView)
async def get_run(
    run_id: str, visible: VisibleRows, store: Store, waits: RunWaiters, prefer: Prefer = None
) -> Response:
    """Get a run, with the counts of its tasks by state.

    With `Prefer: wait=30` it responds when the run has ended, or after 30 s; the maximum is a minute.
    """
    found = await visible.run(run_id)
    seconds = preferences.wait_seconds_of(prefer)
    if seconds:
        await waits.wait_until_ended(run_id, seconds)
        found = await visible.run(run_id)
    return json_response(await run_with_counts(store, found), 200, preferences.applied(seconds))


@router.get("/runs/{run_id}/graph", operation="get_run_graph", role=Role.VIEWER)
async def get_run_graph(run_id: str, visible: VisibleRows, store: Store) -> GraphView:
    """Get the graph of a run: tasks in topological order with their dependencies and counts by state.

    The tasks of a fan-out are one node. Dynamic tasks are included. A graph of more than 10,000 nodes is rejected.
    """
    return await run_graphs.graph_of(store, await visible.run(run_id))


@router.get("/runs/{run_id}/deadline", operation="get_run_deadline", role=Role.VIEWER)
async def get_run_deadline(run_id: str, visible: VisibleRows, store: Store, time: StoreTimeCache) -> DeadlineView:
    """Get the deadline of a run, its slack and its critical path. 404 if it has none."""
    return await run_deadlines.deadline_of(store, time, await visible.run(run_id))


@router.get("/runs/{run_id}/tasks", operation="list_tasks_of_run", role=Role.VIEWER)
async def list_tasks_of_run(
    run_id: str,
    visible: VisibleRows,
    store: Store,
    lists: ListFilters,
    paging: PageRequest,
    q: Query = "",
    state: list[TaskState] | None = None,
    name: str | None = None,
    count: CountMode | None = None,
) -> Page[TaskView]:
    """List the tasks of a run, by id, including runs in history. `q` and `count` as for all tasks."""
    found = await visible.run(run_id)
    after = paging.after()
    wanted = await lists.parse(ListKind.TASKS, q, run=run_id, states=state, name=name)
    chosen = msgspec.structs.replace(list_filters.task_filter(wanted), after=after)
    if found.in_history:
        every = sorted(await store.tasks(run_id), key=lambda task: task.id)
        matching = [task for task in every if _matches(task, chosen)]
        counted = list_filters.counted(len(matching), count)
        rows = [task for task in matching if task.id > after][: paging.limit]
    else:
        counted = await lists.count_tasks(chosen, count)
        rows = await store.list_tasks(chosen, paging.limit)
    return paging.page(rows, run_views.task_view, lambda row: [row.id], counted)


def _add_action(verb: str, kind: type[RunAction], about: str) -> None:
    """Add the route of an action on a run without further arguments."""

    async def act(run_id: str, body: ActionRequest, visible: VisibleRows, actions: Actions) -> ActionResult:
        found = await visible.run(run_id)
        return await actions.on_run(found.run, kind, body.why)

    act.__doc__ = about
    router.post(f"/runs/{{run_id}}/{verb}", operation=f"{verb}_run", role=Role.OPERATOR)(act)


_add_action("cancel", CancelRun, "Cancel a run: waiting tasks never start, running tasks are asked to stop.")
_add_action("pause", PauseRun, "Pause a run: no more of its tasks start; running tasks continue.")
_add_action("resume", ResumeRun, "Resume a run that was paused, or held because of a fault.")
_add_action("retry", RetryRun, "Retry all failed tasks of a run, with the tasks cancelled or skipped because of them.")


@router.post("/runs/{run_id}/priority", operation="change_priority", role=Role.OPERATOR)
async def change_priority(
    run_id: str, body: PriorityRequest, visible: VisibleRows, admission: AdmissionControl, actions: Actions
) -> ActionResult:
    """Change the priority of a run and of its open tasks. Running tasks continue."""
    priority = read_priority(body.priority)
    found = await visible.run(run_id)
    refuse("the body", await admission.check_priority(priority, found.run.tenant))
    return await actions.on_run(found.run, ChangePriority, body.why, priority=priority)


async def run_with_counts(store: Store, found: ListedRun) -> RunView:
    """Convert a run, with the counts of its tasks by state."""
    counts: Counter[str] = Counter()
    if found.run.adopted_at is not None:  # before that it has no tasks
        for states in (await store.task_states(found.run.id, found.run.task_count)).values():
            counts.update(states)
    return run_views.run_view(found, counts)


def read_priority(text: str | None) -> Priority:
    """Parse a priority, case-insensitive. Raises Refused."""
    priority = Priority.__members__.get((text or "").upper())
    if priority is None:
        why = f"must be one of {', '.join(Priority.__members__)}"
        raise refusal("priority", why)
    return priority


def _matches(task: Task, wanted: TaskFilter) -> bool:
    """Return whether a task matches a filter, as the store would decide."""
    return (
        (not wanted.states or task.state in wanted.states)
        and wanted.worker in {None, task.worker_id}
        and (wanted.name is None or matches(wanted.name, task.name))
        and wanted.priority in {None, task.priority}
        and (wanted.since_before is None or task.since < wanted.since_before)
        and wanted.tenant in {None, task.tenant}
    )
