"""Transitions as they become durable (OBS-4): one tail of the store per server, whatever the number of followers.

    store.transitions_after ──tail──► a bounded queue per follower ──► routes_events

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

from mainspring.host.background import BackgroundLoops
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Fault, Refused, Unavailable
from mainspring.store.ports.front import Told
from mainspring.store.ports.store import Store

log = structlog.get_logger()

Place = tuple[int, int]
"""A batch number and an ordinal within it; later transitions are new."""

POLL_SECONDS = 0.2
HEARTBEAT_SECONDS = 5.0
AT_ONCE = 1_000
_MOST_WAITING = 200
"""Queue limit of one follower, in groups of at most AT_ONCE transitions."""
_SHARDS_EVERY_READS = 10
_BEGINNING: Place = (0, -1)


class _Follower:
    """A follower: its queue, and whether it was disconnected."""

    def __init__(self) -> None:
        self.gone = False
        self._waiting: deque[list[Told]] = deque()
        self._something = asyncio.Event()

    def put(self, group: list[Told]) -> None:
        """Enqueue a group. If the queue is full, disconnect the follower, so that it never sees a gap."""
        if self.gone:
            return
        self._waiting.append(group)
        if len(self._waiting) > _MOST_WAITING:
            self.let_go()
        self._something.set()

    def let_go(self) -> None:
        """Disconnect the follower."""
        self.gone = True
        self._waiting.clear()
        self._something.set()

    async def next(self) -> list[Told]:
        """Return the next group; an empty one after 5 s of silence or after a disconnect."""
        if not self._waiting and not self.gone:
            self._something.clear()
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._something.wait()
            except TimeoutError:
                return []
        return self._waiting.popleft() if self._waiting else []


class Live:
    """Implements `services.LiveStream`."""

    def __init__(self, store: Store, clock: Clock, background: BackgroundLoops) -> None:
        self._store = store
        self._clock = clock
        self._background = background
        self._followers: set[_Follower] = set()
        self._places: dict[str, Place] = {}
        self._committed = asyncio.Event()
        self._tail: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self.is_ending = False

    def wake(self) -> None:
        """Wake the tail after a commit of a local leader."""
        self._committed.set()

    def end_followers(self) -> None:
        """Disconnect all followers, because the server is stopping."""
        self.is_ending = True
        for follower in self._followers:
            follower.let_go()

    async def now(self) -> dict[str, Place]:
        """Return the current position of each shard. Raises Unavailable."""
        return {row.id: (row.batch_no + 1, -1) for row in await self._store.shards()}

    async def follow(self, after: Mapping[str, Place]) -> AsyncIterator[list[Told]]:
        """Yield transitions after these positions; an empty list every 5 s of silence. Raises Unavailable."""
        follower = await self._join()
        try:
            places = dict(after)
            for shard in list(self._places):
                async for group in self._missed(shard, places):
                    yield group
            while not follower.gone:
                group = await follower.next()
                fresh = [told for told in group if (told.batch_no, told.ordinal) > places.get(told.shard, _BEGINNING)]
                if fresh or not group:
                    yield fresh
        finally:
            self._leave(follower)

    async def so_far(self, after: Mapping[str, Place]) -> AsyncIterator[list[Told]]:
        """Yield the transitions after these positions, up to now. Raises Unavailable."""
        places = dict(after)
        for row in await self._store.shards():
            async for group in self._missed(row.id, places):
                yield group
                if group[-1].batch_no > row.batch_no:
                    break  # newer than the request

    async def _missed(self, shard: str, places: dict[str, Place]) -> AsyncIterator[list[Told]]:
        """Yield the stored transitions of a shard after its position, which advances."""
        while True:
            group = await self._store.transitions_after(shard, *places.get(shard, _BEGINNING), AT_ONCE)
            if group:
                places[shard] = (group[-1].batch_no, group[-1].ordinal)
                yield group
            if len(group) < AT_ONCE:
                return

    async def _join(self) -> _Follower:
        follower = _Follower()
        async with self._starting:
            if self._tail is None:
                self._places = await self.now()
                self._tail = asyncio.create_task(self._background.supervise("live_tail", self._run))
            self._followers.add(follower)
        if self.is_ending:
            follower.let_go()
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
                        self._places.setdefault(row.id, _BEGINNING)
                for shard in list(self._places):
                    await self._read(shard)
            except Unavailable as fault:
                log.warning("live.unavailable", fault=str(fault))
            try:
                async with asyncio.timeout(POLL_SECONDS):
                    await self._committed.wait()
            except TimeoutError:
                pass  # another server may lead, whose commits are only visible in the store
            self._committed.clear()

    async def _read(self, shard: str) -> None:
        while group := await self._store.transitions_after(shard, *self._places[shard], AT_ONCE):
            self._places[shard] = (group[-1].batch_no, group[-1].ordinal)
            for follower in self._followers:
                follower.put(group)


def write_cursor(places: Mapping[str, Place]) -> str:
    """Format a cursor: `default:1042.7,gpu:3.0`."""
    return ",".join(f"{quote(shard, safe='')}:{batch}.{ordinal}" for shard, (batch, ordinal) in sorted(places.items()))


def read_cursor(text: str) -> dict[str, Place]:
    """Parse a cursor. Raises Refused."""
    places: dict[str, Place] = {}
    for part in text.split(",") if text else ():
        shard, _, place = part.rpartition(":")
        batch, _, ordinal = place.partition(".")
        try:
            places[unquote(shard)] = (_number(batch), _number(ordinal))
        except ValueError:
            why = "is not a cursor of this stream"
            raise Refused("invalid cursor", [Fault(where="query:after", why=why)]) from None
    return places


def _number(text: str) -> int:
    number = int(text)
    if not -1 <= number < 2**63:
        raise ValueError(text)
    return number
