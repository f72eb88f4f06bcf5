"""Turn typed functions into routes: request data is bound by argument name and annotation.

    router = Router()

    @router.get("/runs/{run_id}", operation="get_run", role=Role.VIEWER)
    async def get_run(run_id: str, principal: Principal, store: Store) -> RunView:
        \"\"\"One run.\"\"\"

| an argument | is |
|---|---|
| `principal: Principal`, `request: Request` | the caller, the request |
| of the type of a component (`api/services.py`) | that component: `store: Store`, `leaders: LeaderRouter` .. |
| of the type of a `RequestComponent` | that component, created for the request: `visible: VisibleRows` .. |
| `audit: Auditor` | creates the audit entry; required for routes that change something, unless `audited=False` |
| named as a part of the path | that part |
| `body: SomeStruct` | the body, read as JSON; all faults are reported |
| `body: bytes` | the raw body |
| `Annotated[.., Header("Idempotency-Key")]` | that header |
| `paging: PageRequest` | the query parameters `limit` and `cursor` |
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
from typing import Annotated, Required, TypedDict, TypeVar, Unpack, get_args, get_origin, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mainspring.api.auth import permissions
from mainspring.api.auth.access import client_of
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.principal import Principal, Role
from mainspring.api.http import bodies, paging
from mainspring.api.http.cursors import DEFAULT_PAGE_SIZE, Cursor, Limit, PageRequest
from mainspring.api.http.problems import refuse
from mainspring.api.request_components import create, is_request_component, with_parts
from mainspring.api.services import COMPONENTS, Services
from mainspring.api.submission.rate_limits import RateClass
from mainspring.core.text.strict_json import fault_in_text, split_error
from mainspring.core.text.suggestions import did_you_mean
from mainspring.protocol.errors import Broken, Fault, Refused
from mainspring.protocol.rest.runs import Page

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
_INJECTED = {Principal, Request, Auditor, *COMPONENTS}
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
_PAGE = (
    Parameter(name="limit", source="query", wire_name="limit", type=Limit, default=DEFAULT_PAGE_SIZE),
    Parameter(name="cursor", source="query", wire_name="cursor", type=Cursor, default=""),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One method of one path."""

    method: str
    path: str
    operation: str
    """Stable name in the OpenAPI document, audit log, metrics and `api/auth/permissions.py`."""
    call: Callable[..., Awaitable[object]]
    role: Role | None
    status: int = 200
    takes: str = JSON
    """Media type of the request body, if any."""
    answers: str = JSON
    reads: type | None
    """Type of the body in the document: `body`, unless the route reads the body itself."""
    returns: object
    """Type of the response; None if it is not our JSON."""
    max_body_bytes: int | None = None
    parameters: tuple[Parameter, ...]
    body: type | None
    """A struct, `bytes`, or `Request` if the route reads the body itself; None without a body."""
    injected: Mapping[str, type]
    audited: bool
    """Whether each answered request has an audit entry."""
    all_tenants: bool = False
    """Whether it requires access to all tenants."""
    also: int | None = None
    """Another success status: 201 instead of 200 for a created resource, or vice versa."""
    rate_class: RateClass = RateClass.ACTION
    texts: tuple[str, ...] = ()
    """Alternative text media types, by content negotiation."""
    paging: str | None = None
    """The argument that takes the query parameters `limit` and `cursor`."""

    async def answer(self, request: Request) -> Response:
        """Authenticate the caller, bind the arguments, call the function, and build the response."""
        services: Services = request.app.state.services
        given: dict[type, object] = {Request: request}
        principal: Principal | None = None
        auditor: Auditor | None = None
        if self.role is not None:
            principal = given[Principal] = await services.access.authenticate(request)
            permissions.check(principal, self.role, self.operation)
            if self.all_tenants:
                permissions.check_all_tenants(principal)
            auditor = given[Auditor] = Auditor(
                principal, request_id=request.scope[REQUEST_ID], source=client_of(request), action=self.operation
            )
            await services.request_limits.charge(request, principal, self.rate_class)

        def find(kind: type) -> object | None:
            return given[kind] if kind in given else services.component(kind)

        arguments = {name: create(kind, find) for name, kind in self.injected.items()}
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
        if self.paging is not None:
            arguments[self.paging] = PageRequest(arguments.pop("limit"), arguments.pop("cursor"))  # type: ignore[arg-type]
        refuse("the request", faults)
        if self.body is not None and self.body is not Request:
            arguments["body"] = await self._read_body(request, services.server.max_body_bytes)
        if principal is not None and self.rate_class is RateClass.SUBMISSION:
            payload = arguments.get("body")
            await services.request_limits.charge_submission(
                request, principal, tenant=getattr(payload, "tenant", None) or arguments.get("tenant"),
                job=getattr(payload, "job", ""), priority=getattr(payload, "priority", ""),
            )  # fmt: skip
        result = await self.call(**arguments)
        if self.audited and (auditor is None or not auditor.is_done):
            raise Broken(f"{self.operation} was answered without an audit entry")
        if isinstance(result, Page) and item is not None:
            return paging.respond(result, request)
        return result if isinstance(result, Response) else json_response(result, self.status)

    def _misspelled(self, request: Request) -> Iterator[Fault]:
        """Report unknown parameters that resemble known ones: ignoring `stat=FAILED` would return wrong results."""
        known = {parameter.wire_name for parameter in self.parameters if parameter.source == "query"}
        for name in request.query_params:
            hint = did_you_mean(name, known) if name not in known else ""
            if hint:
                yield Fault(where=f"query:{name[:40]}", why=f"is unknown{hint}")

    async def _read_body(self, request: Request, max_raw_bytes: int) -> object:
        if self.body is bytes:
            return await bodies.read(request, self.max_body_bytes or max_raw_bytes)
        text = await bodies.read(request, self.max_body_bytes or MAX_STRUCT_BYTES)
        assert self.body is not None
        if len(text) > bodies.LARGE_BYTES:
            return await asyncio.to_thread(bodies.decode, text, self.body)
        return bodies.decode(text, self.body)


class RouteOptions(TypedDict, total=False):
    """Options of a route; see the fields of `Endpoint`."""

    operation: Required[str]
    role: Required[Role | None]
    status: int
    takes: str
    answers: str
    reads: type | None
    returns: object
    max_body_bytes: int | None
    audited: bool
    """Default: all but GET."""
    all_tenants: bool
    also: int | None
    rate_class: RateClass
    """Default: GET is a query, others are actions."""
    texts: tuple[str, ...]


class Router:
    """Collects the routes of a module."""

    def __init__(self, prefix: str = API) -> None:
        self.routes: list[Endpoint] = []
        self._prefix = prefix

    def get(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Call], Call]:
        """Register a GET route."""
        return self._route("GET", path, {"rate_class": RateClass.QUERY, "audited": False, **options})

    def post(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Call], Call]:
        """Register a POST route."""
        return self._route("POST", path, options)

    def put(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Call], Call]:
        """Register a PUT route."""
        return self._route("PUT", path, options)

    def delete(self, path: str, **options: Unpack[RouteOptions]) -> Callable[[Call], Call]:
        """Register a DELETE route."""
        return self._route("DELETE", path, options)

    def _route(self, method: str, path: str, options: RouteOptions) -> Callable[[Call], Call]:
        def register(call: Call) -> Call:
            self.routes.append(_endpoint(method, self._prefix + path, call, options))
            return call

        return register


def _endpoint(method: str, path: str, call: Call, options: RouteOptions) -> Endpoint:
    """Bind the arguments of a function. Raises TypeError if it lacks a required one."""
    operation, role = options["operation"], options["role"]
    hints = get_type_hints(call, include_extras=True)
    annotated = hints.pop("return")
    injected = {name: kind for name, kind in hints.items() if kind in _INJECTED or is_request_component(kind)}
    kinds = set(with_parts(injected.values()))
    audited = options.setdefault("audited", True)
    if role is None and Principal in kinds:
        raise TypeError(f"{operation} is public: it has no Principal")
    if audited and Auditor not in kinds:
        raise TypeError(f"{operation} changes something: it needs an Auditor")
    body: type | None = hints.get("body")
    if body is None and method in {"POST", "PUT"} and Request in kinds:
        body = Request
    returns = options.setdefault("returns", annotated if _is_answer(annotated) else None)
    parameters = _parameters(call, path, hints, {*injected, "body"})
    page_request = next((name for name, kind in hints.items() if kind is PageRequest), None)
    if page_request is not None:
        parameters += _PAGE
    if method == "GET" and paging.item_of(returns) is not None:
        parameters.append(_FIELDS)
    if role is None:
        options["rate_class"] = RateClass.NONE
    options.setdefault("reads", body)
    return Endpoint(
        method=method, path=path, call=call, body=body, injected=injected, parameters=tuple(parameters),
        paging=page_request, **options,
    )  # fmt: skip


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Respond with a struct as JSON."""
    return Response(msgspec.json.encode(value), status, headers, JSON)


def _parameters(call: Call, path: str, hints: Mapping[str, object], others: set[str]) -> list[Parameter]:
    found = []
    for name, argument in inspect.signature(call).parameters.items():
        if name in others or hints[name] is PageRequest:
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
