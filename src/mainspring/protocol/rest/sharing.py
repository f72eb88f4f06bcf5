"""What the HTTP API takes and answers about who may use what: pools, policies, quotas, grants, groups, freezes, queues.

Amounts are written as people do: `cpu` in cores, `memory` and `disk` in bytes, `gpu` in devices.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from mainspring.protocol.rest.runs import View, Wish


class Amounts(Wish, frozen=True, kw_only=True, omit_defaults=False):
    """So much of each resource; None: it is not said."""

    cpu: float | None = None
    """Cores."""
    memory: int | None = None
    """Bytes."""
    gpu: int | None = None
    disk: int | None = None
    """Bytes."""


class PoolRequest(Wish, frozen=True, kw_only=True):
    """How a pool is described."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)
    zones: tuple[str, ...] = ()
    max_resources: Amounts | None = None
    note: str = ""


class PoolView(View, frozen=True, kw_only=True):
    """A pool; one that nobody has described has `version` 0."""

    name: str
    labels: dict[str, str]
    zones: list[str]
    max_resources: Amounts | None
    note: str
    leader: str
    """The server that leads it; empty: none does now."""
    version: int
    updated_at: datetime | None = None
    updated_by: str = ""


class PolicyRequest(Wish, frozen=True, kw_only=True):
    """Jobs with a label run only in pools with certain labels (ADM-8)."""

    label: str
    value: str = ""
    """Empty: whatever its value."""
    requires: dict[str, str]
    note: str = ""


class PolicyView(View, frozen=True, kw_only=True):
    """Such a policy, and where it leads."""

    name: str
    label: str
    value: str
    requires: dict[str, str]
    note: str
    pools: list[str]
    """Those that qualify now."""
    version: int
    updated_at: datetime
    updated_by: str


class QuotaTerms(Wish, frozen=True, kw_only=True, omit_defaults=False):
    """What a tenant is promised and may use in a pool. What is not said is as it is for everybody."""

    weight: float = 1.0
    """Its part of what is shared, against the weights of the others."""
    max_tasks: int | None = None
    """At a time."""
    guaranteed: Amounts = Amounts()
    burst: Amounts = Amounts()
    """Beyond what is guaranteed; what is not said is not limited."""
    max_fan_out: int | None = None
    failures_per_hour: int = 1_000
    """Failed tasks after which the tenant is throttled."""


class QuotaRequest(QuotaTerms, frozen=True, kw_only=True):
    """Such a quota, for a tenant in a pool."""

    why: str = ""
    confirm: bool = False
    """A quota under which nothing could run is only set with this (OPS-2)."""


class RaiseRequest(QuotaRequest, frozen=True, kw_only=True):
    """Another quota for a while."""

    seconds: float
    """For so long."""


class RaisedView(View, frozen=True, kw_only=True):
    """What a quota is raised to."""

    quota: QuotaTerms
    until: datetime
    by: str
    why: str


class BookingRequest(Wish, frozen=True, kw_only=True):
    """A larger guarantee at recurring times (PLC-11)."""

    cron: str
    zone: str = "UTC"
    """An IANA time zone."""
    seconds: int
    """How long each window lasts."""
    lead_seconds: int = 0
    """So much earlier it holds: others give back what they have on burst meanwhile."""
    guaranteed: Amounts
    """In all, then. What is not said is as at other times."""
    why: str = ""


class BookingView(View, frozen=True, kw_only=True):
    """What is booked, and when it holds."""

    name: str
    cron: str
    zone: str
    seconds: int
    lead_seconds: int
    guaranteed: Amounts
    holds: bool
    """Now."""
    next_at: datetime | None
    """When the next window begins."""
    by: str
    why: str


class QuotaView(View, frozen=True, kw_only=True):
    """A tenant's quota."""

    tenant: str
    pool: str
    """Empty: every pool that has none of its own."""
    quota: QuotaTerms
    raised: RaisedView | None
    """What holds instead, for a while."""
    version: int
    """0: nobody has set one."""
    updated_at: datetime | None = None
    updated_by: str = ""
    bookings: list[BookingView] = msgspec.field(default_factory=list)
    """When more is guaranteed than that, by name."""


class GrantRequest(Wish, frozen=True, kw_only=True):
    """Let a tenant ask for P0."""

    seconds: float | None = None
    """For so long; None: until it is taken back."""
    why: str = ""


class GrantView(View, frozen=True, kw_only=True):
    """A tenant may ask for P0."""

    tenant: str
    by: str
    why: str
    since: datetime
    until: datetime | None


class GroupRequest(Wish, frozen=True, kw_only=True):
    """At most so many at a time, or in each period (PLC-12)."""

    most: int
    per_seconds: float | None = None
    note: str = ""


class GroupView(View, frozen=True, kw_only=True):
    """A group of work."""

    tenant: str
    name: str
    most: int
    per_seconds: float | None
    note: str
    version: int
    updated_at: datetime
    updated_by: str


class FreezeRequest(Wish, frozen=True, kw_only=True):
    """Let nothing new of something start."""

    kind: Literal["all", "tenant", "pool", "job"]
    subject: str = ""
    """The tenant, the pool, or `tenant/job`, where one's own tenant may be left out; empty for everything."""
    why: str = ""
    seconds: float | None = None
    """For so long; None: until somebody unfreezes it."""


class FreezeView(View, frozen=True, kw_only=True):
    """Something is frozen."""

    kind: str
    subject: str
    by: str
    why: str
    since: datetime
    until: datetime | None


class TenantUseView(View, frozen=True, kw_only=True):
    """What one tenant has in a pool, and what it may have (OPS-2)."""

    tenant: str
    pool: str
    quota: QuotaTerms
    """What holds now."""
    queued: dict[str, int]
    rooms: int
    use: Amounts
    share: float
    entitled: float
    is_on_burst: bool
    blocked_by: str
    p0: bool
    """It may ask for P0."""


class LineView(View, frozen=True, kw_only=True):
    """Tasks of one priority, tenant and shape that wait."""

    priority: str
    tenant: str
    wants: str
    waiting: int
    since: datetime
    why: str
    reason: str = ""
    """The code by which a diagnosis of the oldest calls it; empty: it is next."""


class KeptRoomView(View, frozen=True, kw_only=True):
    """Room that is kept for a task."""

    task: str
    tenant: str
    priority: str
    worker: str
    until: datetime
    why: str


class QueueView(View, frozen=True, kw_only=True):
    """A pool: what waits there, in which order, and for what. Of other tenants only sums are shown."""

    pool: str
    at: datetime
    workers: int
    capacity: Amounts
    used: Amounts
    held_from: str | None
    intake: dict[str, int]
    """Runs that are not taken into memory yet, by priority; counted up to 100,000."""
    waiting: dict[str, int]
    """Tasks that are queued, by priority, of all tenants."""
    lines: list[LineView]
    kept: list[KeptRoomView]
    stopping: int


class LevelView(View, frozen=True, kw_only=True):
    """How well a pool can be served (HA-5)."""

    pool: str
    level: str
    """`normal`, `degraded`, `partial`, `major` or `recovery`."""
    since: datetime
    why: str
    accepts: float
    """The part of the usual rates at which new work is taken."""
    shedding: str
    """What is refused because too much waits: empty, `half of P2`, `P2` or `P2, and P1 slowed`."""
