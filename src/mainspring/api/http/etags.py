"""Versions in headers (RFC 9110): who changes something says which version they looked at.

    ETag: "7"                  on what is read or was changed
    If-Match: "7"              change it only if it still is that one, or else 412; `*`: only if it is there at all
    If-None-Match: "7"         read it only if it is another one by now, or else 304

    @router.get("/tenants/{name}", operation="get_tenant", role=Role.VIEWER, returns=TenantView)
    async def get_tenant(name: str, .., known: IfNoneMatch = None) -> Response:
        return etags.answer(tenant_view(row), row.version, known)

    @router.put("/tenants/{name}", operation="put_tenant", role=Role.ADMIN, returns=TenantView)
    async def put_tenant(name: str, .., match: IfMatch = None) -> Response:
        expected = etags.expected(match, row.version, f"tenant {name}")

What `expected` answers goes to whoever writes the change: only there is it certain that nobody was faster.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, TypeVar

from starlette.responses import Response

from mainspring.api.http.problems import refusal
from mainspring.api.http.routing import Header, json_response
from mainspring.protocol.errors import Outdated

IfMatch = Annotated[str | None, Header("If-Match")]
IfNoneMatch = Annotated[str | None, Header("If-None-Match")]

_ANY = "*"
_ONE = r'(?:W/)?"[\x21\x23-\x7e]*"'
_TAGS = re.compile(rf"{_ONE}(?:\s*,\s*{_ONE})*")
_V = TypeVar("_V", int, str)


def expected(match: str | None, version: _V | None, what: str) -> _V | None:
    """The version that a change has to find, if `If-Match` names any; `version` is the one that is there.

    Raises Outdated if that is another one, or if there is none.
    """
    if match is None:
        return None
    tags = _read(match, "If-Match")
    if version is None:
        raise Outdated(f"there is no {what}")
    if tags is None:
        return None
    if tag(version) not in tags:
        raise Outdated(f"{what} has version {version} by now")
    return version


def answer(
    view: object,
    version: int | str,
    known: str | None = None,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Something with its version; 304 without it if `If-None-Match` says that it is known."""
    headers = {**(headers or {}), "ETag": tag(version)}
    if known is not None:
        tags = _read(known, "If-None-Match")
        if tags is None or tag(version) in {one.removeprefix("W/") for one in tags}:
            return Response(None, 304, headers)
    return json_response(view, status, headers)


def tag(version: int | str) -> str:
    """A version as a header has it."""
    return f'"{version}"'


def _read(header: str, name: str) -> list[str] | None:
    """The tags that a header names; None if it means any. Raises Refused."""
    text = header.strip()
    if text == _ANY:
        return None
    if not _TAGS.fullmatch(text):
        raise refusal("the request has 1 fault", f"header:{name}", 'must be * or versions in quotes, such as "7"')
    return re.findall(_ONE, text)
