"""One server, as a client reaches it: requests, answers, errors by code, and repeats where they are safe.

    Unreachable    no answer came: the message says which address, why, and what to do
    anything else  the server answered with a problem, which became the error of `errors.py` with the same code

1. Only what is safe is repeated: a question (GET), or a wish that carries an idempotency key.
2. It is repeated only while the moment is wrong (Unavailable and its kinds), longer apart each time, and as a whole for
   no longer than `patience`.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import httpx2
import msgspec

from mainspring import errors
from mainspring.clock import MachineClock
from mainspring.errors import Fault, MainspringError, Refused, Unavailable, Unreachable
from mainspring.rest import FaultView, Problem

API = "/api/v1"
Parameters: TypeAlias = "Mapping[str, str | int | bool | Sequence[str] | None]"

_FIRST_DELAY_SECONDS = 0.1
_LONGEST_DELAY_SECONDS = 5.0
_BY_STATUS: dict[int, type[MainspringError]] = {
    401: errors.Unauthenticated,
    403: errors.Forbidden,
    404: errors.NotFound,
    409: errors.Conflict,
    413: errors.TooLarge,
    429: errors.Overloaded,
}
"""For an answer without a problem in it: something between us and the server gave it."""


class Connection:
    """The way to one server."""

    def __init__(self, url: str, *, headers: Mapping[str, str], timeout_seconds: float, patience: float) -> None:
        self.url = url.rstrip("/")
        self.patience = patience
        self.clock = MachineClock()
        try:
            parsed = httpx2.URL(self.url)
        except httpx2.InvalidURL as error:
            raise _not_an_address(url, str(error)) from error
        if parsed.scheme not in {"http", "https"} or not parsed.host:
            raise _not_an_address(url, "it must begin with http:// or https://")
        self._http = httpx2.Client(
            base_url=self.url + API,
            headers=dict(headers),
            timeout=timeout_seconds,
            # A proxy that the environment names leads away from this machine.
            trust_env=not _is_loopback(parsed.host),
            verify=_trust(parsed.scheme),
        )

    def close(self) -> None:
        """Give the sockets back."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        body: bytes | None = None,
        media_type: str = "application/json",
        key: str | None = None,
        repeatable: bool | None = None,
    ) -> httpx2.Response:
        """Ask, and give back the answer if it is no problem. Raises what the problem says, or Unreachable."""
        headers = {"Idempotency-Key": key} if key is not None else {}
        if body is not None:
            headers["Content-Type"] = media_type
        if repeatable is None:
            repeatable = method == "GET" or key is not None
        for delay in self.delays() if repeatable else ():
            try:
                return self._once(method, path, params, body, headers)
            except Unavailable as error:
                if _asked_to_wait(error) > self.patience:
                    raise
                self.clock.pause(max(delay, _asked_to_wait(error)))
        return self._once(method, path, params, body, headers)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        headers: Mapping[str, str] | None = None,
        silence_seconds: float | None,
    ) -> Iterator[httpx2.Response]:
        """An answer that is read while it comes. Raises as `request` does, also in the middle of it."""
        timeout = httpx2.Timeout(self._http.timeout.connect, read=silence_seconds)
        try:
            with self._http.stream(
                method, path, params=_said(params), headers=dict(headers or {}), timeout=timeout
            ) as response:
                if response.is_error:
                    response.read()
                    raise error_of(response)
                yield response
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error

    def delays(self) -> Iterator[float]:
        """How long to wait before each repeat, until patience is over."""
        until = self.clock.monotonic() + self.patience
        delay = _FIRST_DELAY_SECONDS
        while (left := until - self.clock.monotonic()) > 0:
            yield min(delay, left)
            delay = min(delay * 2, _LONGEST_DELAY_SECONDS)

    def _once(
        self, method: str, path: str, params: Parameters | None, body: bytes | None, headers: Mapping[str, str]
    ) -> httpx2.Response:
        try:
            response = self._http.request(method, path, params=_said(params), content=body, headers=dict(headers))
        except httpx2.TransportError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise error_of(response)
        return response

    def _unreachable(self, error: httpx2.TransportError) -> Unreachable:
        why = str(error) or type(error).__name__
        unreachable = Unreachable(f"no answer from {self.url}: {why}")
        unreachable.hint = (
            "start a server with `mainspring server`, or say where it is with --server or MAINSPRING_SERVER_URL"
        )
        return unreachable


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


def _kinds() -> dict[str, type[MainspringError]]:
    """Every error of `errors.py` by its code."""
    return {
        kind.code: kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, MainspringError)
    }


def _asked_to_wait(error: Unavailable) -> float:
    """The seconds that the server asked to wait for, if it did."""
    if not isinstance(error.__cause__, httpx2.HTTPStatusError):
        return 0.0
    said = error.__cause__.response.headers.get("Retry-After", "")
    return float(said) if said.isdigit() else 0.0


def _said(params: Parameters | None) -> httpx2.QueryParams:
    """The parameters that have a value, as they stand in an address: a list is said several times."""
    said: list[tuple[str, str]] = []
    for name, value in (params or {}).items():
        if isinstance(value, bool):
            said.append((name, "true" if value else "false"))
        elif isinstance(value, str | int):
            said.append((name, str(value)))
        elif value is not None:
            said.extend((name, text) for text in value)
    return httpx2.QueryParams(tuple(said))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _trust(scheme: str) -> ssl.SSLContext:
    """Which certificates are believed: the machine's, or those in SSL_CERT_FILE. Loading them takes a while."""
    return ssl.create_default_context() if scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _not_an_address(url: str, why: str) -> Unreachable:
    error = Unreachable(f"{url!r} is no address of a server: {why}")
    error.hint = "an address looks like http://127.0.0.1:8484"
    return error
