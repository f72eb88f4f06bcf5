"""Builds the adapters and wires them together; the only module that sees everything. No logic.

`Engine` is a host with all its helpers around one store: what a server process runs, and what `mainspring up`, the
benchmarks and the end-to-end tests start. `serving.py` builds a server process around one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import msgspec
import structlog

from mainspring.api import tokens
from mainspring.api.auditing import Auditor
from mainspring.api.services import EVERY_TENANT, Principal, Role
from mainspring.clock import Clock, MachineClock
from mainspring.core.batch import Batch
from mainspring.core.jobs import JobRow, JobSpec, TaskSpec
from mainspring.core.runs import Run
from mainspring.core.tasks import Priority
from mainspring.errors import Fault, NotLeading, Refused, StoreUnfit
from mainspring.event_loop import fast_loop
from mainspring.host.alerting import NOTIFY_KIND, Alerting
from mainspring.host.fire_news import ASIDE, RUN_ENDED, FireNews
from mainspring.host.host import Host
from mainspring.host.loop import Leader
from mainspring.host.outbox import OutboxDelivery
from mainspring.host.reaching import HostReach, Reach
from mainspring.host.schedule_acts import make_context
from mainspring.host.sealing import Sealer
from mainspring.host.settings import Settings
from mainspring.host.settler import Settler
from mainspring.host.sweeps import DAYS_AHEAD, Sweeper
from mainspring.host.triggers import Triggers
from mainspring.host.webhooks import WEBHOOK_KIND, Post, Webhooks
from mainspring.ids import entropy, new_id
from mainspring.notify.references import Secret
from mainspring.notify.signed_post import SignedPost
from mainspring.store.port import Store
from mainspring.store.port_admin import WebhookRow
from mainspring.store.postgres import PostgresStore
from mainspring.store.sqlite import SqliteStore
from mainspring.wire import Offer
from mainspring.worker.played import PlayedWorker

POOL = "default"
NOOP = JobSpec(name="noop", tasks=(TaskSpec(name="noop", expected_seconds=0.001),))
_TENANTS = ("acme", "globex", "initech")
_RUNS_AT_ONCE = 1_000
_POLL_SECONDS = 0.05


async def open_store(url: str, clock: Clock) -> Store:
    """The store behind `postgresql://..` or `sqlite:///path`, with its schema up to date. Raises Refused."""
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
        raise StoreUnfit(f"the folder of the store at {path} can't be made: {error}") from error
    return SqliteStore.open(path, clock=clock)


class Engine:
    """A host, its outbox delivery, its triggers, its sweeps and its sealing of the audit log, around one store."""

    def __init__(
        self, store: Store, clock: Clock, alerting: Alerting | None = None, default_jitter_seconds: int = 0,
        given: Mapping[str, str] | None = None, *, cluster_secret: str = "", private_webhooks: bool = False,
    ) -> None:  # fmt: skip
        """`given` is what `--set` says. Raises Refused.

        The secrets of webhooks are made from `cluster_secret`. `private_webhooks`: they may also go to addresses that
        are not of the public internet.
        """
        self.store = store
        self.clock = clock
        name = f"{socket.gethostname()}:{os.getpid()}"
        self.settings = Settings(store, clock, given)
        self.host = Host(store, clock, name, draw_nonce=lambda: entropy() >> 1, tuning=self.settings.tuning)
        self.settings.on_change = self.host.retune
        self.reach: Reach = HostReach(self.host)
        """How leaders are reached; whoever speaks to other servers puts theirs in its place."""
        self.context = make_context(default_jitter_seconds)
        settler = Settler(store, self.context)
        self.triggers = Triggers(store, clock, settler)
        news = FireNews(store, settler, lambda: self.reach)
        webhooks = Webhooks(store, clock, _poster(clock, cluster_secret, allow_private=private_webhooks))
        receivers = {**(alerting or Alerting(store)).receivers(), **news.receivers(), **webhooks.receivers()}
        self._outbox = OutboxDelivery(
            store, clock, name, receivers, aside={NOTIFY_KIND, WEBHOOK_KIND, *ASIDE},
            together={RUN_ENDED: webhooks.after(news.runs_ended)},
        )  # fmt: skip

        async def note_ends() -> None:
            await news.catch_up(await store.time())

        self._sweeper = Sweeper(
            store, clock, lambda: list(self.host.leaders.values()), lambda: self.settings.retention, note_ends
        )
        self._sealer = Sealer(store, clock)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Host]:
        """Take part in the scheduling for as long as the block lasts, then hand everything over."""
        duties = (self._outbox, self._sweeper, self.triggers, self._sealer, self.settings)
        helpers = [asyncio.create_task(one.run()) for one in duties]
        hosting = asyncio.create_task(self.host.run())
        try:
            yield self.host
        finally:
            self.host.stop()
            await hosting
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    async def leader(self, shard: str) -> Leader:
        """The leader of a shard, as soon as it is here."""
        while True:
            try:
                return self.host.leader(shard)
            except NotLeading:
                await self.clock.sleep(_POLL_SECONDS)


def _poster(clock: Clock, cluster_secret: str, *, allow_private: bool) -> Post:
    """How webhooks are told."""
    trust = ssl.create_default_context()

    async def post(webhook: WebhookRow, delivery: str, body: bytes) -> int:
        secret = Secret(tokens.webhook_secret(cluster_secret, webhook.id))
        way = SignedPost(
            Secret(webhook.url), secret, clock, allow_private=allow_private, trust=trust,
            allowed_by="the server was not started with --private-webhooks",
        )  # fmt: skip
        return await way.post(delivery, body, "application/cloudevents+json")

    return post


async def play(engine: Engine, worker: PlayedWorker, shard: str = POOL) -> None:
    """Have a played worker serve whoever leads the shard here, until cancelled."""
    while True:
        await worker.serve(await engine.leader(shard))


async def submit(
    store: Store, spec: JobSpec, runs: int, tenants: Sequence[str], *, priority: Priority = Priority.P2, by: str
) -> list[Run]:
    """Put runs of a job into intake, in turn for each tenant, in requests of a thousand."""
    random = Random(entropy())
    now = await store.time()
    definition = msgspec.json.encode(spec).decode()
    jobs = {}
    for tenant in tenants:
        row = JobRow(id=new_id("job", now, random), tenant=tenant, name=spec.name, version=0, definition=definition)
        jobs[tenant] = (await store.insert_job(row)).id
    rows = [
        Run(
            id=new_id("run", now, random),
            shard=POOL,
            tenant=(tenant := tenants[number % len(tenants)]),
            job_id=jobs[tenant],
            priority=priority,
            params="{}",
            task_count=len(spec.tasks),
            submitted_by=by,
            created_at=now,
            start_at=now,
        )
        for number in range(runs)
    ]
    for first in range(0, runs, _RUNS_AT_ONCE):
        await store.insert_runs(rows[first : first + _RUNS_AT_ONCE])
    return rows


async def submit_noops(store: Store, runs: int) -> list[str]:
    """Submit runs of one task that does nothing, for several tenants."""
    return [run.id for run in await submit(store, NOOP, runs, _TENANTS, by="mainspring up")]


def create_token(
    store_url: str, name: str, roles: Sequence[str], tenant: str = EVERY_TENANT, expires: timedelta = timedelta(days=90)
) -> str:
    """Make a token by going to the store itself: the first one can't be asked for with a token. Raises Refused."""
    unknown = [role for role in roles if role not in set(Role) - {Role.ATTEMPT}]
    if unknown or not roles:
        known = ", ".join(role for role in Role if role is not Role.ATTEMPT)
        raise Refused("the token can't be made", [Fault(where="roles", why=f"must be some of {known}")])
    if not tokens.SHORTEST_LIFE <= expires <= tokens.LONGEST_LIFE:
        why = f"must be from a minute to {tokens.LONGEST_LIFE.days} days"
        raise Refused("the token can't be made", [Fault(where="expires", why=why)])

    async def create() -> str:
        store = await open_store(store_url, MachineClock())
        try:
            token, row = tokens.make_token(
                tenant=tenant, roles=map(Role, roles), name=name, by="store", now=await store.time(), life=expires
            )
            who = Principal(name=row.created_by, tenant=EVERY_TENANT, roles=frozenset())
            audit = Auditor(who, request_id=f"req_{entropy():016x}", source="", act="create_token")
            await store.insert_token(row, audit.entry(row.id, tenant=tenant, after=tokens.described(row)))
        finally:
            await store.close()
        return token

    return asyncio.run(create())


class UpProgress(msgspec.Struct, kw_only=True):
    """How far `mainspring up` is."""

    submitted: int = 0
    ended: int = 0
    transitions: int = 0
    batches: int = 0
    queued: int = 0
    held_by_workers: int = 0
    seconds: float = 0.0


def up(*, directory: Path, tasks: int, workers: int, forever: bool, report: Callable[[UpProgress], None]) -> UpProgress:
    """Run the engine on SQLite below `directory` with played workers until every run has ended, or an interruption."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        return runner.run(_up(directory, tasks, workers, forever, report))


async def _up(
    directory: Path, tasks: int, workers: int, forever: bool, report: Callable[[UpProgress], None]
) -> UpProgress:
    clock = MachineClock()
    store = await open_store(f"sqlite:///{directory / '.mainspring' / 'mainspring.db'}", clock)
    interrupted = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupted.set)
    progress = UpProgress()
    began = clock.monotonic()
    try:
        await store.ensure_shard(POOL)
        engine = Engine(store, clock)
        engine.host.on_lead = lambda leader: _follow(leader, progress)
        fleet = [PlayedWorker(f"played-{number}", Offer(4_000, 8 << 30), clock) for number in range(workers)]
        async with engine.running():
            playing = [asyncio.create_task(play(engine, worker)) for worker in fleet]
            leader = await engine.leader(POOL)
            while not interrupted.is_set() and (forever or progress.submitted < tasks or progress.ended < tasks):
                if progress.ended >= progress.submitted:
                    progress.submitted += len(await submit_noops(store, tasks))
                memory = leader.shard.memory
                progress.queued, progress.held_by_workers = sum(memory.queues.depth.values()), len(memory.attempts)
                progress.seconds = clock.monotonic() - began
                report(progress)
                await clock.sleep(_POLL_SECONDS)
            report(progress)
            for one in playing:
                one.cancel()
            await asyncio.gather(*playing, return_exceptions=True)
    finally:
        await store.close()
    return progress


def _follow(leader: Leader, progress: UpProgress) -> None:
    def committed(_number: int, batch: Batch) -> None:
        progress.batches += 1
        progress.transitions += len(batch.transitions)
        progress.ended += sum(1 for run in batch.runs if run.ended_at is not None)

    leader.on_commit = committed
