"""The other servers of the same store: who they are, and how one speaks to them.

Servers speak over HTTP below `/internal/v1`, in msgpack. Whoever calls brings the cluster's secret, which the store
keeps; to anybody else these paths do not exist.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping
from datetime import timedelta

import httpx2
import msgspec
import structlog
from starlette.requests import Request

from mainspring import __version__
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import NotFound, Unavailable, Unreachable
from mainspring.protocol.trust import machine_trust
from mainspring.store.ports.front import ServerRow
from mainspring.store.ports.store import Store

log = structlog.get_logger()

SECRET_HEADER = "X-Mainspring-Cluster"  # noqa: S105 - the name of a header
SECRET_SETTING = "cluster_secret"  # noqa: S105 - the name of a setting
HEARD_EVERY_SECONDS = 2.0
ALIVE = timedelta(seconds=10)
"""A server that was not heard of for so long is not asked."""
_KNOWN_FOR_SECONDS = 1.0
_DEADLINE_SECONDS = 10.0


class PeerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What another server answered."""

    status: int
    body: bytes


class Peers:
    """The servers of a store, as one of them sees them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        name: str,
        address: str,
        secret: str,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.address = address
        self._store = store
        self._clock = clock
        self._secret = secret
        # The machine's proxies are not for servers that speak to each other.
        self._http = httpx2.AsyncClient(timeout=_DEADLINE_SECONDS, trust_env=False, verify=trust or machine_trust())
        self._servers: list[ServerRow] = []
        self._leaders: dict[str, str] = {}
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def take_part(self) -> None:
        """Keep this server's row alive, until cancelled."""
        started_at = None
        while True:
            try:
                now = await self._store.time()
                started_at = started_at or now
                await self._store.server_heard(
                    ServerRow(
                        name=self.name, address=self.address, version=__version__, started_at=started_at, heard_at=now
                    )
                )
                self._servers = await self._store.servers(ALIVE)
            except Unavailable as fault:
                log.warning("server.unheard", fault=str(fault))
            await self._clock.sleep(HEARD_EVERY_SECONDS)

    async def leave(self) -> None:
        """Take this server's row away, and close what is open."""
        try:
            await self._store.server_gone(self.name)
        except Unavailable as fault:
            log.warning("server.row_left", fault=str(fault))
        await self._http.aclose()

    def count(self) -> int:
        """How many servers were alive a moment ago, with this one."""
        return max(1, len(self._servers))

    async def others(self) -> list[ServerRow]:
        """The other servers that are alive."""
        await self._look()
        return [server for server in self._servers if server.name != self.name]

    async def leader_address(self, shard: str) -> str | None:
        """Where the server is that leads a shard; None if nobody does, or if it is this one."""
        await self._look()
        leader = self._leaders.get(shard)
        return next((server.address for server in await self.others() if server.name == leader), None)

    def forget(self) -> None:
        """What was known has turned out wrong: look again."""
        self._looked_at = float("-inf")

    async def call(
        self, method: str, address: str, path: str, *, body: bytes = b"", query: Mapping[str, str] | None = None,
        waits: float = 0.0,
    ) -> PeerAnswer:  # fmt: skip
        """Ask another server, which may take so many seconds longer than usual. Raises Unreachable."""
        try:
            answer = await self._http.request(
                method, address + path, content=body, params=query, headers={SECRET_HEADER: self._secret},
                timeout=_DEADLINE_SECONDS + waits,
            )  # fmt: skip
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            self.forget()
            raise Unreachable(f"{address} does not answer: {error!r}") from error
        return PeerAnswer(status=answer.status_code, body=answer.content)

    def check(self, request: Request) -> None:
        """Raises NotFound unless a server of this store asks."""
        said = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(said.encode(), self._secret.encode()):
            raise NotFound(f"there is no {request.url.path}")

    async def _look(self) -> None:
        async with self._looking:
            if self._clock.monotonic() < self._looked_at + _KNOWN_FOR_SECONDS:
                return
            self._servers = await self._store.servers(ALIVE)
            now = await self._store.time()
            self._leaders = {row.id: row.leader for row in await self._store.shards() if row.lease_until > now}
            self._looked_at = self._clock.monotonic()
