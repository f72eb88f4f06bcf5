"""Credentials of a worker (SEC-3): its token, or a certificate that it requests with a join token and renews.

    identity/joining-<id>.key   written before a join token is used: a retry after a lost response uses the same key
    identity/worker.pem         certificate and key; replaced atomically
    identity/joined             id of the join token that the certificate was issued for

1. The key never leaves this directory, which only the worker can read.
2. An existing certificate takes precedence over other credentials; a new join token replaces it.
3. It is renewed after half of its lifetime, over a connection that it authenticates, also after a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from mainspring.atomic_files import write_atomically
from mainspring.protocol.certificates import (
    WorkerCertificate,
    key_text,
    make_key,
    make_request,
    read_certificate,
    write_new,
)
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused, Unauthenticated, Unavailable
from mainspring.protocol.rest.admin import CertificateView, EnrollRequest, RenewRequest
from mainspring.protocol.trust import tls_context
from mainspring.worker.agent.uplink import PATH, link_address

if TYPE_CHECKING:
    from mainspring.client.aio.client import AsyncClient

log = structlog.get_logger()

DIRECTORY = "identity"
MAX_SLEEP_SECONDS = 60.0
"""The clock is checked again after this time: the machine may have slept, or its clock may have been set."""
RETRY_SECONDS = 10.0
JOIN_RETRY_SECONDS = 1.0
_JOIN_HINT = "join again: `mainspring join-token create`, then `mainspring worker --join-file FILE`"


class Identity:
    """Credentials that a worker presents, and the CA that it trusts."""

    def __init__(
        self, state_dir: Path, name: str, servers: Sequence[str], clock: Clock, *, token: str, ca_cert: Path | None
    ) -> None:
        self._directory = state_dir / DIRECTORY
        self._pem = self._directory / "worker.pem"
        self._name = name
        self._servers = servers
        self._clock = clock
        self._token = token
        self._ca_cert = ca_cert
        self._context: ssl.SSLContext | None = None

    def headers(self) -> dict[str, str]:
        """Authorization header, unless a certificate is used."""
        if not self._token or self._pem.exists():
            return {}
        return {"Authorization": f"Bearer {self._token}"}

    def context(self) -> ssl.SSLContext:
        """TLS context. Raises Refused; Unauthenticated if the certificate has expired."""
        if self._context is None:
            certificate_pair = (self._pem, self._pem) if self._pem.exists() else None
            self._context = tls_context("https", ca_cert=self._ca_cert, certificate=certificate_pair)
        if self._pem.exists():
            self._check(self._certificate())
        return self._context

    def check_addresses(self) -> None:
        """Raises Refused if there is a certificate and an address that is not https."""
        if self._pem.exists():
            for server in self._servers:
                _https(server)

    async def join(self, token: str) -> None:
        """Exchange a join token for a certificate, unless there is a valid one for it.

        Retries until a server answers. Raises Refused if it refuses.
        """
        token_id = token.split("_")[1] if token.count("_") == 2 else ""
        joined = self._directory / "joined"
        has_joined = self._pem.exists() and joined.exists() and joined.read_text().strip() == token_id
        if has_joined and self._certificate().expires_at > self._clock.wall():
            return
        self._directory.mkdir(mode=0o700, exist_ok=True)
        key_file = self._directory / f"joining-{token_id}.key"
        if not key_file.exists():
            write_new(key_file, key_text(make_key()), 0o600)
        key = key_file.read_text()
        request = EnrollRequest(name=self._name, request=make_request(key, self._name))
        while (granted := await self._ask_servers(lambda client: client.enroll(request), token=token)) is None:
            await self._clock.sleep(JOIN_RETRY_SECONDS)
        self._keep(granted, key)
        joined.write_text(f"{token_id}\n")
        key_file.unlink()
        log.info("worker.joined", worker=granted.name, pools=granted.pools, until=granted.expires_at.isoformat())

    def has_certificate(self) -> bool:
        """Whether there is a certificate, which has to be renewed."""
        return self._pem.exists()

    async def keep_renewed(self, renewed: Callable[[], Awaitable[None]]) -> None:
        """Renew the certificate after half of its lifetime, repeatedly, and call `renewed`; until cancelled."""
        while True:
            certificate = self._certificate()
            half = (certificate.expires_at - certificate.begins_at) / 2
            left = (certificate.begins_at + half - self._clock.wall()).total_seconds()
            if left > 0:
                await self._clock.sleep(min(left, MAX_SLEEP_SECONDS))
                continue
            try:
                await self._renew()
            except (Refused, Unavailable) as error:
                log.warning("worker.not_renewed", until=certificate.expires_at.isoformat(), because=str(error))
                await self._clock.sleep(RETRY_SECONDS)
            else:
                await renewed()

    async def _renew(self) -> None:
        pem = self._pem.read_text()
        self._check(read_certificate(pem))
        key = pem[pem.index("-----BEGIN PRIVATE KEY") :]
        request = RenewRequest(request=make_request(key, self._name))
        pair = (self._pem, self._pem)
        granted = await self._ask_servers(lambda client: client.renew(request), token="", certificate=pair)
        if granted is None:
            raise Unavailable("no server is reachable")
        self._keep(granted, key)
        log.info("worker.renewed", worker=granted.name, until=granted.expires_at.isoformat())

    async def _ask_servers(
        self,
        ask: Callable[[AsyncClient], Awaitable[CertificateView]],
        *,
        token: str,
        certificate: tuple[Path, Path] | None = None,
    ) -> CertificateView | None:
        """Return the response of the first server that answers; None if none does. Raises Refused."""
        from mainspring.client.aio.client import AsyncClient

        for server in self._servers:
            try:
                async with AsyncClient(
                    _https(server), token=token, tenant="", ca_cert=self._ca_cert, certificate=certificate,
                    retry_timeout_seconds=0,
                ) as client:  # fmt: skip
                    return await ask(client)
            except Unavailable as error:
                log.warning("worker.server_unreachable", server=server, because=str(error))
        return None

    def _keep(self, granted: CertificateView, key: str) -> None:
        try:
            write_atomically(self._pem, (granted.certificate + key).encode(), mode=0o600)
        except OSError as error:
            raise Refused(f"can't write {self._pem}: {error.strerror}") from error
        self._context = None

    def _certificate(self) -> WorkerCertificate:
        return read_certificate(self._pem.read_text())

    def _check(self, certificate: WorkerCertificate) -> None:
        if certificate.expires_at <= self._clock.wall():
            when = f"{certificate.expires_at:%Y-%m-%d %H:%M} UTC"
            raise Unauthenticated(f"the certificate of worker {certificate.name} expired at {when}: {_JOIN_HINT}")


def _https(server: str) -> str:
    """Return the address of a server's API. Raises Refused if it is not https."""
    address = link_address(server)
    if not address.startswith("wss:"):
        raise Refused(f"{server} is not https: a worker sends its certificate over https only")
    return f"https{address.removeprefix('wss').removesuffix(PATH)}"
