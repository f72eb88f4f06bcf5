"""Bulk actions on all runs that match a filter (OPS-1), with a dry run first.

1. Nothing is done if more runs match than the caller expected (`most`).
2. Each run is acted on and audited separately; an error with one does not affect others.
3. Runs created meanwhile are newer than the start of the list, and are not touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth.access import Access, SessionValidity
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Role
from mainspring.api.http.list_filters import ListFilters
from mainspring.api.http.problems import problem_of, refusal, refuse
from mainspring.api.http.routing import NDJSON, Router
from mainspring.api.routes.runs.runs import read_priority
from mainspring.api.routes.runs.submission import NdjsonResponse
from mainspring.api.submission.actions import Actions, reason
from mainspring.api.submission.admission import AdmissionControl
from mainspring.core.model.run import Run
from mainspring.core.query.filters import ListKind
from mainspring.protocol.errors import MainspringError, Refused
from mainspring.protocol.rest.runs import ActionResult, BulkActionRequest, BulkActionResult
from mainspring.shard.events import CancelRun, ChangePriority, PauseRun, ResumeRun, RetryRun, RunAction
from mainspring.store.ports.front import ListedRun, RunFilter
from mainspring.store.ports.store import Store

router = Router()

MAX_BULK_RUNS = 100_000
_PAGE = 200
_CONCURRENCY = 32
_ACTIONS: dict[str, type[RunAction]] = {"cancel": CancelRun, "pause": PauseRun, "resume": ResumeRun, "retry": RetryRun}
_Act = Callable[[Run], Awaitable[ActionResult]]


@router.post("/runs/act", operation="act_on_runs", role=Role.OPERATOR, answers=NDJSON, returns=BulkActionResult)
async def act_on_runs(
    body: BulkActionRequest,
    request: Request,
    store: Store,
    lists: ListFilters,
    access: Access,
    actions: Actions,
    admission: AdmissionControl,
    audit: Auditor,
) -> Response:
    """Cancel, pause, resume or retry all runs that match a filter, or change their priority.

    The response is a stream with a line for each run, newest first. With `dry_run` the lines only list the runs. Runs
    in history are not touched.
    """
    act = _action(body, actions, admission)
    wanted = await lists.parse(ListKind.RUNS, body.q, where="q", tenant=body.tenant)
    if not body.q.strip():
        raise refusal("q", "must select runs, such as `job:etl-* state:failed`")
    found = await lists.for_runs(wanted, "q")
    chosen = msgspec.structs.replace(found, with_history=False)
    if not 1 <= body.most <= MAX_BULK_RUNS:
        raise refusal("most", f"must be from 1 to {MAX_BULK_RUNS}")
    if await store.count_runs(chosen, body.most + 1) > body.most:
        raise Refused(f"more than {body.most} runs match the filter: no action taken")
    if body.dry_run:
        audit.skip_entry()
        return NdjsonResponse(_list(store, chosen, body.most))
    audit.defer_entries()
    validity = access.session(request)
    return NdjsonResponse(_act_on_all(store, chosen, body.most, act, validity))


def _action(body: BulkActionRequest, actions: Actions, admission: AdmissionControl) -> _Act:
    """Return the action on each run. Raises Refused."""
    why = reason(body.why)
    kind = _ACTIONS.get(body.action)
    if kind is not None:
        if body.priority is not None:
            raise refusal("priority", "is only for the action `priority`")
        return partial(actions.on_run, kind=kind, why=why)
    priority = read_priority(body.priority)

    async def change(run: Run) -> ActionResult:
        refuse("the body", await admission.check_priority(priority, run.tenant))
        return await actions.on_run(run, ChangePriority, why, priority=priority)

    return change


async def _list(store: Store, chosen: RunFilter, most: int) -> AsyncIterator[bytes]:
    async for page in _pages(store, chosen, most):
        yield _encode([_line(listed) for listed in page])


async def _act_on_all(
    store: Store, chosen: RunFilter, most: int, act: _Act, validity: SessionValidity
) -> AsyncIterator[bytes]:
    async for page in _pages(store, chosen, most):
        for first in range(0, len(page), _CONCURRENCY):
            if not await validity.is_valid():
                return
            group = page[first : first + _CONCURRENCY]
            yield _encode(await asyncio.gather(*(_act_on(listed, act) for listed in group)))


async def _act_on(listed: ListedRun, act: _Act) -> BulkActionResult:
    line = _line(listed)
    try:
        done = await act(listed.run)
    except MainspringError as error:
        return msgspec.structs.replace(line, problem=problem_of(error))
    return msgspec.structs.replace(line, changed=done.changed, detail=done.detail)


async def _pages(store: Store, chosen: RunFilter, most: int) -> AsyncIterator[list[ListedRun]]:
    """Yield the matching runs in pages. Runs may leave the list meanwhile; none is repeated."""
    left = most
    while left > 0:
        page = await store.list_runs(chosen, min(_PAGE, left))
        if page:
            yield page
        if len(page) < min(_PAGE, left):
            return
        left -= len(page)
        chosen = msgspec.structs.replace(chosen, before=page[-1].run.id)


def _line(listed: ListedRun) -> BulkActionResult:
    return BulkActionResult(run_id=listed.run.id, job=listed.job_name, state=listed.run.state)


def _encode(lines: Sequence[BulkActionResult]) -> bytes:
    return msgspec.json.Encoder().encode_lines(lines)
