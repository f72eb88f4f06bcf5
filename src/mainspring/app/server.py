"""A server process: the engine and the API in one event loop (`app/build.py`).

    start   check the security settings, bind the port, open the store, start scheduling, serve, report readiness
    stop    SIGTERM or SIGINT: end streams and links, finish requests in progress, hand over the shards; a second signal
            exits at once

A store outage does not end the process: /readyz reports it, and the server continues when the store is back.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec
import structlog

from mainspring import __version__
from mainspring.api.auth.authentication import is_loopback
from mainspring.api.cluster.peers import SECRET_SETTING
from mainspring.api.logs.log_files import MAX_DIRECTORY_BYTES, MAX_LOG_BYTES, RETENTION, LogFiles
from mainspring.api.server import Tls, listen
from mainspring.api.worker_link.enrollment import MAX_LIFETIME, MIN_LIFETIME, Enrollment
from mainspring.app.build import POOL, Engine, ServerOptions, build_server, open_store
from mainspring.atomic_files import write_atomically
from mainspring.core.model.batch import Batch
from mainspring.core.model.settings import parse_pairs, read_scheduler_settings
from mainspring.event_loop import fast_loop
from mainspring.host.loop import Leader
from mainspring.notify.channels import load_channels
from mainspring.protocol.certificates import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, Authority, check_installed
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Refused
from mainspring.protocol.ids import entropy
from mainspring.protocol.trust import tls_context
from mainspring.secret_references import resolve_url_reference
from mainspring.telemetry.exporters import make_exporters
from mainspring.telemetry.log_output import configure_logging

log = structlog.get_logger()

DIRECTORY = Path(".mainspring")
DEFAULT_STORE = f"sqlite:///./{DIRECTORY}/mainspring.db"
DEFAULT_PORT = 8484


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a server process."""

    store: str = DEFAULT_STORE
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    """0: any free port."""
    address: str | None = None
    """URL for workers and other servers, if it differs from the listen address."""
    data_dir: Path | None = None
    """Directory of task logs; by default beside a SQLite store."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    """Required together with the certificate."""
    ca_cert: Path | None = None
    """CA certificate of other servers, if it is not in the system's trust store."""
    worker_ca: Path | None = None
    """CA of the workers: its certificate, or the directory created by `mainspring ca init` (SEC-3)."""
    worker_ca_key: Path | None = None
    """Its key; by default the one in that directory."""
    require_worker_cert: bool = False
    """Accept workers only with a certificate."""
    worker_cert_hours: float = 24.0
    """Validity of worker certificates."""
    behind_proxy: bool = False
    """TLS is terminated by a proxy."""
    require_token: bool = False
    pool: str = POOL
    log_format: str = "text"
    log_level: str = "info"
    ready_file: Path | None = None
    """Created, with JSON content, once the server is ready."""
    scheduler_settings: tuple[str, ...] = ()
    """Scheduler settings, each `name=value` (`core/model/settings.py`)."""
    jitter_seconds: int = 0
    """Default jitter of schedules without their own (TRG-6)."""
    alerts: Path | None = None
    """The file that configures the alert channels."""
    private_webhooks: bool = False
    """Webhooks may also go to private addresses."""
    webhook_references: bool = False
    """Webhook URLs may refer to variables and files of this machine (`${env:NAME}`, `${file:/path}`)."""
    otlp: str | None = None
    """OTLP/HTTP endpoint for spans and metrics."""
    lineage: str | None = None
    """OpenLineage endpoint."""
    max_log_bytes: int = MAX_LOG_BYTES
    max_logs_bytes: int = MAX_DIRECTORY_BYTES
    keep_logs_seconds: float = RETENTION.total_seconds()


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """A server is ready."""

    address: str
    pid: int
    store: str
    """Without the password."""
    pool: str
    token_needed: bool
    has_tokens: bool
    """Whether any token exists."""


def reason_to_refuse(settings: ServerSettings) -> str | None:
    """Return why a server must not start with these settings (SEC-1); None if it may."""
    try:
        read_scheduler_settings(settings.scheduler_settings)
    except Refused as refused:
        return str(refused)
    if (settings.tls_cert is None) != (settings.tls_key is None):
        return "--tls-cert and --tls-key must be used together"
    if settings.worker_ca is None and (settings.worker_ca_key is not None or settings.require_worker_cert):
        return "--worker-ca-key and --require-worker-cert need --worker-ca"
    if settings.worker_ca is not None and settings.tls_cert is None:
        return "--worker-ca needs --tls-cert and --tls-key: workers present their certificates in the TLS handshake"
    if not MIN_LIFETIME <= timedelta(hours=settings.worker_cert_hours) <= MAX_LIFETIME:
        return "--worker-cert-hours must be between 1 minute and 1 year"
    if is_loopback(settings.host) or settings.tls_cert is not None or settings.behind_proxy:
        return None
    return (
        f"{settings.host} is reachable from other machines, and tokens would be sent unencrypted: "
        "use --tls-cert and --tls-key, or --behind-proxy if a proxy terminates TLS"
    )


def serve(settings: ServerSettings, on_ready: Callable[[Ready], None]) -> None:
    """Run a server until a signal stops it. Raises Refused if the settings are not permitted."""
    reason = reason_to_refuse(settings)
    if reason is not None:
        raise Refused(reason)
    configure_logging(settings.log_format, settings.log_level)
    listener = listen(settings.host, settings.port)
    try:
        with asyncio.Runner(loop_factory=fast_loop()) as runner:
            runner.run(_serve(settings, listener, on_ready))
    finally:
        listener.close()


class Assembly(NamedTuple):
    """A running server."""

    engine: Engine
    ready: Ready


async def _serve(settings: ServerSettings, listener: socket.socket, on_ready: Callable[[Ready], None]) -> None:
    stop_requested = _install_signal_handlers()
    async with assemble(settings, listener) as (_, ready):
        log.info("server.ready", address=ready.address, pid=ready.pid)
        tune_garbage_collector()
        if settings.ready_file is not None:
            settings.ready_file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(settings.ready_file, msgspec.json.encode({"address": ready.address, "pid": ready.pid}))
        on_ready(ready)
        await stop_requested.wait()
        log.info("server.stopping")
    log.info("server.stopped")


@asynccontextmanager
async def assemble(
    settings: ServerSettings, listener: socket.socket, *, fires: bool = True,
    on_batch: Callable[[Leader, Batch], None] | None = None,
    on_schedules: Callable[[Sequence[str]], None] = lambda schedules: None,
) -> AsyncIterator[Assembly]:  # fmt: skip
    """Run a server in this event loop for the duration of the block. Unless `fires`, schedules are held at first.

    `on_batch` and `on_schedules` are called after each change (`app/build.py`).
    """
    clock = SystemClock()
    channels = load_channels(settings.alerts, os.environ, clock) if settings.alerts is not None else []
    name = f"{socket.gethostname()}:{os.getpid()}"
    store = await open_store(settings.store, clock)
    try:
        await store.ensure_shard(settings.pool)
        secret = await store.setting(SECRET_SETTING, "".join(f"{entropy():016x}" for _ in range(4)))
        ready = _ready(settings, listener, has_tokens=bool(await store.list_tokens(None)))
        options = ServerOptions(
            name=name,
            address=ready.address,
            cluster_secret=secret,
            pool=settings.pool,
            trust=None if settings.ca_cert is None else tls_context("https", ca_cert=settings.ca_cert),
            given=parse_pairs(settings.scheduler_settings),
            jitter_seconds=settings.jitter_seconds,
            channels=channels,
            private_webhooks=settings.private_webhooks,
            resolve_url=partial(resolve_url_reference, environment=os.environ) if settings.webhook_references else None,
            files=_log_files(settings),
            open_locally=not ready.token_needed,
            exporters=make_exporters(otlp=settings.otlp, lineage=settings.lineage, server=name, version=__version__),
            enrollment=_enrollment(settings),
            on_batch=on_batch,
            on_schedules=on_schedules,
        )
        engine, api_server = build_server(store, clock, options)
        if not fires:
            engine.triggers.hold()
        async with engine.running(), api_server.running(listener, _tls(settings)):
            yield Assembly(engine, ready)
    finally:
        await store.close()


def tune_garbage_collector() -> None:
    """Make full garbage collections rare.

    Hardly any object is in a cycle, and hundreds of thousands are long-lived. With Python's defaults, a server with
    2,000 tasks in memory pauses for 35 to 80 ms every few seconds under load, one with 100,000 for 300 ms.
    """
    gc.collect()
    gc.freeze()  # modules, classes, routes: they live as long as the process
    gc.set_threshold(50_000, 20, 50)


def _install_signal_handlers() -> asyncio.Event:
    """Return an event that the first stop signal sets; the second signal exits the process."""
    stop_requested = asyncio.Event()

    def stop(number: signal.Signals) -> None:
        if stop_requested.is_set():
            os._exit(128 + number)
        stop_requested.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return stop_requested


def _ready(settings: ServerSettings, listener: socket.socket, *, has_tokens: bool) -> Ready:
    port = listener.getsockname()[1]
    host = socket.gethostname() if settings.host in {"0.0.0.0", "::"} else settings.host  # noqa: S104 - asked, not set
    scheme = "http" if settings.tls_cert is None else "https"
    return Ready(
        address=(settings.address or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}").rstrip("/"),
        pid=os.getpid(),
        store=_without_password(settings.store),
        pool=settings.pool,
        token_needed=settings.require_token or settings.behind_proxy or not is_loopback(settings.host),
        has_tokens=has_tokens,
    )


def _tls(settings: ServerSettings) -> Tls | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    enrollment = _enrollment(settings)
    return Tls(
        certificate=settings.tls_cert,
        key=settings.tls_key,
        worker_ca=None if enrollment is None else enrollment.certificate,
    )


def _enrollment(settings: ServerSettings) -> Enrollment | None:
    """Create the enrollment of workers. Raises Refused if the CA can't be used."""
    if settings.worker_ca is None:
        return None
    certificate, key = settings.worker_ca, settings.worker_ca_key
    if certificate.is_dir():
        certificate, directory = certificate / AUTHORITY_CERTIFICATE, certificate
        if key is None and (directory / AUTHORITY_KEY).exists():
            key = directory / AUTHORITY_KEY
    check_installed()
    return Enrollment(
        certificate=certificate,
        authority=None if key is None else Authority(certificate, key),
        life=timedelta(hours=settings.worker_cert_hours),
        is_required=settings.require_worker_cert,
    )


def _log_files(settings: ServerSettings) -> LogFiles:
    directory = _data_dir(settings) / "logs"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"logs can't be stored in {directory}: {error}\nhint: choose another directory with --data-dir"
        ) from error
    return LogFiles(
        directory,
        max_log_bytes=settings.max_log_bytes,
        max_directory_bytes=settings.max_logs_bytes,
        retention=timedelta(seconds=settings.keep_logs_seconds),
    )


def _data_dir(settings: ServerSettings) -> Path:
    if settings.data_dir is not None:
        return settings.data_dir
    if settings.store.startswith("sqlite:///"):
        return Path(settings.store.removeprefix("sqlite:///")).parent
    return DIRECTORY


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")).geturl()
