"""Live streams: state transitions as they become durable, and logs as they are written.

Both reconnect and resume where they were after a broken connection or a failover, for as long as the connection's
`retry_timeout_seconds` lasts; nothing is yielded twice.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import httpx2
import msgspec

from mainspring.client.addresses import Parameters
from mainspring.client.aio.connection import Connection
from mainspring.client.responses import LogPart, log_part
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.runs import TransitionView


class EventStream:
    """State transitions since entering its `async with`. The iteration never ends; leave the block to stop it.

    Yields None after some seconds without an event, so that the consumer can check other conditions.
    """

    def __init__(self, connection: Connection, params: Parameters, after: str | None, silence_seconds: float) -> None:
        self._connection = connection
        self._silence_seconds = silence_seconds
        self._params = params
        self.cursor = after
        """Cursor of the last event: a stream that is opened with it continues after that event."""
        self._open = AsyncExitStack()
        self._lines: AsyncIterator[httpx2.ServerSentEvent]

    async def __aenter__(self) -> Self:
        self._lines = await self._connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._open.aclose()

    async def __aiter__(self) -> AsyncIterator[TransitionView | None]:
        while True:
            try:
                async for event in self._lines:
                    if event.id:
                        self.cursor = event.id
                    yield msgspec.json.decode(event.data, type=TransitionView) if event.event == "transition" else None
            except Unavailable:
                # Nothing is lost: the stream resumes after the cursor.
                yield None
            self._lines = await self._reconnect()

    async def _connect(self) -> AsyncIterator[httpx2.ServerSentEvent]:
        headers = {"Accept": "text/event-stream"}
        params = {**self._params, "after": self.cursor}
        if self.cursor:
            headers["Last-Event-ID"] = self.cursor
            del params["after"]
        await self._open.aclose()
        answer = await self._open.enter_async_context(
            self._connection.stream(
                "GET", "/events", params=params, headers=headers, silence_seconds=self._silence_seconds
            )
        )
        return self._events(answer)

    async def _events(self, answer: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
        try:
            async for event in httpx2.EventSource(answer):
                yield event
        except httpx2.TransportError as error:
            raise Unavailable(f"the stream of events broke: {error}") from error

    async def _reconnect(self) -> AsyncIterator[httpx2.ServerSentEvent]:
        for delay in self._connection.delays():
            await self._connection.clock.sleep(delay)
            try:
                return await self._connect()
            except Unavailable:
                continue
        return await self._connect()


async def read_log(
    connection: Connection, task: str, *, attempt: int | None = None, offset: int = 0, limit: int | None = None
) -> LogPart:
    """Read a part of an attempt's log (default: the latest attempt); a negative offset counts from the end."""
    params = {"attempt": attempt, "offset": offset, "limit": limit}
    return log_part(await connection.request("GET", f"/tasks/{task}/log", params=params))


async def follow_log(
    connection: Connection, task: str, *, attempt: int | None = None, offset: int = 0
) -> AsyncIterator[bytes]:
    """Stream the log of one attempt from `offset`, until it ends."""
    delays = connection.delays()
    while True:
        params = {"attempt": attempt, "offset": offset, "follow": True}
        try:
            async with connection.stream("GET", f"/tasks/{task}/log", params=params, silence_seconds=None) as answer:
                # A later attempt may have started meanwhile: stay with the same one.
                attempt = int(answer.headers["X-Log-Attempt"])
                async for chunk in answer.aiter_raw():
                    offset += len(chunk)
                    yield chunk
                    delays = connection.delays()
        except Unavailable:
            delay = next(delays, None)
            if delay is None:
                raise
            await connection.clock.sleep(delay)
        else:
            return
