"""Diagnosis of waiting work, and what-if forecasts (OBS-1).

As JSON, or as the text of `mainspring why` with `Accept: text/plain` or `text/markdown`.
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
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views import diagnose, diagnosis_views
from mainspring.api.views.diagnosis_views import TEXTS, Accept, Form
from mainspring.api.views.schedule_diagnosis import diagnose_schedule_row
from mainspring.core.explain.what_if import Hypothesis, parse_hypothesis
from mainspring.protocol.errors import Fault, Refused, summary_of
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView

router = Router()


@router.get(
    "/tasks/{task_id}/diagnosis", operation="diagnose_task", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS
)
async def diagnose_task(
    task_id: str, principal: Principal, services: Services, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Explain why a task is waiting: since when, the reason, blocking tasks, and suggestions.

    If the leader of its pool does not answer within a second, the answer comes from stored rows with their age, and
    without suggestions. Text with `Accept: text/plain` or `text/markdown`, or with `format`.
    """
    task = await find_task(services, principal, task_id)
    return diagnosis_views.answer(await diagnose.diagnose_task(services, task), principal, format, accept)


@router.post(
    "/tasks/{task_id}/what-if",
    operation="what_if",
    role=Role.VIEWER,
    returns=WhatIfView,
    texts=TEXTS,
    audited=False,
    rate_class=RateClass.QUERY,
)
async def what_if(
    task_id: str,
    body: WhatIfRequest,
    principal: Principal,
    services: Services,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """Forecast when a task would start, and which tasks it would preempt, under changes. Nothing is modified.

    The scheduler simulates it on a copy, with its own rules. `changes` are phrases such as `cpu 2`, `burst 8` or
    `one more worker of 8 cores`: docs/reference/diagnosis.md lists them. A started task is a conflict.
    """
    task = await find_task(services, principal, task_id)
    outcome = await diagnose.what_if(services, task, _read(body.changes))
    return diagnosis_views.answer_what_if(outcome, body.changes, principal, format, accept)


@router.get("/runs/{run_id}/diagnosis", operation="diagnose_run", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS)
async def diagnose_run(
    run_id: str, principal: Principal, services: Services, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Explain why a run is waiting, by its most informative task. Formats as for a task."""
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
    """Explain why a schedule does not fire. Formats as for a task."""
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
    """Explain why a job does not run: a stuck run, a stopped schedule, else what comes next."""
    row = await find_job(services, principal, name, None, tenant)
    return diagnosis_views.answer(await diagnose.diagnose_job(services, row), principal, format, accept)


@router.get("/queue/reasons", operation="list_reasons", role=Role.VIEWER)
async def list_reasons(principal: Principal, services: Services, pool: str | None = None) -> QueueReasonsView:
    """Count the queued tasks of a pool by reason; default: the default pool.

    Callers of one tenant get the counts of its own tasks.
    """
    name = services.pool if pool is None else pool
    if name not in services.shards.leads():
        await check_pool(services, name)
    sums = await diagnose.summarize_waiting(services, name, permissions.tenant_to_read(principal, None))
    return QueueReasonsView(
        pool=name, at=await services.time.now(), reasons=[diagnosis_views.sum_view(one) for one in sums]
    )


def _read(changes: Sequence[str]) -> Hypothesis:
    """Parse the changes. Raises Refused with all faults."""
    try:
        return parse_hypothesis(changes)
    except Refused as refused:
        faults = [Fault(where="changes", why=f"{fault.where}: {fault.why}") for fault in refused.faults]
        raise Refused(summary_of(refused), faults) from refused
