"""Turn typed functions into routes: request data is bound by argument name and annotation.

    router = Router()

    @router.get("/runs/{run_id}", operation="get_run", role=Role.VIEWER)
    async def get_run(run_id: str, principal: Principal, services: Services) -> RunView:
        \"\"\"One run.\"\"\"

| an argument | is |
|---|---|
| `principal: Principal`, `services: Services`, `request: Request` | the caller, the services, the request |
| `audit: Auditor` | creates the audit entry; required for routes that change something, unless `audited=False` |
| named as a part of the path | that part |
| `body: SomeStruct` | the body, read as JSON; all faults are reported |
| `body: bytes` | the raw body |
| `Annotated[.., Header("Idempotency-Key")]` | that header |
| anything else | a query parameter; a list is repeatable; limits are `msgspec.Meta` |

1. A route names the role that it requires; None makes it public. There is no default.
2. No body is read before the caller is authenticated, and none beyond `max_body_bytes`.
3. A route names its rate limit class (`api/submission/rate_limits.py`); default: GET is a query, others are actions.
   The request is counted before anything else is done.
4. The return value is the response: a struct as JSON, a `Response` as is, a `Page` with the features of all lists
   (`api/http/paging.py`).

`api/http/openapi.py` builds the OpenAPI document from the same `Endpoint`s; `api/http/problems.py` renders errors.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.http import bodies, paging
from mainspring.api.services import DEFAULT_TENANT, Principal, Role, Services, client_of
from mainspring.api.submission.admission import counted
from mainspring.api.submission.rate_limits import RateClass, action_charge, query_charge, submission_charges
from mainspring.core.admission.validate_job import NAME
from mainspring.core.admission.validate_submission import MAX_KEY_LENGTH
from mainspring.core.text.strict_json import fault_in_text, split_error
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Broken, Fault, Refused, refusal
from mainspring.protocol.rest.runs import Page
from mainspring.telemetry.metrics import RefusalReason

JSON = "application/json"
NDJSON = "application/x-ndjson"
API = "/api/v1"
MAX_STRUCT_BYTES = 1024 * 1024
"""Maximum size of a body that is read as a struct."""
MAX_PARAMETER_LENGTH = 2_000
"""Maximum length of a path, query or header value, unless its type sets a lower one."""
MAX_PARAMETERS = 100
"""Maximum number of values in one query."""

Call = TypeVar("Call", bound=Callable[..., Awaitable[object]])
REQUEST_ID = "mainspring.request"
"""Key of the request id in the scope."""
_INJECTED = {Principal, Services, Request, Auditor}
_MISSING = inspect.Parameter.empty


class Header(msgspec.Struct, frozen=True):
    """Marks an argument that is bound to a header."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument bound to the path, the query or a header."""

    name: str
    source: str
    """`path`, `query` or `header`."""
    wire_name: str
    type: object
    default: object

    @property
    def required(self) -> bool:
        """Return whether the parameter is required."""
        return self.default is _MISSING

    def read(self, request: Request, faults: list[Fault]) -> object:
        """Read the value from a request; faults are appended to `faults`."""
        given = self._given(request)
        where = f"{self.source}:{self.wire_name}"
        if given is None:
            if self.required:
                faults.append(Fault(where=where, why="is missing"))
            return self.default
        fault = next(filter(None, map(_fault_in, [given] if isinstance(given, str) else given)), None)
        if fault is not None:
            faults.append(Fault(where=where, why=fault))
            return None
        try:
            return msgspec.convert(given, self.type, strict=False)
        except msgspec.ValidationError as error:
            why = split_error(error)[0]
            faults.append(Fault(where=where, why=why[:1].lower() + why[1:]))
            return None

    def _given(self, request: Request) -> str | list[str] | None:
        if self.source == "path":
            return str(request.path_params[self.wire_name])
        if self.source == "header":
            return request.headers.get(self.wire_name)
        if _takes_several(self.type):
            return request.query_params.getlist(self.wire_name) or None
        return request.query_params.get(self.wire_name)


_FIELDS = Parameter(
    name="fields",
    source="query",
    wire_name="fields",
    type=Annotated[str, msgspec.Meta(max_length=paging.MAX_FIELDS_LENGTH)] | None,
    default=None,
)
"""The fields of list items, comma-separated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    operation: str
    """Stable name in the OpenAPI document, audit log, metrics and `api/auth/permissions.py`."""
    call: Callable[..., Awaitable[object]]
    role: Role | None
    status: int
    takes: str
    """Media type of the request body, if any."""
    answers: str
    reads: type | None
    """Type of the body in the document: `body`, unless the route reads the body itself."""
    returns: object
    """Type of the response; None if it is not our JSON."""
    max_body_bytes: int | None
    parameters: tuple[Parameter, ...]
    body: type | None
    """A struct, `bytes`, or `Request` if the route reads the body itself; None without a body."""
    injected: Mapping[str, type]
    audited: bool
    """Whether each answered request has an audit entry."""
    also: int | None
    """Another success status: 201 instead of 200 for a created resource, or vice versa."""
    rate_class: RateClass
    texts: tuple[str, ...] = ()
    """Alternative text media types, by content negotiation."""

    async def answer(self, request: Request) -> Response:
        """Authenticate the caller, bind the arguments, call the function, and build the response."""
        services: Services = request.app.state.services
        arguments: dict[str, object] = {}
        given: dict[type, object] = {Services: services, Request: request}
        principal: Principal | None = None
        auditor: Auditor | None = None
        if self.role is not None:
            principal = await services.authenticate(request)
            permissions.check(principal, self.role, self.operation)
            given[Principal] = principal
            auditor = Auditor(
                principal, request_id=request.scope[REQUEST_ID], source=client_of(request), action=self.operation
            )
            given[Auditor] = auditor
            await self._charge(request, principal)
        for name, kind in self.injected.items():
            arguments[name] = given[kind]
        if len(request.query_params.multi_items()) > MAX_PARAMETERS:
            raise Refused(
                "the query is too long", [Fault(where="query:", why=f"has more than {MAX_PARAMETERS} values")]
            )
        faults: list[Fault] = []
        for parameter in self.parameters:
            arguments[parameter.name] = parameter.read(request, faults)
        faults += self._misspelled(request)
        item = paging.item_of(self.returns) if self.method == "GET" else None
        if item is not None:
            del arguments[_FIELDS.name]
            faults += paging.faults_of(request, item, {parameter.wire_name for parameter in self.parameters})
        if faults:
            raise refusal("the request has", faults)
        if self.body is not None and self.body is not Request:
            arguments["body"] = await self._read_body(request, services)
        if principal is not None and self.rate_class is RateClass.SUBMISSION:
            await self._charge_submission(request, principal, arguments)
        result = await self.call(**arguments)
        if self.audited and (auditor is None or not auditor.is_done):
            raise Broken(f"{self.operation} was answered without an audit entry")
        if isinstance(result, Page) and item is not None:
            return paging.respond(result, request)
        return result if isinstance(result, Response) else json_response(result, self.status)

    async def _charge(self, request: Request, principal: Principal) -> None:
        """Charge a query or an action to its rate limit; requests of attempts are exempt. Raises Overloaded."""
        services: Services = request.app.state.services
        if principal.attempt is not None:
            return
        if self.rate_class is RateClass.QUERY:
            await services.rate_limiter.admit(
                rate_limit_key(request, principal),
                [query_charge(services.settings.scheduler_settings, principal.tenant)],
            )
        elif self.rate_class is RateClass.ACTION:
            await services.rate_limiter.admit(
                rate_limit_key(request, principal),
                [action_charge(services.settings.scheduler_settings, principal.name)],
            )

    async def _charge_submission(self, request: Request, principal: Principal, arguments: Mapping[str, object]) -> None:
        """Charge a submission to its tenant's rate limit. Raises Overloaded."""
        services: Services = request.app.state.services
        tenant = principal.tenant
        if principal.sees_all_tenants():
            requested_tenant = getattr(arguments.get("body"), "tenant", None) or arguments.get("tenant")
            tenant = (
                requested_tenant
                if isinstance(requested_tenant, str) and NAME.fullmatch(requested_tenant)
                else DEFAULT_TENANT
            )
        payload = arguments.get("body")
        part = services.submissions.part(tenant, getattr(payload, "job", ""), getattr(payload, "priority", ""))
        charges = submission_charges(services.settings.scheduler_settings, principal.name, {tenant: 1}, part=part)
        with counted(services.metrics, RefusalReason.RATE):
            await services.rate_limiter.admit(rate_limit_key(request, principal), charges)

    def _misspelled(self, request: Request) -> Iterator[Fault]:
        """Report unknown parameters that resemble known ones: ignoring `stat=FAILED` would return wrong results."""
        known = {parameter.wire_name for parameter in self.parameters if parameter.source == "query"}
        for name in request.query_params:
            hint = did_you_mean(name, known) if name not in known else ""
            if hint:
                yield Fault(where=f"query:{name[:40]}", why=f"is unknown{hint}")

    async def _read_body(self, request: Request, services: Services) -> object:
        if self.body is bytes:
            return await bodies.read(request, self.max_body_bytes or services.max_body_bytes)
        text = await bodies.read(request, self.max_body_bytes or MAX_STRUCT_BYTES)
        assert self.body is not None
        if len(text) > bodies.LARGE_BYTES:
            return await asyncio.to_thread(bodies.decode, text, self.body)
        return bodies.decode(text, self.body)


class Router:
    """Collects the routes of a module."""

    def __init__(self, prefix: str = API) -> None:
        self.routes: list[Endpoint] = []
        self._prefix = prefix

    def get(
        self, path: str, *, operation: str, role: Role | None, answers: str = JSON, returns: object = None,
        rate_class: RateClass = RateClass.QUERY, texts: tuple[str, ...] = (),
    ) -> Callable[[Call], Call]:  # fmt: skip
        """Register a GET route."""
        return self._route(
            "GET",
            path,
            operation=operation,
            role=role,
            answers=answers,
            returns=returns,
            rate_class=rate_class,
            texts=texts,
        )

    def post(
        self, path: str, *, operation: str, role: Role | None, status: int = 200, takes: str = JSON,
        answers: str = JSON, reads: type | None = None, returns: object = None, max_body_bytes: int | None = None,
        audited: bool = True, also: int | None = None, rate_class: RateClass = RateClass.ACTION,
        texts: tuple[str, ...] = (),
    ) -> Callable[[Call], Call]:  # fmt: skip
        """Register a POST route."""
        return self._route(
            "POST", path, operation=operation, role=role, status=status, takes=takes, answers=answers, reads=reads,
            returns=returns, max_body_bytes=max_body_bytes, audited=audited, also=also, rate_class=rate_class,
            texts=texts,
        )  # fmt: skip

    def put(
        self,
        path: str,
        *,
        operation: str,
        role: Role | None,
        takes: str = JSON,
        returns: object = None,
        max_body_bytes: int | None = None,
        also: int | None = None,
    ) -> Callable[[Call], Call]:
        """Register a PUT route."""
        return self._route(
            "PUT",
            path,
            operation=operation,
            role=role,
            takes=takes,
            returns=returns,
            max_body_bytes=max_body_bytes,
            audited=True,
            also=also,
        )

    def delete(self, path: str, *, operation: str, role: Role | None, returns: object = None) -> Callable[[Call], Call]:
        """Register a DELETE route."""
        return self._route("DELETE", path, operation=operation, role=role, returns=returns, audited=True)

    def _route(
        self, method: str, path: str, *, operation: str, role: Role | None, status: int = 200, takes: str = JSON,
        answers: str = JSON, reads: type | None = None, returns: object = None, max_body_bytes: int | None = None,
        audited: bool = False, also: int | None = None, rate_class: RateClass = RateClass.ACTION,
        texts: tuple[str, ...] = (),
    ) -> Callable[[Call], Call]:  # fmt: skip
        def register(call: Call) -> Call:
            whole = self._prefix + path
            hints = get_type_hints(call, include_extras=True)
            annotated = hints.pop("return")
            injected = {name: kind for name, kind in hints.items() if kind in _INJECTED}
            if role is None and Principal in injected.values():
                raise TypeError(f"{operation} is public: it has no Principal")
            if audited and Auditor not in injected.values():
                raise TypeError(f"{operation} changes something: it needs an Auditor")
            body: type | None = hints.get("body")
            if body is None and method in {"POST", "PUT"} and Request in injected.values():
                body = Request
            answer = annotated if returns is None and _is_answer(annotated) else returns
            parameters = _parameters(call, whole, hints, set(injected) | {"body"})
            if method == "GET" and paging.item_of(answer) is not None:
                parameters.append(_FIELDS)
            self.routes.append(
                Endpoint(
                    method=method, path=whole, operation=operation, call=call, role=role, status=status, takes=takes,
                    answers=answers, reads=reads or body, returns=answer, max_body_bytes=max_body_bytes, body=body,
                    injected=injected, audited=audited, also=also, parameters=tuple(parameters),
                    rate_class=RateClass.NONE if role is None else rate_class, texts=texts,
                )
            )  # fmt: skip
            return call

        return register


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Respond with a struct as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def rate_limit_key(request: Request, principal: Principal) -> str:
    """Return the identity of a client for rate limits, stable across retries; several clients may share one principal.

    The idempotency key identifies a retried request; without it the connection does.
    """
    key = request.headers.get("Idempotency-Key", "")
    if 1 <= len(key) <= MAX_KEY_LENGTH:
        return f"{principal.name} {key}"
    client = request.client
    return principal.name if client is None else f"{principal.name} {client.host}:{client.port}"


def _parameters(call: Call, path: str, hints: Mapping[str, object], others: set[str]) -> list[Parameter]:
    found = []
    for name, argument in inspect.signature(call).parameters.items():
        if name in others:
            continue
        source, wire_name = ("path", name) if f"{{{name}}}" in path else ("query", name)
        for mark in get_args(hints[name])[1:]:
            if isinstance(mark, Header):
                source, wire_name = "header", mark.name
        found.append(
            Parameter(name=name, source=source, wire_name=wire_name, type=hints[name], default=argument.default)
        )
    return found


def _fault_in(text: str) -> str | None:
    """Return why a text is not a valid parameter value; None if it is."""
    if len(text) > MAX_PARAMETER_LENGTH:
        return f"must have at most {MAX_PARAMETER_LENGTH} characters"
    return fault_in_text(text)


def _takes_several(kind: object) -> bool:
    """Return whether a type is a list, or may be one."""
    return get_origin(kind) is list or any(map(_takes_several, get_args(kind)))


def _is_answer(kind: object) -> bool:
    return not (isinstance(kind, type) and issubclass(kind, Response))
