"""Fair share: tenant order within a priority (PLC-4, PLC-5): within guarantee first, then by weighted dominant share.

A tenant's share is the largest fraction of any one resource of the pool that its live leases use, plus half a lease,
divided by its weight. Leases are whole: by current usage, tenants of small weight would have most of a lease too much,
by usage with the next lease, too little (as in the apportionment of seats by Adams and by Jefferson). Halfway between
is Webster's method, which is neutral. Ties are broken by recent usage: less goes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime

from mainspring.core.fairness.queue_heads import QueueHeads
from mainspring.core.fairness.quotas import DEFAULT_QUOTA, is_guaranteed
from mainspring.core.model.resources import ZERO_RESOURCES, dominant_share
from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn

Rank = tuple[bool, float, float]
"""Sort key: beyond its guarantee with the next lease, weighted share, recent usage. The lowest is next."""


def rank(memory: ShardMemory, priority: Priority, tenant: str, now: datetime, next_shape: Shape | None = None) -> Rank:
    """Rank of a tenant at a priority; `next_shape` is the shape of its next lease, if known."""
    had = memory.leases.recent_usage[priority].of(tenant)
    use, lease_count = memory.leases.use.get(tenant, ZERO_RESOURCES), memory.leases.counts.get(tenant, 0)
    share = dominant_share(use, memory.workers.capacity) * (1 + 0.5 / lease_count) if lease_count else 0.0
    if tenant not in memory.rules.quotas:
        return True, share / DEFAULT_QUOTA.weight, had
    quota = memory.rules.quota(tenant, now)
    wanted = use if next_shape is None else use + next_shape.resources
    return not is_guaranteed(quota, wanted), share / quota.weight, had


class TenantOrder:
    """The tenants of one priority in dispatch order, while their queues are tried.

    Tenants without leases and guarantees rank by recent usage. With thousands of tenants nearly all are of this kind,
    and they are visited lazily, as far as a turn gets. Tenants with leases rank behind all of them.
    """

    def __init__(self, turn: Turn, priority: Priority, heads: QueueHeads, tenants: AbstractSet[str]) -> None:
        self._turn = turn
        self._priority = priority
        self._heads = heads
        self._recent_usage = turn.memory.leases.recent_usage[priority]
        self._guaranteed = turn.memory.limits.guaranteed_tenants & tenants
        self._ranked = [self._entry(tenant) for tenant in self._guaranteed]
        heapq.heapify(self._ranked)
        self._unranked = iter(self._recent_usage.least_used_first(tenants))
        self._seen: list[str] = []
        """Tenants visited so far that have leases."""
        self._new = self._next_new()

    def first(self) -> str | None:
        """The next tenant; None: no tenant is left."""
        if self._is_new_next():
            return self._new
        return self._ranked[0][1] if self._ranked else None

    def drop(self) -> None:
        """Remove the head tenant for this turn."""
        if self._is_new_next():
            self._new = self._next_new()
        else:
            heapq.heappop(self._ranked)

    def move(self) -> None:
        """Re-rank the head tenant after it was served or its head queue changed."""
        if self._new is not None and self._is_new_next():
            if self._new in self._turn.memory.leases.counts:
                self._recent_usage.serve(self._new)
                self._seen.append(self._new)
                self._new = self._next_new()
        else:
            heapq.heapreplace(self._ranked, self._entry(self._ranked[0][1]))

    def _next_new(self) -> str | None:
        """The next tenant without leases and guarantees. None: there are no more, and all others are ranked."""
        lease_counts = self._turn.memory.leases.counts
        for tenant in self._unranked:
            if tenant not in lease_counts and tenant not in self._guaranteed:
                return tenant
            self._seen.append(tenant)
        for tenant in self._seen:
            if tenant not in self._guaranteed:
                heapq.heappush(self._ranked, self._entry(tenant))
        self._seen.clear()
        return None

    def _is_new_next(self) -> bool:
        if self._new is None:
            return False
        return not self._ranked or self._ranked[0][0] >= (True, 0.0, self._recent_usage.of(self._new))

    def _entry(self, tenant: str) -> tuple[Rank, str]:
        """Rank a tenant with what it would place next."""
        memory, now = self._turn.memory, self._turn.now
        row = memory.rules.quotas.get(tenant)
        is_promised = row is not None and row.at(now).guaranteed != ZERO_RESOURCES
        shape = self._heads.first(tenant) if is_promised else None
        return rank(memory, self._priority, tenant, now, shape), tenant


def active_tenants(memory: ShardMemory) -> list[str]:
    """Tenants with leases or queued tasks."""
    return sorted({*(tenant for _, tenant in memory.queues.depth), *memory.leases.use})


def total_weight(memory: ShardMemory, tenants: Iterable[str], now: datetime) -> float:
    """Total weight of these tenants: each is entitled to its part of the pool by weight."""
    return sum(memory.rules.quota(tenant, now).weight for tenant in tenants)
