"""HTTP executor: requests are made by the supervisor itself, without a process (WRK-3). See `http_exchange.py`.

The output is the response: `{"status": 200, "headers": {..}, "body": ..}`; the body is parsed JSON, else text. A
response that is neither 2xx nor expected is a failure of the matching class (RTY-1), and so is a missing one. Each
request has a `traceparent`, and the task's id as `Idempotency-Key`, the same for all attempts, so that the server can
detect repeats.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from mainspring.core.expressions.engine import shorten
from mainspring.core.model.trace_ids import traceparent
from mainspring.core.work.http_calls import PreparedRequest, prepare
from mainspring.core.work.work import HttpCall
from mainspring.egress.retry_after import failure_of_status
from mainspring.protocol.errors import Refused, Unavailable
from mainspring.protocol.ids import entropy
from mainspring.protocol.wire import Assignment, Outcome
from mainspring.worker.executors.attempt_files import MAX_OUTPUT_BYTES
from mainspring.worker.executors.attempt_handle import AttemptHandle, failure
from mainspring.worker.executors.executor import Executor, Runtime
from mainspring.worker.executors.task_templates import template_values
from mainspring.worker.logs.capture import Capture

if TYPE_CHECKING:
    from mainspring.worker.executors.http_exchange import Answer, Exchange

_REPORTED_HEADERS = frozenset(
    {"content-type", "date", "etag", "last-modified", "link", "location", "retry-after", "x-request-id"}
)
"""Response headers that are part of the output."""
_MAX_HEADER_LENGTH = 1_000
_LATIN = frozenset({"iso-8859-1", "latin-1", "latin1", "us-ascii", "windows-1252"})


class HttpExecutor(Executor):
    """Makes requests within the supervisor."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self._exchange: Exchange | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._exchange is not None:
            self._exchange.close()

    async def run_one(self, handle: AttemptHandle) -> None:
        """Make the request; cancel it at once on stop: there is no grace period."""
        asking = asyncio.create_task(self._ask(handle))

        def stop(_: float) -> None:
            asking.cancel()

        handle.bind(stop=stop, recall=lambda: False, prolong=lambda _: None)
        await asyncio.wait([asking])
        if not asking.cancelled():
            asking.result()
        handle.end(Outcome.STOPPED)

    async def _ask(self, handle: AttemptHandle) -> None:
        work = handle.work
        assert isinstance(work, HttpCall)
        secrets = await self.resolve_secrets(handle, work.secrets)
        if secrets is None:
            return
        try:
            request = prepare(work.http, template_values(handle.assignment), secrets, f"s{entropy():032x}")
        except Refused as error:
            handle.end(Outcome.FAILED, error=failure("Request", str(error), error_class="permanent"))
            return
        handle.begin(0)
        capture = self.open_log(handle, secrets)
        try:
            output, problem = await self._exchanged(work, _with_default_headers(request, handle.assignment), capture)
        except asyncio.CancelledError:
            handle.end(Outcome.STOPPED, log_bytes=capture.close())
            raise
        outcome = Outcome.SUCCEEDED if problem is None else Outcome.FAILED
        handle.end(outcome, output=output, error=problem, log_bytes=capture.close())

    async def _exchanged(
        self, work: HttpCall, request: PreparedRequest, capture: Capture
    ) -> tuple[str | None, str | None]:
        """Return the output or the error of a request."""
        limit = work.http.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                answer = await self._transport().ask(
                    request, work.http.expect, lambda line: capture.feed(f"{line}\n".encode())
                )
        except TimeoutError:
            return None, failure("Timeout", f"no complete response within {limit:g} s", error_class="timeout")
        except Refused as error:
            return None, failure("Address", str(error), error_class="permanent")
        except Unavailable as error:
            return None, failure("Connection", str(error), error_class="transient")
        if 200 <= answer.status < 300 or answer.status in work.http.expect:
            return _output_of(answer), None
        return None, self._failure_of(answer)

    def _transport(self) -> Exchange:
        """Return the HTTP client, imported on first use: it takes 100 ms."""
        if self._exchange is None:
            from mainspring.worker.executors.http_exchange import Exchange

            self._exchange = Exchange(allow_private=self._settings.allow_private_http)
        return self._exchange

    def _failure_of(self, answer: Answer) -> str:
        excerpt = shorten(_text_of(answer))
        message = f"answered {answer.status} {answer.reason}".rstrip() + (f": {excerpt}" if excerpt else "")
        retry_after = answer.headers.get("retry-after", "")
        error_class, wait = failure_of_status(answer.status, retry_after, self._clock.wall())
        more = {"retry_after_seconds": wait} if wait is not None else {}
        return failure(f"Http{answer.status}", message, error_class=error_class, status=answer.status, **more)


def _with_default_headers(request: PreparedRequest, assignment: Assignment) -> PreparedRequest:
    """Add default headers; the job's headers take precedence."""
    ours = {
        "user-agent": "mainspring",
        "accept": "*/*",
        "accept-encoding": "identity",
        "traceparent": traceparent(assignment.run, assignment.attempt),
        "idempotency-key": assignment.task,
    }
    return msgspec.structs.replace(request, headers=ours | request.headers)


def _output_of(answer: Answer) -> str:
    """Format a response as the task's output."""
    reported = {name: text[:_MAX_HEADER_LENGTH] for name, text in answer.headers.items() if name in _REPORTED_HEADERS}
    output: dict[str, object] = {"status": answer.status, "headers": reported, "body": _body_of(answer)}
    if not answer.is_complete:
        output["truncated"] = True
    written = msgspec.json.encode(output)
    if len(written) > MAX_OUTPUT_BYTES:
        # Control characters are six times as long in JSON.
        written = msgspec.json.encode({**output, "body": None, "truncated": True})
    return written.decode()


def _body_of(answer: Answer) -> object:
    """Return the parsed JSON body, else its text; None if it is empty."""
    if not answer.body:
        return None
    if answer.is_complete:
        try:
            return msgspec.json.decode(answer.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # it is text then
    return _text_of(answer)


def _text_of(answer: Answer) -> str:
    _, _, charset = answer.headers.get("content-type", "").lower().partition("charset=")
    is_latin = charset.split(";")[0].strip(' "') in _LATIN
    return answer.body.decode("latin-1" if is_latin else "utf-8", errors="replace")
