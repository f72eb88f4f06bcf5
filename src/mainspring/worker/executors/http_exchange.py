"""HTTP requests of tasks, within limits (WRK-3, SEC-5).

1. Every address is checked before a request is sent, also after redirects (`egress/pinned.py`).
2. The job's headers and body go only to the job's host. A redirect to another host gets the bare request; it is
   refused if there was a body, and from https to http.
3. At most `MAX_ANSWER_BYTES` of the response are read, without decompression.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

import httpx2
import msgspec
from msgspec.structs import replace

from mainspring.core.text.urls import fault_of_url
from mainspring.core.work.http_calls import PreparedRequest
from mainspring.egress.addresses import Resolve, resolver
from mainspring.egress.bounded_body import read_bounded
from mainspring.egress.pinned import PinnedClient, parse_url
from mainspring.protocol.errors import Refused

MAX_ANSWER_BYTES = 256 * 1024
MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD = frozenset({307, 308})
_RESOLVING_THREADS = 4
_ALLOWED_BY = "the worker was not started with --allow-private-http"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An HTTP response."""

    status: int
    reason: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes
    is_complete: bool
    """Whether the body is complete."""


class Exchange:
    """HTTP client of tasks."""

    def __init__(self, *, allow_private: bool, resolve: Resolve | None = None) -> None:
        # Own threads for name resolution: a name server that does not answer blocks nothing else.
        self._threads = ThreadPoolExecutor(_RESOLVING_THREADS, thread_name_prefix="resolve")
        self._transport = PinnedClient(
            allow_private=allow_private, allowed_by=_ALLOWED_BY, resolve=resolve or resolver(self._threads)
        )

    async def ask(self, request: PreparedRequest, expect: Collection[int], note: Callable[[str], None]) -> Answer:
        """Return the response after redirects. Raises Refused or Unavailable; `note` is called with log lines."""
        for _ in range(MAX_REDIRECTS + 1):
            note(f"{request.method} {request.url}")
            url = parse_url(request.url)
            async with self._transport.send(request.method, url, headers=request.headers, body=request.body) as answer:
                note(f"answered {answer.status_code} {answer.reason_phrase}".rstrip())
                place = answer.headers.get("location", "")
                if answer.status_code not in _REDIRECTS or answer.status_code in expect or not place:
                    return await _read(answer)
            request = _redirected(request, url, answer.status_code, place)
        raise Refused(f"more than {MAX_REDIRECTS} redirects")

    def close(self) -> None:
        """Stop resolving names."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _redirected(request: PreparedRequest, url: httpx2.URL, status: int, place: str) -> PreparedRequest:
    """Return the request for a redirect. Raises Refused if it must not be followed."""
    try:
        target = url.join(place)
    except (httpx2.InvalidURL, ValueError):
        raise Refused(f"{url.host} redirects to an invalid address") from None
    if (why := fault_of_url(str(target))) is not None:
        raise Refused(f"{url.host} redirects to an address that {why}")
    if url.scheme == "https" and target.scheme != "https":
        raise Refused(f"{url.host} redirects from https to http")
    if status not in _KEEP_METHOD and request.method not in {"GET", "HEAD"}:
        kept = {name: text for name, text in request.headers.items() if not name.startswith("content-")}
        request = replace(request, method="GET", headers=kept, body=b"")
    if _origin(url) == _origin(target):
        return replace(request, url=str(target))
    if request.body:
        raise Refused(f"{url.host} redirects a request with a body to {target.host}")
    return replace(request, url=str(target), headers={})


def _origin(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


async def _read(answer: httpx2.Response) -> Answer:
    """Read the response with a bounded body."""
    body, is_complete = await read_bounded(answer.aiter_raw(), MAX_ANSWER_BYTES)
    return Answer(
        status=answer.status_code,
        reason=answer.reason_phrase,
        headers=dict(answer.headers.items()),
        body=body,
        is_complete=is_complete,
    )
