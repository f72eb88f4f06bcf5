"""Finds out who asks (SEC-1, SEC-2, SEC-3): by a token, by the certificate of a worker, or on a server for this machine
alone by being on this machine.

1. A token that is brought decides, good or bad: whoever brings a bad one is nobody, also on this machine. So does a
   certificate without a token.
2. Without either, only a server that is open locally answers, and only to a client on this machine that asks for it by
   a name of this machine, and not on behalf of a page from elsewhere: a browser sends what foreign pages want, to any
   address (CSRF), and under any name (DNS rebinding). Nor is whoever came through a proxy taken for local.
3. What is known of a token or a worker is asked for again after KNOWN_SECONDS: so long a revoked one may still work.
4. A certificate makes somebody a worker only if its key is the one on record for its name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import IPv6Address, ip_address
from typing import Generic, TypeVar

import structlog

from mainspring.api.auth import tokens
from mainspring.api.services import EVERY_TENANT, GIVEN_TO_TOKENS, Principal, Role, WorkerIdentity
from mainspring.api.store_time import AskedTime
from mainspring.api.worker_link.enrolment import ENROL
from mainspring.event_loop import start_task
from mainspring.protocol.certificates import WorkerCertificate
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Unauthenticated, Unavailable
from mainspring.store.ports.store import Store

log = structlog.get_logger()
Row = TypeVar("Row")

KNOWN_SECONDS = 5.0
USE_NOTED_SECONDS = 60.0
_MOST_KNOWN = 10_000
_LOCAL = Principal(name="local", tenant=EVERY_TENANT, roles=frozenset({Role.ADMIN}))
_ROLES = {role.value: role for role in GIVEN_TO_TOKENS}
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")


class TokenIdentities:
    """Knows people and services by their tokens, attempts by theirs, and perhaps whoever is on this machine."""

    def __init__(self, store: Store, clock: Clock, *, cluster_secret: str, open_locally: bool) -> None:
        """`open_locally`: the server listens on loopback only, and needs no token there."""
        self._store = store
        self._clock = clock
        self._time = AskedTime(store, clock)
        self._secret = cluster_secret
        self._open_locally = open_locally
        self._tokens = _Known(clock, store.find_token)
        self._workers = _Known(clock, store.find_identity)
        self._used: set[str] = set()
        self._next_note = clock.monotonic()
        self._noting: asyncio.Task[None] | None = None

    async def of(
        self, headers: Mapping[str, str], client: str, certificate: WorkerCertificate | None = None
    ) -> Principal:
        """Who sent a request with these headers (their names in lower case) from this address.

        Raises Unauthenticated.
        """
        said = headers.get("authorization")
        if said is None:
            return self._local(headers, client) if certificate is None else await self._worker(certificate)
        scheme, _, token = said.partition(" ")
        if scheme.lower() != "bearer":
            raise Unauthenticated("a token comes as `Authorization: Bearer ..`")
        if token.startswith("msa_"):
            return await self._attempt(token)
        if token.startswith("msj_"):
            return await self._joining(token)
        return await self._holder(token)

    async def worker_named(self, name: str) -> WorkerIdentity | None:
        """The worker that is known under this name by its certificate, if one is."""
        row = await self._workers.find(name)
        if row is None or row.revoked_at is not None or row.expires_at <= await self._time.now():
            return None
        return WorkerIdentity(name=row.name, pools=row.pools, key=row.key)

    def _local(self, headers: Mapping[str, str], client: str) -> Principal:
        if not self._open_locally:
            raise Unauthenticated("a token is needed")
        if not is_loopback(client) or any(name in headers for name in _FORWARDED):
            raise Unauthenticated("a token is needed from another machine")
        host = headers.get("host", "")
        if not is_loopback(_name_in(host)):
            raise Unauthenticated("a token is needed if the server is not asked for by a name of this machine")
        origin = headers.get("origin")
        if origin is not None and origin not in {f"http://{host}", f"https://{host}"}:
            raise Unauthenticated("a token is needed for what a page from elsewhere wants")
        return _LOCAL

    async def _holder(self, token: str) -> Principal:
        token_id = tokens.id_of(token)
        row = await self._tokens.find(token_id) if token_id is not None else None
        if row is None or not tokens.is_token_of(row, token):
            raise Unauthenticated("the token is unknown")
        if row.revoked_at is not None:
            raise Unauthenticated("the token was revoked")
        if row.expires_at <= await self._time.now():
            raise Unauthenticated("the token has expired")
        self._note_use(row.id)
        roles = frozenset(_ROLES[role] for role in row.roles if role in _ROLES)
        return Principal(name=f"token:{row.name}", tenant=row.tenant, roles=roles)

    async def _attempt(self, token: str) -> Principal:
        attempt = tokens.read_attempt_token(self._secret, token, await self._time.now())
        found = await self._store.find_attempts([attempt]) if attempt is not None else []
        task = await self._store.find_task(found[0].task_id) if found and found[0].end is None else None
        if attempt is None or task is None:
            raise Unauthenticated("the token is unknown, or its attempt is over")
        return Principal(
            name=f"attempt:{attempt}", tenant=task.tenant, roles=frozenset({Role.ATTEMPT}), attempt=attempt
        )

    async def _worker(self, certificate: WorkerCertificate) -> Principal:
        """The worker with this certificate, which TLS has found to be signed by the authority of workers."""
        row = await self._workers.find(certificate.name)
        if row is None or row.key != certificate.key:
            row = await self._workers.find(certificate.name, anew=True)  # it may have joined a moment ago
        if row is None or row.key != certificate.key:
            raise Unauthenticated(f"the certificate is that of no worker on record: {ENROL}")
        if row.revoked_at is not None:
            raise Unauthenticated(f"the certificate of worker {row.name} was revoked: {ENROL}")
        if certificate.expires_at <= await self._time.now():
            raise Unauthenticated(f"the certificate of worker {row.name} has expired: {ENROL}")
        return Principal(
            name=f"worker:{row.name}",
            tenant=EVERY_TENANT,
            roles=frozenset({Role.WORKER}),
            worker=WorkerIdentity(name=row.name, pools=row.pools, key=row.key),
        )

    async def _joining(self, token: str) -> Principal:
        """Whoever brings a join token. Whether it is used up is seen when it is used."""
        token_id = tokens.id_of(token)
        row = await self._store.find_join_token(token_id) if token_id is not None else None
        if row is None or not tokens.is_token_of(row, token):
            raise Unauthenticated("the join token is unknown")
        if row.revoked_at is not None:
            raise Unauthenticated("the join token was revoked")
        if row.expires_at <= await self._time.now():
            raise Unauthenticated("the join token has expired")
        return Principal(name=f"join:{row.name}", tenant=EVERY_TENANT, roles=frozenset({Role.JOIN}), join_token=row.id)

    def _note_use(self, id: str) -> None:
        """Have it written that a token was used: not now, and for all tokens together once a minute."""
        self._used.add(id)
        if self._clock.monotonic() >= self._next_note and (self._noting is None or self._noting.done()):
            self._next_note = self._clock.monotonic() + USE_NOTED_SECONDS
            used, self._used = list(self._used), set()
            self._noting = start_task(self._write_use(used), "token_uses")

    async def _write_use(self, ids: list[str]) -> None:
        try:
            await self._store.token_used(ids)
        except Unavailable as fault:
            # Only the time of the last use is not written, and the next use will say it again.
            log.warning("tokens.use_not_noted", tokens=len(ids), fault=str(fault))


class _Known(Generic[Row]):
    """Rows that were asked for of late, also that there was none."""

    def __init__(self, clock: Clock, ask: Callable[[str], Awaitable[Row | None]]) -> None:
        self._clock = clock
        self._ask = ask
        self._rows: dict[str, tuple[float, Row | None]] = {}

    async def find(self, key: str, *, anew: bool = False) -> Row | None:
        """The row with this key, as it was within KNOWN_SECONDS; as it is now, if it is to be asked for anew."""
        until, row = self._rows.get(key, (0.0, None))
        if self._clock.monotonic() < until and not anew:
            return row
        asked_at = self._clock.monotonic()
        row = await self._ask(key)
        if len(self._rows) >= _MOST_KNOWN:
            self._rows.clear()
        self._rows[key] = (asked_at + KNOWN_SECONDS, row)
        return row


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine, whatever a name server says."""
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
    """The name in a Host header, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
