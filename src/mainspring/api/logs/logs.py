"""Attempt logs (WRK-8): stored as files on the server that received them, read from any server.

    link ──pieces──► queue ──one thread──► files ──LogStored──► link
                                             └── followers are woken

1. The event loop never blocks on disk: one thread does all file work, many pieces at a time.
2. A worker may write only the logs of its own attempts.
3. `LogStored` follows the write. A piece that could not be written is not acknowledged, and is sent again.
4. A link that sends more than the queue limit is throttled; other links are not.

After a change of leader, parts of one log may be on several servers: readers try this server first, then the others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import msgspec
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mainspring.api.cluster.peers import Peers
from mainspring.api.logs.log_files import LogFiles, is_attempt
from mainspring.background import wait_for
from mainspring.host.host import Host
from mainspring.host.links import Link
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import Log, LogStored
from mainspring.store.ports.store import Store

log = structlog.get_logger()
_T = TypeVar("_T")

MAX_READ_BYTES = 1024 * 1024
SWEEP_EVERY_SECONDS = 600.0
_MAX_WAITING_BYTES = 32 * 1024 * 1024
_PIECE_OVERHEAD_BYTES = 200
"""Overhead counted per piece, so that empty pieces are not free."""
_MAX_OWNERS = 50_000
_PAUSE_SECONDS = 0.5
_LAST_WRITE_SECONDS = 2.0
_NO_OWNER = ""
LOGS_PATH = "/internal/v1/logs/"


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an attempt's log."""

    offset: int
    data: bytes
    size: int
    """Current size of the log."""
    complete: bool
    """Whether the process has ended and `size` is final."""


class LogPart(LogPiece, frozen=True, kw_only=True):
    """The part of a log on one server."""

    next_start: int | None = None
    """Start of the next segment, if the requested byte is missing."""


class LogStore:
    """The logs of one server, and access to those of the others."""

    def __init__(self, files: LogFiles, host: Host, store: Store, peers: Peers, clock: Clock) -> None:
        self._files = files
        self._host = host
        self._store = store
        self._peers = peers
        self._clock = clock
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="logs")
        self._waiting: list[tuple[Link, Log]] = []
        self._waiting_bytes = 0
        self._has_pieces = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._owners: OrderedDict[str, str] = OrderedDict()
        """Workers of attempts that have ended."""
        self._followers: dict[str, set[asyncio.Future[None]]] = {}
        self._next_sweep = float("-inf")
        self._ending = False

    # writing

    async def enqueue(self, link: Link, pieces: Sequence[Log]) -> None:
        """Enqueue pieces from a worker for writing; blocks only while the queue is full."""
        for piece in pieces:
            self._waiting.append((link, piece))
            self._waiting_bytes += len(piece.data) + _PIECE_OVERHEAD_BYTES
        self._has_pieces.set()
        if self._waiting_bytes > _MAX_WAITING_BYTES:
            self._has_capacity.clear()
            await self._has_capacity.wait()

    async def add(self, attempt: str, data: bytes) -> None:
        """Append to a log, part of which may be on another server."""
        offset = (await self.read(attempt, -1, 1)).size
        try:
            await self._in_thread(lambda: self._files.append(Log(attempt, offset, data)))
        except OSError as fault:
            log.warning("log.not_kept", attempt=attempt, fault=str(fault))
        _wake(self._followers.get(attempt, ()))

    async def run(self) -> None:
        """Write queued pieces and sweep, until cancelled."""
        while True:
            await wait_for(self._has_pieces, SWEEP_EVERY_SECONDS)
            self._has_pieces.clear()
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            self._has_capacity.set()
            try:
                await self._write(waiting)
            except Exception as fault:  # noqa: BLE001 - unacknowledged pieces are sent again; the loop continues
                log.warning("log.write_failed", fault=repr(fault))
            if self._clock.monotonic() >= self._next_sweep or self._files.is_large():
                self._next_sweep = self._clock.monotonic() + SWEEP_EVERY_SECONDS
                await self._sweep()

    async def close(self) -> None:
        """Flush the queue, unless the store can't name the owners in time, and shut down."""
        waiting, self._waiting = self._waiting, []
        try:
            async with asyncio.timeout(_LAST_WRITE_SECONDS):
                await self._write(waiting)
        except TimeoutError:
            log.warning("log.not_written", pieces=len(waiting))
        self._thread.shutdown(wait=False)

    async def _write(self, waiting: Sequence[tuple[Link, Log]]) -> None:
        own = await self._keep_owned(waiting)
        if not own:
            return
        kept = await self._in_thread(lambda: _append_all(self._files, own))
        for (link, attempt), offset in kept.items():
            link.put(LogStored(attempt, offset))
        for _, attempt in kept:
            _wake(self._followers.get(attempt, ()))

    async def _keep_owned(self, waiting: Sequence[tuple[Link, Log]]) -> list[tuple[Link, Log]]:
        """Drop pieces of other workers' attempts, and acknowledge them so that they are not sent again."""
        await self._find_owners({piece.attempt for _, piece in waiting if self._owner(piece.attempt) is None})
        own = []
        for link, piece in waiting:
            owner = self._owner(piece.attempt)
            if owner == link.worker:
                own.append((link, piece))
            elif owner is not None:
                log.warning("log.refused", worker=link.worker, attempt=piece.attempt)
                link.put(LogStored(piece.attempt, piece.offset + len(piece.data)))
        return own

    def _owner(self, attempt: str) -> str | None:
        """Return the worker of an attempt, if cached."""
        for leader in self._host.leaders.values():
            task = leader.shard.memory.attempts.get(attempt)
            if task is not None:
                return task.worker_id
        return self._owners.get(attempt)

    async def _find_owners(self, unknown: set[str]) -> None:
        """Read the workers of attempts from the store, and cache them."""
        found = dict.fromkeys(unknown, _NO_OWNER)
        asked = [attempt for attempt in unknown if is_attempt(attempt)]
        while asked:
            try:
                found |= {one.id: one.worker_id for one in await self._store.find_attempts(asked)}
                break
            except Unavailable as fault:
                log.warning("log.owners_unavailable", fault=str(fault))
                await self._clock.sleep(_PAUSE_SECONDS)
        self._owners.update(found)
        while len(self._owners) > _MAX_OWNERS:
            self._owners.popitem(last=False)

    async def _sweep(self) -> None:
        try:
            today = (await self._store.time()).date()
            await self._in_thread(lambda: self._files.sweep(today))
        except (Unavailable, OSError) as fault:
            log.warning("log.sweep_failed", fault=str(fault))

    # reading

    async def read(self, attempt: str, offset: int, limit: int) -> LogPiece:
        """Read a piece of a log at `offset`; a negative one counts from the end. Empty if there is none yet."""
        if not is_attempt(attempt):
            return LogPiece(offset=max(0, offset), data=b"", size=0, complete=False)
        here = await self.read_here(attempt, offset, limit)
        if here.complete if offset < 0 else here.data or (here.complete and offset >= here.size):
            return here
        parts = [here, *await self._read_elsewhere(attempt, offset, limit)]
        size = max(part.size for part in parts)
        complete = any(part.complete and part.size == size for part in parts)
        if offset < 0:
            wanted = max(0, size + offset)
            return await self.read(attempt, wanted, limit) if size else here
        for part in parts:
            if part.data:
                return LogPiece(offset=part.offset, data=part.data, size=size, complete=complete)
        after_gap = min((part.next_start for part in parts if part.next_start is not None), default=None)
        if after_gap is not None:
            return await self.read(attempt, after_gap, limit)
        return LogPiece(offset=offset, data=b"", size=size, complete=complete)

    async def read_here(self, attempt: str, offset: int, limit: int) -> LogPart:
        """Read a piece from this server's disk."""
        return await self._in_thread(lambda: _read(self._files, attempt, offset, min(limit, MAX_READ_BYTES)))

    async def changed(self, attempt: str, seconds: float) -> bool:
        """Wait until a local log has grown, at most this long; False if this server is stopping."""
        if self._ending:
            return False
        follower: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        followers = self._followers.setdefault(attempt, set())
        followers.add(follower)
        try:
            async with asyncio.timeout(seconds):
                await follower
        except TimeoutError:
            pass  # nothing was added here; perhaps on another server
        finally:
            followers.discard(follower)
            if not followers:
                self._followers.pop(attempt, None)
        return not self._ending

    def end_followers(self) -> None:
        """Wake all followers, because the server is stopping."""
        self._ending = True
        for followers in self._followers.values():
            _wake(followers)

    def routes(self) -> list[Route]:
        """Return the route for other servers, which read the local part of a log."""
        return [Route(f"{LOGS_PATH}{{attempt}}", self._answer)]

    async def _answer(self, request: Request) -> Response:
        self._peers.check(request)
        attempt = request.path_params["attempt"]
        offset, limit = int(request.query_params["offset"]), int(request.query_params["limit"])
        part = await self.read_here(attempt, offset, limit) if is_attempt(attempt) else None
        return Response(msgspec.msgpack.encode(part), media_type="application/msgpack")

    async def _read_elsewhere(self, attempt: str, offset: int, limit: int) -> list[LogPart]:
        query = {"offset": str(offset), "limit": str(limit)}

        async def ask(address: str) -> LogPart | None:
            try:
                answer = await self._peers.call("GET", address, LOGS_PATH + attempt, query=query)
            except Unavailable as fault:
                log.debug("log.peer_silent", address=address, fault=str(fault))
                return None
            return msgspec.msgpack.decode(answer.content, type=LogPart | None) if answer.status_code == 200 else None

        try:
            others = await self._peers.others()
        except Unavailable as fault:
            log.warning("log.peers_unavailable", fault=str(fault))
            return []
        parts = await asyncio.gather(*(ask(server.address) for server in others))
        return [part for part in parts if part is not None]

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _wake(followers: Iterable[asyncio.Future[None]]) -> None:
    for follower in followers:
        if not follower.done():
            follower.set_result(None)


def _append_all(files: LogFiles, pieces: Sequence[tuple[Link, Log]]) -> dict[tuple[Link, str], int]:
    """Write pieces; return the stored offset for each link and attempt."""
    kept: dict[tuple[Link, str], int] = {}
    for link, piece in pieces:
        try:
            kept[link, piece.attempt] = files.append(piece)
        except OSError as fault:
            log.warning("log.not_kept", attempt=piece.attempt, fault=str(fault))
    return kept


def _read(files: LogFiles, attempt: str, offset: int, limit: int) -> LogPart:
    extent = files.extent(attempt)
    start = offset if offset >= 0 else max(0, extent.size + offset)
    data = files.read(attempt, start, limit)
    return LogPart(
        offset=start,
        data=data,
        size=extent.size,
        complete=extent.complete,
        next_start=None if data else files.first_after(attempt, start),
    )
