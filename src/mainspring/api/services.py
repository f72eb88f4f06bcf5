"""What the routes work with: one object, built by `bootstrap` and given to every route that asks for it.

Routes parse, make one call, and answer. What they call is here, as narrow as they need it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec
from starlette.requests import HTTPConnection

from mainspring.api.http.peer_certificates import certificate_of
from mainspring.api.live.run_jobs import RunJobs
from mainspring.api.live.run_waits import RunWaits
from mainspring.api.store_time import AskedTime
from mainspring.api.submission.gate import Gate
from mainspring.api.submission.rate_limits import Rates
from mainspring.api.submission.submission import Submissions
from mainspring.api.worker_link.enrolment import Enrolment
from mainspring.api.worker_link.http_claims import Claims
from mainspring.core.admission.validate_job import Limits
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSum
from mainspring.core.explain.what_if import Outcome, Supposal
from mainspring.core.fairness.pool_status import Standing
from mainspring.host.background import BackgroundLoops
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import FollowedRules
from mainspring.host.degradation import Levels
from mainspring.host.outbox.webhooks import WebhookBook
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.schedule_actions import ScheduleBook
from mainspring.protocol.certificates import WorkerCertificate
from mainspring.protocol.clock import Clock
from mainspring.shard.effects import Answered
from mainspring.shard.events import Event
from mainspring.store.ports.front import Told
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics

EVERY_TENANT = "*"
DEFAULT_TENANT = "default"
"""Whose work it is if whoever sees every tenant does not say."""


class Role(StrEnum):
    """What somebody may do (SEC-2). `api/auth/permissions.py` says which route asks for which."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"
    ATTEMPT = "attempt"
    """A task that speaks about itself, with the token of its attempt (WRK-6)."""
    JOIN = "join"
    """A machine that is about to become a worker, with a join token (SEC-3)."""


GIVEN_TO_TOKENS = frozenset(Role) - {Role.ATTEMPT, Role.JOIN}
"""What a token of the store may have. The others come with what is brought."""


class WorkerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that is known by its certificate (SEC-3)."""

    name: str
    pools: tuple[str, ...]
    """Those that it may serve."""
    key: str


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks."""

    name: str
    """For the record: `token:etl-bot`, `local`, `attempt:att_..`."""
    tenant: str
    """Whose work it may see; EVERY_TENANT for everybody's."""
    roles: frozenset[Role]
    attempt: str | None = None
    """The attempt that speaks, if one does."""
    worker: WorkerIdentity | None = None
    """The worker that speaks, if it is known by its certificate."""
    join_token: str | None = None
    """The id of the join token that was brought."""

    def sees(self, tenant: str) -> bool:
        """Whether work of this tenant exists for whoever asks."""
        return self.tenant in {EVERY_TENANT, tenant}

    def sees_everybody(self) -> bool:
        """Whether it may see every tenant's work."""
        return self.tenant == EVERY_TENANT


class Shards(Protocol):
    """The shards, wherever they are led."""

    async def ask(self, shard: str, act: Event) -> Answered:
        """Have an act carried out by the leader, here or on another server; answers when that is durable.

        Raises Overloaded, or NotLeading if nobody leads the shard now.
        """
        ...

    async def standing(self, shard: str, tenant: str | None = None) -> Standing:
        """How things stand in a pool, as its leader sees it, here or on another server. Raises NotLeading.

        With `tenant`, what is said of single tenants is said of that one only.
        """
        ...

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Why a task, or that task of a run which tells most, is where it is; None: its leader has it not in mind.

        Raises NotLeading.
        """
        ...

    async def suppose(self, shard: str, task_id: str, supposal: Supposal) -> Outcome | None:
        """What would become of a task if something were otherwise; None if it does not wait. Raises NotLeading."""
        ...

    async def waiting_sums(self, shard: str, tenant: str | None = None) -> list[WaitingSum]:
        """How many tasks of a pool wait for what, of one tenant or of all. Raises NotLeading."""
        ...

    async def leader_address(self, shard: str) -> str | None:
        """Where the leader of a shard is reached; None if there is none, or if it is this server."""
        ...

    def leads(self) -> list[str]:
        """The shards that this server leads."""
        ...


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an attempt's log."""

    offset: int
    data: bytes
    size: int
    """How much of the log there is by now."""
    complete: bool
    """The process is gone, and `size` is the end."""


class Logs(Protocol):
    """What attempts printed, wherever it is kept (WRK-8)."""

    async def read(self, attempt: str, offset: int, limit: int) -> LogPiece:
        """A piece of a log from `offset` on; empty if there is none yet. A negative `offset` counts from the end."""
        ...

    async def changed(self, attempt: str, seconds: float) -> bool:
        """Come back when something was added to a log, or after so many seconds; False: this server ends."""
        ...

    async def add(self, attempt: str, data: bytes) -> None:
        """Put a piece at the end of a log: what a worker says that has no link (WRK-2)."""
        ...


class LiveStream(Protocol):
    """Transitions as they become durable (OBS-4)."""

    is_ending: bool
    """The server ends: whoever follows is let go."""

    async def now(self) -> dict[str, tuple[int, int]]:
        """The place of each shard's story behind which only what is still to come is."""
        ...

    def follow(self, after: Mapping[str, tuple[int, int]]) -> AsyncIterator[list[Told]]:
        """What happens after these places of each shard's story; an empty list every 5 s of silence."""
        ...

    def so_far(self, after: Mapping[str, tuple[int, int]]) -> AsyncIterator[list[Told]]:
        """What has happened after these places, up to now."""
        ...


class Identities(Protocol):
    """Finds out who asks."""

    async def of(
        self, headers: Mapping[str, str], client: str, certificate: WorkerCertificate | None = None
    ) -> Principal:
        """Who sent a request with these headers from this address, over a connection with this certificate.

        Raises Unauthenticated.
        """
        ...

    async def worker_named(self, name: str) -> WorkerIdentity | None:
        """The worker that is known under this name by its certificate, if one is."""
        ...


@dataclass(slots=True, kw_only=True)
class Services:
    """All that routes work with."""

    name: str
    """This server's name."""
    address: str
    version: str
    store: Store
    clock: Clock
    shards: Shards
    logs: Logs
    live: LiveStream
    identities: Identities
    cluster_secret: str
    """Known to the servers of one store: signs the tokens of attempts, and lets servers speak to each other."""
    enrolment: Enrolment | None = None
    """How workers get certificates; None: they are known by their tokens."""
    limits: Limits = field(default_factory=Limits)
    pool: str = "default"
    """Where runs go."""
    most_body_bytes: int = 64 * 1024 * 1024
    has_url_references: bool = False
    """Webhooks may say where their address is kept on this machine: everybody who may make one may read it."""
    metrics: Metrics = field(default_factory=Metrics)
    background: BackgroundLoops
    """Those of this server."""
    time: AskedTime = field(init=False)
    submissions: Submissions = field(init=False)
    book: ScheduleBook = field(init=False)
    webhooks: WebhookBook = field(init=False)
    waits: RunWaits = field(init=False)
    run_jobs: RunJobs = field(init=False)
    claims: Claims = field(init=False)
    settings: Settings = field(init=False)
    """Those of the engine, if there is one: whoever builds both puts them here. So are the two below."""
    rules: FollowedRules = field(init=False)
    levels: Levels = field(init=False)
    rates: Rates = field(init=False)
    gate: Gate = field(init=False)

    async def who_asks(self, connection: HTTPConnection) -> Principal:
        """Whoever is at the other end of a connection. Raises Unauthenticated."""
        return await self.identities.of(connection.headers, client_of(connection), certificate_of(connection.scope))

    def __post_init__(self) -> None:
        self.time = AskedTime(self.store, self.clock)
        self.webhooks = WebhookBook(self.store, self.clock)
        self.gate = Gate(self)
        self.submissions = Submissions(
            self.store, self.clock, self.time, self.gate, limits=self.limits, is_watched=self.webhooks.wants_any
        )
        self.settings = Settings(self.store, self.clock)
        self.rules = FollowedRules(self.store, self.clock)
        self.levels = Levels(self.store, self.clock)
        self.rates = Rates(self.store, self.clock)
        context = make_context(rules=lambda: self.rules.now, tuning=lambda: self.settings.tuning)
        self.book = ScheduleBook(self.store, pool=self.pool, limits=self.limits, context=context)
        self.waits = RunWaits(self.store, self.live, self.clock, self.background)
        self.run_jobs = RunJobs(self.store)
        self.claims = Claims(self.store, self.shards)


def client_of(connection: HTTPConnection) -> str:
    """The address that a connection comes from; empty if it has none."""
    return connection.client.host if connection.client is not None else ""
