"""Status of a pool: usage by tenant, and what waits for what. Made by the shard's leader on request."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.quotas import Quota
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority


class TenantStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant in a pool."""

    tenant: str
    quota: Quota
    """The quota that applies now."""
    queued: dict[str, int]
    """QUEUED tasks by `P0`, `P1` and `P2`, without those still in intake."""
    running: int
    """Live leases."""
    use: Resources
    share: float
    """Its dominant share: the largest fraction that it uses of any one resource of the pool."""
    fair_share: float
    """Its fair share, by weight, among the tenants that have something here."""
    is_on_burst: bool
    """It uses more than it is guaranteed."""
    blocked_by: str = ""
    """The limit of its quota that one more task would exceed, or what freezes or throttles it; empty: none."""


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: waiting tasks of one priority, tenant and shape."""

    priority: Priority
    tenant: str
    wants: str
    waiting: int
    since: datetime
    """When the oldest became ready."""
    why: str
    """What they wait for, if known; empty: they are next."""
    reason: Reason | None = None
    """The reason code of the oldest, as in its diagnosis."""


class ReservationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation."""

    task: str
    tenant: str
    priority: Priority
    worker: str
    until: datetime
    why: str


class PoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as its leader sees it."""

    pool: str
    at: datetime
    workers: int
    """Workers that are ready."""
    capacity: Resources
    used: Resources
    dispatch_paused_from: Priority | None
    """This priority and below are not dispatched: the store is slow."""
    queued: dict[str, int]
    """QUEUED tasks of all tenants, by `P0`, `P1` and `P2`."""
    tenants: list[TenantStatus]
    """By share, the largest first; at most 1,000."""
    queues: list[QueueStatus]
    """By priority, then the oldest first; at most 1,000."""
    reservations: list[ReservationStatus]
    stopping: int
    """Running tasks that are being preempted."""
