"""The services that routes use: one object, built at startup and injected into routes.

Routes parse, make one call, and answer. The protocols here are as narrow as the routes need.
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
from mainspring.api.live.run_waits import RunWaiters
from mainspring.api.store_time import StoreTimeCache
from mainspring.api.submission.admission import AdmissionControl
from mainspring.api.submission.rate_limits import RateLimiter
from mainspring.api.submission.submission import Submissions
from mainspring.api.worker_link.enrollment import Enrollment
from mainspring.api.worker_link.http_claims import Claims
from mainspring.background import BackgroundLoops
from mainspring.core.admission.validate_job import Limits
from mainspring.core.explain.diagnosis import Diagnosis, WaitingSummary
from mainspring.core.explain.what_if import Hypothesis, Outcome
from mainspring.core.fairness.pool_status import PoolStatus
from mainspring.host.config.settings import Settings
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.host.degradation import DegradationMonitor
from mainspring.host.outbox.webhooks import WebhookCache
from mainspring.host.schedules.evaluation_context import make_context
from mainspring.host.schedules.schedule_actions import ScheduleActions
from mainspring.protocol.certificates import WorkerCertificate
from mainspring.protocol.clock import Clock
from mainspring.shard.effects import ActionReply
from mainspring.shard.events import Event
from mainspring.store.ports.front import TransitionRecord
from mainspring.store.ports.store import Store
from mainspring.telemetry.metrics import Metrics

ALL_TENANTS = "*"
DEFAULT_TENANT = "default"
"""Tenant of new work if a caller who sees all tenants names none."""


class Role(StrEnum):
    """Role of a caller (SEC-2). `api/auth/permissions.py` maps routes to roles."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"
    ATTEMPT = "attempt"
    """A task attempt, authenticated by the token of the attempt (WRK-6)."""
    JOIN = "join"
    """A machine that enrolls as a worker with a join token (SEC-3)."""


TOKEN_ROLES = frozenset(Role) - {Role.ATTEMPT, Role.JOIN}
"""Roles that stored tokens may have. The others come from the credential itself."""


class WorkerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """A worker identified by its certificate (SEC-3)."""

    name: str
    pools: tuple[str, ...]
    """Pools that it may serve."""
    key: str


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The authenticated caller."""

    name: str
    """Name in the audit log: `token:etl-bot`, `local`, `attempt:att_..`."""
    tenant: str
    """Tenant whose work it may see; ALL_TENANTS for all."""
    roles: frozenset[Role]
    attempt: str | None = None
    """The attempt, if the caller is one."""
    worker: WorkerIdentity | None = None
    """The worker, if the caller is identified by a worker certificate."""
    join_token: str | None = None
    """Id of the join token, if the caller presented one."""

    def sees(self, tenant: str) -> bool:
        """Return whether the caller may see work of this tenant."""
        return self.tenant in {ALL_TENANTS, tenant}

    def sees_all_tenants(self) -> bool:
        """Return whether the caller may see the work of all tenants."""
        return self.tenant == ALL_TENANTS


class Shards(Protocol):
    """Access to the leaders of all shards."""

    async def ask(self, shard: str, action: Event) -> ActionReply:
        """Have the leader, local or remote, execute an action; returns once it is durable.

        Raises Overloaded, or NotLeading if the shard has no leader now.
        """
        ...

    async def pool_status(self, shard: str, tenant: str | None = None) -> PoolStatus:
        """Return the status of a pool as its leader, local or remote, sees it. Raises NotLeading.

        With `tenant`, details are limited to that tenant.
        """
        ...

    async def diagnose(self, shard: str, subject: str) -> Diagnosis | None:
        """Diagnose a task, or the most informative task of a run; None if the leader does not have it in memory.

        Raises NotLeading.
        """
        ...

    async def what_if(self, shard: str, task_id: str, hypothesis: Hypothesis) -> Outcome | None:
        """Forecast a task under a hypothesis; None if the task does not wait. Raises NotLeading."""
        ...

    async def summarize_waiting(self, shard: str, tenant: str | None = None) -> list[WaitingSummary]:
        """Count the queued tasks of a pool by reason, for one tenant or all. Raises NotLeading."""
        ...

    async def leader_address(self, shard: str) -> str | None:
        """Return the address of a shard's leader; None if there is none, or if it is this server."""
        ...

    def leads(self) -> list[str]:
        """Return the shards that this server leads."""
        ...


class LogPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of an attempt's log."""

    offset: int
    data: bytes
    size: int
    """Current size of the log."""
    complete: bool
    """Whether the process has ended and `size` is final."""


class Logs(Protocol):
    """Logs of attempts, on any server (WRK-8)."""

    async def read(self, attempt: str, offset: int, limit: int) -> LogPiece:
        """Read a piece of a log at `offset`; empty if there is none yet. A negative `offset` counts from the end."""
        ...

    async def changed(self, attempt: str, seconds: float) -> bool:
        """Wait until a log has grown, at most this long; False if this server is stopping."""
        ...

    async def add(self, attempt: str, data: bytes) -> None:
        """Append to a log, for workers without a link (WRK-2)."""
        ...


class LiveStream(Protocol):
    """Transitions as they become durable (OBS-4)."""

    is_stopping: bool
    """Whether the server is stopping and disconnects its followers."""

    async def now(self) -> dict[str, tuple[int, int]]:
        """Return the current position of each shard's transitions."""
        ...

    def follow(self, after: Mapping[str, tuple[int, int]]) -> AsyncIterator[list[TransitionRecord]]:
        """Yield transitions after these positions as they happen; an empty list after 5 s without any."""
        ...

    def catch_up(self, after: Mapping[str, tuple[int, int]]) -> AsyncIterator[list[TransitionRecord]]:
        """Yield the transitions after these positions, up to now."""
        ...


class Identities(Protocol):
    """Authenticates callers."""

    async def of(
        self, headers: Mapping[str, str], client: str, certificate: WorkerCertificate | None = None
    ) -> Principal:
        """Authenticate a request by its headers, client address and client certificate.

        Raises Unauthenticated.
        """
        ...

    async def worker_named(self, name: str) -> WorkerIdentity | None:
        """Return the worker that has a certificate for this name, if any."""
        ...


@dataclass(slots=True, kw_only=True)
class Services:
    """All services of the routes."""

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
    """Shared by the servers of one store: signs the tokens of attempts, and authenticates servers to each other."""
    enrollment: Enrollment | None = None
    """Certificates of workers; None if workers authenticate with tokens only."""
    limits: Limits = field(default_factory=Limits)
    pool: str = "default"
    """Default pool of runs."""
    max_body_bytes: int = 64 * 1024 * 1024
    has_url_references: bool = False
    """Whether webhook URLs may refer to variables and files of this machine, readable by all who create webhooks."""
    metrics: Metrics = field(default_factory=Metrics)
    background: BackgroundLoops
    """The background loops of this server."""
    time: StoreTimeCache = field(init=False)
    submissions: Submissions = field(init=False)
    schedule_actions: ScheduleActions = field(init=False)
    webhooks: WebhookCache = field(init=False)
    waits: RunWaiters = field(init=False)
    run_jobs: RunJobs = field(init=False)
    claims: Claims = field(init=False)
    settings: Settings = field(init=False)
    """The engine's settings if there is one, set at startup; the same for `rules` and `degradation`."""
    rules: SharingRulesCache = field(init=False)
    degradation: DegradationMonitor = field(init=False)
    rate_limiter: RateLimiter = field(init=False)
    admission: AdmissionControl = field(init=False)

    async def authenticate(self, connection: HTTPConnection) -> Principal:
        """Return the caller of a connection. Raises Unauthenticated."""
        return await self.identities.of(connection.headers, client_of(connection), certificate_of(connection.scope))

    def __post_init__(self) -> None:
        self.time = StoreTimeCache(self.store, self.clock)
        self.webhooks = WebhookCache(self.store, self.clock)
        self.admission = AdmissionControl(self)
        self.submissions = Submissions(
            self.store, self.clock, self.time, self.admission, limits=self.limits, is_watched=self.webhooks.has_any
        )
        self.settings = Settings(self.store, self.clock)
        self.rules = SharingRulesCache(self.store, self.clock)
        self.degradation = DegradationMonitor(self.store, self.clock)
        self.rate_limiter = RateLimiter(self.store, self.clock)
        context = make_context(
            rules=lambda: self.rules.now, scheduler_settings=lambda: self.settings.scheduler_settings
        )
        self.schedule_actions = ScheduleActions(self.store, pool=self.pool, limits=self.limits, context=context)
        self.waits = RunWaiters(self.store, self.live, self.clock, self.background)
        self.run_jobs = RunJobs(self.store)
        self.claims = Claims(self.store, self.shards)


def client_of(connection: HTTPConnection) -> str:
    """Return the client address of a connection; empty if it has none."""
    return connection.client.host if connection.client is not None else ""
