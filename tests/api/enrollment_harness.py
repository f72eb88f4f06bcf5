"""Servers with TLS and enrollment, and the certificates of enrolled workers."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import trustme

from mainspring.api.auth.tokens import make_join_token
from mainspring.api.server import Tls
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.app.build import POOL
from mainspring.protocol import certificates
from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Authority
from mainspring.protocol.rest.admin import CertificateView
from tests.api.api_harness import read
from tests.api.api_server import ApiServers, Server
from tests.store.admin_builders import an_entry


@dataclass(frozen=True)
class WorkerCredentials:
    """A worker's certificate and its private key."""

    name: str
    certificate: str
    key: str


class EnrollmentHarness:
    """CA, servers and join tokens for enrolling workers."""

    def __init__(self, api_servers: ApiServers, directory: Path) -> None:
        self.api_servers = api_servers
        self._directory = directory
        certificates.make_authority(directory / "ca", now=api_servers.clock.wall())
        self.authority = Authority(directory / "ca" / AUTHORITY_CERTIFICATE, directory / "ca" / AUTHORITY_KEY)
        self.hosts = trustme.CA()
        host = self.hosts.issue_cert("127.0.0.1")
        host.private_key_pem.write_to_path(directory / "server.key")
        host.cert_chain_pems[0].write_to_path(directory / "server.crt")

    async def server(self, *, is_required: bool = False) -> Server:
        """Start a server and wait until it leads the pool."""
        certificate = self._directory / "ca" / AUTHORITY_CERTIFICATE
        server = await self.api_servers.server(
            open_locally=False,
            tls=Tls(
                certificate=self._directory / "server.crt", key=self._directory / "server.key", worker_ca=certificate
            ),
            enrollment=Enrollment(certificate=certificate, authority=self.authority, is_required=is_required),
            trust=self.context(),
        )
        await server.leader()
        return server

    async def join_token(self, *pools: str, uses: int = 1, life: timedelta = timedelta(hours=1)) -> str:
        """Create a stored join token."""
        now = await self.api_servers.store.time()
        token, row = make_join_token(pools=pools or (POOL,), uses=uses, name="rack", by="a test", now=now, life=life)
        await self.api_servers.store.insert_join_token(row, an_entry())
        return token

    async def join(self, server: Server, name: str, *pools: str) -> WorkerCredentials:
        """Enroll a worker."""
        key = certificates.key_text(certificates.make_key())
        payload = {"name": name, "request": certificates.make_request(key, name)}
        async with server.http(await self.join_token(*pools)) as machine:
            given = read(await machine.post("/api/v1/workers/enroll", json=payload), CertificateView)
        return WorkerCredentials(name, given.certificate, key)

    def context(self, credentials: WorkerCredentials | None = None) -> ssl.SSLContext:
        """Return a TLS context that trusts the servers, optionally with a client certificate."""
        context = ssl.create_default_context()
        self.hosts.configure_trust(context)
        if credentials is not None:
            path = self._directory / f"{credentials.name}.pem"
            path.write_text(credentials.certificate + credentials.key)
            context.load_cert_chain(path)
        return context
