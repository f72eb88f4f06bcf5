"""What the routes work with: one object, built by `bootstrap` and given to every route that asks for it.

Routes parse, make one call, and answer. What they call is here, as narrow as they need it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import msgspec

from mainspring.api.run_jobs import RunJobs
from mainspring.api.run_waits import RunWaits
from mainspring.api.store_time import AskedTime
from mainspring.api.submission import Submissions
from mainspring.clock import Clock
from mainspring.core.job_rules import Limits
from mainspring.host.schedule_acts import ScheduleBook
from mainspring.host.settings import Settings
from mainspring.host.webhooks import WebhookBook
from mainspring.shard.effects import Answered
from mainspring.shard.events import Event
from mainspring.store.port import Store
from mainspring.store.port_front import Told
from mainspring.telemetry.metrics import Metrics

EVERY_TENANT = "*"
DEFAULT_TENANT = "default"
"""Whose work it is if whoever sees every tenant does not say."""


class Role(StrEnum):
    """What somebody may do (SEC-2). `api/permissions.py` says which route asks for which."""

    VIEWER = "viewer"
    SUBMITTER = "submitter"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"
    WORKER = "worker"
    ATTEMPT = "attempt"
    """A task that speaks about itself, with the token of its attempt (WRK-6). No token of the store has this role."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks."""

    name: str
    """For the record: `token:etl-bot`, `local`, `attempt:att_..`."""
    tenant: str
    """Whose work it may see; EVERY_TENANT for everybody's."""
    roles: frozenset[Role]
    attempt: str | None = None
    """The attempt that speaks, if one does."""

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

    async def of(self, headers: Mapping[str, str], client: str) -> Principal:
        """Who sent a request with these headers from this address. Raises Unauthenticated."""
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
    limits: Limits = field(default_factory=Limits)
    pool: str = "default"
    """Where runs go."""
    most_body_bytes: int = 64 * 1024 * 1024
    has_url_references: bool = False
    """Webhooks may say where their address is kept on this machine: everybody who may make one may read it."""
    metrics: Metrics = field(default_factory=Metrics)
    time: AskedTime = field(init=False)
    submissions: Submissions = field(init=False)
    book: ScheduleBook = field(init=False)
    webhooks: WebhookBook = field(init=False)
    waits: RunWaits = field(init=False)
    run_jobs: RunJobs = field(init=False)
    settings: Settings = field(init=False)
    """Those of the engine, if there is one: whoever builds both puts them here."""

    def __post_init__(self) -> None:
        self.time = AskedTime(self.store, self.clock)
        self.webhooks = WebhookBook(self.store, self.clock)
        self.submissions = Submissions(
            self.store, self.clock, self.time, limits=self.limits, pool=self.pool, is_watched=self.webhooks.wants_any
        )
        self.settings = Settings(self.store, self.clock)
        self.book = ScheduleBook(self.store, pool=self.pool, limits=self.limits)
        self.waits = RunWaits(self.store, self.live, self.clock)
        self.run_jobs = RunJobs(self.store)
