"""Who a worker is for the servers (SEC-3): its token, or a certificate that it joined for and renews by itself.

    identity/joining-<id>.key   made before a join token is used: the same key asks again if the answer was lost
    identity/worker.pem         the certificate and its key; replaced as a whole
    identity/joined             the id of the join token that the certificate was given for

1. The key never leaves this directory, which is the worker's alone.
2. A certificate that is here is used, whatever else was said; another join token gets another one in its place.
3. It is renewed from half of its life on, over a connection with itself, also after a restart.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path

import structlog

from mainspring.client.addresses import trust
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
from mainspring.protocol.rest.admin import CertificateView, EnrolRequest, RenewRequest
from mainspring.worker.agent.uplink import PATH, link_address

log = structlog.get_logger()

DIRECTORY = "identity"
LONGEST_SLEEP_SECONDS = 60.0
"""The machine may have slept, or its clock may have been set: the time is looked at again."""
RETRY_SECONDS = 10.0
_ENROL = "join again: `mainspring join-token create`, then `mainspring worker --join-file FILE`"


class Identity:
    """What a worker shows to servers, and what it believes of theirs."""

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
        """What says who this is, if no certificate does."""
        if not self._token or self._pem.exists():
            return {}
        return {"Authorization": f"Bearer {self._token}"}

    def context(self) -> ssl.SSLContext:
        """For an encrypted connection. Raises Refused; Unauthenticated if the certificate has expired."""
        if self._context is None:
            shown = (self._pem, self._pem) if self._pem.exists() else None
            self._context = trust("https", ca_cert=self._ca_cert, certificate=shown)
        if self._pem.exists():
            self._check(self._certificate())
        return self._context

    def check_addresses(self) -> None:
        """Raises Refused if there is a certificate, and an address where it can't be shown."""
        if self._pem.exists():
            for server in self._servers:
                _https(server)

    async def join(self, token: str) -> None:
        """Get a certificate for a join token, unless there is one for it that has not expired.

        However long it takes until a server answers. Raises Refused if it says no.
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
        wish = EnrolRequest(name=self._name, request=make_request(key, self._name))
        given = await self._ask_all(lambda server: self._enrol(server, token, wish))
        self._keep(given, key)
        joined.write_text(f"{token_id}\n")
        key_file.unlink()
        log.info("worker.joined", worker=given.name, pools=given.pools, until=given.expires_at.isoformat())

    def has_certificate(self) -> bool:
        """Whether there is one, which has to be renewed."""
        return self._pem.exists()

    async def keep_renewed(self, renewed: Callable[[], Awaitable[None]]) -> None:
        """Renew the certificate when half of its life is over, again and again, and say so; until cancelled."""
        while True:
            certificate = self._certificate()
            left = (_renew_at(certificate) - self._clock.wall()).total_seconds()
            if left > 0:
                await self._clock.sleep(min(left, LONGEST_SLEEP_SECONDS))
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
        wish = RenewRequest(request=make_request(key, self._name))
        given = None
        for server in self._servers:
            try:
                given = await self._ask_for_next(server, wish)
                break
            except Unavailable as error:
                log.warning("worker.server_unreachable", server=server, because=str(error))
        if given is None:
            raise Unavailable("no server answers")
        self._keep(given, key)
        log.info("worker.renewed", worker=given.name, until=given.expires_at.isoformat())

    async def _ask_all(self, ask: Callable[[str], Awaitable[CertificateView]]) -> CertificateView:
        """The answer of the first server that has one."""
        while True:
            for server in self._servers:
                try:
                    return await ask(server)
                except Unavailable as error:
                    log.warning("worker.server_unreachable", server=server, because=str(error))
            await self._clock.sleep(RETRY_SECONDS / 10)

    async def _enrol(self, server: str, token: str, wish: EnrolRequest) -> CertificateView:
        from mainspring.client.aio.client import AsyncClient

        async with AsyncClient(_https(server), token=token, tenant="", ca_cert=self._ca_cert, patience=0) as client:
            return await client.enrol(wish)

    async def _ask_for_next(self, server: str, wish: RenewRequest) -> CertificateView:
        from mainspring.client.aio.client import AsyncClient

        shown = (self._pem, self._pem)
        async with AsyncClient(
            _https(server), token="", tenant="", ca_cert=self._ca_cert, certificate=shown, patience=0
        ) as client:
            return await client.renew(wish)

    def _keep(self, given: CertificateView, key: str) -> None:
        unfinished = self._pem.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        write_new(unfinished, given.certificate + key, 0o600)
        unfinished.replace(self._pem)
        self._context = None

    def _certificate(self) -> WorkerCertificate:
        return read_certificate(self._pem.read_text())

    def _check(self, certificate: WorkerCertificate) -> None:
        if certificate.expires_at <= self._clock.wall():
            when = f"{certificate.expires_at:%Y-%m-%d %H:%M} UTC"
            raise Unauthenticated(f"the certificate of worker {certificate.name} expired at {when}: {_ENROL}")


def read_join_token(said: str, path: Path | None) -> str:
    """The join token: what was said, else a file's content. Raises Refused."""
    if said or path is None:
        return said
    try:
        return path.read_text().strip()
    except OSError as error:
        raise Refused(f"the join token can't be read: {error}") from error


def _renew_at(certificate: WorkerCertificate) -> datetime:
    """When half of its life is over."""
    return certificate.begins_at + (certificate.expires_at - certificate.begins_at) / 2


def _https(server: str) -> str:
    """The address of a server's API. Raises Refused if it is not encrypted."""
    address = link_address(server)
    if not address.startswith("wss:"):
        raise Refused(f"{server} is not encrypted: a worker shows its certificate over https only")
    return f"https{address.removeprefix('wss').removesuffix(PATH)}"
