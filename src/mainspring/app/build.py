"""Builds the adapters and wires them together; the only module that imports everything. No logic.

`Engine` is a host with its background loops on one store: server processes run one, and benchmarks and end-to-end tests
start one. `server.py` builds a server around it, `standalone.py` a server and a worker in one process.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from mainspring.api.auth import tokens
from mainspring.api.auth.audit_context import Auditor
from mainspring.api.services import ALL_TENANTS, TOKEN_ROLES, Principal, Role
from mainspring.background import Loop
from mainspring.core.model.webhook_events import reference_in
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.host.host import Host
from mainspring.host.leader_client import LeaderClient, LocalLeaderClient
from mainspring.host.loop import Leader
from mainspring.host.maintenance.audit_sealer import AuditSealer
from mainspring.host.maintenance.sweeper import DAYS_AHEAD, Sweeper
from mainspring.host.outbox.alert_episodes import NOTIFY_KIND, Alerting
from mainspring.host.outbox.delivery import OutboxDelivery
from mainspring.host.outbox.webhooks import WEBHOOK_KIND, Post, Webhooks
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.evaluator import ScheduleEvaluator
from mainspring.host.schedules.schedule_outbox import CONCURRENT_KINDS, RUN_ENDED, ScheduleOutbox
from mainspring.host.schedules.trigger_loop import TriggerLoop
from mainspring.notify.signed_post import SignedPost
from mainspring.protocol.clock import Clock, SystemClock
from mainspring.protocol.errors import Fault, NotLeading, Refused, StoreUnusable
from mainspring.protocol.ids import entropy
from mainspring.secret_references import Secret
from mainspring.simulation.virtual_worker import VirtualWorker
from mainspring.store.ports.admin import WebhookRow
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql.unreadable_rows import UNREADABLE
from mainspring.store.sqlite.store import SqliteStore

POOL = "default"
ResolveUrl = Callable[[str], Secret]
"""Returns the URL behind `env:NAME` or `file:/path`. Raises Refused."""
_POLL_SECONDS = 0.05


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

    def __init__(
        self, store: Store, clock: Clock, alerting: Alerting | None = None, default_jitter_seconds: int = 0,
        given: Mapping[str, str] | None = None, *, cluster_secret: str = "", private_webhooks: bool = False,
        resolve_url: ResolveUrl | None = None,
    ) -> None:  # fmt: skip
        """`given` has the values of `--set`. Raises Refused.

        The secrets of webhooks are derived from `cluster_secret`. `private_webhooks` also permits private addresses.
        `resolve_url` resolves references to webhook URLs.
        """
        self.store = store
        self.clock = clock
        name = f"{socket.gethostname()}:{os.getpid()}"
        self.settings = Settings(store, clock, given)
        self.host = Host(
            store, clock, name, draw_nonce=lambda: entropy() >> 1, scheduler_settings=self.settings.scheduler_settings
        )
        self.host.background.unreadable_rows = UNREADABLE.counts
        self.settings.on_change = self.host.update_settings
        self.rules = SharingRulesCache(store, clock)
        self.rules.on_change = self.host.set_rules
        self.degradation = DegradationMonitor(
            store, clock, lambda: self.host.leaders, lambda: self.settings.scheduler_settings
        )
        self.leader_client: LeaderClient = LocalLeaderClient(self.host)
        """Client of the leaders; replaced by one that also reaches other servers."""
        self.context = make_context(
            default_jitter_seconds,
            rules=lambda: self.rules.now,
            scheduler_settings=lambda: self.settings.scheduler_settings,
        )
        self.evaluator = ScheduleEvaluator(store, self.context)
        self.triggers = TriggerLoop(store, clock, self.evaluator)
        schedule_outbox = ScheduleOutbox(store, self.evaluator, lambda: self.leader_client)
        post = _webhook_sender(clock, cluster_secret, allow_private=private_webhooks, resolve_url=resolve_url)
        webhooks = Webhooks(store, clock, post)
        receivers = {**(alerting or Alerting(store)).receivers(), **schedule_outbox.receivers(), **webhooks.receivers()}
        self._outbox = OutboxDelivery(
            store, clock, name, receivers, concurrent_kinds={NOTIFY_KIND, WEBHOOK_KIND, *CONCURRENT_KINDS},
            group_receivers={RUN_ENDED: webhooks.after(schedule_outbox.runs_ended)},
        )  # fmt: skip

        async def record_run_ends() -> None:
            await schedule_outbox.catch_up(await store.time())

        self._sweeper = Sweeper(
            store, clock, lambda: list(self.host.leaders.values()), lambda: self.settings.retention, record_run_ends
        )
        self._sealer = AuditSealer(store, clock)

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
        async with self.host.background.running(self.loops()):
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


def _webhook_sender(clock: Clock, cluster_secret: str, *, allow_private: bool, resolve_url: ResolveUrl | None) -> Post:
    """Create the function that posts to webhooks."""

    async def post(webhook: WebhookRow, delivery: str, body: bytes) -> int:
        secret = Secret(tokens.webhook_secret(cluster_secret, webhook.id))
        reference = reference_in(webhook.url)
        url = Secret(webhook.url)
        if reference is not None and resolve_url is not None:
            url = await asyncio.to_thread(resolve_url, reference)
        sender = SignedPost(
            url, secret, clock, allow_private=allow_private,
            allowed_by="the server was not started with --private-webhooks",
        )  # fmt: skip
        return await sender.post(delivery, body, "application/cloudevents+json")

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
