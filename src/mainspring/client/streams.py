# Generated from aio/streams.py by tools/sync_client.py: edit that file, then run `make client`.
"""Live stream of state transitions, as they become durable.

It reconnects and resumes where it was after a broken connection or a failover, for as long as the connection's
`retry_timeout_seconds` lasts; nothing is yielded twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from mainspring.client.connection import Connection
from mainspring.client.server_urls import Parameters
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.runs import TransitionView


class EventStream:
    """State transitions since entering its `with`. The iteration never ends; leave the block to stop it.

    Yields None after some seconds without an event, so that the consumer can check other conditions.
    """

    def __init__(self, connection: Connection, params: Parameters, after: str | None, silence_seconds: float) -> None:
        self._connection = connection
        self._silence_seconds = silence_seconds
        self._params = params
        self.cursor = after
        """Cursor of the last event: a stream that is opened with it continues after that event."""
        self._open = ExitStack()
        self._lines: Iterator[httpx2.ServerSentEvent]

    def __enter__(self) -> Self:
        self._lines = self._connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._open.close()

    def __iter__(self) -> Iterator[TransitionView | None]:
        while True:
            try:
                for event in self._lines:
                    if event.id:
                        self.cursor = event.id
                    yield msgspec.json.decode(event.data, type=TransitionView) if event.event == "transition" else None
            except httpx2.TransportError:
                # Nothing is lost: the stream resumes after the cursor.
                yield None
            self._lines = self._reconnect()

    def _connect(self) -> Iterator[httpx2.ServerSentEvent]:
        headers = {"Accept": "text/event-stream"}
        params = {**self._params, "after": self.cursor}
        if self.cursor:
            headers["Last-Event-ID"] = self.cursor
            del params["after"]
        self._open.close()
        answer = self._open.enter_context(
            self._connection.stream(
                "GET", "/events", params=params, headers=headers, silence_seconds=self._silence_seconds
            )
        )
        return iter(httpx2.EventSource(answer))

    def _reconnect(self) -> Iterator[httpx2.ServerSentEvent]:
        for delay in self._connection.delays():
            self._connection.clock.pause(delay)
            try:
                return self._connect()
            except Unavailable:
                continue
        return self._connect()
