"""Claims for workers in any language, over plain HTTP (WRK-2): claim, start, heartbeat, complete, fail.

The `run_id` of these routes is the attempt's id: a retried task appears under another one. Responses follow durable
writes. All calls are repeatable: a repeated call gets the first response.
"""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
from starlette.requests import Request

from mainspring.api.auth.access import Access
from mainspring.api.auth.principal import Role
from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Router
from mainspring.api.logs.logs import LogStore
from mainspring.api.services import ServerInfo
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.views import quantities
from mainspring.api.views.view_of import view_of
from mainspring.api.worker_link.http_claims import OwnAttempts, worker_in_pool
from mainspring.core.admission.validate_job import MAX_PLAUSIBLE, Faults
from mainspring.core.model.resources import Resources
from mainspring.core.work.work import HANDLER_LABEL, MAX_CHECKPOINT_BYTES
from mainspring.protocol.errors import Overloaded
from mainspring.protocol.rest.claims import (
    MAX_LOG_BYTES,
    ClaimedRun,
    ClaimedRunState,
    ClaimRequest,
    ClaimResponse,
    CompleteRequest,
    FailRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    StartRequest,
)
from mainspring.protocol.wire import Offer, Outcome
from mainspring.shard.effects import ActionStatus, ClaimedAttempt
from mainspring.shard.workers.claim_events import ClaimHeartbeat, ClaimStarted, ClaimWork
from mainspring.store.ports.store import Store

router = Router()

MAX_RESULT_BYTES = 1024 * 1024
_MAX_BODY_BYTES = MAX_RESULT_BYTES + 64 * 1024
_MAX_HEARTBEAT_BYTES = 2 * MAX_LOG_BYTES + MAX_CHECKPOINT_BYTES + 64 * 1024


@router.post(
    "/scheduler/claim-runs", operation="claim_runs", role=Role.WORKER, audited=False, rate_class=RateClass.NONE
)
async def claim_runs(
    body: ClaimRequest, attempts: OwnAttempts, server: ServerInfo, store: Store, time: StoreTimeCache, request: Request
) -> ClaimResponse:
    """Claim up to `max_claims` tasks, waiting for the first if there is none.

    A task that is not started before `claim_expiry_time` returns to the queue, and appears under another `run_id`.
    """
    pool = body.pool if body.pool is not None else server.pool
    await attempts.access.check_worker_name(attempts.principal, name=body.worker_id, pool=pool)
    action = ClaimWork(
        worker=worker_in_pool(attempts.principal, body.worker_id),
        by=attempts.principal.name,
        wanted=body.max_claims,
        hold_seconds=body.claim_duration_seconds,
        wait_seconds=body.wait_seconds,
        offer=_offer(body),
        labels=body.labels | {f"{HANDLER_LABEL}{handler}": "" for handler in body.handlers},
        zone=body.zone,
        version=body.version,
    )
    answered = await attempts.claims.claim(request, pool, action)
    if answered is None:
        return ClaimResponse(claimed_runs=[])
    if answered.reply is not ActionStatus.DONE:
        raise Overloaded(answered.detail)
    now = await time.now()
    return ClaimResponse(
        claimed_runs=[await _claimed_run(store, attempts.access, one, now) for one in answered.claimed]
    )


@router.post(
    "/pipeline-runs/{run_id}/start",
    operation="start_claimed_run",
    role=Role.WORKER,
    audited=False,
    rate_class=RateClass.NONE,
)
async def start_claimed_run(run_id: str, body: StartRequest, attempts: OwnAttempts, logs: LogStore) -> ClaimedRunState:
    """Start a claimed task. A claim expires if it is not started. Repeatable."""
    attempts.check()
    encoded = msgspec.Raw(msgspec.json.encode(body.execution_context))
    context = _document(encoded, "execution_context", MAX_LOG_BYTES)
    known = await attempts.running(run_id, body.worker_id)
    answered = await attempts.report(known, ClaimStarted, run_id)
    if body.execution_context and answered.reply is ActionStatus.DONE:
        await logs.add(run_id, f"started by {known.worker}: {context}\n".encode())
    return ClaimedRunState(run_id=run_id, status="RUNNING")


@router.post(
    "/pipeline-runs/{run_id}/heartbeat", operation="heartbeat_claimed_run", role=Role.WORKER,
    audited=False, rate_class=RateClass.NONE, max_body_bytes=_MAX_HEARTBEAT_BYTES,
)  # fmt: skip
async def heartbeat_claimed_run(
    run_id: str, body: HeartbeatRequest, attempts: OwnAttempts, logs: LogStore
) -> HeartbeatResponse:
    """Send a heartbeat, which returns whether to stop. An attempt without heartbeats is lost.

    It may carry progress, a checkpoint and a log piece. Repeatable, except for the log.
    """
    attempts.check()
    checkpoint = _document(body.checkpoint, "checkpoint", MAX_CHECKPOINT_BYTES)
    known = await attempts.running(run_id, body.worker_id)
    answered = await attempts.report(
        known,
        ClaimHeartbeat,
        run_id,
        percent=body.progress_percentage,
        note=_note(body),
        checkpoint=checkpoint,
        extend_seconds=body.extend_seconds,
    )
    if body.log:
        await logs.add(run_id, body.log.encode())
    stop, extended = answered.stop, answered.extended
    return HeartbeatResponse(
        run_id=run_id,
        stop=stop is not None,
        why=stop.why if stop is not None else "",
        grace_seconds=stop.grace_seconds if stop is not None else None,
        seconds_left=extended.seconds if extended is not None else None,
        because=extended.because if extended is not None else "",
    )


@router.post(
    "/pipeline-runs/{run_id}/complete", operation="complete_claimed_run", role=Role.WORKER,
    audited=False, rate_class=RateClass.NONE, max_body_bytes=_MAX_BODY_BYTES,
)  # fmt: skip
async def complete_claimed_run(run_id: str, body: CompleteRequest, attempts: OwnAttempts) -> ClaimedRunState:
    """Complete a task; `result_summary` becomes its output. The response follows the durable write. Repeatable."""
    output = _document(body.result_summary, "result_summary", MAX_RESULT_BYTES)
    await attempts.end(run_id, body.worker_id, Outcome.SUCCEEDED, output=output)
    return ClaimedRunState(run_id=run_id, status="SUCCESS")


@router.post(
    "/pipeline-runs/{run_id}/fail", operation="fail_claimed_run", role=Role.WORKER,
    audited=False, rate_class=RateClass.NONE, max_body_bytes=_MAX_BODY_BYTES,
)  # fmt: skip
async def fail_claimed_run(run_id: str, body: FailRequest, attempts: OwnAttempts) -> ClaimedRunState:
    """Fail a task, or report a requested stop. Its retry policy applies, unless `should_retry` is false."""
    error = _document(_error(body), "error_details", MAX_RESULT_BYTES)
    await attempts.end(run_id, body.worker_id, Outcome.FAILED, error=error)
    return ClaimedRunState(run_id=run_id, status="FAILED")


async def _claimed_run(store: Store, access: Access, claimed: ClaimedAttempt, now: datetime) -> ClaimedRun:
    one, needs = claimed.assignment, claimed.needs
    return view_of(
        ClaimedRun,
        one,
        run_id=one.attempt,
        parent_run_id=await _previous_attempt(store, one.task) if one.number > 1 else None,
        config_id=claimed.job,
        customer_id=one.tenant,
        scheduled_time=claimed.scheduled_at,
        claim_expiry_time=claimed.expires_at,
        task_id=one.task,
        task=one.name,
        attempt=one.number,
        priority=claimed.priority.name,
        work=_raw(one.work),
        params=_raw(one.params),
        inputs={name: _raw(text) for name, text in one.inputs.items()},
        failed_upstreams=list(one.failed_upstreams),
        item=_raw(one.item),
        window=one.window or None,
        checkpoint=_raw(one.checkpoint),
        resources=quantities.show(Resources(needs.cpu_millis, needs.memory_bytes, needs.gpus, needs.disk_bytes)),
        token=access.attempt_token(one.attempt, now),
    )


async def _previous_attempt(store: Store, task_id: str) -> str | None:
    """Return the latest ended attempt of a task."""
    attempts = await store.attempts_of(task_id)
    return attempts[-1].id if attempts else None


def _raw(text: str | None) -> msgspec.Raw:
    return msgspec.Raw(b"null" if text is None else text.encode())


def _offer(body: ClaimRequest) -> Offer | None:
    """Return a worker's capacity; None if not given. Raises Refused."""
    faults = Faults()
    texts = {"labels": " ".join([*body.labels.keys(), *body.labels.values()]), "handlers": " ".join(body.handlers)}
    for where, text in (texts | {"zone": body.zone, "version": body.version}).items():
        if not text.isprintable():
            faults.add(where, "contains a control character")
    offered = {} if body.resources is None else quantities.read(body.resources, "resources", faults, MAX_PLAUSIBLE)
    faults.refuse("the body has")
    return None if body.resources is None else Offer(**{name: offered.get(name, 0) for name in Offer.__struct_fields__})


def _document(given: msgspec.Raw | msgspec.UnsetType, where: str, most: int) -> str | None:
    """Return a document of the worker; None if unset. Raises Refused."""
    if isinstance(given, msgspec.UnsetType):
        return None
    document = bytes(given)
    if len(document) > most:
        raise refusal(where, f"has {len(document)} bytes, at most {most} are allowed")
    return document.decode()


def _note(body: HeartbeatRequest) -> str | None:
    """Format the progress; None if none is given."""
    parts = [body.current_stage] if body.current_stage else []
    if body.records_processed is not None:
        parts.append(f"{body.records_processed:,} records")
    if body.estimated_completion_time is not None:
        at = body.estimated_completion_time
        parts.append(
            f"expected to end at {(at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        )
    return ", ".join(parts) if parts else None


def _error(body: FailRequest) -> msgspec.Raw:
    """Build the error document as agents do (`core/lifecycle/failures.py`)."""
    details = dict(body.error_details)
    error: dict[str, object] = {"type": body.error_type, "message": details.pop("message", msgspec.Raw(b'""'))}
    if not body.should_retry:
        error["class"] = "permanent"
    if body.retry_after_seconds is not None:
        error["retry_after_seconds"] = body.retry_after_seconds
    if details:
        error["details"] = details
    return msgspec.Raw(msgspec.json.encode(error))
