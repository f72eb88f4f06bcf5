"""Tasks: state, history and actions."""

from __future__ import annotations

from typing import Any

import msgspec

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.http import list_filters
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.list_filters import CountMode, PriorityName, Query
from mainspring.api.http.problems import not_found, refusal
from mainspring.api.http.routing import Router
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import execute, reason
from mainspring.api.views import run_views
from mainspring.api.views.view_of import view_of
from mainspring.core.admission.validate_job import MAX_TIMEOUT_SECONDS
from mainspring.core.model.task import Task, TaskState
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
    principal: Principal,
    store: Store,
    time: StoreTimeCache,
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
    wanted = await list_filters.parse_filter(
        time, principal, ListKind.TASKS, q, tenant=tenant, run=run, worker=worker, name=name, priority=priority,
        states=state,
    )  # fmt: skip
    chosen = list_filters.task_filter(wanted)
    counted = await list_filters.count_tasks(store, chosen, count)
    rows = await store.list_tasks(msgspec.structs.replace(chosen, after=paging.after()), paging.limit)
    return paging.page(rows, run_views.task_view, lambda row: [row.id], counted)


@router.get("/tasks/{task_id}", operation="get_task", role=Role.VIEWER)
async def get_task(task_id: str, principal: Principal, store: Store) -> TaskView:
    """Get a task."""
    return run_views.task_view(await find_task(store, principal, task_id))


@router.get("/tasks/{task_id}/attempts", operation="list_attempts", role=Role.VIEWER)
async def list_attempts(task_id: str, principal: Principal, store: Store) -> Page[AttemptView]:
    """List the attempts of a task, oldest first; the last one may be running."""
    task = await find_task(store, principal, task_id)
    attempts = [run_views.attempt_view(attempt) for attempt in await store.attempts_of(task_id)]
    current = run_views.current_attempt(task)
    if current is not None and all(attempt.id != current.id for attempt in attempts):
        attempts.append(current)
    return Page(items=attempts)


@router.get("/tasks/{task_id}/transitions", operation="list_transitions", role=Role.VIEWER)
async def list_transitions(task_id: str, principal: Principal, store: Store) -> Page[TransitionView]:
    """List the transitions of a task within their retention."""
    await find_task(store, principal, task_id)
    return Page(items=[view_of(TransitionView, one) for one in await store.transitions_of(task_id)])


def _add_action(verb: str, kind: type[CancelTask | ReopenTask | ClearTask], about: str) -> None:
    """Add the route of an action on a task without further arguments."""

    async def act(
        task_id: str, body: ActionRequest, principal: Principal, store: Store, leaders: LeaderRouter, audit: Auditor
    ) -> ActionResult:
        return await _execute(kind, task_id, body.why, principal, store, leaders, audit)

    act.__doc__ = about
    router.post(f"/tasks/{{task_id}}/{verb}", operation=f"{verb}_task", role=Role.OPERATOR)(act)


_add_action("cancel", CancelTask, "Cancel a task and its descendants.")
_add_action("retry", ReopenTask, "Retry an ended task, with the tasks that were cancelled or skipped because of it.")
_add_action("clear", ClearTask, "Release a quarantined task.")


@router.post("/tasks/{task_id}/extend", operation="extend_task", role=Role.OPERATOR)
async def extend_task(
    task_id: str, body: ExtendRequest, principal: Principal, store: Store, leaders: LeaderRouter, audit: Auditor
) -> ActionResult:
    """Extend the timeout of a running task."""
    if not 0 < body.seconds <= MAX_TIMEOUT_SECONDS:
        raise refusal("the body has 1 fault", "seconds", f"must be more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}")
    return await _execute(ExtendTask, task_id, body.why, principal, store, leaders, audit, seconds=body.seconds)


@router.post("/tasks/{task_id}/kill", operation="kill_task", role=Role.OPERATOR)
async def kill_task(
    task_id: str, body: KillRequest, principal: Principal, store: Store, leaders: LeaderRouter, audit: Auditor
) -> ActionResult:
    """Kill the process of a running task, after a grace period in which it may stop.

    The task is then cancelled; with `again` it is requeued, and the attempt does not count.
    """
    if not 0 <= body.grace_seconds <= MAX_GRACE_SECONDS:
        raise refusal("the body has 1 fault", "grace_seconds", f"must be from 0 to {MAX_GRACE_SECONDS:.0f}")
    return await _execute(
        KillTask, task_id, body.why, principal, store, leaders, audit, grace_seconds=body.grace_seconds,
        again=body.again,
    )  # fmt: skip


async def find_task(store: Store, principal: Principal, task_id: str) -> Task:
    """Find a task that the caller may see; an attempt sees its own only. Raises NotFound, also for hidden tasks."""
    task = await store.find_task(task_id)
    if task is None or not principal.sees(task.tenant):
        raise not_found("task", task_id)
    if principal.attempt is not None and principal.attempt != task.attempt_id:
        raise not_found("task", task_id)
    return task


async def _execute(
    kind: type[CancelTask | ReopenTask | ClearTask | ExtendTask | KillTask], task_id: str, why: str,
    principal: Principal, store: Store, leaders: LeaderRouter, audit: Auditor, **arguments: Any,
) -> ActionResult:  # fmt: skip
    task = await find_task(store, principal, task_id)
    why = reason(why)
    entry = audit.entry(task_id, tenant=task.tenant, why=why)
    action = kind(run_id=task.run_id, task_id=task_id, by=principal.name, why=why, audit=entry, **arguments)
    return await execute(leaders, task.shard, action)
