"""The HTTP server of one process: API, worker links and live streams around the host that schedules.

Startup: it listens once everything behind it is ready. Shutdown goes from the outside in: streams and links are closed
explicitly, so that no response is cut off; then the listener; then pending writes are flushed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import msgspec
import uvicorn
from starlette.routing import Route, WebSocketRoute

from mainspring import __version__
from mainspring.api.app import build_app
from mainspring.api.auth.authentication import TokenIdentities
from mainspring.api.cluster.forwarding import (
    ASK,
    DIAGNOSE,
    POOL_STATUS,
    PROBE_FILE,
    WAITING_SUMS,
    WHAT_IF,
    LeaderRouter,
)
from mainspring.api.cluster.peers import Peers
from mainspring.api.http.certified_connections import CertifiedConnection
from mainspring.api.http.connections import Connection
from mainspring.api.live.transitions import TransitionFeed
from mainspring.api.logs.log_files import LogFiles
from mainspring.api.logs.logs import LOGS_PATH, LogStore
from mainspring.api.services import Services
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.api.worker_link.link import PATH, WorkerLinks
from mainspring.background import Loop
from mainspring.core.model.batch import Batch
from mainspring.event_loop import start_task
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.protocol.clock import Clock
from mainspring.protocol.errors import Refused
from mainspring.protocol.wire import MAX_FRAME_BYTES
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics
from mainspring.telemetry.run_events import Exporter, RunEventQueue
from mainspring.telemetry.schedule_metrics import ScheduleCollector
from mainspring.telemetry.server_gauges import BackgroundCollector, DegradationCollector

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
        self,
        host: Host,
        store: Store,
        clock: Clock,
        *,
        address: str,
        cluster_secret: str,
        pool: str,
        files: LogFiles,
        open_locally: bool,
        exporters: Sequence[Exporter] = (),
        enrollment: Enrollment | None = None,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        """`trust`: TLS context for calls to other servers; default: the machine's trust store."""
        self._run_events = RunEventQueue(exporters)
        self._peers = Peers(store, clock, name=host.name, address=address, secret=cluster_secret, trust=trust)
        self._logs = LogStore(files, host, store, self._peers, clock)
        self._live = TransitionFeed(store, clock, host.background)
        self.leader_client = LeaderRouter(host, self._peers)
        self.services = Services(
            name=host.name,
            address=address,
            version=__version__,
            store=store,
            clock=clock,
            shards=self.leader_client,
            logs=self._logs,
            live=self._live,
            identities=TokenIdentities(store, clock, cluster_secret=cluster_secret, open_locally=open_locally),
            cluster_secret=cluster_secret,
            enrollment=enrollment,
            pool=pool,
            metrics=Metrics(__version__),
            background=host.background,
        )
        self.services.rate_limiter.servers = self._peers.count
        self._links = WorkerLinks(self.services, host, self._logs)
        self.app = build_app(self.services, websockets=[WebSocketRoute(PATH, self._links.serve)])
        self.app.router.routes += [
            Route(ASK, self.leader_client.answer, methods=["POST"]),
            Route(PROBE_FILE, self.leader_client.answer_file_probe, methods=["POST"]),
            Route(POOL_STATUS, self.leader_client.answer_pool_status, methods=["POST"]),
            Route(DIAGNOSE, self.leader_client.answer_diagnosis, methods=["POST"]),
            Route(WHAT_IF, self.leader_client.answer_what_if_message, methods=["POST"]),
            Route(WAITING_SUMS, self.leader_client.answer_sums, methods=["POST"]),
            Route(f"{LOGS_PATH}{{attempt}}", self._logs.answer),
        ]
        self.services.metrics.watch(lambda: host.leaders)
        self.services.metrics.add(DegradationCollector(lambda: self.services.degradation))
        self.services.metrics.add(BackgroundCollector(host.background))
        self.schedule_collector = ScheduleCollector(store, clock, self.services.metrics.registry)
        self.on_batch: Callable[[Leader, Batch], None] | None = None
        """Called for each batch that became durable here. Must be fast and must not raise."""
        host.on_lead = self._follow

    def loops(self) -> Mapping[str, Loop]:
        """Return the background loops of the API server."""
        return {
            "logs": self._logs.run, "peers": self._peers.heartbeat, "schedule_metrics": self.schedule_collector.run,
            "exporters": self._run_events.run,
        }  # fmt: skip

    @asynccontextmanager
    async def running(self, listener: socket.socket, tls: Tls | None = None) -> AsyncIterator[None]:
        """Serve requests for as long as the block lasts."""
        server = _Server(_config(self.app, tls))
        try:
            async with self.services.background.running(self.loops()):
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
                    self.services.claims.end()
                    self.leader_client.end()
                    self._live.end_followers()
                    self._logs.end_followers()
                    server.stop()
                    await serving
        finally:
            await self._logs.close()
            await self._peers.leave()

    def _follow(self, leader: Leader) -> None:
        def committed(_number: int, batch: Batch) -> None:
            if batch.transitions:
                self._live.wake()
            if self.on_batch is not None:
                self.on_batch(leader, batch)

        leader.on_commit = committed
        self.services.metrics.follow(leader)
        if self._run_events.has_exporters:
            self._run_events.follow(leader)


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
            with suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._stopping.wait()

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
