"""Limits of one turn, under any rules: nothing forbidden starts, and nothing beyond a limit."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from mainspring.core.fairness.quotas import excess
from mainspring.core.model.resources import ZERO_RESOURCES
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Lease
from mainspring.shard.state.memory import ShardMemory


class Before(msgspec.Struct, frozen=True):
    """How things stood when the turn began."""

    leases: frozenset[str]
    use: Mapping[str, int]


def note(memory: ShardMemory) -> Before:
    """How things stand now."""
    return Before(frozenset(memory.leases), dict(memory.limits.ledger.use))


def check(memory: ShardMemory, before: Before, now: datetime) -> None:
    """Check that nothing started since was frozen, forbidden, or beyond a limit."""
    for limit, group in memory.rules.groups.items():
        most = min(group.most, memory.limits.ledger.shares.get(limit, 0))
        used = memory.limits.ledger.use.get(limit, 0)
        if group.per_seconds is None:
            assert used <= max(most, before.use.get(limit, 0)), f"{used} count by {limit}, and {most} may"
    for lease in memory.leases.values():
        if lease.id not in before.leases:
            _check_start(memory, lease, now)


def _check_start(memory: ShardMemory, lease: Lease, now: datetime) -> None:
    quota = memory.rules.quota(lease.tenant, now)
    if lease.priority is not Priority.P0:
        beyond = excess(quota, memory.leases.use.get(lease.tenant, ZERO_RESOURCES), memory.leases.counts[lease.tenant])
        assert beyond is None, f"{lease} was placed, and {lease.tenant} is beyond its {beyond}"
    for task in lease.members.values():
        run = memory.runs[task.run_id]
        frozen = memory.rules.freeze(lease.tenant, run.job.spec.name, now)
        assert frozen is None, f"{task} was placed, and {frozen}"
        policy = memory.rules.forbids(run.job.spec.labels)
        assert policy is None, f"{task} was placed, and {policy} forbids it"
    pool = memory.rules.pool
    zone = memory.workers[lease.worker_id].zone
    assert pool is None or not pool.zones or zone in pool.zones, f"{lease} is in zone {zone}"
