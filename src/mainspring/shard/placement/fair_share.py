"""Who is next within a priority (PLC-4, PLC-5): tenants within their guarantee first, then by weighted share.

A tenant's share is the largest part that its live leases take of any one resource of the pool, and half a room more,
divided by its weight. Rooms are whole: by what each has, those of small weight would have most of a room too much, by
what each would have with the next one, too little (as seats of a parliament, by Adams and by Jefferson). Halfway
between is Webster's way, which favours nobody. Of those who are equal, whoever had less before is next.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime

from mainspring.core.fairness.queue_heads import Heads
from mainspring.core.fairness.quotas import USUAL_QUOTA, is_guaranteed
from mainspring.core.model.resources import NOTHING, dominant_share
from mainspring.core.model.task import Priority
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn

Place = tuple[bool, float, float]
"""Whether one more room would be beyond its guarantee, its weighted share, and what it had before: the smallest is
next."""


def place_of(
    memory: ShardMemory, priority: Priority, tenant: str, now: datetime, next_shape: Shape | None = None
) -> Place:
    """Where a tenant stands at a priority, whose next room is of this shape, or unknown."""
    had = memory.past_use[priority].of(tenant)
    use, rooms = memory.use.get(tenant, NOTHING), memory.lease_counts.get(tenant, 0)
    share = dominant_share(use, memory.capacity) * (1 + 0.5 / rooms) if rooms else 0.0
    if tenant not in memory.rules.quotas:
        return True, share / USUAL_QUOTA.weight, had
    quota = memory.rules.quota(tenant, now)
    wanted = use if next_shape is None else use + next_shape.resources
    return not is_guaranteed(quota, wanted), share / quota.weight, had


class NextTenants:
    """The tenants of one priority while their lines are tried, whoever is next first.

    Those that have nothing and were promised nothing stand by what they had before. With thousands of tenants nearly
    all are these, and they are gone through as far as a turn comes. Whoever has something stands behind them all.
    """

    def __init__(self, turn: Turn, priority: Priority, heads: Heads, tenants: AbstractSet[str]) -> None:
        self._turn = turn
        self._priority = priority
        self._heads = heads
        self._past = turn.memory.past_use[priority]
        self._promised = turn.memory.promised & tenants
        self._others = [self._entry(tenant) for tenant in self._promised]
        heapq.heapify(self._others)
        self._line = iter(self._past.least_first(tenants))
        self._met: list[str] = []
        """Those on the way so far that have something."""
        self._new = self._next_new()

    def first(self) -> str | None:
        """Who is next; None: nobody is left."""
        if self._is_new_next():
            return self._new
        return self._others[0][1] if self._others else None

    def drop(self) -> None:
        """Whoever was next gets no more for now."""
        if self._is_new_next():
            self._new = self._next_new()
        else:
            heapq.heappop(self._others)

    def move(self) -> None:
        """Whoever was next got something, or its next line is another: it may stand elsewhere."""
        if self._new is not None and self._is_new_next():
            if self._new in self._turn.memory.lease_counts:
                self._past.serve(self._new)
                self._met.append(self._new)
                self._new = self._next_new()
        else:
            heapq.heapreplace(self._others, self._entry(self._others[0][1]))

    def _next_new(self) -> str | None:
        """The next that has nothing and was promised nothing. None: no more has, and all others have their places."""
        rooms = self._turn.memory.lease_counts
        for tenant in self._line:
            if tenant not in rooms and tenant not in self._promised:
                return tenant
            self._met.append(tenant)
        for tenant in self._met:
            if tenant not in self._promised:
                heapq.heappush(self._others, self._entry(tenant))
        self._met.clear()
        return None

    def _is_new_next(self) -> bool:
        if self._new is None:
            return False
        return not self._others or self._others[0][0] >= (True, 0.0, self._past.of(self._new))

    def _entry(self, tenant: str) -> tuple[Place, str]:
        """Where a tenant stands with what it would place next."""
        memory, now = self._turn.memory, self._turn.now
        row = memory.rules.quotas.get(tenant)
        is_promised = row is not None and row.at(now).guaranteed != NOTHING
        shape = self._heads.first(tenant) if is_promised else None
        return place_of(memory, self._priority, tenant, now, shape), tenant


def tenants_here(memory: ShardMemory) -> list[str]:
    """Those that have something here, or wait for it."""
    return sorted({*(tenant for _, tenant in memory.queues.depth), *memory.use})


def weight_of(memory: ShardMemory, tenants: Iterable[str], now: datetime) -> float:
    """What these tenants weigh together: by its part of that, each is entitled to its part of the pool."""
    return sum(memory.rules.quota(tenant, now).weight for tenant in tenants)
