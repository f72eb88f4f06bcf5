"""Authentication (SEC-1, SEC-2, SEC-3): by token, by worker certificate, or by loopback address on a local server.

1. A token decides alone, valid or not: an invalid token is rejected on this machine too. The same holds for a
   certificate without a token.
2. Requests without credentials are accepted only by a server that is open locally, only from this machine under a
   name of this machine, and not with a foreign Origin: browsers send requests of foreign pages to any address (CSRF),
   under any name (DNS rebinding). Proxied requests do not count as local.
3. Tokens and workers are cached for CACHE_SECONDS: a revoked one may work that much longer.
4. A certificate identifies a worker only if its key is the one on record for its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

import structlog

from mainspring.api.auth import tokens
from mainspring.api.auth.principal import ALL_TENANTS, TOKEN_ROLES, Principal, Role, WorkerIdentity
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.worker_link.enrollment import ENROLL_HINT
from mainspring.event_loop import start_task
from mainspring.protocol.certificates import WorkerCertificate
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unauthenticated, Unavailable
from mainspring.store.ports.front import TokenRow
from mainspring.store.ports.store import Store
from mainspring.store.ports.workers import JoinTokenRow

log = structlog.get_logger()
Row = TypeVar("Row")
TokenKind = TypeVar("TokenKind", TokenRow, JoinTokenRow)

CACHE_SECONDS = 5.0
LAST_USE_WRITE_SECONDS = 60.0
_MAX_CACHED = 10_000
_LOCAL = Principal(name="local", tenant=ALL_TENANTS, roles=frozenset({Role.ADMIN}))
_ROLES = {role.value: role for role in TOKEN_ROLES}
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class TokenIdentities:
    """Authenticates users and services by token, attempts by attempt token, and optionally local callers."""

    def __init__(
        self, store: Store, clock: Clock, time: StoreTimeCache, *, cluster_secret: str, open_locally: bool
    ) -> None:
        """`open_locally`: the server listens on loopback only and requires no token there."""
        self._store = store
        self._clock = clock
        self._time = time
        self._secret = cluster_secret
        self._open_locally = open_locally
        self._tokens = _RowCache(clock, store.find_token)
        self._workers = _RowCache(clock, store.find_identity)
        self._used: set[str] = set()
        self._next_recording = clock.monotonic()
        self._recording: asyncio.Task[None] | None = None

    async def of(
        self, headers: Mapping[str, str], client: str, certificate: WorkerCertificate | None = None
    ) -> Principal:
        """Authenticate a request by its headers (names in lower case) and client address.

        Raises Unauthenticated.
        """
        header = headers.get("authorization")
        if header is None:
            return (
                self._local_principal(headers, client)
                if certificate is None
                else await self._worker_principal(certificate)
            )
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("invalid Authorization header: use `Authorization: Bearer TOKEN`")
        if token.startswith("msa_"):
            return await self._attempt_principal(token)
        if token.startswith("msj_"):
            return await self._join_principal(token)
        return await self._token_principal(token)

    async def worker_named(self, name: str) -> WorkerIdentity | None:
        """Return the worker that has a certificate for this name, if any."""
        row = await self._workers.find(name)
        if row is None or row.revoked_at is not None or row.expires_at <= await self._time.now():
            return None
        return WorkerIdentity(name=row.name, pools=row.pools, key=row.key)

    def _local_principal(self, headers: Mapping[str, str], client: str) -> Principal:
        if not self._open_locally:
            raise Unauthenticated("a token is required")
        if not is_loopback(client) or any(name in headers for name in _FORWARDED):
            raise Unauthenticated("a token is required from another machine")
        host = headers.get("host", "")
        if not is_loopback(_name_in(host)):
            raise Unauthenticated("a token is required unless the Host header names this machine")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
            raise Unauthenticated("a token is required for cross-origin requests")
        return _LOCAL

    async def _token_principal(self, token: str) -> Principal:
        row = await self._valid_row(token, self._tokens.find, "token")
        self._record_use(row.id)
        roles = frozenset(_ROLES[role] for role in row.roles if role in _ROLES)
        return Principal(name=f"token:{row.name}", tenant=row.tenant, roles=roles)

    async def _attempt_principal(self, token: str) -> Principal:
        attempt = tokens.read_attempt_token(self._secret, token, await self._time.now())
        found = await self._store.find_attempts([attempt]) if attempt is not None else []
        task = await self._store.find_task(found[0].task_id) if found and found[0].end is None else None
        if attempt is None or task is None:
            raise Unauthenticated("unknown token, or its attempt has ended")
        return Principal(
            name=f"attempt:{attempt}", tenant=task.tenant, roles=frozenset({Role.ATTEMPT}), attempt=attempt
        )

    async def _worker_principal(self, certificate: WorkerCertificate) -> Principal:
        """Return the worker of a certificate that TLS has verified against the CA of workers."""
        row = await self._workers.find(certificate.name)
        if row is None or row.key != certificate.key:
            row = await self._workers.find(certificate.name, refresh=True)  # it may have just enrolled
        if row is None or row.key != certificate.key:
            raise Unauthenticated(f"the certificate belongs to no registered worker: {ENROLL_HINT}")
        if row.revoked_at is not None:
            raise Unauthenticated(f"the certificate of worker {row.name} was revoked: {ENROLL_HINT}")
        if certificate.expires_at <= await self._time.now():
            raise Unauthenticated(f"the certificate of worker {row.name} has expired: {ENROLL_HINT}")
        return Principal(
            name=f"worker:{row.name}",
            tenant=ALL_TENANTS,
            roles=frozenset({Role.WORKER}),
            worker=WorkerIdentity(name=row.name, pools=row.pools, key=row.key),
        )

    async def _join_principal(self, token: str) -> Principal:
        """Return the caller of a join token. Its remaining uses are checked when it is used."""
        row = await self._valid_row(token, self._store.find_join_token, "join token")
        return Principal(name=f"join:{row.name}", tenant=ALL_TENANTS, roles=frozenset({Role.JOIN}), join_token=row.id)

    async def _valid_row(self, token: str, find: Callable[[str], Awaitable[TokenKind | None]], noun: str) -> TokenKind:
        token_id = tokens.id_of(token)
        row = await find(token_id) if token_id is not None else None
        if row is None or not tokens.is_token_of(row, token):
            raise Unauthenticated(f"unknown {noun}")
        if row.revoked_at is not None:
            raise Unauthenticated(f"{noun} revoked")
        if row.expires_at <= await self._time.now():
            raise Unauthenticated(f"{noun} expired")
        return row

    def _record_use(self, id: str) -> None:
        """Record the use of a token; uses are written together, once a minute."""
        self._used.add(id)
        if self._clock.monotonic() >= self._next_recording and (self._recording is None or self._recording.done()):
            self._next_recording = self._clock.monotonic() + LAST_USE_WRITE_SECONDS
            used, self._used = list(self._used), set()
            self._recording = start_task(self._write_use(used), "token_uses")

    async def _write_use(self, ids: list[str]) -> None:
        try:
            await self._store.token_used(ids)
        except Unavailable as fault:
            # Only the time of the last use is lost; the next use writes it again.
            log.warning("tokens.use_not_noted", tokens=len(ids), fault=str(fault))


class _RowCache(Generic[Row]):
    """Cache of rows, including missing ones."""

    def __init__(self, clock: Clock, load: Callable[[str], Awaitable[Row | None]]) -> None:
        self._clock = clock
        self._load = load
        self._rows: dict[str, tuple[float, Row | None]] = {}

    async def find(self, key: str, *, refresh: bool = False) -> Row | None:
        """Return the row, at most CACHE_SECONDS old; with `refresh`, read it now."""
        until, row = self._rows.get(key, (0.0, None))
        if self._clock.monotonic() < until and not refresh:
            return row
        asked_at = self._clock.monotonic()
        row = await self._load(key)
        if len(self._rows) >= _MAX_CACHED:
            self._rows.clear()
        self._rows[key] = (asked_at + CACHE_SECONDS, row)
        return row


def is_loopback(host: str) -> bool:
    """Return whether a name or address is loopback, without DNS."""
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return address.is_loopback


def _name_in(host: str) -> str:
    """Return the name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
