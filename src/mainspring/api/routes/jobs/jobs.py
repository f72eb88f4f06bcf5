"""Jobs: submit, read and delete definitions, and trends of their runs (OBS-5)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Annotated

import msgspec
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import etags
from mainspring.api.http.bodies import LARGE_BYTES
from mainspring.api.http.cursors import PageRequest, make_cursor
from mainspring.api.http.etags import IfMatch, IfNoneMatch
from mainspring.api.http.job_schema import JobDefinition
from mainspring.api.http.list_filters import ListFilters, Query
from mainspring.api.http.problems import not_found, refuse
from mainspring.api.http.routing import Router, json_response
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.actions import reason
from mainspring.api.submission.apply_definitions import Definitions
from mainspring.api.submission.definitions import job_entry, new_job, read_job
from mainspring.api.submission.submission import Submissions
from mainspring.api.views import run_views
from mainspring.core.admission.validate_job import NAME
from mainspring.core.lifecycle.duration_histogram import percentile
from mainspring.core.model.job import JobRow
from mainspring.core.query.filters import Filter, ListKind, matches
from mainspring.protocol.ids import entropy
from mainspring.protocol.rest.overviews import JobDayView, TrendView
from mainspring.protocol.rest.runs import ActionResult, JobView, Page
from mainspring.store.ports.front import JobDay
from mainspring.store.ports.store import Store

router = Router()

TenantName = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
Version = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
MAX_DAYS = 366
_ROWS_AT_ONCE = 200
_MAX_ROWS_SCANNED = 2_000
_DAY = timedelta(days=1)


@router.post(
    "/jobs", operation="create_job", role=Role.SUBMITTER, status=201, also=200, reads=JobDefinition, returns=JobView
)
async def create_job(
    body: bytes, definitions: Definitions, tenant: TenantName | None = None, match: IfMatch = None
) -> Response:
    """Submit a definition.

    It becomes the next version of its name, or stays the current one if nothing has changed (200). With `If-Match` it
    is accepted only if that is the latest version.
    """
    tenant = permissions.tenant_to_write(definitions.principal, tenant)
    large = len(body) > LARGE_BYTES
    limits = definitions.server.limits
    job = await asyncio.to_thread(read_job, body, limits) if large else read_job(body, limits)
    refuse("the job", await definitions.admission.check_job(job.spec))
    if match is not None:
        latest = await definitions.store.find_job(tenant, job.spec.name)
        etags.expected(match, None if latest is None else latest.version, f"job {job.spec.name}")
    entry = job_entry(definitions.audit, job, tenant=tenant)
    now = await definitions.time.now()
    wanted = new_job(job, tenant=tenant, by=entry.actor, now=now, random=Random(entropy()))
    row = await definitions.store.insert_job(wanted, entry)
    await definitions.submissions.jobs.submitted(row)
    headers = {"Location": f"/api/v1/jobs/{row.name}?version={row.version}", "ETag": etags.tag(row.version)}
    return json_response(run_views.job_view(row), 201 if row.id == wanted.id else 200, headers)


@router.get("/jobs", operation="list_jobs", role=Role.VIEWER)
async def list_jobs(
    store: Store, lists: ListFilters, paging: PageRequest, q: Query = "", tenant: str | None = None
) -> Page[JobView]:
    """List the latest version of each job, by tenant and name, without deleted ones.

    With `q` (docs/reference/filters.md) a page may have fewer jobs than `limit` even if more follow.
    """
    wanted = await lists.parse(ListKind.JOBS, q, tenant=tenant)
    after = paging.after()
    if wanted.job is None and not wanted.labels:
        rows = await store.list_jobs(wanted.tenant, after, paging.limit)
        return paging.page(rows, run_views.job_view, lambda row: [_position(row)])
    matching: list[JobRow] = []
    for _ in range(_MAX_ROWS_SCANNED // _ROWS_AT_ONCE):
        rows = await store.list_jobs(wanted.tenant, after, _ROWS_AT_ONCE)
        for row in rows:
            after = _position(row)
            if _matches(row, wanted):
                matching.append(row)
            if len(matching) == paging.limit:
                return Page(items=list(map(run_views.job_view, matching)), next_cursor=make_cursor(after))
        if len(rows) < _ROWS_AT_ONCE:
            return Page(items=list(map(run_views.job_view, matching)))
    return Page(items=list(map(run_views.job_view, matching)), next_cursor=make_cursor(after))


@router.get("/jobs/{name}", operation="get_job", role=Role.VIEWER, returns=JobView)
async def get_job(
    name: str,
    visible: VisibleRows,
    version: Version | None = None,
    tenant: str | None = None,
    known: IfNoneMatch = None,
) -> Response:
    """Get a version of a job, default the latest; the ETag is the version. Includes deleted jobs."""
    row = await visible.job(name, tenant, version)
    state = f"{row.version}" if row.deleted_at is None else f"{row.version}-deleted"
    return etags.answer(run_views.job_view(row, with_definition=True), state, known)


@router.get("/jobs/{name}/versions", operation="list_job_versions", role=Role.VIEWER)
async def list_job_versions(
    name: str, visible: VisibleRows, paging: PageRequest, tenant: str | None = None
) -> Page[JobView]:
    """List the versions of a job, latest first, without definitions. Includes deleted jobs."""
    before = paging.after_number()
    latest = await visible.job(name, tenant)
    rows = await visible.store.job_versions(latest.tenant, name, before, paging.limit)
    return paging.page(rows, run_views.job_view, lambda row: [str(row.version)])


@router.delete("/jobs/{name}", operation="delete_job", role=Role.OPERATOR)
async def delete_job(
    name: str,
    visible: VisibleRows,
    submissions: Submissions,
    audit: Auditor,
    tenant: str | None = None,
    why: str = "",
    match: IfMatch = None,
) -> ActionResult:
    """Delete a job with all its versions: it gets no new runs; existing runs continue.

    Rejected (409) while a schedule uses it. Submitting a job of this name restores it.
    """
    row = await visible.job(name, tenant)
    etags.expected(match, row.version, f"job {name}")
    entry = audit.entry(name, tenant=row.tenant, why=reason(why), before={"id": row.id, "version": row.version})
    if not await visible.store.delete_job(row.tenant, name, entry):
        raise not_found("job", name)
    submissions.jobs.deleted(row.tenant, name)
    return ActionResult(changed=True)


@router.get("/jobs/{name}/trend", operation="get_job_trend", role=Role.VIEWER)
async def get_job_trend(
    name: str,
    visible: VisibleRows,
    time: StoreTimeCache,
    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] = 30,
    tenant: str | None = None,
) -> TrendView:
    """Get results of a job's runs that ended in the last days, by day in UTC, including today."""
    row = await visible.job(name, tenant)
    now = await time.now()
    today = datetime(now.year, now.month, now.day, tzinfo=UTC)
    first = today - (days - 1) * _DAY
    by_day = {one.day: one for one in await visible.store.job_days(row.tenant, name, first, today + _DAY)}
    each = [by_day.get(day, _empty_day(day)) for day in (first + number * _DAY for number in range(days))]
    return TrendView(tenant=row.tenant, job=name, days=list(map(_day_view, each)), total=_day_view(_sum(first, each)))


def _position(row: JobRow) -> str:
    return f"{row.tenant}/{row.name}"


def _matches(row: JobRow, wanted: Filter) -> bool:
    if wanted.job is not None and not matches(wanted.job, row.name):
        return False
    labels = msgspec.json.decode(row.labels, type=dict[str, str])
    return all(name in labels and matches(value, labels[name]) for name, value in wanted.labels)


def _empty_day(day: datetime) -> JobDay:
    return JobDay(day=day, states={}, durations={}, lateness={}, retries=0)


def _sum(first: datetime, days: Iterable[JobDay]) -> JobDay:
    states: Counter[str] = Counter()
    durations: Counter[int] = Counter()
    lateness: Counter[int] = Counter()
    retries = 0
    for day in days:
        states.update(day.states)
        durations.update(day.durations)
        lateness.update(day.lateness)
        retries += day.retries
    return JobDay(day=first, states=states, durations=durations, lateness=lateness, retries=retries)


def _day_view(day: JobDay) -> JobDayView:
    return JobDayView(
        day=day.day,
        runs=sum(day.states.values()),
        states=day.states,
        retries=day.retries,
        duration_p50_seconds=percentile(day.durations, 0.5),
        duration_p95_seconds=percentile(day.durations, 0.95),
        late_p50_seconds=percentile(day.lateness, 0.5),
        late_p95_seconds=percentile(day.lateness, 0.95),
    )
