"""Decode responses: structs, parts of a log, and errors by the code of the problem."""

from __future__ import annotations

from typing import TypeVar

import httpx2
import msgspec

from mainspring.protocol import errors
from mainspring.protocol.errors import Fault, MainspringError, Refused, TooLarge, Unavailable, Unreachable
from mainspring.protocol.rest.runs import CheckpointView, FaultView, Problem

T = TypeVar("T")

_BY_STATUS: dict[int, type[MainspringError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.VersionMismatch,
    413: errors.TooLarge,
    429: errors.Overloaded,
}
"""For a response without a problem document, as from a proxy."""


MAX_RESPONSE_BYTES = 512 * 1024 * 1024
MAX_RESPONSE_SECONDS = 900.0
"""Limits of a buffered response; a stream, such as a log that is followed, has neither limit."""
_BODY_HEADERS = ("content-encoding", "content-length", "transfer-encoding")


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an attempt's log."""

    data: bytes
    offset: int
    size: int
    """Current size of the log."""
    complete: bool
    """The log will not grow beyond `size`."""
    attempt: int


class ResponseBuffer:
    """Buffers a response, up to the limits of size and time."""

    def __init__(self, answer: httpx2.Response, until: float) -> None:
        """Raises TooLarge if its Content-Length exceeds the limit."""
        self._answer = answer
        self._until = until
        self._parts: list[bytes] = []
        self._size = 0
        announced = answer.headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced) > MAX_RESPONSE_BYTES:
            raise self._too_large()

    def add(self, part: bytes, now: float) -> None:
        """Add a part. Raises TooLarge or Unreachable if a limit is exceeded."""
        self._size += len(part)
        if self._size > MAX_RESPONSE_BYTES:
            raise self._too_large()
        if now > self._until:
            url = self._answer.request.url
            raise Unreachable(f"the response from {url} did not end within {MAX_RESPONSE_SECONDS:.0f} s")
        self._parts.append(part)

    def build(self) -> httpx2.Response:
        """Return the complete response."""
        answer = self._answer
        headers = [(name, value) for name, value in answer.headers.multi_items() if name not in _BODY_HEADERS]
        return httpx2.Response(
            answer.status_code, headers=headers, content=b"".join(self._parts), request=answer.request
        )

    def _too_large(self) -> TooLarge:
        error = TooLarge(f"the response from {self._answer.request.url} exceeds {MAX_RESPONSE_BYTES} bytes")
        error.hint = "request less data, for example with a smaller limit"
        return error


def decode(answer: httpx2.Response, kind: type[T]) -> T:
    """Decode a response. Raises Unavailable if it does not match this version's schema."""
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(
            f"{answer.request.url} returned an unexpected response (different server version?): {error}"
        ) from error


def log_part(answer: httpx2.Response) -> LogPart:
    """Decode a response as a part of a log."""
    return LogPart(
        data=answer.content,
        offset=int(answer.headers["X-Log-Offset"]),
        size=int(answer.headers["X-Log-Size"]),
        complete=answer.headers["X-Log-Complete"] == "true",
        attempt=int(answer.headers["X-Log-Attempt"]),
    )


def etag_of(checkpoint: CheckpointView) -> str:
    """Return the ETag of a checkpoint."""
    from mainspring.core.work.work import digest_of

    return digest_of(bytes(checkpoint.document).decode())


def error_of(response: httpx2.Response) -> MainspringError:
    """Return the error of a response."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        kind = _BY_STATUS.get(response.status_code, Unavailable if response.status_code >= 500 else Refused)
        problem = Problem(
            type="about:blank",
            title=response.reason_phrase or "error",
            status=response.status_code,
            code=kind.code,
            detail=f"{response.request.url} returned {response.status_code} {response.reason_phrase}",
        )
    error = error_of_problem(problem)
    error.__cause__ = httpx2.HTTPStatusError(str(error), request=response.request, response=response)
    return error


def error_of_problem(problem: Problem) -> MainspringError:
    """Return the error with a problem's code, with the problem attached."""
    kind = _kinds().get(problem.code, MainspringError)
    summary = problem.detail or problem.title
    error: MainspringError
    if issubclass(kind, Refused):
        faults = [Fault(where=one.pointer, why=one.detail, code=one.code) for one in problem.errors]
        error = kind(summary, faults)
    else:
        error = kind(summary)
    error.problem = problem
    error.hint = problem.hint
    return error


def problem_of(error: MainspringError) -> Problem:
    """Return the problem of an error: the server's, or a new one with status 0."""
    if isinstance(error.problem, Problem):
        return error.problem
    faults = error.faults if isinstance(error, Refused) else ()
    return Problem(
        type="about:blank",
        title=(type(error).__doc__ or error.code).partition(":")[0],
        status=0,
        code=error.code,
        detail=str(error).partition("\n")[0],
        hint=error.hint,
        errors=[FaultView(pointer=fault.where, detail=fault.why, code=fault.code) for fault in faults],
    )


def requested_delay(error: Unavailable) -> float:
    """Return the delay that the server requested, in seconds; 0 if none."""
    if isinstance(error.problem, Problem) and error.problem.retry_after_seconds is not None:
        return error.problem.retry_after_seconds
    if not isinstance(error.__cause__, httpx2.HTTPStatusError):
        return 0.0
    words = error.__cause__.response.headers.get("Retry-After", "")
    return float(words) if words.isdigit() else 0.0


def _kinds() -> dict[str, type[MainspringError]]:
    """Return the errors of `protocol/errors.py` by code."""
    return {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MainspringError)
    }
