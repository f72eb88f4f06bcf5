"""What a server's answers become: structs, parts of a log, and errors by the code of the problem that they say."""

from __future__ import annotations

from typing import TypeVar

import httpx2
import msgspec

from mainspring import errors
from mainspring.errors import Fault, MainspringError, Refused, Unavailable
from mainspring.rest import CheckpointView, FaultView, Problem

T = TypeVar("T")

_BY_STATUS: dict[int, type[MainspringError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    412: errors.Outdated,
    413: errors.TooLarge,
    429: errors.Overloaded,
}
"""For an answer without a problem in it: something between us and the server gave it."""


class LogPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an attempt's log."""

    data: bytes
    offset: int
    size: int
    """How much of the log there is by now."""
    complete: bool
    """Nothing will be added after `size`."""
    attempt: int


def decode(answer: httpx2.Response, kind: type[T]) -> T:
    """An answer as a struct. Raises Unavailable if it is none of this version's."""
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except msgspec.DecodeError as error:
        raise Unavailable(f"{answer.request.url} does not speak as a server of this version does: {error}") from error


def log_part(answer: httpx2.Response) -> LogPart:
    """An answer as a part of a log."""
    return LogPart(
        data=answer.content,
        offset=int(answer.headers["X-Log-Offset"]),
        size=int(answer.headers["X-Log-Size"]),
        complete=answer.headers["X-Log-Complete"] == "true",
        attempt=int(answer.headers["X-Log-Attempt"]),
    )


def etag_of(checkpoint: CheckpointView) -> str:
    """What tells a checkpoint from the one after it."""
    from mainspring.core.work import digest_of

    return digest_of(bytes(checkpoint.document).decode())


def error_of(response: httpx2.Response) -> MainspringError:
    """The error that an answer says."""
    try:
        problem = msgspec.json.decode(response.content, type=Problem)
    except msgspec.DecodeError:
        kind = _BY_STATUS.get(response.status_code, Unavailable if response.status_code >= 500 else Refused)
        problem = Problem(
            type="about:blank",
            title=response.reason_phrase or "error",
            status=response.status_code,
            code=kind.code,
            detail=f"{response.request.url} answered {response.status_code} {response.reason_phrase}",
        )
    error = error_of_problem(problem)
    error.__cause__ = httpx2.HTTPStatusError(str(error), request=response.request, response=response)
    return error


def error_of_problem(problem: Problem) -> MainspringError:
    """The error with a problem's code, with the problem attached."""
    kind = _kinds().get(problem.code, MainspringError)
    summary = problem.detail or problem.title
    error: MainspringError
    if issubclass(kind, Refused):
        error = kind(summary, [Fault(where=fault.pointer, why=fault.detail) for fault in problem.errors])
    else:
        error = kind(summary)
    error.problem = problem
    error.hint = problem.hint
    return error


def problem_of(error: MainspringError) -> Problem:
    """What programs are told of an error: the server's own words, or the same form with the status 0."""
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
        errors=[FaultView(pointer=fault.where, detail=fault.why) for fault in faults],
    )


def asked_to_wait(error: Unavailable) -> float:
    """The seconds that the server asked to wait for, if it did."""
    if not isinstance(error.__cause__, httpx2.HTTPStatusError):
        return 0.0
    words = error.__cause__.response.headers.get("Retry-After", "")
    return float(words) if words.isdigit() else 0.0


def _kinds() -> dict[str, type[MainspringError]]:
    """Every error of `errors.py` by its code."""
    return {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MainspringError)
    }
