"""Bulk actions on all runs that match a filter (OPS-1), with a dry run first.

1. Nothing is done if more runs match than the caller expected (`most`).
2. Each run is acted on and audited separately; an error with one does not affect others.
3. Runs created meanwhile are newer than the start of the list, and are not touched.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.session_validity import Standing
from mainspring.api.http import list_filters
from mainspring.api.http.problems import problem_of, refusal
from mainspring.api.http.routing import NDJSON, Router
from mainspring.api.routes.runs.runs import priority_act, read_priority, run_act
from mainspring.api.routes.runs.submission import Lines
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.actions import carry_out, reason
from mainspring.api.submission.gate import refuse
from mainspring.core.model.run import Run
from mainspring.core.query.filters import Listed
from mainspring.protocol.errors import MainspringError, Refused
from mainspring.protocol.rest.runs import BulkActLine, BulkActRequest
from mainspring.shard.events import Act, CancelRun, PauseRun, ResumeRun, RetryRun
from mainspring.store.ports.front import ListedRun, RunFilter

router = Router()

MOST_AT_ALL = 100_000
_PAGE = 200
_AT_ONCE = 32
_ACTS: dict[str, type[Act]] = {"cancel": CancelRun, "pause": PauseRun, "resume": ResumeRun, "retry": RetryRun}
_MakeAct = Callable[[Run], Awaitable[Act]]


@router.post("/runs/act", operation="act_on_runs", role=Role.OPERATOR, answers=NDJSON, returns=BulkActLine)
async def act_on_runs(
    body: BulkActRequest, request: Request, principal: Principal, services: Services, audit: Auditor
) -> Response:
    """Cancel, pause, resume or retry all runs that match a filter, or change their priority.

    The response is a stream with a line for each run, newest first. With `dry_run` the lines only list the runs. Runs
    in history are not touched.
    """
    make = _act_of(body, principal, services, audit)
    wanted = await list_filters.wanted_of(services, principal, Listed.RUNS, body.q, where="q", tenant=body.tenant)
    if not body.q.strip():
        raise refusal("the body has 1 fault", "q", "must select runs, such as `job:etl-* state:failed`")
    found = await list_filters.run_filter(services, principal, wanted, "q")
    chosen = msgspec.structs.replace(found, with_history=False)
    if not 1 <= body.most <= MOST_AT_ALL:
        raise refusal("the body has 1 fault", "most", f"must be from 1 to {MOST_AT_ALL}")
    if await services.store.count_runs(chosen, body.most + 1) > body.most:
        raise Refused(f"more than {body.most} runs match the filter: no action taken")
    if body.dry_run:
        audit.nothing_to_say()
        return Lines(_list(services, chosen, body.most))
    audit.will_tell()
    standing = Standing(services, request)
    return Lines(_act_on_each(services, chosen, body.most, make, standing))


def _act_of(body: BulkActRequest, principal: Principal, services: Services, audit: Auditor) -> _MakeAct:
    """Return a factory for the action on each run. Raises Refused."""
    why = reason(body.why)
    kind = _ACTS.get(body.act)
    if kind is None:
        priority = read_priority(body.priority)

        async def change(run: Run) -> Act:
            refuse("the body", await services.gate.check_priority(priority, run.tenant))
            return priority_act(run, priority, principal, why, audit)

        return change
    if body.priority is not None:
        raise refusal("the body has 1 fault", "priority", "is only for the action `priority`")

    async def make(run: Run) -> Act:
        return run_act(kind, run, principal, why, audit)

    return make


async def _list(services: Services, chosen: RunFilter, most: int) -> AsyncIterator[bytes]:
    async for page in _pages(services, chosen, most):
        yield _encode([_line(listed) for listed in page])


async def _act_on_each(
    services: Services, chosen: RunFilter, most: int, make: _MakeAct, standing: Standing
) -> AsyncIterator[bytes]:
    async for page in _pages(services, chosen, most):
        for first in range(0, len(page), _AT_ONCE):
            if not await standing.is_valid():
                return
            group = page[first : first + _AT_ONCE]
            yield _encode(await asyncio.gather(*(_act_on(services, listed, make) for listed in group)))


async def _act_on(services: Services, listed: ListedRun, make: _MakeAct) -> BulkActLine:
    line = _line(listed)
    try:
        done = await carry_out(services, listed.run.shard, await make(listed.run))
    except MainspringError as error:
        return msgspec.structs.replace(line, problem=problem_of(error))
    return msgspec.structs.replace(line, changed=done.changed, detail=done.detail)


async def _pages(services: Services, chosen: RunFilter, most: int) -> AsyncIterator[list[ListedRun]]:
    """Yield the matching runs in pages. Runs may leave the list meanwhile; none is repeated."""
    left = most
    while left > 0:
        page = await services.store.list_runs(chosen, min(_PAGE, left))
        if page:
            yield page
        if len(page) < min(_PAGE, left):
            return
        left -= len(page)
        chosen = msgspec.structs.replace(chosen, before=page[-1].run.id)


def _line(listed: ListedRun) -> BulkActLine:
    return BulkActLine(run_id=listed.run.id, job=listed.job_name, state=listed.run.state)


def _encode(lines: Sequence[BulkActLine]) -> bytes:
    return msgspec.json.Encoder().encode_lines(lines)
