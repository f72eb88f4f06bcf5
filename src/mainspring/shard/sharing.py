"""Who is next within a priority (PLC-4, PLC-5): tenants within their guarantee first, then by weighted share.

A tenant's share is the largest part that its live leases take of any one resource of the pool, and half a room more,
divided by its weight. Rooms are whole: by what each has, those of small weight would have most of a room too much, by
what each would have with the next one, too little (as seats of a parliament, by Adams and by Jefferson). Halfway
between is Webster's way, which favours nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def place_at(turn: Turn, tenant: str, heads: Heads) -> Place:
    """Where a tenant stands with what it would place next of these lines."""
    row = turn.memory.rules.quotas.get(tenant)
    if row is None and tenant not in turn.memory.rooms:
        return _NEW  # as `place_of` would say; with many tenants most of them are this one
    if row is None or row.at(turn.now).guaranteed == NOTHING:
        return place_of(turn.memory, tenant, turn.now)
    return place_of(turn.memory, tenant, turn.now, heads.first(tenant))


def tenants_here(memory: ShardMemory) -> list[str]:
    """Those that have something here, or wait for it."""
    return sorted({*(tenant for _, tenant in memory.queues.depth), *memory.use})


def weight_of(memory: ShardMemory, tenants: Iterable[str], now: datetime) -> float:
    """What these tenants weigh together: by its part of that, each is entitled to its part of the pool."""
    return sum(memory.rules.quota(tenant, now).weight for tenant in tenants)
