"""REST types for resource sharing: pools, policies, quotas, grants, groups, freezes, queues.

Amounts use the units of job files: `cpu` in cores, `memory` and `disk` in bytes, `gpu` in devices.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from mainspring.protocol.rest.runs import RequestBody, View


class Amounts(RequestBody, frozen=True, kw_only=True, omit_defaults=False):
    """Amount of each resource; None: not given."""

    cpu: float | None = None
    """Cores."""
    memory: int | None = None
    """Bytes."""
    gpu: int | None = None
    disk: int | None = None
    """Bytes."""


class PoolRequest(RequestBody, frozen=True, kw_only=True):
    """Description of a pool."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    zones: tuple[str, ...] = ()
    max_resources: Amounts | None = None
    note: str = ""


class PoolView(View, frozen=True, kw_only=True):
    """A pool; `version` is 0 without a description."""

    name: str
    labels: dict[str, str]
    zones: list[str]
    max_resources: Amounts | None
    note: str
    leader: str
    """The server that leads it; empty: none."""
    version: int
    updated_at: datetime | None = None
    updated_by: str = ""


class PolicyRequest(RequestBody, frozen=True, kw_only=True):
    """Restrict jobs with a label to pools with certain labels (ADM-8)."""

    label: str
    value: str = ""
    """Empty: any value."""
    requires: dict[str, str]
    note: str = ""


class PolicyView(View, frozen=True, kw_only=True):
    """A policy, and the pools that qualify."""

    name: str
    label: str
    value: str
    requires: dict[str, str]
    note: str
    pools: list[str]
    """Pools that currently qualify."""
    version: int
    updated_at: datetime
    updated_by: str


class QuotaTerms(RequestBody, frozen=True, kw_only=True, omit_defaults=False):
    """Guarantee and limits of a tenant in a pool. Missing fields have their defaults."""

    weight: float = 1.0
    """Weight in fair share."""
    max_tasks: int | None = None
    """Concurrent tasks."""
    guaranteed: Amounts = Amounts()
    burst: Amounts = Amounts()
    """Beyond the guarantee; a missing resource is unlimited."""
    max_fan_out: int | None = None
    failures_per_hour: int = 1_000
    """Failed tasks above which the tenant is throttled."""


class QuotaRequest(QuotaTerms, frozen=True, kw_only=True):
    """Quota of a tenant in a pool."""

    why: str = ""
    confirm: bool = False
    """Required for a quota under which nothing could run (OPS-2)."""


class RaiseRequest(QuotaRequest, frozen=True, kw_only=True):
    """Temporary quota override."""

    seconds: float
    """Duration."""


class RaisedView(View, frozen=True, kw_only=True):
    """A quota override."""

    quota: QuotaTerms
    until: datetime
    by: str
    why: str


class BookingRequest(RequestBody, frozen=True, kw_only=True):
    """A larger guarantee at recurring times (PLC-11)."""

    cron: str
    zone: str = "UTC"
    """An IANA time zone."""
    seconds: int
    """Length of each window."""
    lead_seconds: int = 0
    """Takes effect this much earlier: others return burst capacity meanwhile."""
    guaranteed: Amounts
    """Total guarantee in the window. Missing resources keep their usual guarantee."""
    why: str = ""


class BookingView(View, frozen=True, kw_only=True):
    """A booking, and whether it is in effect."""

    name: str
    cron: str
    zone: str
    seconds: int
    lead_seconds: int
    guaranteed: Amounts
    holds: bool
    """In effect now."""
    next_at: datetime | None
    """Start of the next window."""
    by: str
    why: str


class QuotaView(View, frozen=True, kw_only=True):
    """A tenant's quota."""

    tenant: str
    pool: str
    """Empty: default for all pools."""
    quota: QuotaTerms
    raised: RaisedView | None
    """Current override, if any."""
    version: int
    """0: none was set."""
    updated_at: datetime | None = None
    updated_by: str = ""
    bookings: list[BookingView] = msgspec.field(default_factory=list)
    """Larger guarantees, sorted by name."""


class GrantRequest(RequestBody, frozen=True, kw_only=True):
    """Allow a tenant to use P0."""

    seconds: float | None = None
    """Duration; None: until revoked."""
    why: str = ""


class GrantView(View, frozen=True, kw_only=True):
    """Permission of a tenant to use P0."""

    tenant: str
    by: str
    why: str
    since: datetime
    until: datetime | None


class GroupRequest(RequestBody, frozen=True, kw_only=True):
    """Concurrency limit, or rate limit per period (PLC-12)."""

    most: int
    per_seconds: float | None = None
    note: str = ""


class GroupView(View, frozen=True, kw_only=True):
    """A concurrency or rate group."""

    tenant: str
    name: str
    most: int
    per_seconds: float | None
    note: str
    version: int
    updated_at: datetime
    updated_by: str


class FreezeRequest(RequestBody, frozen=True, kw_only=True):
    """Prevent new work of a scope from starting."""

    kind: Literal["all", "tenant", "pool", "job"]
    subject: str = ""
    """The tenant, the pool, or `tenant/job` (default: the caller's tenant); empty for everything."""
    why: str = ""
    seconds: float | None = None
    """Duration; None: until unfrozen."""


class FreezeView(View, frozen=True, kw_only=True):
    """An active freeze."""

    kind: str
    subject: str
    by: str
    why: str
    since: datetime
    until: datetime | None


class TenantUseView(View, frozen=True, kw_only=True):
    """Usage and entitlement of a tenant in a pool (OPS-2)."""

    tenant: str
    pool: str
    quota: QuotaTerms
    """Quota in effect now."""
    queued: dict[str, int]
    running: int
    use: Amounts
    share: float
    fair_share: float
    is_on_burst: bool
    blocked_by: str
    p0: bool
    """May use P0."""


class QueueLineView(View, frozen=True, kw_only=True):
    """A queue: waiting tasks of one priority, tenant and shape."""

    priority: str
    tenant: str
    wants: str
    waiting: int
    since: datetime
    why: str
    reason: str = ""
    """Reason code of the oldest task; empty: it is next."""


class ReservationView(View, frozen=True, kw_only=True):
    """A reservation."""

    task: str
    tenant: str
    priority: str
    worker: str
    until: datetime
    why: str


class QueueView(View, frozen=True, kw_only=True):
    """Queues of a pool, in dispatch order, with the reasons for waiting. Other tenants appear only in sums."""

    pool: str
    at: datetime
    workers: int
    capacity: Amounts
    used: Amounts
    dispatch_paused_from: str | None
    intake: dict[str, int]
    """Runs in intake, by priority; counted up to 100,000."""
    waiting: dict[str, int]
    """Queued tasks of all tenants, by priority."""
    queues: list[QueueLineView]
    reservations: list[ReservationView]
    stopping: int


class LevelView(View, frozen=True, kw_only=True):
    """Degradation level of a pool (HA-5)."""

    pool: str
    level: str
    """`normal`, `degraded`, `partial`, `major` or `recovery`."""
    since: datetime
    why: str
    accepts: float
    """Fraction of the usual rates at which new work is accepted."""
    shedding: str
    """What is shed: empty, `half of P2`, `P2` or `P2, and P1 slowed`."""
