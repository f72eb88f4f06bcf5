# Generated from aio/connection.py by tools/sync_client.py: edit that file, then run `make client`.
"""HTTP connection to one server: requests, responses, errors by code, and retries of idempotent requests.

    Unreachable    no response: the message has the address, the cause, and what to do
    other errors   the server returned a problem, raised as the error of `protocol/errors.py` with the same code

1. Only safe requests are retried: GET, requests with an idempotency key, and requests that the server rejected before
   processing (Overloaded).
2. They are retried after temporary errors only (Unavailable and its subclasses), with exponential backoff, for at most
   `retry_timeout_seconds` seconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx2

from mainspring.client.responses import MAX_RESPONSE_SECONDS, ResponseBuffer, error_of, requested_delay
from mainspring.client.server_urls import API, Parameters, is_loopback, query_params, read_address, unreachable
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Overloaded, Unavailable
from mainspring.protocol.trust import tls_context

_FIRST_DELAY_SECONDS = 0.1
_MAX_DELAY_SECONDS = 5.0


class Connection:
    """A connection to one server."""

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout_seconds: float,
        retry_timeout_seconds: float,
        ca_cert: Path | str | None = None,
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout_seconds = timeout_seconds
        self.retry_timeout_seconds = retry_timeout_seconds
        self.clock = SystemClock()
        address = read_address(self.url)
        self._http = httpx2.Client(
            base_url=self.url + API,
            headers=dict(headers),
            timeout=timeout_seconds,
            # A proxy from the environment can't reach this machine's loopback.
            trust_env=not is_loopback(address.host),
            verify=tls_context(address.scheme, ca_cert=ca_cert, certificate=certificate),
        )

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        body: bytes | None = None,
        media_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        key: str | None = None,
        repeatable: bool | None = None,
    ) -> httpx2.Response:
        """Send a request and return a successful response. Raises the error of its problem, or Unreachable."""
        sent = dict(headers or {})
        if key is not None:
            sent["Idempotency-Key"] = key
        if body is not None:
            sent["Content-Type"] = media_type
        if repeatable is None:
            repeatable = method == "GET" or key is not None
        for delay in self.delays():
            try:
                return self._once(method, path, params, body, sent)
            except Unavailable as error:
                is_safe = repeatable or isinstance(error, Overloaded)
                if not is_safe or requested_delay(error) > self.retry_timeout_seconds:
                    raise
                self.clock.pause(max(delay, requested_delay(error)))
        return self._once(method, path, params, body, sent)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Parameters | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        silence_seconds: float | None,
    ) -> Iterator[httpx2.Response]:
        """Stream a response. Raises as `request` does, also while streaming."""
        timeout = httpx2.Timeout(self._http.timeout.connect, read=silence_seconds)
        try:
            with self._http.stream(
                method, path, params=query_params(params), content=body, headers=dict(headers or {}), timeout=timeout
            ) as response:
                if response.is_error:
                    raise error_of(self._read(response))
                yield response
        except httpx2.TransportError as error:
            raise unreachable(self.url, error) from error

    def delays(self) -> Iterator[float]:
        """Yield the delay before each retry, until `retry_timeout_seconds` is exhausted."""
        until = self.clock.monotonic() + self.retry_timeout_seconds
        delay = _FIRST_DELAY_SECONDS
        while (left := until - self.clock.monotonic()) > 0:
            yield min(delay, left)
            delay = min(delay * 2, _MAX_DELAY_SECONDS)

    def _once(
        self, method: str, path: str, params: Parameters | None, body: bytes | None, headers: Mapping[str, str]
    ) -> httpx2.Response:
        with self.stream(
            method, path, params=params, body=body, headers=headers, silence_seconds=self.timeout_seconds
        ) as answer:
            return self._read(answer)

    def _read(self, answer: httpx2.Response) -> httpx2.Response:
        """Read a complete response. Raises TooLarge or Unreachable if it exceeds the limits."""
        buffer = ResponseBuffer(answer, self.clock.monotonic() + MAX_RESPONSE_SECONDS)
        for part in answer.iter_bytes():
            buffer.add(part, self.clock.monotonic())
        return buffer.build()
