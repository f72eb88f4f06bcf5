"""Jobs: definitions are submitted, and read."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Annotated

import msgspec
from starlette.responses import Response

from mainspring.api import permissions, views
from mainspring.api.problems import not_found
from mainspring.api.routing import Router, json_response
from mainspring.api.services import Principal, Role, Services
from mainspring.api.views import USUAL_PAGE, Cursor, Limit
from mainspring.core.admission import decode_job
from mainspring.core.job_rules import NAME
from mainspring.core.jobs import JobRow
from mainspring.ids import entropy, new_id
from mainspring.rest import JobView, Page

router = Router()

TenantName = Annotated[str, msgspec.Meta(pattern=f"^{NAME.pattern}$")]
_LARGE_BYTES = 64 * 1024
"""A body of this size is read in a thread, so that nobody waits for it."""


@router.post("/jobs", role=Role.SUBMITTER, status=201, returns=JobView)
async def create_job(
    body: bytes, principal: Principal, services: Services, tenant: TenantName | None = None
) -> Response:
    """Submit a definition.

    It becomes the next version of its name, or is that which is there if nothing has changed (200).
    """
    tenant = permissions.tenant_to_act_for(principal, tenant)
    large = len(body) > _LARGE_BYTES
    spec = await asyncio.to_thread(decode_job, body, services.limits) if large else decode_job(body, services.limits)
    definition = (await asyncio.to_thread(msgspec.json.encode, spec) if large else msgspec.json.encode(spec)).decode()
    job_id = new_id("job", await services.time.now(), Random(entropy()))
    row = await services.store.insert_job(
        JobRow(id=job_id, tenant=tenant, name=spec.name, version=0, definition=definition)
    )
    await services.submissions.jobs.submitted(row)
    headers = {"Location": f"/api/v1/jobs/{row.name}?version={row.version}"}
    return json_response(views.job_view(row), 201 if row.id == job_id else 200, headers)


@router.get("/jobs", role=Role.VIEWER)
async def list_jobs(
    principal: Principal, services: Services, tenant: str | None = None, limit: Limit = USUAL_PAGE, cursor: Cursor = ""
) -> Page[JobView]:
    """The latest version of each job, by tenant and name."""
    looked_at = permissions.tenant_to_look_at(principal, tenant)
    (after,) = views.read_cursor(cursor, 1)
    rows = await services.store.list_jobs(looked_at, after, limit)
    place = [f"{rows[-1].tenant}/{rows[-1].name}"] if rows else [""]
    return views.page(rows, map(views.job_view, rows), limit, place)


@router.get("/jobs/{name}", role=Role.VIEWER)
async def get_job(
    name: str,
    principal: Principal,
    services: Services,
    version: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)] | None = None,
    tenant: str | None = None,
) -> JobView:
    """One version of a job, the latest if none is named."""
    row = await services.store.find_job(permissions.tenant_to_act_for(principal, tenant), name, version)
    if row is None:
        raise not_found("job", name if version is None else f"{name}@{version}")
    return views.job_view(row, with_definition=True)
