"""Error responses: application/problem+json (RFC 9457), one table for all (SEC-7).

| family or class | status |
|---|---|
| Refused: a body that is not JSON, an invalid field, a violated rule | 422 |
| Unauthenticated, Forbidden, NotFound, TooLarge | 401, 403, 404, 413 |
| VersionMismatch: `If-Match` names another version | 412 |
| any other Conflict | 409 |
| Overloaded | 429, with Retry-After |
| Unavailable | 503, with Retry-After: the error's value in whole seconds, or one second |
| anything else | 500 |

The message of an error is returned only if it concerns the request. Internal messages of a store or server are logged
with the request id, and the response has a generic sentence.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from math import ceil
from typing import TypeGuard

import msgspec
import structlog
from starlette.exceptions import HTTPException
from starlette.responses import Response

from mainspring.protocol import errors
from mainspring.protocol.errors import (
    Broken,
    Closed,
    Conflict,
    Fault,
    Fenced,
    Forbidden,
    MainspringError,
    NotFound,
    NotLeading,
    NotReady,
    Overloaded,
    Refused,
    Rejected,
    StoreInUse,
    StoreUnusable,
    TooLarge,
    Unauthenticated,
    Unavailable,
    VersionMismatch,
    summary_of,
)
from mainspring.protocol.rest.runs import FaultView, Problem

log = structlog.get_logger()

MEDIA_TYPE = "application/problem+json"
DOCUMENTED_AT = "/docs/reference/errors"
RETRY_AFTER_SECONDS = 1
"""Default and minimum."""

STATUS: dict[type[Exception], int] = {
    NotFound: 404,
    Unauthenticated: 401,
    Forbidden: 403,
    TooLarge: 413,
    Refused: 422,
    VersionMismatch: 412,
    Conflict: 409,
    Overloaded: 429,
    Unavailable: 503,
    Exception: 500,
}
"""Status by error class; the first match in the MRO counts."""
_INTERNAL_ERRORS = (Rejected, StoreInUse, StoreUnusable, Fenced)
_AUTHENTICATE = {"WWW-Authenticate": 'Bearer realm="mainspring"'}
_INTERNAL_DETAILS = {
    422: "the store rejected the content of the request",
    409: "conflict with a concurrent change; fetch the latest version and retry",
    503: "the store or another server is unavailable; the request may or may not have been executed",
    500: "internal server error; see the server log under the request id",
}
_HINTS = {
    401: "send a token: `Authorization: Bearer msp_..`",
    412: "fetch the latest version and retry",
    429: "retry after the time in `Retry-After`",
    503: "retry later; use an Idempotency-Key to retry safely",
}
_OUTSIDE_BODY = ("query:", "path:", "header:")
"""Prefixes of the locations of faults that are not in the body."""
_STEP = re.compile(r"""\[(\d+|\.\.\.)\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)""")


def problem_of(error: Exception, request_id: str = "") -> Problem:
    """Convert an error to a problem."""
    if isinstance(error, HTTPException):
        return _of_http(error)
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    code = error.code if isinstance(error, MainspringError) else Broken.code
    faults = error.faults if isinstance(error, Refused) else ()
    return Problem(
        type=f"{DOCUMENTED_AT}#{code}",
        title=code.replace("_", " ").capitalize(),
        status=status,
        code=code,
        detail=summary_of(error) if _is_about_request(error) else _INTERNAL_DETAILS[status],
        hint=_HINTS.get(status, ""),
        instance=request_id if status == HTTPStatus.INTERNAL_SERVER_ERROR else "",
        errors=[FaultView(pointer=pointer(fault.where), detail=fault.why, code=fault.code) for fault in faults],
        retry_after_seconds=error.retry_after_seconds if isinstance(error, Unavailable) else None,
    )


def respond(error: Exception, request_id: str) -> Response:
    """Respond to a failed request. Internal errors are logged."""
    problem = problem_of(error, request_id)
    if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        log.error("request.broken", request=request_id, fault=repr(error), exc_info=error)
    elif not isinstance(error, HTTPException) and not _is_about_request(error):
        log.warning("request.failed", request=request_id, code=problem.code, fault=str(error))
    headers: dict[str, str] = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(max(RETRY_AFTER_SECONDS, ceil(error.retry_after_seconds or 0)))
    elif problem.status == HTTPStatus.UNAUTHORIZED:
        headers |= _AUTHENTICATE
    elif isinstance(error, HTTPException):
        headers |= error.headers or {}
    return Response(msgspec.json.encode(problem), problem.status, headers, MEDIA_TYPE)


def pointer(where: str) -> str:
    """Convert the path of a fault to a JSON pointer: `tasks[3].needs[0]` is `/tasks/3/needs/0`, the body is empty.

    Locations outside the body keep their form: `query:limit`.
    """
    if where in {"", "body"} or where.startswith(_OUTSIDE_BODY):
        return "" if where == "body" else where
    steps = []
    for index, quoted, name in _STEP.findall(where):
        step = str(ast.literal_eval(quoted)) if quoted else index or name
        steps.append(step.replace("~", "~0").replace("/", "~1"))
    return "".join(f"/{step}" for step in steps)


def not_found(kind: str, id: str) -> NotFound:
    """Return NotFound with the same message for missing and for invisible resources."""
    return NotFound(f"there is no {kind} {id[:200]}")


def refuse(subject: str, faults: Sequence[Fault]) -> None:
    """Raise Refused if there are faults."""
    if faults:
        raise errors.refusal(f"{subject} has", faults)


def refusal(where: str, why: str) -> Refused:
    """Return Refused with one fault, of the body or of another part of the request."""
    subject = "the request has" if where.startswith(_OUTSIDE_BODY) else "the body has"
    return errors.refusal(subject, [Fault(where=where, why=why)])


@contextmanager
def renamed_faults(rename: Callable[[Fault], Fault]) -> Iterator[None]:
    """Convert the faults of a refusal raised in the block, so that they name parts of the request."""
    try:
        yield
    except Refused as refused:
        if not refused.faults:
            raise
        raise Refused(summary_of(refused), list(map(rename, refused.faults))) from refused


def _of_http(error: HTTPException) -> Problem:
    """Convert an error of the router: an unknown path or method."""
    code = NotFound.code if error.status_code == HTTPStatus.NOT_FOUND else Refused.code
    return Problem(
        type=f"{DOCUMENTED_AT}#{code}",
        title=HTTPStatus(error.status_code).phrase.capitalize(),
        status=error.status_code,
        code=code,
        hint="see /openapi.json for all routes",
    )


def _is_about_request(error: Exception) -> TypeGuard[MainspringError]:
    if isinstance(error, _INTERNAL_ERRORS):
        return False
    return isinstance(error, (Refused, Conflict, Overloaded, Closed, NotLeading, NotReady))
