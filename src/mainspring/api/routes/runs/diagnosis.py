"""Why something does not go on, and what would be if something were otherwise (OBS-1).

As JSON, or for whoever accepts `text/plain` or `text/markdown` in the seven lines that `mainspring why` prints.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.http.routing import Router
from mainspring.api.routes.jobs.jobs import find_job
from mainspring.api.routes.jobs.schedules import find_schedule
from mainspring.api.routes.runs.runs import find_run
from mainspring.api.routes.runs.tasks import find_task
from mainspring.api.routes.sharing.queue import check_pool
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission.rate_limits import Counts
from mainspring.api.views import diagnose, diagnosis_views
from mainspring.api.views.diagnosis_views import TEXTS, Accept, Form
from mainspring.api.views.schedule_diagnosis import diagnose_schedule_row
from mainspring.core.explain.what_if import Supposal, parse_supposal
from mainspring.protocol.errors import Fault, Refused
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView

router = Router()


@router.get(
    "/tasks/{task_id}/diagnosis", operation="diagnose_task", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS
)
async def diagnose_task(
    task_id: str, principal: Principal, services: Services, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Why a task does not go on: since when, what for, who is in the way, and what would change it.

    If the leader of its pool does not answer in a second, the rows say how old they are, and no advice is given. As
    text with `Accept: text/plain` or `text/markdown`, or with `format`.
    """
    task = await find_task(services, principal, task_id)
    return diagnosis_views.answer(await diagnose.diagnose_task(services, task), principal, format, accept)


@router.post(
    "/tasks/{task_id}/what-if",
    operation="suppose",
    role=Role.VIEWER,
    returns=WhatIfView,
    texts=TEXTS,
    audited=False,
    counts=Counts.QUERY,
)
async def suppose(
    task_id: str,
    body: WhatIfRequest,
    principal: Principal,
    services: Services,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """When a task would start, and whom it would push out, if something were otherwise. Nothing is changed.

    The scheduler tries it out on a copy, with its own rules. `changes` are words such as `cpu 2`, `burst 8` or
    `one more worker of 8 cores`: docs/reference/diagnosis.md has all of them. A task that has started is a conflict.
    """
    task = await find_task(services, principal, task_id)
    outcome = await diagnose.suppose(services, task, _read(body.changes))
    return diagnosis_views.answer_what_if(outcome, body.changes, principal, format, accept)


@router.get("/runs/{run_id}/diagnosis", operation="diagnose_run", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS)
async def diagnose_run(
    run_id: str, principal: Principal, services: Services, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Why a run does not go on: why that task of it does not that tells most. The forms are those of a task's."""
    found = await diagnose.diagnose_run(services, await find_run(services, principal, run_id))
    return diagnosis_views.answer(found, principal, format, accept)


@router.get(
    "/schedules/{ref}/diagnosis", operation="diagnose_schedule", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS
)
async def diagnose_schedule(
    ref: str,
    principal: Principal,
    services: Services,
    tenant: str | None = None,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """Why a schedule does not run its job. The forms are those of a task's."""
    row = await find_schedule(services, principal, ref, tenant)
    return diagnosis_views.answer(await diagnose_schedule_row(services, row), principal, format, accept)


@router.get("/jobs/{name}/diagnosis", operation="diagnose_job", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS)
async def diagnose_job(
    name: str,
    principal: Principal,
    services: Services,
    tenant: str | None = None,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """Why a job does not run: a run of it that hangs, a schedule that is stopped, else what comes next."""
    row = await find_job(services, principal, name, None, tenant)
    return diagnosis_views.answer(await diagnose.diagnose_job(services, row), principal, format, accept)


@router.get("/queue/reasons", operation="list_reasons", role=Role.VIEWER)
async def list_reasons(principal: Principal, services: Services, pool: str | None = None) -> QueueReasonsView:
    """How many tasks of a pool wait for which reason; without `pool` of the one where runs usually go.

    Whoever belongs to one tenant is told of its own tasks.
    """
    name = services.pool if pool is None else pool
    if name not in services.shards.leads():
        await check_pool(services, name)
    sums = await diagnose.waiting_sums(services, name, permissions.tenant_to_look_at(principal, None))
    return QueueReasonsView(
        pool=name, at=await services.time.now(), reasons=[diagnosis_views.sum_view(one) for one in sums]
    )


def _read(changes: Sequence[str]) -> Supposal:
    """What the words suppose. Raises Refused, with every fault."""
    try:
        return parse_supposal(changes)
    except Refused as refused:
        faults = [Fault(where="changes", why=f"{fault.where}: {fault.why}") for fault in refused.faults]
        raise Refused(str(refused).partition("\n")[0], faults) from refused
