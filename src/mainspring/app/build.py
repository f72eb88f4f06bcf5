"""Builds the adapters and wires them together; the only module that imports everything. No logic.

    Engine          a host with its background loops on one store; benchmarks and end-to-end tests start one
    build_server    an engine and the API around it

`server.py` runs them as a process, `standalone.py` together with a worker.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from starlette.routing import WebSocketRoute

from mainspring import __version__
from mainspring.api.app import build_app
from mainspring.api.auth import tokens
from mainspring.api.auth.access import Access
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.auth.authentication import TokenIdentities
from mainspring.api.auth.principal import ALL_TENANTS, TOKEN_ROLES, Principal, Role
from mainspring.api.cluster.forwarding import LeaderRouter
from mainspring.api.cluster.peers import Peers
from mainspring.api.live.run_jobs import RunJobs
from mainspring.api.live.run_waits import RunWaiters
from mainspring.api.live.transitions import TransitionFeed
from mainspring.api.logs.log_files import LogFiles
from mainspring.api.logs.logs import LogStore
from mainspring.api.server import ApiServer
from mainspring.api.services import ServerInfo, Services
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.submission.rate_limits import RateLimiter
from mainspring.api.submission.request_limits import RequestLimits
from mainspring.api.submission.submission import Submissions
from mainspring.api.worker_link import link
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.api.worker_link.http_claims import Claims
from mainspring.background import BackgroundLoops, Loop
from mainspring.core.model.batch import Batch
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.webhook_events import reference_in
from mainspring.egress.pinned import PinnedClient
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.host.host import LEASE, Host
from mainspring.host.loop import Leader
from mainspring.host.maintenance.audit_sealer import AuditSealer
from mainspring.host.maintenance.sweeper import DAYS_AHEAD, Sweeper
from mainspring.host.outbox.alert_episodes import NOTIFY_KIND, Alerting, Channel
from mainspring.host.outbox.delivery import OutboxDelivery
from mainspring.host.outbox.run_ended import RUN_ENDED
from mainspring.host.outbox.webhooks import WEBHOOK_KIND, Post, WebhookCache, Webhooks
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_actions import ScheduleActions
from mainspring.host.schedules.schedule_outbox import CONCURRENT_KINDS, ScheduleOutbox
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.notify.signed_post import SignedPost
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.protocol.errors import Fault, NotLeading, Refused, StoreUnusable
from mainspring.protocol.ids import entropy
from mainspring.secret_references import Secret
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.admin import WebhookRow
from mainspring.store.ports.schedules import EvaluationResult
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql.unreadable_rows import UNREADABLE
from mainspring.store.sqlite.store import SqliteStore
from mainspring.telemetry.gauges import LeaderGauges
from mainspring.telemetry.metrics import Metrics
from mainspring.telemetry.run_events import Exporter, RunEventQueue
from mainspring.telemetry.schedule_metrics import ScheduleCollector
from mainspring.telemetry.server_gauges import BackgroundCollector, DegradationCollector

POOL = "default"
ResolveUrl = Callable[[str], Secret]
"""Returns the URL behind `env:NAME` or `file:/path`. Raises Refused."""
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineOptions:
    """Options of an engine. Its listeners are called in the event loop, and must be fast."""

    name: str = ""
    """Name of the server; default: machine and process."""
    address: str = ""
    """URL for workers and other servers."""
    cluster_secret: str = ""
    """Shared by the servers of one store: signs tokens and webhooks, and authenticates servers to each other."""
    pool: str = POOL
    """Default pool of runs."""
    trust: ssl.SSLContext | None = None
    """TLS context for calls to other servers; default: the machine's trust store."""
    lease: timedelta = LEASE
    given: Mapping[str, str] | None = None
    """The values of `--set`."""
    jitter_seconds: int = 0
    """Default jitter of schedules."""
    channels: Sequence[Channel] = ()
    """Channels of alerts."""
    private_webhooks: bool = False
    """Whether webhooks may also go to private addresses."""
    resolve_url: ResolveUrl | None = None
    """Resolves references to webhook URLs; None: they are not permitted."""
    on_lead: Callable[[Leader], None] = lambda leader: None
    """Takes each new leader before its first turn."""
    on_evaluated: Callable[[EvaluationResult], None] = lambda evaluated: None
    """Takes the results of each evaluation of due schedules."""
    on_schedules: Callable[[Sequence[str]], None] = lambda schedules: None
    """Takes the ids of schedules after their decisions are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions(EngineOptions):
    """Options of an engine with an API."""

    files: LogFiles
    open_locally: bool = False
    """Whether callers on this machine need no token."""
    exporters: Sequence[Exporter] = ()
    enrollment: Enrollment | None = None
    on_batch: Callable[[Leader, Batch], None] | None = None
    """Takes each batch that became durable here."""


async def open_store(url: str, clock: Clock) -> Store:
    """Open the store at `postgresql://..` or `sqlite:///path`, and migrate its schema. Raises Refused."""
    if url.startswith(("postgresql://", "postgres://")):
        store = await PostgresStore.connect(url)
        await store.prepare_days(DAYS_AHEAD)
        return store
    if not url.startswith("sqlite:///"):
        raise Refused(
            "the store can't be opened", [Fault(where="store", why="must be sqlite:///PATH or postgresql://..")]
        )
    path = Path(url.removeprefix("sqlite:///"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUnusable(f"the directory of the store at {path} can't be created: {error}") from error
    return SqliteStore.open(path, clock=clock)


class Engine:
    """A host with its background loops on one store: outbox, triggers, maintenance, audit sealing, settings, rules."""

    def __init__(self, store: Store, clock: Clock, options: EngineOptions | None = None) -> None:
        """Raises Refused if the given settings are invalid."""
        options = options or EngineOptions()
        self.store = store
        self.clock = clock
        name = options.name or f"{socket.gethostname()}:{os.getpid()}"
        self.background = BackgroundLoops(clock)
        self.settings = Settings(store, clock, options.given, self._update_settings)
        self.host = Host(
            store, clock, name, lambda: entropy() >> 1, options.lease, self.settings.scheduler_settings,
            background=self.background, on_lead=options.on_lead,
        )  # fmt: skip
        self.rules = SharingRulesCache(store, clock, self.host.set_rules)
        self.degradation = DegradationMonitor(
            store, clock, lambda: self.host.leaders, lambda: self.settings.scheduler_settings
        )
        self.peers = Peers(
            store, clock, name=name, address=options.address, secret=options.cluster_secret, trust=options.trust
        )
        self.leaders = LeaderRouter(self.host, self.peers)
        self.context = make_context(
            options.jitter_seconds, rules=lambda: self.rules.now,
            scheduler_settings=lambda: self.settings.scheduler_settings,
        )  # fmt: skip
        evaluator = ScheduleEvaluator(store, self.context, options.on_schedules)
        self.triggers = TriggerLoop(store, clock, evaluator, options.on_evaluated)
        schedule_outbox = ScheduleOutbox(store, evaluator, self.leaders)
        alerting = Alerting(store, options.channels, options.address)
        self.webhooks = WebhookCache(store, clock)
        webhooks = Webhooks(store, self.webhooks, _webhook_sender(clock, options))
        self._outbox = OutboxDelivery(
            store, clock, name, {**alerting.receivers(), **schedule_outbox.receivers(), **webhooks.receivers()},
            concurrent_kinds={NOTIFY_KIND, WEBHOOK_KIND, *CONCURRENT_KINDS},
            group_receivers={RUN_ENDED: webhooks.after(schedule_outbox.runs_ended)},
        )  # fmt: skip

        async def record_run_ends() -> None:
            await schedule_outbox.catch_up(await store.time())

        self._sweeper = Sweeper(
            store, clock, lambda: list(self.host.leaders.values()), lambda: self.settings.retention, record_run_ends
        )
        self._sealer = AuditSealer(store, clock)

    def _update_settings(self, scheduler_settings: SchedulerSettings) -> None:
        self.host.update_settings(scheduler_settings)

    def loops(self) -> Mapping[str, Loop]:
        """The background loops around the host."""
        return {
            "outbox": self._outbox.run, "sweeps": self._sweeper.run, "triggers": self.triggers.run,
            "audit_sealing": self._sealer.run, "settings": self.settings.run, "rules": self.rules.run,
            "degradation": self.degradation.run,
        }  # fmt: skip

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Host]:
        """Run the host and its loops for the duration of the block, then hand over all leases."""
        async with self.background.running(self.loops()):
            hosting = asyncio.create_task(self.host.run())
            try:
                yield self.host
            finally:
                self.host.stop()
                await hosting

    async def leader(self, shard: str) -> Leader:
        """Wait until this host leads a shard; return the leader."""
        while True:
            try:
                return self.host.leader(shard)
            except NotLeading:
                await self.clock.sleep(_POLL_SECONDS)


def build_server(store: Store, clock: Clock, options: ServerOptions) -> tuple[Engine, ApiServer]:
    """Build an engine and the API around it. Raises Refused if the given settings are invalid."""
    metrics = Metrics(__version__)
    schedule_collector = ScheduleCollector(store, clock, metrics.registry)
    run_events = RunEventQueue(options.exporters)

    def on_lead(leader: Leader) -> None:
        options.on_lead(leader)
        metrics.follow(leader)
        if options.exporters:
            run_events.follow(leader)
        leader.add_listener(lambda batch, _: live.committed(batch))
        if options.on_batch is not None:
            on_batch = options.on_batch
            leader.add_listener(lambda batch, _: on_batch(leader, batch))

    engine = Engine(store, clock, replace(options, on_lead=on_lead, on_evaluated=schedule_collector.evaluated))
    live = TransitionFeed(store, clock, engine.background)
    metrics.registry.register(LeaderGauges(lambda: engine.host.leaders))
    metrics.registry.register(DegradationCollector(engine.degradation))
    metrics.registry.register(BackgroundCollector(engine.background, UNREADABLE.counts))
    services = _services(engine, options, metrics, live)
    links = link.WorkerLinks(engine.host, services.access, engine.leaders, services.logs, store, services.time, clock)
    others = [WebSocketRoute(link.PATH, links.serve), *engine.leaders.routes(), *services.logs.routes()]
    loops = {
        "logs": services.logs.run, "peers": engine.peers.heartbeat, "schedule_metrics": schedule_collector.run,
        "exporters": run_events.run,
    }  # fmt: skip
    return engine, ApiServer(build_app(services, others=others), services, links, engine.peers, loops)


def _services(engine: Engine, options: ServerOptions, metrics: Metrics, live: TransitionFeed) -> Services:
    """Create the components of routes."""
    store, clock, leaders = engine.store, engine.clock, engine.leaders
    server = ServerInfo(
        name=engine.host.name, address=options.address, version=__version__, pool=options.pool,
        has_url_references=options.resolve_url is not None,
    )  # fmt: skip
    time = StoreTimeCache(store, clock)
    identities = TokenIdentities(
        store, clock, time, cluster_secret=options.cluster_secret, open_locally=options.open_locally
    )
    rate_limiter = RateLimiter(store, clock, engine.peers.count)
    admission = AdmissionControl(
        store, time, engine.rules, engine.settings, engine.degradation, rate_limiter, metrics, options.pool
    )
    submissions = Submissions(store, clock, time, admission, limits=server.limits, is_watched=engine.webhooks.has_any)
    schedule_actions = ScheduleActions(
        store, engine.context, pool=options.pool, limits=server.limits, wake=engine.triggers.wake,
        on_decided=options.on_schedules,
    )  # fmt: skip
    return Services(
        server=server, clock=clock, store=store, time=time,
        access=Access(identities, clock, cluster_secret=options.cluster_secret, enrollment=options.enrollment),
        request_limits=RequestLimits(rate_limiter, engine.settings, submissions, metrics), admission=admission,
        leaders=leaders, claims=Claims(store, leaders), settings=engine.settings, rules=engine.rules,
        submissions=submissions, schedule_actions=schedule_actions,
        webhooks=engine.webhooks, logs=LogStore(options.files, engine.host, store, engine.peers, clock), live=live,
        waits=RunWaiters(store, live, clock, engine.background), run_jobs=RunJobs(store),
        degradation=engine.degradation, background=engine.background, metrics=metrics,
    )  # fmt: skip


def _webhook_sender(clock: Clock, options: EngineOptions) -> Post:
    """Create the function that posts to webhooks."""
    client = PinnedClient(
        allow_private=options.private_webhooks, allowed_by="the server was not started with --private-webhooks"
    )

    async def post(webhook: WebhookRow, delivery: str, body: bytes) -> int:
        secret = Secret(tokens.webhook_secret(options.cluster_secret, webhook.id))
        reference = reference_in(webhook.url)
        url = Secret(webhook.url)
        if reference is not None and options.resolve_url is not None:
            url = await asyncio.to_thread(options.resolve_url, reference)
        return await SignedPost(client, url, secret, clock).post(delivery, body, "application/cloudevents+json")

    return post


async def run_virtual_worker(engine: Engine, worker: VirtualWorker, shard: str = POOL) -> None:
    """Run a virtual worker against the leader of a shard on this host, until cancelled."""
    while True:
        await worker.serve(await engine.leader(shard))


def create_token(
    store_url: str, name: str, roles: Sequence[str], tenant: str = ALL_TENANTS, expires: timedelta = timedelta(days=90)
) -> str:
    """Create a token directly in the store, such as the first one of a cluster. Raises Refused."""
    unknown = [role for role in roles if role not in TOKEN_ROLES]
    if unknown or not roles:
        known = ", ".join(role for role in Role if role in TOKEN_ROLES)
        raise Refused("the token can't be created", [Fault(where="roles", why=f"must be some of {known}")])
    if not tokens.MIN_LIFETIME <= expires <= tokens.MAX_LIFETIME:
        why = f"must be between 1 minute and {tokens.MAX_LIFETIME.days} days"
        raise Refused("the token can't be created", [Fault(where="expires", why=why)])

    async def create() -> str:
        store = await open_store(store_url, SystemClock())
        try:
            token, row = tokens.make_token(
                tenant=tenant, roles=map(Role, roles), name=name, by="store", now=await store.time(), life=expires
            )
            who = Principal(name=row.created_by, tenant=ALL_TENANTS, roles=frozenset())
            audit = Auditor(who, request_id=f"req_{entropy():016x}", source="", action="create_token")
            await store.insert_token(row, audit.entry(row.id, tenant=tenant, after=tokens.audit_summary(row)))
        finally:
            await store.close()
        return token

    return asyncio.run(create())
