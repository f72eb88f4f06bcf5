"""The HTTP server of one process: API, worker links and live streams around the host that schedules.

Startup: it listens once everything behind it is ready. Shutdown goes from the outside in: streams and links are closed
explicitly, so that no response is cut off; then the listener; then pending writes are flushed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette

from mainspring.api.cluster.peers import Peers
from mainspring.api.http.connections import CertifiedConnection, Connection
from mainspring.api.services import Services
from mainspring.api.worker_link.link import WorkerLinks
from mainspring.background import Loop, wait_for
from mainspring.event_loop import start_task
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import MAX_FRAME_BYTES

_PING_SECONDS = 10.0
_PONG_SECONDS = 20.0
_SHUTDOWN_SECONDS = 5
_TICK_SECONDS = 0.1
"""uvicorn counts ten ticks to a second."""
_BACKLOG = 2_048


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """Files of the server's certificate and key."""

    certificate: Path
    key: Path
    worker_ca: Path | None = None
    """CA certificate of workers: clients with a certificate of this CA may present it."""


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket and listen; port 0 picks a free port. Raises Refused."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        # With bind alone, two servers could share a port until the first connection; listen() claims it.
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise Refused(
                f"port {port} is in use\nhint: choose another port with --port, or use --port 0 for a free one"
            ) from None
        raise Refused(f"can't listen on {host}:{port}: {error.strerror or error}") from None
    bound.setblocking(False)
    return bound


class ApiServer:
    """The network side of one server."""

    def __init__(
        self, app: Starlette, services: Services, links: WorkerLinks, peers: Peers, loops: Mapping[str, Loop]
    ) -> None:
        self.app = app
        self.services = services
        self.loops = loops
        """The background loops of the API server."""
        self._links = links
        self._peers = peers

    @asynccontextmanager
    async def running(self, listener: socket.socket, tls: Tls | None = None) -> AsyncIterator[None]:
        """Serve requests for as long as the block lasts."""
        server = _Server(_config(self.app, tls))
        services = self.services
        try:
            async with services.background.running(self.loops):
                # Not restarted: the health check of the process fails when it does not answer.
                serving = start_task(server.serve(sockets=[listener]), "http_server")
                up = asyncio.create_task(server.is_up.wait())
                try:
                    await asyncio.wait({serving, up}, return_when=asyncio.FIRST_COMPLETED)
                    if serving.done():
                        serving.result()
                    yield
                finally:
                    up.cancel()
                    self._links.end_links()
                    services.claims.end()
                    services.leaders.end()
                    services.live.end_followers()
                    services.logs.end_followers()
                    server.stop()
                    await serving
        finally:
            await services.logs.close()
            await self._peers.leave()


class _Server(uvicorn.Server):
    """uvicorn server without signal handlers and with an event for startup."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ask the server to stop."""
        self.should_exit = True
        self._stopping.set()

    async def main_loop(self) -> None:
        """Tick as uvicorn does, but end at once when asked to stop."""
        counter = 0
        while not await self.on_tick(counter):
            counter += 1
            await wait_for(self._stopping, _TICK_SECONDS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process that runs the server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, and set `is_up`."""
        await super().startup(sockets)
        self.is_up.set()


def _config(app: object, tls: Tls | None) -> uvicorn.Config:
    config = uvicorn.Config(
        app,  # type: ignore[arg-type]
        http=Connection if tls is None or tls.worker_ca is None else CertifiedConnection,
        ws="websockets-sansio",
        ws_max_size=MAX_FRAME_BYTES,
        ws_per_message_deflate=False,
        ws_ping_interval=_PING_SECONDS,
        ws_ping_timeout=_PONG_SECONDS,
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ssl_certfile=tls.certificate if tls else None,
        ssl_keyfile=tls.key if tls else None,
        ssl_ca_certs=tls.worker_ca if tls else None,
        # Optional: browsers and clients with tokens present no certificate. A presented one must be valid.
        ssl_cert_reqs=ssl.CERT_OPTIONAL if tls and tls.worker_ca else ssl.CERT_NONE,
    )
    try:
        config.load()
    except OSError as error:  # ssl.SSLError is one too
        raise Refused(f"the certificate or its key can't be used: {error}") from error
    return config
