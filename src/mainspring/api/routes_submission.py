"""Runs are made: one, or any number in one request (ADM-2, ADM-7).

| `POST /runs/bulk` | `mode=each` | `mode=all` |
|---|---|---|
| a bad line | is answered with its problem, the others go on | nothing is made, all faults are named |
| how many | any number, answered as it goes, 1,000 at a time | at most 10,000, in one transaction |
| idempotency | each line may have a key of its own | the header, for the whole request |
| the audit log | an entry for what is written together, and one for each line with a key | one entry |
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mainspring.api import bodies, permissions, preferences, views
from mainspring.api.auditing import Auditor
from mainspring.api.preferences import Prefer
from mainspring.api.problems import problem_of, refusal
from mainspring.api.repeats import Key
from mainspring.api.routes_runs import find_run
from mainspring.api.routing import NDJSON, Router, json_response
from mainspring.api.services import Principal, Role, Services
from mainspring.api.submission import Made, Prepared, digest
from mainspring.core.audit_trail import AuditEntry
from mainspring.core.job_rules import Faults
from mainspring.errors import Fault, MainspringError, Refused, TooLarge
from mainspring.rest import BulkLine, RunRequest, RunView
from mainspring.store.port import IdempotencyKey
from mainspring.store.port_front import ListedRun

router = Router()

MOST_LINES_OF_ALL = 10_000
LINES_AT_ONCE = 1_000
BYTES_AT_ONCE = 8 * 1024 * 1024
_ROOM_BESIDE_PARAMS = 64 * 1024


class Mode(StrEnum):
    """What becomes of the good runs of a bulk request if others are bad."""

    EACH = "each"
    ALL = "all"


@router.post("/runs", role=Role.SUBMITTER, status=201, returns=RunView)
async def create_run(
    body: RunRequest,
    principal: Principal,
    services: Services,
    audit: Auditor,
    key: Key = None,
    prefer: Prefer = None,
) -> Response:
    """Make a run of a job.

    Repeated with the same `Idempotency-Key` it answers with the run that was made first, and says so in the header
    `Idempotent-Replayed`; with the same key and another body it is refused (409). With `Prefer: wait=30` it is answered
    when the run is over, or after 30 s; at most a minute is waited.
    """
    if key is not None:
        if body.idempotency_key not in {None, key}:
            raise refusal("the body has 1 fault", "idempotency_key", "is not the one of the header")
        body = msgspec.structs.replace(body, idempotency_key=key)
    prepared = await _prepare(services, principal, body)
    made = await services.submissions.insert(told(prepared, audit))
    seconds = preferences.seconds_to_wait(prefer)
    headers = {"Location": f"/api/v1/runs/{made.id}", **preferences.applied(seconds)}
    if made.is_replay:
        headers["Idempotent-Replayed"] = "true"
    elif not seconds:
        return json_response(_view(made.prepared), 201, headers)
    await services.waits.until_over(made.id, seconds)
    return json_response(views.run_view(await find_run(services, principal, made.id)), 201, headers)


@router.post("/runs/bulk", role=Role.SUBMITTER, takes=NDJSON, answers=NDJSON, reads=RunRequest, returns=BulkLine)
async def create_runs(
    request: Request,
    principal: Principal,
    services: Services,
    audit: Auditor,
    mode: Mode = Mode.EACH,
    key: Key = None,
) -> Response:
    """Make many runs: a line of the body for each, and a line of the answer for each, in the same order."""
    if mode is Mode.ALL:
        return await _create_all(request, principal, services, audit, key)
    if key is not None:
        raise refusal(
            "the request has 1 fault", "header:Idempotency-Key", "is for mode=all: here each line has its own"
        )
    audit.will_tell()
    return Lines(_create_each(request, principal, services, audit))


def told(prepared: Prepared, audit: Auditor, why: str = "") -> Prepared:
    """A run that may be made, with what the audit log will say of it: never its parameters."""
    run = prepared.run
    after = {"id": run.id, "job": prepared.job.name, "priority": run.priority.name}
    return msgspec.structs.replace(prepared, audit=audit.entry(run.id, tenant=run.tenant, why=why, after=after))


class Lines(Response):
    """Lines of JSON, sent as they come, while the request may still be arriving."""

    media_type = NDJSON

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self.status_code = 200
        self.background = None
        self._parts = parts
        self.init_headers({"X-Accel-Buffering": "no"})
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the parts."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _create_all(
    request: Request, principal: Principal, services: Services, audit: Auditor, key: str | None
) -> Response:
    """Every line is good, or nothing is made."""
    faults = Faults()
    wishes: list[RunRequest] = []
    runs: list[Prepared] = []
    size = 0
    number = 0
    async for line in bodies.lines(request, _longest_line(services)):
        size += len(line)
        if number >= MOST_LINES_OF_ALL or size > services.most_body_bytes:
            raise TooLarge(f"mode=all takes at most {MOST_LINES_OF_ALL} lines and {services.most_body_bytes} bytes")
        try:
            wish = _read(line)
            if wish.idempotency_key is not None:
                raise refusal("", "idempotency_key", "is for mode=each: here the header is for all lines")
            prepared = await _prepare(services, principal, wish)
            runs.append(prepared)
            wishes.append(msgspec.structs.replace(wish, tenant=prepared.run.tenant))
        except Refused as error:
            for fault in error.faults or [Fault(where="", why=str(error))]:
                faults.add(_in_line(number, fault.where), fault.why)
        number += 1
    if not number:
        faults.add("", "has no lines")
    if faults.total():
        raise Refused(f"nothing was made: there are {faults.total()} faults", faults.all())
    whole = None
    if key is not None:
        whole = IdempotencyKey(tenant=runs[0].run.tenant, key=key, body_hash=digest(wishes))
    ids = await services.submissions.insert_all(runs, whole, _tell_together(audit, runs))
    headers = {"Idempotent-Replayed": "true"} if ids[0] != runs[0].run.id else None
    lines = [BulkLine(index=index, id=run_id) for index, run_id in enumerate(ids)]
    return Response(_encode(lines), 200, headers, NDJSON)


async def _create_each(
    request: Request, principal: Principal, services: Services, audit: Auditor
) -> AsyncIterator[bytes]:
    """Every line for itself; what is bad is answered, not raised: the answer has begun."""
    index = 0
    chunk: list[bytes] = []
    size = 0
    try:
        async for line in bodies.lines(request, _longest_line(services)):
            chunk.append(line)
            size += len(line)
            if len(chunk) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE:
                yield _encode(await _create_chunk(chunk, index, principal, services, audit))
                index += len(chunk)
                chunk, size = [], 0
    except TooLarge as error:
        if chunk:
            yield _encode(await _create_chunk(chunk, index, principal, services, audit))
        yield _encode([BulkLine(index=index + len(chunk), problem=problem_of(error))])
        return
    if chunk:
        yield _encode(await _create_chunk(chunk, index, principal, services, audit))


async def _create_chunk(
    lines: list[bytes], first: int, principal: Principal, services: Services, audit: Auditor
) -> list[BulkLine]:
    prepared: list[Prepared | MainspringError] = []
    for line in lines:
        try:
            one = await _prepare(services, principal, _read(line))
            prepared.append(one if one.key is None else told(one, audit))
        except MainspringError as error:
            prepared.append(error)
    good = [one for one in prepared if isinstance(one, Prepared)]
    ended = iter(await services.submissions.insert_each(good, lambda group: _tell_together(audit, group)))
    answers = []
    for index, wish in enumerate(prepared, first):
        end = next(ended) if isinstance(wish, Prepared) else wish
        if isinstance(end, Made):
            answers.append(BulkLine(index=index, id=end.id))
        else:
            answers.append(BulkLine(index=index, problem=problem_of(end)))
    return answers


def _tell_together(audit: Auditor, runs: Sequence[Prepared]) -> list[AuditEntry]:
    """What the audit log says of runs that are written together: an entry for each tenant."""
    of_tenants: dict[str, list[Prepared]] = {}
    for prepared in runs:
        of_tenants.setdefault(prepared.run.tenant, []).append(prepared)
    entries = []
    for tenant, theirs in of_tenants.items():
        first, last = theirs[0].run.id, theirs[-1].run.id
        entries.append(audit.entry(first, tenant=tenant, after={"runs": len(theirs), "first": first, "last": last}))
    return entries


async def _prepare(services: Services, principal: Principal, wish: RunRequest) -> Prepared:
    tenant = permissions.tenant_to_act_for(principal, wish.tenant)
    return await services.submissions.prepare(wish, tenant=tenant, by=principal.name)


def _read(line: bytes) -> RunRequest:
    wish = bodies.decode(line, RunRequest)
    assert isinstance(wish, RunRequest)
    return wish


def _view(prepared: Prepared) -> RunView:
    job = prepared.job
    return views.run_view(ListedRun(run=prepared.run, job_name=job.name, job_version=job.version))


def _longest_line(services: Services) -> int:
    return services.limits.max_payload_bytes + _ROOM_BESIDE_PARAMS


def _in_line(number: int, where: str) -> str:
    """The path of a fault in the line of this number."""
    if where in {"", "body"}:
        return f"[{number}]"
    return f"[{number}]{where}" if where.startswith("[") else f"[{number}].{where}"


def _encode(lines: list[BulkLine]) -> bytes:
    return msgspec.json.Encoder().encode_lines(lines)
