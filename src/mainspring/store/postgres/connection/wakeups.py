"""Telling others that there is work: at once within this process, a few times a second to other processes.

NOTIFY takes a lock that all commits of a database share, so it is never part of one that matters and never sent per
run: at most 4 a second for a shard, however many runs arrive. A notification that has to wait covers all that arrives
while it waits, so the last one is never left out. It is a hint all the same: whoever listens also looks by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any

import structlog

from mainspring.core.model.run import Run
from mainspring.event_loop import start_task
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import OnWork
from mainspring.store.postgres.connection.connection_pool import Connection, foreign_errors

CHANNEL = "mainspring_work"
SECONDS_BETWEEN = 0.25
_SECONDS_BEFORE_RECONNECTING = 1.0
_SECONDS_BETWEEN_CHECKS = 10.0

log = structlog.get_logger()


class Wakeups:
    """Calls whoever wants to know of work, and lets other processes know."""

    def __init__(
        self,
        *,
        sender: str,
        clock: Clock,
        send: Callable[[str], Awaitable[None]],
        open_listener: Callable[[], Awaitable[Connection]],
    ) -> None:
        self._sender = sender
        self._clock = clock
        self._send = send
        self._open_listener = open_listener
        self._calls: list[OnWork] = []
        self._sent_at: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def on_work(self, call: OnWork) -> None:
        """Call `call(shard, runs)` when there is work. The first one starts listening to other processes."""
        if not self._calls:
            self._start(self._listen(), "work_listener")
        self._calls.append(call)

    def work(self, shards: Mapping[str, Sequence[Run]]) -> None:
        """There is work in these shards: say so here, with the runs that are at hand, and have it said elsewhere."""
        for shard, runs in shards.items():
            self._call(shard, runs)
            if shard not in self._waiting:
                self._waiting.add(shard)
                self._start(self._notify(shard), "work_notifier")

    async def close(self) -> None:
        """Stop telling and listening."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task

    def _call(self, shard: str, runs: Sequence[Run]) -> None:
        for call in self._calls:
            call(shard, runs)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = start_task(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _notify(self, shard: str) -> None:
        last = self._sent_at.get(shard)
        if last is not None:
            await self._clock.sleep(max(0.0, last + SECONDS_BETWEEN - self._clock.monotonic()))
        self._sent_at[shard] = self._clock.monotonic()
        self._waiting.discard(shard)  # what arrives from here on needs another one
        try:
            await self._send(f"{self._sender} {shard}")
        except Unavailable as error:
            # The others find the work when they look by themselves, about a second later.
            log.warning("store.notify_failed", shard=shard, fault=str(error))

    async def _listen(self) -> None:
        while True:
            try:
                with foreign_errors():
                    await self._listen_once()
            except Exception as error:  # noqa: BLE001 - whatever it is: a new connection is opened
                log.warning("store.listener_lost", fault=repr(error))
            await self._clock.sleep(_SECONDS_BEFORE_RECONNECTING)

    async def _listen_once(self) -> None:
        connection = await self._open_listener()
        hung_up = asyncio.Event()
        connection.add_termination_listener(lambda _: hung_up.set())
        try:
            await connection.add_listener(CHANNEL, self._heard)
            while not await self._happens_soon(hung_up):
                # A connection can be dead without anybody having said so.
                await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    async def _happens_soon(self, event: asyncio.Event) -> bool:
        """Wait for the event until it is time to check; say whether it has happened."""
        waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(self._clock.sleep(_SECONDS_BETWEEN_CHECKS))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return event.is_set()

    def _heard(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        sender, _, shard = str(payload).partition(" ")
        if sender != self._sender:
            self._call(shard, ())
