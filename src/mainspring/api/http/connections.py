"""One connection of a caller, with limits on what comes before any route is asked (SEC-6).

    head      the request line and its headers; more than LARGEST_HEAD_BYTES is answered with 431, and hung up on
    body      read by the route that wants it (`api/http/bodies.py`), no faster than that reads, and no further
    the rest  a body that nobody wanted: so much is thrown away that its sender finds the answer, then it is hung up on

1. What is kept of a connection is bounded, whatever is sent and however it is cut into pieces: also a header, a trailer
   or a chunk's extension that never ends.
2. What is no HTTP at all is answered as everything else is: with a problem.
"""

from __future__ import annotations

import msgspec
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from mainspring.api.http.problems import MEDIA_TYPE, problem_of
from mainspring.protocol.errors import MainspringError, Refused, TooLarge

LARGEST_HEAD_BYTES = 64 * 1024
MOST_THROWN_AWAY_BYTES = 1024 * 1024
"""Of a body that nobody wanted, before it is hung up on, and of what still comes after that."""
_LINGER_SECONDS = 2.0
"""A connection that is closed while something comes takes the answer along: so long it is only ended on our side."""


class Connection(HttpToolsProtocol):
    """Hears one caller."""

    _unread_bytes = 0
    """Since something came that a route can be given, or that ends a request."""
    _thrown_away_bytes = 0
    _has_head = False
    _is_too_large = False
    _has_hung_up = False

    def data_received(self, data: bytes) -> None:
        """Some more bytes are there."""
        if self._has_hung_up:
            self._throw_away(data)
            return
        self._unread_bytes += len(data)
        super().data_received(data)
        if self._unread_bytes > LARGEST_HEAD_BYTES and not self._has_hung_up:
            self._is_too_large = True
            self.send_400_response("")

    def on_message_begin(self) -> None:
        """A request begins."""
        self._unread_bytes = self._thrown_away_bytes = 0
        self._has_head = False
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header is complete. What comes behind the body is read by nobody."""
        if not self._has_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """All headers are there."""
        self._has_head = True
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._is_too_large = size > LARGEST_HEAD_BYTES
        if self._is_too_large:
            raise TooLarge("the head of the request is too large")  # the parser ends, and has it answered
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of the body is there."""
        self._unread_bytes = 0
        super().on_body(body)
        if self.cycle.response_complete:
            self._throw_away(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._unread_bytes = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is out. What is left of a small body is waited for; of one not asked for, nobody knows what is."""
        super().on_response_complete()
        is_left = self.cycle.response_complete and self.cycle.more_body
        if is_left and (self.expect_100_continue or self._announced_bytes() > MOST_THROWN_AWAY_BYTES):
            self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request, and hang up."""
        error: MainspringError = Refused("that is no HTTP request")
        status = 400
        if self._is_too_large:
            error, status = TooLarge(f"the request line and the headers have more than {LARGEST_HEAD_BYTES} bytes"), 431
        under_way: RequestResponseCycle | None = self.cycle
        if under_way is None or under_way.response_complete:
            problem = msgspec.structs.replace(problem_of(error), status=status)
            body = msgspec.json.encode(problem)
            head = f"content-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self._hang_up()

    def _announced_bytes(self) -> int:
        """How long the body is, as its sender says."""
        said = next((value for name, value in self.headers if name == b"content-length"), b"")
        return int(said) if said.isdigit() else 0

    def _throw_away(self, data: bytes) -> None:
        self._thrown_away_bytes += len(data)
        if self._thrown_away_bytes <= MOST_THROWN_AWAY_BYTES:
            return
        if self._has_hung_up:
            self.transport.close()
        else:
            self._hang_up()

    def _hang_up(self) -> None:
        """Say nothing more, and listen for a moment to what was on its way, so that the answer arrives."""
        if self._has_hung_up or self.transport.is_closing():
            return
        self._has_hung_up = True
        self._thrown_away_bytes = 0
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        self.transport.write_eof()
        self.loop.call_later(_LINGER_SECONDS, self.transport.close)
