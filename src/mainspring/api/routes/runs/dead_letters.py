"""Dead letters: list and retry permanently failed tasks (RTY-5, DAG-7)."""

from __future__ import annotations

import msgspec

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.cursors import PageRequest
from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Router
from mainspring.api.submission.actions import Actions, reason
from mainspring.api.submission.idempotency import Key
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.submission.submission import Submissions
from mainspring.api.views import schedule_views
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.run import Run
from mainspring.core.model.task import TaskState
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import ActionRequest, Page
from mainspring.protocol.rest.schedules import DeadLetterView, RetryResult
from mainspring.shard.events import ReopenTask
from mainspring.store.ports.store import Store

router = Router()

_DEAD = frozenset({TaskState.FAILED, TaskState.TIMED_OUT})


@router.get("/dead-letters", operation="list_dead_letters", role=Role.VIEWER)
async def list_dead_letters(
    principal: Principal, store: Store, paging: PageRequest, job: str | None = None, tenant: str | None = None
) -> Page[DeadLetterView]:
    """List permanently failed tasks, latest first, including those of runs in history."""
    scope = permissions.tenant_to_read(principal, tenant)
    tasks = await store.list_dead_letters(scope, job, paging.position(), paging.limit)
    runs = {run_id: await store.find_run(run_id) for run_id in dict.fromkeys(task.run_id for task in tasks)}
    views = [schedule_views.dead_letter_view(task, run) for task in tasks if (run := runs[task.run_id]) is not None]
    following = paging.next_cursor(tasks, lambda task: [(task.ended_at or task.since).isoformat(), task.id])
    return Page(items=views, next_cursor=following)


@router.post("/dead-letters/{task_id}/retry", operation="retry_dead_letter", role=Role.OPERATOR)
async def retry_dead_letter(
    task_id: str, body: ActionRequest, visible: VisibleRows, actions: Actions, submissions: Submissions, key: Key = None
) -> RetryResult:
    """Retry a permanently failed task, with the tasks that were cancelled or skipped because of it.

    If its run has moved to history, the job runs again as a new run linked to the old one, once for each
    `Idempotency-Key`.
    """
    task = await visible.task(task_id)
    if task.state not in _DEAD:
        raise refusal("path:task_id", f"is {task.state}: only failed tasks are dead letters")
    entry = actions.audit.entry(task_id, tenant=task.tenant, why=reason(body.why))
    try:
        done = await actions.on_task(task, ReopenTask, body.why, entry=entry)
    except NotFound:
        found = await visible.run(task.run_id)
        return await _run_again(submissions, found.run, entry, key)
    return RetryResult(run_id=task.run_id, is_new_run=False, detail=done.detail)


@router.post(
    "/runs/{run_id}/rerun", operation="rerun_run", role=Role.OPERATOR, status=201, rate_class=RateClass.SUBMISSION
)
async def rerun_run(
    run_id: str, body: ActionRequest, visible: VisibleRows, submissions: Submissions, audit: Auditor, key: Key = None
) -> RetryResult:
    """Rerun a whole run: the same job version and parameters, as a new run linked to this one.

    Works for runs in history. Once for each `Idempotency-Key`.
    """
    found = await visible.run(run_id)
    entry = audit.entry(run_id, tenant=found.run.tenant, why=reason(body.why))
    return await _run_again(submissions, found.run, entry, key)


async def _run_again(submissions: Submissions, run: Run, entry: AuditEntry, key: str | None) -> RetryResult:
    """Create a run like an earlier one."""
    prepared = await submissions.prepare_rerun(run, by=entry.actor, why=entry.why, key=key)
    created = await submissions.insert(msgspec.structs.replace(prepared, audit=entry))
    detail = "already created with the same key" if created.is_replay else ""
    return RetryResult(run_id=created.id, is_new_run=True, detail=detail)
