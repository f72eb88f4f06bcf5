"""Generate the page of routes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import msgspec

from mainspring.api.app import endpoints
from mainspring.api.http.openapi import document
from mainspring.api.http.routing import API, JSON
from tools.markdown import code, table

_BEGINNING = f"""\
# Routes

Every route of the HTTP API. Paths are below `{API}`, except in the last section. The role is the minimum
[role](http-api.md#authentication). [The HTTP API](http-api.md) describes the conventions.
`mainspring openapi` prints the OpenAPI document, with bodies, responses and examples; a server renders it at
`/api/docs`.

In the last column, `?name` is a query parameter, `Name:` a header, and `body` the request body. Lists also take
`?limit`, `?cursor` and `?fields`.
"""
_OF_ALL_LISTS = frozenset({"limit", "cursor", "fields"})
_SYSTEM = "system"


class _Parameter(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    source: str = msgspec.field(name="in")


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    content: dict[str, object]


class _Operation(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of an OpenAPI operation that the page shows."""

    summary: str
    tags: list[str]
    parameters: list[_Parameter]
    body: _Body | None = msgspec.field(name="requestBody", default=None)
    role: str = msgspec.field(name="x-role", default="anyone")


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    paths: dict[str, dict[str, _Operation]]


def routes_page() -> str:
    """Return the text of the page."""
    lines = [_BEGINNING]
    paths = msgspec.convert(document(endpoints(), ""), _Document).paths
    routes = [
        (operation.tags[0], path, method, operation)
        for path, operations in paths.items()
        for method, operation in operations.items()
    ]
    routes.sort(key=lambda route: (route[0] == _SYSTEM, *route[:3]))
    for tag, group in groupby(routes, key=lambda route: route[0]):
        rows = [_row(method, path, operation) for _, path, method, operation in group]
        lines += [f"## {tag}", "", *table(["Route", "Role", "Description", "Parameters"], rows)]
    return "\n".join(lines)


def _row(method: str, path: str, operation: _Operation) -> list[str]:
    route = code(f"{method.upper()} {path.removeprefix(API)}")
    return [route, operation.role, operation.summary, ", ".join(_taken(operation))]


def _taken(operation: _Operation) -> Iterator[str]:
    for parameter in operation.parameters:
        if parameter.source == "query" and parameter.name not in _OF_ALL_LISTS:
            yield code(f"?{parameter.name}")
        elif parameter.source == "header":
            yield code(f"{parameter.name}:")
    for kind in operation.body.content if operation.body is not None else ():
        yield "body" if kind == JSON else f"body ({code(kind)})"
