"""The OpenAPI 3.1 document, generated from the typed route functions."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

import msgspec
from starlette.requests import Request

from mainspring.api.http.openapi_examples import example_of
from mainspring.api.http.problems import MEDIA_TYPE
from mainspring.api.http.routing import Endpoint, Parameter
from mainspring.protocol.rest.runs import Problem

Part = dict[str, object]

_BODIES = {"put_checkpoint": {"offset": 4000}}
"""Examples of bodies that a route reads itself."""

_ABOUT = (
    "Jobs, runs, tasks, schedules and their administration. Lists are paginated, errors are problems (RFC 9457) with a "
    "stable code, and resources of other tenants answer 404."
)
_REFERENCE = "#/components/schemas/{name}"
_SECURITY = {"token": {"type": "http", "scheme": "bearer", "description": "`msp_..`, created by POST /api/v1/tokens"}}


def document(endpoints: Sequence[Endpoint], version: str) -> Part:
    """Build the document."""
    types = list(_types(endpoints))
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, types), schemas, strict=True))
    paths: dict[str, dict[str, Part]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainspring", "version": version, "description": _ABOUT},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }


def _types(endpoints: Iterable[Endpoint]) -> Iterable[object]:
    """Return every type in the document, once."""
    found: dict[str, object] = {repr(Problem): Problem}
    for endpoint in endpoints:
        for kind in (endpoint.returns, *(parameter.type for parameter in endpoint.parameters)):
            found.setdefault(repr(kind), kind)
        if endpoint.reads not in {None, bytes, Request}:
            found.setdefault(repr(endpoint.reads), endpoint.reads)
    return found.values()


def _operation(endpoint: Endpoint, schema_of: dict[str, Part]) -> Part:
    summary, _, rest = inspect.cleandoc(endpoint.call.__doc__ or "").partition("\n")
    operation: Part = {
        "operationId": endpoint.operation,
        "summary": summary,
        "tags": [_tag(endpoint)],
        "parameters": [_parameter(parameter, schema_of) for parameter in endpoint.parameters],
        "responses": _answers(endpoint, schema_of),
        "security": [] if endpoint.role is None else [{"token": []}],
    }
    if rest.strip():
        operation["description"] = rest.strip()
    if endpoint.role is not None:
        operation["x-role"] = endpoint.role.value
    if endpoint.body is not None:
        schema = schema_of.get(repr(endpoint.reads), {})
        operation["requestBody"] = {
            "required": not _may_be_empty(endpoint.body),
            "content": {endpoint.takes: {"schema": schema, **_example(endpoint.reads, endpoint.operation)}},
        }
    return operation


def _parameter(parameter: Parameter, schema_of: dict[str, Part]) -> Part:
    schema = schema_of[repr(parameter.type)]
    if not parameter.required and parameter.default is not None:
        schema = {**schema, "default": msgspec.to_builtins(parameter.default)}
    return {"name": parameter.wire_name, "in": parameter.source, "required": parameter.required, "schema": schema}


def _answers(endpoint: Endpoint, schema_of: dict[str, Part]) -> Part:
    schema = schema_of[repr(endpoint.returns)] if endpoint.returns is not None else {}
    content: Part = {endpoint.answers: {"schema": schema, **_example(endpoint.returns)}}
    content |= {text: {"schema": {"type": "string"}} for text in endpoint.texts}
    as_asked: Part = {"description": "Success.", "content": content}
    answers: Part = {str(status): as_asked for status in (endpoint.status, endpoint.also) if status is not None}
    if endpoint.method == "GET" and _takes_header(endpoint, "If-None-Match"):
        answers["304"] = {"description": "Not modified: If-None-Match names the current version."}
    if _takes_header(endpoint, "Range"):
        answers["206"] = {"description": "The requested range.", "content": {endpoint.answers: {"schema": schema}}}
    for status, words in _problems(endpoint):
        content = {MEDIA_TYPE: {"schema": schema_of[repr(Problem)]}}
        answers[status] = {"description": words, "content": content}
    return answers


def _example(kind: object, operation: str = "") -> Part:
    """Return an example of a request or response body, if it is our JSON."""
    if operation in _BODIES:
        return {"example": _BODIES[operation]}
    return {} if kind in {None, bytes, Request} else {"example": example_of(kind)}


def _problems(endpoint: Endpoint) -> Iterable[tuple[str, str]]:
    """Yield the problems that a route may return."""
    if endpoint.role is not None:
        yield "401", "Authentication required."
        yield "403", "Permission denied."
    if any(parameter.source == "path" for parameter in endpoint.parameters):
        yield "404", "Not found, or it belongs to another tenant."
    if endpoint.method != "GET":
        yield "409", "Conflict with the current state."
    if endpoint.method != "GET" and (_takes_header(endpoint, "If-Match") or _takes_header(endpoint, "If-None-Match")):
        yield "412", "If-Match names another version."
    if endpoint.body is not None:
        yield "413", "The body is too large."
    if _takes_header(endpoint, "Range"):
        yield "416", "Range not satisfiable (yet)."
    if endpoint.parameters or endpoint.body is not None:
        yield "422", "Invalid request; all faults are listed."
    yield "429", "Rate limit or backpressure; see Retry-After."
    yield "503", "Temporarily unavailable; see Retry-After."


def _takes_header(endpoint: Endpoint, name: str) -> bool:
    return any(parameter.wire_name == name for parameter in endpoint.parameters)


def _may_be_empty(body: type) -> bool:
    """Return whether an empty body is valid: a struct without required fields."""
    return issubclass(body, msgspec.Struct) and not any(field.required for field in msgspec.structs.fields(body))


def _tag(endpoint: Endpoint) -> str:
    parts = endpoint.path.strip("/").split("/")
    return parts[2] if parts[:2] == ["api", "v1"] and len(parts) > 2 else "system"
