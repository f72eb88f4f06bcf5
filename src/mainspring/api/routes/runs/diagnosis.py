"""Diagnosis of waiting work, and what-if forecasts (OBS-1).

As JSON, or as the text of `mainspring why` with `Accept: text/plain` or `text/markdown`.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http.problems import renamed_faults
from mainspring.api.http.routing import Router
from mainspring.api.routes.sharing.queue import PoolStatuses
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views import diagnosis_views
from mainspring.api.views.diagnose import Diagnoses
from mainspring.api.views.diagnosis_views import TEXTS, Accept, Form
from mainspring.api.views.schedule_diagnosis import diagnose_schedule_row
from mainspring.core.explain.what_if import Hypothesis, parse_hypothesis
from mainspring.protocol.errors import Fault
from mainspring.protocol.rest.diagnosis import DiagnosisView, QueueReasonsView, WhatIfRequest, WhatIfView

router = Router()


@router.get(
    "/tasks/{task_id}/diagnosis", operation="diagnose_task", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS
)
async def diagnose_task(
    task_id: str, visible: VisibleRows, diagnoses: Diagnoses, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Explain why a task is waiting: since when, the reason, blocking tasks, and suggestions.

    If the leader of its pool does not answer within a second, the answer comes from stored rows with their age, and
    without suggestions. Text with `Accept: text/plain` or `text/markdown`, or with `format`.
    """
    task = await visible.task(task_id)
    return diagnosis_views.answer(await diagnoses.task(task), visible.principal, format, accept)


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
    visible: VisibleRows,
    diagnoses: Diagnoses,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """Forecast when a task would start, and which tasks it would preempt, under changes. Nothing is modified.

    The scheduler simulates it on a copy, with its own rules. `changes` are phrases such as `cpu 2`, `burst 8` or
    `one more worker of 8 cores`: docs/reference/diagnosis.md lists them. A started task is a conflict.
    """
    task = await visible.task(task_id)
    outcome = await diagnoses.what_if(task, _read(body.changes))
    return diagnosis_views.answer_what_if(outcome, body.changes, visible.principal, format, accept)


@router.get("/runs/{run_id}/diagnosis", operation="diagnose_run", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS)
async def diagnose_run(
    run_id: str, visible: VisibleRows, diagnoses: Diagnoses, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Explain why a run is waiting, by its most informative task. Formats as for a task."""
    found = await diagnoses.run(await visible.run(run_id))
    return diagnosis_views.answer(found, visible.principal, format, accept)


@router.get(
    "/schedules/{ref}/diagnosis", operation="diagnose_schedule", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS
)
async def diagnose_schedule(
    ref: str, visible: VisibleRows, tenant: str | None = None, format: Form | None = None, accept: Accept = ""
) -> Response:
    """Explain why a schedule does not fire. Formats as for a task."""
    found = await diagnose_schedule_row(visible.store, await visible.schedule(ref, tenant))
    return diagnosis_views.answer(found, visible.principal, format, accept)


@router.get("/jobs/{name}/diagnosis", operation="diagnose_job", role=Role.VIEWER, returns=DiagnosisView, texts=TEXTS)
async def diagnose_job(
    name: str,
    visible: VisibleRows,
    diagnoses: Diagnoses,
    tenant: str | None = None,
    format: Form | None = None,
    accept: Accept = "",
) -> Response:
    """Explain why a job does not run: a stuck run, a stopped schedule, else what comes next."""
    row = await visible.job(name, tenant)
    return diagnosis_views.answer(await diagnoses.job(row), visible.principal, format, accept)


@router.get("/queue/reasons", operation="list_reasons", role=Role.VIEWER)
async def list_reasons(
    principal: Principal, pools: PoolStatuses, diagnoses: Diagnoses, pool: str | None = None
) -> QueueReasonsView:
    """Count the queued tasks of a pool by reason; default: the default pool.

    Callers of one tenant get the counts of its own tasks.
    """
    name = await pools.name(pool)
    sums = await diagnoses.summarize_waiting(name, permissions.tenant_to_read(principal, None))
    return QueueReasonsView(
        pool=name, at=await diagnoses.time.now(), reasons=[diagnosis_views.sum_view(one) for one in sums]
    )


def _read(changes: Sequence[str]) -> Hypothesis:
    """Parse the changes. Raises Refused with all faults."""
    with renamed_faults(lambda fault: Fault(where="changes", why=f"{fault.where}: {fault.why}")):
        return parse_hypothesis(changes)
