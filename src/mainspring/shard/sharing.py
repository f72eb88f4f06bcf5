"""Who is next within a priority (PLC-4, PLC-5): tenants within their guarantee first, then by weighted share.

A tenant's share is the largest part that its live leases take of any one resource of the pool, and half a room more,
divided by its weight. Rooms are whole: by what each has, those of small weight would have most of a room too much, by
what each would have with the next one, too little (as seats of a parliament, by Adams and by Jefferson). Halfway
between is Webster's way, which favours nobody.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from datetime import datetime

from mainspring.core.line_heads import Heads
from mainspring.core.quotas import USUAL_QUOTA, is_guaranteed
from mainspring.core.resources import NOTHING, dominant_share
from mainspring.core.shapes import Shape
from mainspring.shard.memory import ShardMemory
from mainspring.shard.turn import Turn

Place = tuple[bool, float]
"""Whether one more room would be beyond its guarantee, and its weighted share: the smallest is next."""
_NEW: Place = (True, 0.0)
"""The place of a tenant that has nothing, and was promised nothing."""


def place_of(memory: ShardMemory, tenant: str, now: datetime, next_shape: Shape | None = None) -> Place:
    """Where a tenant stands whose next room is of this shape, or unknown."""
    use, rooms = memory.use.get(tenant, NOTHING), memory.rooms.get(tenant, 0)
    share = dominant_share(use, memory.capacity) * (1 + 0.5 / rooms) if rooms else 0.0
    if tenant not in memory.rules.quotas:
        return True, share / USUAL_QUOTA.weight
    quota = memory.rules.quota(tenant, now)
    wanted = use if next_shape is None else use + next_shape.resources
    return not is_guaranteed(quota, wanted), share / quota.weight


class NextTenants:
    """The tenants of one priority while their lines are tried, whoever is next first, and by name those who are equal.

    Those that have nothing and were promised nothing have one place. With thousands of tenants nearly all are these:
    they are told from the others all at once, since each turn begins anew and comes to a few only.
    """

    def __init__(self, turn: Turn, heads: Heads, tenants: AbstractSet[str]) -> None:
        self._turn = turn
        self._heads = heads
        memory = turn.memory
        others = set(tenants)
        # Each step goes through these tenants only, never through all that have rooms or quotas.
        new = others.difference(memory.rooms).difference(memory.rules.quotas)
        others -= new
        self._new = list(new)
        self._others = [(self._place(tenant), tenant) for tenant in others]
        heapq.heapify(self._new)
        heapq.heapify(self._others)

    def first(self) -> str | None:
        """Who is next; None: nobody is left."""
        if self._is_new_next():
            return self._new[0]
        return self._others[0][1] if self._others else None

    def drop(self) -> None:
        """Whoever was next gets no more for now."""
        if self._is_new_next():
            heapq.heappop(self._new)
        else:
            heapq.heappop(self._others)

    def move(self) -> None:
        """Whoever was next got something, or its next line is another: it may stand elsewhere."""
        if self._is_new_next():
            tenant = heapq.heappop(self._new)
            heapq.heappush(self._others, (self._place(tenant), tenant))
        else:
            tenant = self._others[0][1]
            heapq.heapreplace(self._others, (self._place(tenant), tenant))

    def _is_new_next(self) -> bool:
        return bool(self._new) and (not self._others or (_NEW, self._new[0]) < self._others[0])

    def _place(self, tenant: str) -> Place:
        """Where a tenant stands with what it would place next."""
        memory, now = self._turn.memory, self._turn.now
        row = memory.rules.quotas.get(tenant)
        if row is None or row.at(now).guaranteed == NOTHING:
            return place_of(memory, tenant, now)
        return place_of(memory, tenant, now, self._heads.first(tenant))


def tenants_here(memory: ShardMemory) -> list[str]:
    """Those that have something here, or wait for it."""
    return sorted({*(tenant for _, tenant in memory.queues.depth), *memory.use})


def weight_of(memory: ShardMemory, tenants: Iterable[str], now: datetime) -> float:
    """What these tenants weigh together: by its part of that, each is entitled to its part of the pool."""
    return sum(memory.rules.quota(tenant, now).weight for tenant in tenants)
