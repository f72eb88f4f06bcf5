"""Create runs: one, or any number in one request (ADM-2, ADM-7).

| `POST /runs/bulk` | `mode=each` | `mode=all` |
|---|---|---|
| an invalid line | is answered with its problem, the others are created | nothing is created, all faults are reported |
| number of lines | unlimited, answered as a stream, 1,000 at a time | at most 10,000, in one transaction |
| idempotency | each line may have its own key | the header, for the whole request |
| audit log | one entry per group written together, and one per line with a key | one entry |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from enum import StrEnum
from functools import partial
from math import ceil

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.http import bodies, preferences
from mainspring.api.http.preferences import Prefer
from mainspring.api.http.problems import problem_of, refusal
from mainspring.api.http.routing import NDJSON, Router, asker, json_response
from mainspring.api.routes.runs.runs import find_run
from mainspring.api.services import DEFAULT_TENANT, Principal, Role, Services
from mainspring.api.submission.gate import counted
from mainspring.api.submission.idempotency import Key
from mainspring.api.submission.rate_limits import RUNS_OF_ONE, Counts, submission_uses
from mainspring.api.submission.submission import Made, Prepared, digest
from mainspring.api.views import run_views
from mainspring.core.admission.validate_job import NAME, Faults
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.errors import Fault, MainspringError, Overloaded, Refused, TooLarge
from mainspring.protocol.rest.runs import BulkLine, RunRequest, RunView
from mainspring.store.ports.front import ListedRun
from mainspring.store.ports.store import IdempotencyKey
from mainspring.telemetry.metrics import Refusal

router = Router()

MOST_LINES_OF_ALL = 10_000
LINES_AT_ONCE = 1_000
BYTES_AT_ONCE = 8 * 1024 * 1024
_ROOM_BESIDE_PARAMS = 64 * 1024
_UNREADABLE = RunRequest(job="")
"""Placeholder of an unreadable line."""


class Mode(StrEnum):
    """How a bulk request handles invalid lines."""

    EACH = "each"
    ALL = "all"


@router.post(
    "/runs", operation="create_run", role=Role.SUBMITTER, status=201, returns=RunView, counts=Counts.SUBMISSION
)
async def create_run(
    body: RunRequest,
    principal: Principal,
    services: Services,
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
            raise refusal("the body has 1 fault", "idempotency_key", "differs from the header")
        body = replace(body, idempotency_key=key)
    prepared = await _prepare(services, principal, body)
    made = await services.submissions.insert(told(prepared, audit))
    seconds = preferences.seconds_to_wait(prefer)
    headers = {"Location": f"/api/v1/runs/{made.id}", **preferences.applied(seconds)}
    if made.is_replay:
        headers["Idempotent-Replayed"] = "true"
    elif not seconds:
        return json_response(_view(made.prepared), 201, headers)
    await services.waits.until_over(made.id, seconds)
    return json_response(run_views.run_view(await find_run(services, principal, made.id)), 201, headers)


@router.post(
    "/runs/bulk", operation="create_runs", role=Role.SUBMITTER, takes=NDJSON, answers=NDJSON, reads=RunRequest,
    returns=BulkLine, counts=Counts.RUNS,
)  # fmt: skip
async def create_runs(
    request: Request,
    principal: Principal,
    services: Services,
    audit: Auditor,
    mode: Mode = Mode.EACH,
    key: Key = None,
) -> Response:
    """Create many runs: one line of the body and of the response for each, in the same order."""
    if mode is Mode.ALL:
        return await _create_all(request, principal, services, audit, key)
    if key is not None:
        raise refusal(
            "the request has 1 fault", "header:Idempotency-Key", "is for mode=all; with mode=each each line has its own"
        )
    audit.will_tell()
    return Lines(_create_each(request, principal, services, audit))


def told(prepared: Prepared, audit: Auditor, why: str = "") -> Prepared:
    """Attach the audit entry of a prepared run, without its parameters."""
    run = prepared.run
    after = {"id": run.id, "job": prepared.job.name, "priority": run.priority.name}
    return replace(prepared, audit=audit.entry(run.id, tenant=run.tenant, why=why, after=after))


class Lines(Response):
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


class _CountedRuns:
    """Charges the runs of a request to rate limits: a submission per RUNS_OF_ONE runs, total and per tenant (ADM-4)."""

    def __init__(self, request: Request, principal: Principal, services: Services) -> None:
        self._who = asker(request, principal)
        self._principal = principal
        self._services = services
        self._paid: Counter[str] = Counter()
        """Runs already charged for, by tenant."""
        self._paid_in_all = 0

    async def add(self, wishes: Iterable[RunRequest]) -> None:
        """Charge these runs. Raises Overloaded, and then none is charged."""
        kinds = Counter((self._tenant(wish), wish.job, wish.priority) for wish in wishes)
        runs: Counter[str] = Counter()
        for (tenant, _, _), number in kinds.items():
            runs[tenant] += number
        shares = {tenant: _shares(number - self._paid[tenant]) for tenant, number in runs.items()}
        in_all = _shares(runs.total() - self._paid_in_all)
        services = self._services
        part = min((services.submissions.part(*kind) for kind in kinds), default=1.0)
        uses = submission_uses(services.settings.tuning, self._principal.name, shares, total=in_all, part=part)
        if uses:
            with counted(services.metrics, Refusal.RATE):
                await services.rates.admit(self._who, uses)
        self._paid_in_all += in_all * RUNS_OF_ONE - runs.total()
        for tenant, number in runs.items():
            self._paid[tenant] += shares[tenant] * RUNS_OF_ONE - number

    def _tenant(self, wish: RunRequest) -> str:
        if not self._principal.sees_everybody():
            return self._principal.tenant
        return wish.tenant if wish.tenant is not None and NAME.fullmatch(wish.tenant) else DEFAULT_TENANT


def _shares(runs: int) -> int:
    """Return the number of submissions that runs count as."""
    return max(0, ceil(runs / RUNS_OF_ONE))


async def _create_all(
    request: Request, principal: Principal, services: Services, audit: Auditor, key: str | None
) -> Response:
    """Create all runs, or none if a line is invalid."""
    faults = Faults()
    wishes: list[RunRequest] = []
    size = 0
    number = 0
    async for line in bodies.lines(request, _longest_line(services)):
        size += len(line)
        if number >= MOST_LINES_OF_ALL or size > services.most_body_bytes:
            raise TooLarge(f"mode=all takes at most {MOST_LINES_OF_ALL} lines and {services.most_body_bytes} bytes")
        try:
            wish = _read(line)
            if wish.idempotency_key is not None:
                raise refusal("", "idempotency_key", "is for mode=each; with mode=all the header applies to all lines")
            wishes.append(wish)
        except Refused as error:
            faults.extend(_in_line(number, error))
            wishes.append(_UNREADABLE)
        number += 1
    await _CountedRuns(request, principal, services).add(wishes)
    runs = await _prepare_all(wishes, principal, services, faults)
    if not number:
        faults.add("", "is empty")
    if faults.total():
        raise Refused(f"no run was created: {faults.total()} faults", faults.all())
    whole = None
    if key is not None:
        said = [replace(wish, tenant=one.run.tenant) for wish, one in zip(wishes, runs, strict=True)]
        whole = IdempotencyKey(tenant=runs[0].run.tenant, key=key, body_hash=digest(said))
    ids = await services.submissions.insert_all(runs, whole, _tell_together(audit, runs))
    headers = {"Idempotent-Replayed": "true"} if ids[0] != runs[0].run.id else None
    lines = [BulkLine(index=index, id=run_id) for index, run_id in enumerate(ids)]
    return Response(_encode(lines), 200, headers, NDJSON)


async def _prepare_all(
    wishes: Sequence[RunRequest], principal: Principal, services: Services, faults: Faults
) -> list[Prepared]:
    """Prepare all runs; faults are added to `faults`."""
    runs = []
    for number, wish in enumerate(wishes):
        if wish is _UNREADABLE:
            continue
        try:
            runs.append(await _prepare(services, principal, wish))
        except Refused as error:
            faults.extend(_in_line(number, error))
    return runs


async def _create_each(
    request: Request, principal: Principal, services: Services, audit: Auditor
) -> AsyncIterator[bytes]:
    """Create runs line by line; errors become lines of the response, which has already started."""
    index = 0
    chunk: list[bytes] = []
    size = 0
    make = partial(
        _create_chunk, principal=principal, services=services, audit=audit,
        counted=_CountedRuns(request, principal, services),
    )  # fmt: skip
    try:
        async for line in bodies.lines(request, _longest_line(services)):
            chunk.append(line)
            size += len(line)
            if len(chunk) >= LINES_AT_ONCE or size >= BYTES_AT_ONCE:
                yield _encode(await make(chunk, index))
                index += len(chunk)
                chunk, size = [], 0
    except TooLarge as error:
        if chunk:
            yield _encode(await make(chunk, index))
        yield _encode([BulkLine(index=index + len(chunk), problem=problem_of(error))])
        return
    if chunk:
        yield _encode(await make(chunk, index))


async def _create_chunk(
    lines: list[bytes], first: int, *, principal: Principal, services: Services, audit: Auditor, counted: _CountedRuns
) -> list[BulkLine]:
    wishes = [_try_to_read(line) for line in lines]
    try:
        await counted.add(wish for wish in wishes if isinstance(wish, RunRequest))
    except Overloaded as error:
        return [BulkLine(index=index, problem=problem_of(error)) for index in range(first, first + len(lines))]
    prepared: list[Prepared | MainspringError] = []
    for wish in wishes:
        try:
            if isinstance(wish, MainspringError):
                raise wish
            one = await _prepare(services, principal, wish)
            prepared.append(one if one.key is None else told(one, audit))
        except MainspringError as error:
            prepared.append(error)
    good = [one for one in prepared if isinstance(one, Prepared)]
    ended = iter(await services.submissions.insert_each(good, lambda group: _tell_together(audit, group)))
    answers = []
    for index, one_or_fault in enumerate(prepared, first):
        end = next(ended) if isinstance(one_or_fault, Prepared) else one_or_fault
        if isinstance(end, Made):
            answers.append(BulkLine(index=index, id=end.id))
        else:
            answers.append(BulkLine(index=index, problem=problem_of(end)))
    return answers


def _tell_together(audit: Auditor, runs: Sequence[Prepared]) -> list[AuditEntry]:
    """Create the audit entries of runs that are written together, one per tenant."""
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


def _try_to_read(line: bytes) -> RunRequest | MainspringError:
    try:
        return _read(line)
    except MainspringError as error:
        return error


def _view(prepared: Prepared) -> RunView:
    job = prepared.job
    return run_views.run_view(ListedRun(run=prepared.run, job_name=job.name, job_version=job.version))


def _longest_line(services: Services) -> int:
    return services.limits.max_payload_bytes + _ROOM_BESIDE_PARAMS


def _in_line(number: int, error: Refused) -> list[Fault]:
    """Return the faults of a line, with their paths in the request."""
    found = error.faults or [Fault(where="", why=str(error))]
    return [Fault(where=_path(number, fault.where), why=fault.why) for fault in found]


def _path(number: int, where: str) -> str:
    if where in {"", "body"}:
        return f"[{number}]"
    return f"[{number}]{where}" if where.startswith("[") else f"[{number}].{where}"


def _encode(lines: list[BulkLine]) -> bytes:
    return msgspec.json.Encoder().encode_lines(lines)
