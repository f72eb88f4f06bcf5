"""Conditional requests (RFC 9110): clients name the version that they have seen.

    ETag: "7"                  the version of a resource that is read or changed
    If-Match: "7"              change only this version, else 412; `*`: only if the resource exists
    If-None-Match: "7"         read only another version, else 304

    @router.get("/tenants/{name}", operation="get_tenant", role=Role.VIEWER, returns=TenantView)
    async def get_tenant(name: str, .., known: IfNoneMatch = None) -> Response:
        return etags.answer(tenant_view(row), row.version, known)

    @router.put("/tenants/{name}", operation="put_tenant", role=Role.ADMIN, returns=TenantView)
    async def put_tenant(name: str, .., match: IfMatch = None) -> Response:
        expected = etags.expected(match, row.version, f"tenant {name}")

The result of `expected` is passed to the write, which checks it atomically.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar

from starlette.responses import Response

from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Header, json_response
from mainspring.protocol.errors import VersionMismatch

IfMatch = Annotated[str | None, Header("If-Match")]
IfNoneMatch = Annotated[str | None, Header("If-None-Match")]

_ANY = "*"
_ONE = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"{_ONE}(?:\s*,\s*{_ONE})*")
_V = TypeVar("_V", int, str)


def expected(match: str | None, version: _V | None, what: str) -> _V | None:
    """Return the version that `If-Match` requires, if any; `version` is the current one.

    Raises VersionMismatch if it is another one, or if there is none.
    """
    if match is None:
        return None
    tags = _read(match, "If-Match")
    if version is None:
        raise VersionMismatch(f"there is no {what}")
    if tags is None:
        return None
    if tag(version) not in tags:
        raise VersionMismatch(f"{what} is at version {version}")
    return version


def answer(
    view: object,
    version: int | str,
    known: str | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a resource with its ETag; 304 without a body if `If-None-Match` names this version."""
    headers = {**(headers or {}), "ETag": tag(version)}
    if known is not None:
        tags = _read(known, "If-None-Match")
        if tags is None or tag(version) in {one.removeprefix("W/") for one in tags}:
            return Response(None, 304, headers)
    return json_response(view, status, headers)


def tag(version: int | str) -> str:
    """Format a version as an entity tag."""
    return f'"{version}"'


def _read(header: str, name: str) -> list[str] | None:
    """Return the tags in a header; None for `*`. Raises Refused."""
    text = header.strip()
    if text == _ANY:
        return None
    if not _TAGS.fullmatch(text):
        raise refusal(f"header:{name}", 'must be * or quoted versions, such as "7"')
    return re.findall(_ONE, text)
