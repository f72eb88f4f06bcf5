"""How things stand in a pool: who has what, who waits, and for what. Made by the shard's leader when somebody asks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from mainspring.core.explain.diagnosis import Reason
from mainspring.core.fairness.quotas import Quota
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority


class TenantStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One tenant in a pool."""

    tenant: str
    quota: Quota
    """What holds now."""
    queued: dict[str, int]
    """Tasks that are QUEUED, by `P0`, `P1` and `P2`; what has not been taken from intake is not among them."""
    rooms: int
    """Live leases."""
    use: Resources
    share: float
    """Its dominant share: the largest part that its use takes of any one resource of the pool."""
    entitled: float
    """The part that its weight gives it among the tenants that have something here."""
    is_on_burst: bool
    """It uses more than it is guaranteed."""
    blocked_by: str = ""
    """The limit of its quota that one more task would exceed, or what freezes or throttles it; empty: none."""


class LineStanding(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks of one priority, tenant and shape that wait."""

    priority: Priority
    tenant: str
    wants: str
    waiting: int
    since: datetime
    """When the oldest became ready."""
    why: str
    """What they wait for, if it is known; empty: they are next."""
    reason: Reason | None = None
    """The same, as a diagnosis of the oldest calls it."""


class KeptRoom(msgspec.Struct, frozen=True, kw_only=True):
    """Room that is kept for a task."""

    task: str
    tenant: str
    priority: Priority
    worker: str
    until: datetime
    why: str


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A pool as its leader sees it."""

    pool: str
    at: datetime
    workers: int
    """That are ready."""
    capacity: Resources
    used: Resources
    held_from: Priority | None
    """Nothing of this priority or below is placed: the store is slow."""
    queued: dict[str, int]
    """Tasks that are QUEUED, of all tenants, by `P0`, `P1` and `P2`."""
    tenants: list[TenantStanding]
    """By share, the largest first; at most 1,000."""
    lines: list[LineStanding]
    """By priority, then the oldest first; at most 1,000."""
    kept: list[KeptRoom]
    stopping: int
    """Tasks that have been asked to make room, and still run."""
