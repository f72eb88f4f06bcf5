"""Tasks: state, history and actions."""

from __future__ import annotations

import msgspec

from mainspring.api.auth.principal import Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import list_filters
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.list_filters import CountMode, ListFilters, PriorityName, Query
from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Router
from mainspring.api.submission.actions import Actions
from mainspring.api.views import run_views
from mainspring.api.views.view_of import view_of
from mainspring.core.admission.validate_job import MAX_TIMEOUT_SECONDS
from mainspring.core.model.task import TaskState
from mainspring.core.query.filters import ListKind
from mainspring.core.work.work import MAX_GRACE_SECONDS
from mainspring.protocol.rest.runs import (
    ActionRequest,
    ActionResult,
    AttemptView,
    ExtendRequest,
    KillRequest,
    Page,
    TaskView,
    TransitionView,
)
from mainspring.shard.events import CancelTask, ClearTask, ExtendTask, KillTask, ReopenTask
from mainspring.store.ports.store import Store

router = Router()


@router.get("/tasks", operation="list_tasks", role=Role.VIEWER)
async def list_tasks(
    store: Store,
    lists: ListFilters,
    paging: PageRequest,
    q: Query = "",
    state: list[TaskState] | None = None,
    run: str | None = None,
    worker: str | None = None,
    name: str | None = None,
    priority: PriorityName | None = None,
    tenant: str | None = None,
    count: CountMode | None = None,
) -> Page[TaskView]:
    """List tasks by id, without those of runs in history.

    `q` is a filter (docs/reference/filters.md), combined with the other parameters by AND. `count` adds the total:
    `exact`, or `bounded` up to 10,000.
    """
    wanted = await lists.parse(
        ListKind.TASKS, q, tenant=tenant, run=run, worker=worker, name=name, priority=priority,
        states=state,
    )  # fmt: skip
    chosen = list_filters.task_filter(wanted)
    counted = await lists.count_tasks(chosen, count)
    rows = await store.list_tasks(msgspec.structs.replace(chosen, after=paging.after()), paging.limit)
    return paging.page(rows, run_views.task_view, lambda row: [row.id], counted)


@router.get("/tasks/{task_id}", operation="get_task", role=Role.VIEWER)
async def get_task(task_id: str, visible: VisibleRows) -> TaskView:
    """Get a task."""
    return run_views.task_view(await visible.task(task_id))


@router.get("/tasks/{task_id}/attempts", operation="list_attempts", role=Role.VIEWER)
async def list_attempts(task_id: str, visible: VisibleRows, store: Store) -> Page[AttemptView]:
    """List the attempts of a task, oldest first; the last one may be running."""
    task = await visible.task(task_id)
    attempts = [run_views.attempt_view(attempt) for attempt in await store.attempts_of(task_id)]
    current = run_views.current_attempt(task)
    if current is not None and all(attempt.id != current.id for attempt in attempts):
        attempts.append(current)
    return Page(items=attempts)


@router.get("/tasks/{task_id}/transitions", operation="list_transitions", role=Role.VIEWER)
async def list_transitions(task_id: str, visible: VisibleRows, store: Store) -> Page[TransitionView]:
    """List the transitions of a task within their retention."""
    await visible.task(task_id)
    return Page(items=[view_of(TransitionView, one) for one in await store.transitions_of(task_id)])


def _add_action(verb: str, kind: type[CancelTask | ReopenTask | ClearTask], about: str) -> None:
    """Add the route of an action on a task without further arguments."""

    async def act(task_id: str, body: ActionRequest, visible: VisibleRows, actions: Actions) -> ActionResult:
        return await actions.on_task(await visible.task(task_id), kind, body.why)

    act.__doc__ = about
    router.post(f"/tasks/{{task_id}}/{verb}", operation=f"{verb}_task", role=Role.OPERATOR)(act)


_add_action("cancel", CancelTask, "Cancel a task and its descendants.")
_add_action("retry", ReopenTask, "Retry an ended task, with the tasks that were cancelled or skipped because of it.")
_add_action("clear", ClearTask, "Release a quarantined task.")


@router.post("/tasks/{task_id}/extend", operation="extend_task", role=Role.OPERATOR)
async def extend_task(task_id: str, body: ExtendRequest, visible: VisibleRows, actions: Actions) -> ActionResult:
    """Extend the timeout of a running task."""
    if not 0 < body.seconds <= MAX_TIMEOUT_SECONDS:
        raise refusal("seconds", f"must be more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}")
    return await actions.on_task(await visible.task(task_id), ExtendTask, body.why, seconds=body.seconds)


@router.post("/tasks/{task_id}/kill", operation="kill_task", role=Role.OPERATOR)
async def kill_task(task_id: str, body: KillRequest, visible: VisibleRows, actions: Actions) -> ActionResult:
    """Kill the process of a running task, after a grace period in which it may stop.

    The task is then cancelled; with `again` it is requeued, and the attempt does not count.
    """
    if not 0 <= body.grace_seconds <= MAX_GRACE_SECONDS:
        raise refusal("grace_seconds", f"must be from 0 to {MAX_GRACE_SECONDS:.0f}")
    task = await visible.task(task_id)
    return await actions.on_task(task, KillTask, body.why, grace_seconds=body.grace_seconds, again=body.again)
