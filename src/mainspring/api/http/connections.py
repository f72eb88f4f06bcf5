"""One client connection, with limits on everything before a route runs (SEC-6).

    head      request line and headers; more than MAX_HEAD_BYTES is answered with 431, then the connection closes
    body      read by the route (`api/http/bodies.py`), at its pace, with backpressure
    rest      unread body: discarded up to a limit, so that the client sees the response; then closed

1. Memory per connection is bounded, however the input is split, including endless headers, trailers or chunk
   extensions.
2. Input that is not HTTP is answered with a problem, like any other error.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mainspring.api.http.peer_certificates import STATE
from mainspring.api.http.problems import MEDIA_TYPE, problem_of
from mainspring.protocol.certificates import read_peer
from mainspring.protocol.errors import MainspringError, Refused, TooLarge

log = structlog.get_logger()

MAX_HEAD_BYTES = 64 * 1024
MAX_DISCARDED_BYTES = 1024 * 1024
"""Limit of unread body bytes before closing, and of input after that."""
_LINGER_SECONDS = 2.0
"""Closing a connection with pending input loses the response: until then, only the write side is closed."""


class Connection(HttpToolsProtocol):
    """Protocol of one client connection."""

    _unread_bytes = 0
    """Bytes received since the last body part, or the end of a request."""
    _discarded_bytes = 0
    _has_head = False
    _is_too_large = False
    _is_shut_down = False

    def data_received(self, data: bytes) -> None:
        """Handle received bytes."""
        if self._is_shut_down:
            self._discard(data)
            return
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._unread_bytes > MAX_HEAD_BYTES and not self._is_shut_down:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """Handle the start of a request."""
        self._unread_bytes = self._discarded_bytes = 0
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header. Trailers are ignored."""
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the size of the head."""
        self._has_head = True
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._is_too_large = size > MAX_HEAD_BYTES
        if self._is_too_large:
            raise TooLarge("the head of the request is too large")  # the parser stops and sends the response
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Handle a part of the body."""
        self._unread_bytes = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._discard(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        self._unread_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Close after a response unless the rest of the body is known to be small."""
        super().on_response_complete()
        is_left = self.cycle.response_complete and self.cycle.more_body
        if is_left and (self.expect_100_continue or self._content_length() > MAX_DISCARDED_BYTES):
            self._shut_down_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer invalid HTTP or an oversized head, and close."""
        error: MainspringError = Refused("invalid HTTP request")
        status = 400
        if self._is_too_large:
            error, status = TooLarge(f"the request line and the headers have more than {MAX_HEAD_BYTES} bytes"), 431
        current: RequestResponseCycle | None = self.cycle
        if current is None or current.response_complete:
            problem = msgspec.structs.replace(problem_of(error), status=status)
            body = msgspec.json.encode(problem)
            head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self._shut_down_writing()

    def _content_length(self) -> int:
        """Return the Content-Length of the request; 0 if none."""
        header = next((value for name, value in self.headers if name == b"content-length"), b"")
        return int(header) if header.isdigit() else 0

    def _discard(self, data: bytes) -> None:
        self._discarded_bytes += len(data)
        if self._discarded_bytes <= MAX_DISCARDED_BYTES:
            return
        if self._is_shut_down:
            self.transport.close()
        else:
            self._shut_down_writing()

    def _shut_down_writing(self) -> None:
        """Close the write side, and keep reading briefly so that the client receives the response."""
        if self._is_shut_down or self.transport.is_closing():
            return
        self._is_shut_down = True
        self._discarded_bytes = 0
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)


class CertifiedConnection(Connection):
    """A connection with an optional client certificate (SEC-3), which uvicorn does not pass on.

    TLS has verified it: signed by the CA of workers, for client use, not expired. It is in the state of every scope,
    including WebSockets; `api/auth/authentication.py` maps it to a caller.
    """

    app_state: dict[str, Any]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Read the client certificate of a new connection."""
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if not shown:
            return
        try:
            self.app_state = {**self.app_state, STATE: read_peer(shown)}
        except Refused as error:
            # An unreadable certificate counts as none.
            log.warning("certificate.unreadable", error=str(error))
