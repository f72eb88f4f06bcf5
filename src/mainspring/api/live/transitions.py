"""Transitions as they become durable (OBS-4): one tail of the store per server, whatever the number of followers.

    store.transitions_after ──tail──► a bounded queue per follower ──► api/routes/runs/live_events.py

1. The tail reads only while there are followers: every 0.2 s, and immediately after a commit of a local leader.
2. A follower gets every transition after its cursor once, in the order of its shard: first from the store, then from
   its queue without duplicates.
3. A slow follower delays no one: when its queue is full it is disconnected, and may reconnect with its cursor.

A cursor is a position in each shard's transitions: a batch number and an ordinal within it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping
from urllib.parse import quote, unquote

import structlog

from mainspring.background import BackgroundLoops, wait_for
from mainspring.core.model.batch import Batch
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Fault, Refused, Unavailable
from mainspring.store.ports.front import TransitionRecord
from mainspring.store.ports.store import Store

log = structlog.get_logger()

Position = tuple[int, int]
"""A batch number and an ordinal within it; later transitions are new."""

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 5.0
MAX_BATCH = 1_000
_MAX_WAITING = 200
"""Queue limit of one follower, in groups of at most MAX_BATCH transitions."""
_SHARDS_EVERY_READS = 10
_START: Position = (0, -1)


class _Follower:
    """A follower: its queue, and whether it was disconnected."""

    def __init__(self) -> None:
        self.is_disconnected = False
        self._waiting: deque[list[TransitionRecord]] = deque()
        self._wakeup = asyncio.Event()

    def put(self, group: list[TransitionRecord]) -> None:
        """Enqueue a group. If the queue is full, disconnect the follower, so that it never sees a gap."""
        if self.is_disconnected:
            return
        self._waiting.append(group)
        if len(self._waiting) > _MAX_WAITING:
            self.disconnect()
        self._wakeup.set()

    def disconnect(self) -> None:
        """Disconnect the follower."""
        self.is_disconnected = True
        self._waiting.clear()
        self._wakeup.set()

    async def next(self) -> list[TransitionRecord]:
        """Return the next group; an empty one after 5 s of silence or after a disconnect."""
        if not self._waiting and not self.is_disconnected:
            self._wakeup.clear()
            await wait_for(self._wakeup, HEARTBEAT_SECONDS)
        return self._waiting.popleft() if self._waiting else []


class TransitionFeed:
    """The live stream of one server."""

    def __init__(self, store: Store, clock: Clock, background: BackgroundLoops) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._followers: set[_Follower] = set()
        self._positions: dict[str, Position] = {}
        self._committed = asyncio.Event()
        self._tail: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.is_stopping = False

    def committed(self, batch: Batch) -> None:
        """Wake the tail after a commit of a local leader."""
        if batch.transitions:
            self._committed.set()

    def end_followers(self) -> None:
        """Disconnect all followers, because the server is stopping."""
        self.is_stopping = True
        for follower in self._followers:
            follower.disconnect()

    async def now(self) -> dict[str, Position]:
        """Return the current position of each shard. Raises Unavailable."""
        return {row.id: (row.batch_no + 1, -1) for row in await self._store.shards()}

    async def follow(self, after: Mapping[str, Position]) -> AsyncIterator[list[TransitionRecord]]:
        """Yield transitions after these positions; an empty list every 5 s of silence. Raises Unavailable."""
        follower = await self._join()
        try:
            positions = dict(after)
            for shard in list(self._positions):
                async for group in self._backlog(shard, positions):
                    yield group
            while not follower.is_disconnected:
                group = await follower.next()
                fresh = [
                    entry for entry in group if (entry.batch_no, entry.ordinal) > positions.get(entry.shard, _START)
                ]
                if fresh or not group:
                    yield fresh
        finally:
            self._leave(follower)

    async def catch_up(self, after: Mapping[str, Position]) -> AsyncIterator[list[TransitionRecord]]:
        """Yield the transitions after these positions, up to now. Raises Unavailable."""
        positions = dict(after)
        for row in await self._store.shards():
            async for group in self._backlog(row.id, positions):
                yield group
                if group[-1].batch_no > row.batch_no:
                    break  # newer than the request

    async def _backlog(self, shard: str, positions: dict[str, Position]) -> AsyncIterator[list[TransitionRecord]]:
        """Yield the stored transitions of a shard after its position, which advances."""
        while True:
            group = await self._store.transitions_after(shard, *positions.get(shard, _START), MAX_BATCH)
            if group:
                positions[shard] = (group[-1].batch_no, group[-1].ordinal)
                yield group
            if len(group) < MAX_BATCH:
                return

    async def _join(self) -> _Follower:
        follower = _Follower()
        async with self._starting:
            if self._tail is None:
                self._positions = await self.now()
                self._tail = asyncio.create_task(self._background.supervise("live_tail", self._run))
            self._followers.add(follower)
        if self.is_stopping:
            follower.disconnect()
        return follower

    def _leave(self, follower: _Follower) -> None:
        self._followers.discard(follower)
        if not self._followers and self._tail is not None:
            self._tail.cancel()
            self._tail = None

    async def _run(self) -> None:
        reads = 0
        while True:
            reads += 1
            try:
                if reads % _SHARDS_EVERY_READS == 0:
                    for row in await self._store.shards():
                        self._positions.setdefault(row.id, _START)
                for shard in list(self._positions):
                    await self._read(shard)
            except Unavailable as fault:
                log.warning("live.unavailable", fault=str(fault))
            # Another server may lead, whose commits are only visible in the store.
            await wait_for(self._committed, POLL_SECONDS)
            self._committed.clear()

    async def _read(self, shard: str) -> None:
        while group := await self._store.transitions_after(shard, *self._positions[shard], MAX_BATCH):
            self._positions[shard] = (group[-1].batch_no, group[-1].ordinal)
            for follower in self._followers:
                follower.put(group)


def write_cursor(positions: Mapping[str, Position]) -> str:
    """Format a cursor: `default:1042.7,gpu:3.0`."""
    return ",".join(
        f"{quote(shard, safe='')}:{batch}.{ordinal}" for shard, (batch, ordinal) in sorted(positions.items())
    )


def read_cursor(text: str) -> dict[str, Position]:
    """Parse a cursor. Raises Refused."""
    positions: dict[str, Position] = {}
    for part in text.split(",") if text else ():
        shard, _, position = part.rpartition(":")
        batch, _, ordinal = position.partition(".")
        try:
            positions[unquote(shard)] = (_number(batch), _number(ordinal))
        except ValueError:
            why = "is not a cursor of this stream"
            raise Refused("invalid cursor", [Fault(where="query:after", why=why)]) from None
    return positions


def _number(text: str) -> int:
    number = int(text)
    if not -1 <= number < 2**63:
        raise ValueError(text)
    return number
