"""Servers with real sockets on one in-memory store, and scripted workers.

`ApiServers.server` starts a host with its API server on a free port, in the test's own event loop; several share the
store.
`LinkClient` is the client end of a worker link.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Self, TypeVar

import httpx2
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from mainspring.api.auth import tokens
from mainspring.api.auth.principal import ALL_TENANTS, Role
from mainspring.api.logs.log_files import LogFiles
from mainspring.api.server import ApiServer, Tls, listen
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.app.build import POOL, ServerOptions, build_server
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.run import Run
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.wire import (
    Answer,
    Assign,
    Assignment,
    Credit,
    FromWorker,
    Offer,
    Outcome,
    Received,
    Register,
    Result,
    Started,
    ToWorker,
    Verdict,
    Welcome,
)
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.server_settings import GENEROUS
from tests.submission import submit

DEADLINE_SECONDS = 10.0
SECRET = "the secret of the server"
ONE_TASK = JobSpec(name="one", tasks=(TaskSpec(name="only", work=msgspec.Raw(b'{"run": ["true"]}')),))
_M = TypeVar("_M", bound=ToWorker)
_decode = msgspec.msgpack.Decoder(list[ToWorker]).decode


class LinkClient:
    """A worker whose messages are scripted by the test."""

    def __init__(self, socket: ClientConnection, name: str) -> None:
        self.socket = socket
        self.name = name
        self.received: list[ToWorker] = []

    async def say(self, *messages: FromWorker) -> None:
        """Send messages in one frame."""
        await self.socket.send(msgspec.msgpack.encode(messages))

    async def hear(self, kind: type[_M]) -> _M:
        """Return the next message of a kind; earlier ones stay in `received`."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                for message in self.received:
                    if isinstance(message, kind):
                        self.received.remove(message)
                        return message
                frame = await self.socket.recv()
                assert isinstance(frame, bytes)
                self.received += _decode(frame)

    async def next_task(self) -> Assignment:
        """Receive and start the next assignment."""
        assign = await self.hear(Assign)
        await self.say(Received(tuple(one.attempt for one in assign.group)), Started(assign.group[0].attempt))
        return assign.group[0]

    async def finish(self, attempt: str) -> Verdict:
        """Report a success, and return the verdict."""
        await self.say(Result(attempt, Outcome.SUCCEEDED, "1"))
        return (await self.hear(Answer)).verdict

    async def closed(self) -> tuple[int, str]:
        """Wait until the server closes the link; return code and reason."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            try:
                while True:
                    frame = await self.socket.recv()
                    assert isinstance(frame, bytes)
                    self.received += _decode(frame)
            except ConnectionClosed:
                await self.socket.wait_closed()
        return self.socket.close_code or 0, self.socket.close_reason or ""


class Server:
    """One server."""

    def __init__(
        self, host: Host, front: ApiServer, address: str, stop: Callable[[], None], trust: ssl.SSLContext | None
    ) -> None:
        """`trust`: TLS context of its clients by default; None without TLS."""
        self.host = host
        self.front = front
        self.address = address
        self.stop = stop
        self._trust = trust

    async def leader(self) -> Leader:
        """Wait until this server leads the pool."""
        await until(lambda: POOL in self.host.leaders)
        return self.host.leader(POOL)

    @asynccontextmanager
    async def socket(
        self, headers: dict[str, str] | None = None, trust: ssl.SSLContext | None = None
    ) -> AsyncIterator[ClientConnection]:
        """Open a link without sending anything."""
        url = self.address.replace("http", "ws", 1) + "/api/v1/worker-link"
        shown = trust or self._trust
        async with connect(url, compression=None, additional_headers=headers, proxy=None, ssl=shown) as socket:
            yield socket

    @asynccontextmanager
    async def caller(
        self,
        name: str = "w1",
        *,
        session: str = "s1",
        token: str | None = None,
        cores: int = 4,
        trust: ssl.SSLContext | None = None,
    ) -> AsyncIterator[LinkClient]:
        """Connect a registered worker with credit."""
        headers = {"Authorization": f"Bearer {token}"} if token else None
        async with self.socket(headers, trust) as socket:
            caller = LinkClient(socket, name)
            await caller.say(Register(name, session, Offer(cores * 1000, cores << 30), {}))
            await caller.hear(Welcome)
            await caller.hear(Credit)
            yield caller

    @asynccontextmanager
    async def http(
        self, token: str | None = None, trust: ssl.SSLContext | None = None
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """Open a client of the API."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(
            base_url=self.address,
            headers=headers,
            trust_env=False,
            timeout=DEADLINE_SECONDS,
            verify=trust or self._trust or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        ) as client:
            yield client


class ApiServers:
    """A store and its servers."""

    def __init__(self, directory: Path) -> None:
        self.clock = SystemClock()
        self.store = SqliteStore.open(":memory:", clock=self.clock, run=inline)
        self._directory = directory
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self.store.ensure_shard(POOL)
        self._stack.push_async_callback(self.store.close)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def server(
        self,
        name: str = "one",
        *,
        open_locally: bool = True,
        lease: float = 5.0,
        max_log_bytes: int = 1 << 20,
        tls: Tls | None = None,
        enrollment: Enrollment | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> Server:
        """Start a server, which stops with the store at the latest. `trust`: TLS context of its clients."""
        listener = listen("127.0.0.1", 0)
        address = f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
        options = ServerOptions(
            name=name, address=address, cluster_secret=SECRET, lease=timedelta(seconds=lease), given=GENEROUS,
            files=LogFiles(self._directory / name / "logs", max_log_bytes=max_log_bytes), open_locally=open_locally,
            enrollment=enrollment,
        )  # fmt: skip
        engine, front = build_server(self.store, self.clock, options)
        host = engine.host
        up, stopping = asyncio.Event(), asyncio.Event()

        async def run() -> None:
            hosting = asyncio.create_task(host.run())
            async with front.running(listener, tls):
                up.set()
                await stopping.wait()
            host.stop()
            await hosting

        running = asyncio.create_task(run())

        async def end() -> None:
            stopping.set()
            await running

        self._stack.push_async_callback(end)
        await up.wait()
        return Server(host, front, address, stopping.set, trust)

    async def submit(self, spec: JobSpec = ONE_TASK, runs: int = 1, tenants: Sequence[str] = ("acme",)) -> list[Run]:
        """Insert runs of a job into intake."""
        return await submit(self.store, runs, tenants, spec=spec)

    async def token(self, *roles: Role, name: str = "t", tenant: str = ALL_TENANTS) -> str:
        """Create a token with these roles."""
        token, row = tokens.make_token(
            tenant=tenant, roles=roles, name=name, by="test", now=await self.store.time(), life=timedelta(days=1)
        )
        await self.store.insert_token(row)
        return token


async def until(is_so: Callable[[], bool]) -> None:
    """Poll until a condition holds, with a timeout."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not is_so():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0.01)
