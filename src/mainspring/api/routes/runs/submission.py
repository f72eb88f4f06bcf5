"""Create runs: one, or any number in one request (ADM-2, ADM-7).

| `POST /runs/bulk` | `mode=each` | `mode=all` |
|---|---|---|
| an invalid line | is answered with its problem, the others are created | nothing is created, all faults are reported |
| number of lines | unlimited, answered as a stream, 1,000 at a time | at most 10,000, in one transaction |
| idempotency | each line may have its own key | the header, for the whole request |
| audit log | one entry per group written together, and one per line with a key | one entry |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.auth.visibility import VisibleRows
from mainspring.api.http import bodies, preferences
from mainspring.api.http.preferences import Prefer
from mainspring.api.http.problems import problem_of, refusal
from mainspring.api.http.routing import NDJSON, Router, json_response
from mainspring.api.live.run_waits import RunWaiters
from mainspring.api.request_components import RequestComponent
from mainspring.api.services import ServerInfo
from mainspring.api.submission.idempotency import REPLAYED, Key
from mainspring.api.submission.rate_limits import RateClass
from mainspring.api.submission.request_limits import RequestLimits, RunCharges
from mainspring.api.submission.submission import CreatedRun, PreparedRun, Submissions, digest
from mainspring.api.views import run_views
from mainspring.core.admission.validate_job import Faults
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.errors import Fault, MainspringError, Overloaded, Refused, TooLarge
from mainspring.protocol.rest.runs import BulkItemResult, RunRequest, RunView
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.store import IdempotencyKey

router = Router()

MAX_ATOMIC_LINES = 10_000
CHUNK_LINES = 1_000
CHUNK_BYTES = 8 * 1024 * 1024
_LINE_OVERHEAD_BYTES = 64 * 1024
_UNREADABLE = RunRequest(job="")
"""Placeholder of an unreadable line."""


class Mode(StrEnum):
    """How a bulk request handles invalid lines."""

    EACH = "each"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class BulkCreation(RequestComponent):
    """The creation of many runs by one request."""

    principal: Principal
    server: ServerInfo
    request_limits: RequestLimits
    submissions: Submissions
    audit: Auditor

    async def create_all(self, request: Request, key: str | None) -> Response:
        """Create all runs, or none if a line is invalid."""
        faults = Faults()
        run_requests: list[RunRequest] = []
        size = 0
        max_bytes = self.server.max_body_bytes
        async for line in self._lines(request):
            size += len(line)
            number = len(run_requests)
            if number >= MAX_ATOMIC_LINES or size > max_bytes:
                raise TooLarge(f"mode=all takes at most {MAX_ATOMIC_LINES} lines and {max_bytes} bytes")
            try:
                run_request = bodies.decode(line, RunRequest)
                if run_request.idempotency_key is not None:
                    raise refusal("idempotency_key", "is for mode=each; with mode=all the header applies to all lines")
                run_requests.append(run_request)
            except Refused as error:
                faults.extend(_in_line(number, error))
                run_requests.append(_UNREADABLE)
        await self.request_limits.runs_of(request, self.principal).add(run_requests)
        runs = await self._prepare_all(run_requests, faults)
        if not run_requests:
            faults.add("", "is empty")
        if faults.total():
            raise Refused(f"no run was created: {faults.total()} faults", faults.all())
        request_key = None
        if key is not None:
            keyed_requests = [
                replace(run_request, tenant=one.run.tenant) for run_request, one in zip(run_requests, runs, strict=True)
            ]
            request_key = IdempotencyKey(tenant=runs[0].run.tenant, key=key, body_hash=digest(keyed_requests))
        ids = await self.submissions.insert_all(runs, request_key, self._entries(runs))
        headers = REPLAYED if ids[0] != runs[0].run.id else None
        lines = [BulkItemResult(index=index, id=run_id) for index, run_id in enumerate(ids)]
        return Response(_encode(lines), 200, headers, NDJSON)

    async def create_each(self, request: Request) -> AsyncIterator[bytes]:
        """Create runs line by line; errors become lines of the response, which has already started."""
        index = 0
        chunk: list[bytes] = []
        size = 0
        charges = self.request_limits.runs_of(request, self.principal)
        try:
            async for line in self._lines(request):
                chunk.append(line)
                size += len(line)
                if len(chunk) >= CHUNK_LINES or size >= CHUNK_BYTES:
                    yield _encode(await self._create_chunk(chunk, index, charges))
                    index += len(chunk)
                    chunk, size = [], 0
        except TooLarge as error:
            if chunk:
                yield _encode(await self._create_chunk(chunk, index, charges))
            yield _encode([BulkItemResult(index=index + len(chunk), problem=problem_of(error))])
            return
        if chunk:
            yield _encode(await self._create_chunk(chunk, index, charges))

    def _lines(self, request: Request) -> AsyncIterator[bytes]:
        return bodies.lines(request, self.server.limits.max_payload_bytes + _LINE_OVERHEAD_BYTES)

    async def _prepare_all(self, run_requests: Sequence[RunRequest], faults: Faults) -> list[PreparedRun]:
        """Prepare all runs; faults are added to `faults`."""
        runs = []
        for number, run_request in enumerate(run_requests):
            if run_request is _UNREADABLE:
                continue
            try:
                runs.append(await self.submissions.prepare_for(self.principal, run_request))
            except Refused as error:
                faults.extend(_in_line(number, error))
        return runs

    async def _create_chunk(self, lines: list[bytes], first: int, charges: RunCharges) -> list[BulkItemResult]:
        run_requests = [_try_to_read(line) for line in lines]
        try:
            await charges.add(run_request for run_request in run_requests if isinstance(run_request, RunRequest))
        except Overloaded as error:
            problem = problem_of(error)
            return [BulkItemResult(index=index, problem=problem) for index in range(first, first + len(lines))]
        prepared: list[PreparedRun | MainspringError] = []
        for run_request in run_requests:
            try:
                if isinstance(run_request, MainspringError):
                    raise run_request
                one = await self.submissions.prepare_for(self.principal, run_request)
                prepared.append(one if one.key is None else with_audit_entry(one, self.audit))
            except MainspringError as error:
                prepared.append(error)
        good = [one for one in prepared if isinstance(one, PreparedRun)]
        ended = iter(await self.submissions.insert_each(good, self._entries))
        answers = []
        for index, run_or_error in enumerate(prepared, first):
            end = next(ended) if isinstance(run_or_error, PreparedRun) else run_or_error
            if isinstance(end, CreatedRun):
                answers.append(BulkItemResult(index=index, id=end.id))
            else:
                answers.append(BulkItemResult(index=index, problem=problem_of(end)))
        return answers

    def _entries(self, runs: Sequence[PreparedRun]) -> list[AuditEntry]:
        """Create the audit entries of runs that are written together, one per tenant."""
        by_tenant: dict[str, list[str]] = {}
        for prepared in runs:
            by_tenant.setdefault(prepared.run.tenant, []).append(prepared.run.id)
        return [
            self.audit.entry(ids[0], tenant=tenant, after={"runs": len(ids), "first": ids[0], "last": ids[-1]})
            for tenant, ids in by_tenant.items()
        ]


@router.post(
    "/runs", operation="create_run", role=Role.SUBMITTER, status=201, returns=RunView, rate_class=RateClass.SUBMISSION
)
async def create_run(
    body: RunRequest,
    principal: Principal,
    visible: VisibleRows,
    submissions: Submissions,
    waits: RunWaiters,
    audit: Auditor,
    key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Create a run of a job.

    Repeated with the same `Idempotency-Key`, it returns the existing run with the header `Idempotent-Replayed`; with
    the same key and another body it is rejected (409). With `Prefer: wait=30` it responds when the run has ended, or
    after 30 s; the maximum is a minute.
    """
    if key is not None:
        if body.idempotency_key not in {None, key}:
            raise refusal("idempotency_key", "differs from the header")
        body = replace(body, idempotency_key=key)
    prepared = await submissions.prepare_for(principal, body)
    created = await submissions.insert(with_audit_entry(prepared, audit))
    seconds = preferences.wait_seconds_of(prefer)
    headers = {"Location": f"/api/v1/runs/{created.id}", **preferences.applied(seconds)}
    if created.is_replay:
        headers |= REPLAYED
    elif not seconds:
        return json_response(_view(created.prepared), 201, headers)
    await waits.wait_until_ended(created.id, seconds)
    return json_response(run_views.run_view(await visible.run(created.id)), 201, headers)


@router.post(
    "/runs/bulk", operation="create_runs", role=Role.SUBMITTER, takes=NDJSON, answers=NDJSON, reads=RunRequest,
    returns=BulkItemResult, rate_class=RateClass.RUNS,
)  # fmt: skip
async def create_runs(
    request: Request, creation: BulkCreation, audit: Auditor, mode: Mode = Mode.EACH, key: Key = None
) -> Response:
    """Create many runs: one line of the body and of the response for each, in the same order."""
    if mode is Mode.ALL:
        return await creation.create_all(request, key)
    if key is not None:
        raise refusal("header:Idempotency-Key", "is for mode=all; with mode=each each line has its own")
    audit.defer_entries()
    return NdjsonResponse(creation.create_each(request))


def with_audit_entry(prepared: PreparedRun, audit: Auditor, why: str = "") -> PreparedRun:
    """Attach the audit entry of a prepared run, without its parameters."""
    run = prepared.run
    after = {"id": run.id, "job": prepared.job.name, "priority": run.priority.name}
    return replace(prepared, audit=audit.entry(run.id, tenant=run.tenant, why=why, after=after))


class NdjsonResponse(Response):
    """Streamed response of JSON lines, sent while the request may still be arriving."""

    media_type = NDJSON

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self.status_code = 200
        self.background = None
        self._parts = parts
        self.init_headers({"X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts as they are produced."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _try_to_read(line: bytes) -> RunRequest | MainspringError:
    try:
        return bodies.decode(line, RunRequest)
    except MainspringError as error:
        return error


def _view(prepared: PreparedRun) -> RunView:
    job = prepared.job
    return run_views.run_view(ListedRun(run=prepared.run, job_name=job.name, job_version=job.version))


def _in_line(number: int, error: Refused) -> list[Fault]:
    """Return the faults of a line, with their paths in the request."""
    found = error.faults or [Fault(where="", why=str(error))]
    return [Fault(where=_path(number, fault.where), why=fault.why) for fault in found]


def _path(number: int, where: str) -> str:
    if where in {"", "body"}:
        return f"[{number}]"
    return f"[{number}]{where}" if where.startswith("[") else f"[{number}].{where}"


def _encode(lines: list[BulkItemResult]) -> bytes:
    return msgspec.json.Encoder().encode_lines(lines)
