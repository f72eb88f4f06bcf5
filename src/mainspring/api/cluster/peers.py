"""The other servers of the same store: discovery and calls.

Servers call each other over HTTP below `/internal/v1`, in msgpack. Calls carry the cluster secret, which the store
keeps; without it these paths answer 404.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping
from datetime import datetime, timedelta

import httpx2
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
HEARTBEAT_SECONDS = 2.0
ALIVE_WITHIN = timedelta(seconds=10)
"""A server without a heartbeat for this long is not called."""
_CACHE_SECONDS = 1.0
_DEADLINE_SECONDS = 10.0


class Peers:
    """The servers of a store, as seen by one of them."""

    def __init__(
        self, store: Store, clock: Clock, *, name: str, address: str, secret: str, trust: ssl.SSLContext | None = None
    ) -> None:
        self.name = name
        self.address = address
        self._store = store
        self._clock = clock
        self._secret = secret
        # Calls between servers bypass the machine's proxies.
        self._http = httpx2.AsyncClient(timeout=_DEADLINE_SECONDS, trust_env=False, verify=trust or machine_trust())
        self._started_at: datetime | None = None
        self._servers: list[ServerRow] = []
        self._leaders: dict[str, str] = {}
        self._refreshed_at = float("-inf")
        self._refresh_lock = asyncio.Lock()

    async def heartbeat(self) -> None:
        """Write this server's heartbeat until cancelled."""
        while True:
            try:
                await self._record_heartbeat()
            except Unavailable as fault:
                log.warning("server.unheard", fault=str(fault))
            await self._clock.sleep(HEARTBEAT_SECONDS)

    async def _record_heartbeat(self) -> None:
        now = await self._store.time()
        self._started_at = self._started_at or now
        await self._store.record_server_heartbeat(
            ServerRow(
                name=self.name, address=self.address, version=__version__, started_at=self._started_at,
                last_heartbeat_at=now,
            )
        )  # fmt: skip
        self._servers = await self._store.servers(ALIVE_WITHIN)

    async def leave(self) -> None:
        """Delete this server's row and close connections."""
        try:
            await self._store.delete_server(self.name)
        except Unavailable as fault:
            log.warning("server.row_left", fault=str(fault))
        await self._http.aclose()

    def count(self) -> int:
        """Return the number of live servers, including this one."""
        return max(1, len(self._servers))

    async def others(self) -> list[ServerRow]:
        """Return the other live servers."""
        await self._refresh()
        return [server for server in self._servers if server.name != self.name]

    async def leader_address(self, shard: str) -> str | None:
        """Return the address of the server that leads a shard; None if there is none, or if it is this one."""
        await self._refresh()
        leader = self._leaders.get(shard)
        return next((server.address for server in await self.others() if server.name == leader), None)

    def forget(self) -> None:
        """Invalidate the cache."""
        self._refreshed_at = float("-inf")

    async def call(
        self, method: str, address: str, path: str, *, body: bytes = b"", query: Mapping[str, str] | None = None,
        extra_seconds: float = 0.0,
    ) -> httpx2.Response:  # fmt: skip
        """Call another server, with `extra_seconds` seconds added to the timeout. Raises Unreachable."""
        try:
            return await self._http.request(
                method, address + path, content=body, params=query, headers={SECRET_HEADER: self._secret},
                timeout=_DEADLINE_SECONDS + extra_seconds,
            )  # fmt: skip
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            self.forget()
            raise Unreachable(f"{address} does not answer: {error!r}") from error

    def check(self, request: Request) -> None:
        """Raise NotFound unless the caller is a server of this store."""
        header = request.headers.get(SECRET_HEADER, "")
        if not hmac.compare_digest(header.encode(), self._secret.encode()):
            raise NotFound(f"there is no {request.url.path}")

    async def _refresh(self) -> None:
        async with self._refresh_lock:
            if self._clock.monotonic() < self._refreshed_at + _CACHE_SECONDS:
                return
            self._servers = await self._store.servers(ALIVE_WITHIN)
            now = await self._store.time()
            self._leaders = {row.id: row.leader for row in await self._store.shards() if row.lease_until > now}
            self._refreshed_at = self._clock.monotonic()
