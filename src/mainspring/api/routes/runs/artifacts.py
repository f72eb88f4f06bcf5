"""Artifacts of tasks, as lists: the content is where their workers stored it (WRK-11).

An attempt may list those of its own run with its token, so that workers find the files to fetch.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.cursors import DEFAULT_PAGE_SIZE, Limit, PageRequest, read_cursor
from mainspring.api.http.problems import not_found, refusal
from mainspring.api.http.routing import Router
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.views.view_of import view_of
from mainspring.core.model.artifacts import ArtifactRow, is_expired
from mainspring.protocol.rest.artifacts import ArtifactView
from mainspring.protocol.rest.runs import Page
from mainspring.store.ports.artifacts import ArtifactFilter
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.store import Store

router = Router()

LongCursor = Annotated[str, msgspec.Meta(max_length=2_000)]
"""Cursors of these lists contain a path."""
_MAX_NAMES = 100
_ANY = "*"


@router.get("/runs/{run_id}/artifacts", operation="list_run_artifacts", role=Role.VIEWER)
async def list_run_artifacts(
    run_id: str,
    principal: Principal,
    visible: VisibleRows,
    store: Store,
    time: StoreTimeCache,
    task: list[str] | None = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: LongCursor = "",
) -> Page[ArtifactView]:
    """List the artifacts of a run's tasks, each of its last success, by task and path.

    `task` is a task name, repeatable.
    """
    names = tuple(task or ())
    if len(names) > _MAX_NAMES:
        raise refusal("query:task", f"may be given at most {_MAX_NAMES} times")
    found = await visible.run(run_id)
    if principal.attempt is not None:
        await _check_own(store, principal.attempt, run_id)
    wanted = ArtifactFilter(run_id=run_id, tasks=names, of_last_success=True)
    return await _page(store, time, found, wanted, PageRequest(limit, cursor))


@router.get("/tasks/{task_id}/artifacts", operation="list_task_artifacts", role=Role.VIEWER)
async def list_task_artifacts(
    task_id: str,
    visible: VisibleRows,
    store: Store,
    time: StoreTimeCache,
    attempt: str | None = None,
    limit: Limit = DEFAULT_PAGE_SIZE,
    cursor: LongCursor = "",
) -> Page[ArtifactView]:
    """List the artifacts of a task, by default of its last success.

    `attempt` is the id of another attempt, which may have failed, or `*` for all of them.
    """
    found_task = await visible.task(task_id)
    found = await visible.run(found_task.run_id)
    wanted = ArtifactFilter(
        run_id=found.run.id,
        task_id=task_id,
        attempt_id=None if attempt == _ANY else attempt,
        of_last_success=attempt is None,
    )
    return await _page(store, time, found, wanted, PageRequest(limit, cursor))


async def _check_own(store: Store, attempt: str, run_id: str) -> None:
    """Raise NotFound if an attempt requests another run than its own."""
    recorded = await store.find_attempts([attempt])
    task = await store.find_task(recorded[0].task_id) if recorded else None
    if task is None or task.run_id != run_id:
        raise not_found("run", run_id)


async def _page(
    store: Store, time: StoreTimeCache, found: ListedRun, wanted: ArtifactFilter, paging: PageRequest
) -> Page[ArtifactView]:
    task_id, attempt_id, path = read_cursor(paging.cursor, 3)
    after = (task_id, attempt_id, path) if paging.cursor else None
    rows = await store.list_artifacts(wanted, after, paging.limit)
    now = await time.now()
    ended_at = found.run.ended_at

    def view(row: ArtifactRow) -> ArtifactView:
        kept_until = ended_at + timedelta(seconds=row.keep_seconds) if row.keep_seconds and ended_at else None
        return view_of(ArtifactView, row, kept_until=kept_until, is_expired=is_expired(row, ended_at, now))

    return paging.page(rows, view, lambda row: [row.task_id, row.attempt_id, row.path])
