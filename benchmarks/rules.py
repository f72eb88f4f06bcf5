"""All sharing features enabled, to measure their cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from mainspring.app.build import POOL
from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import Ceiling, Quota, QuotaOverride, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.resources import Resources
from mainspring.store.ports.store import Store
from tests.store.admin_builders import an_entry
from tests.submission import NOOP

GIB = 1 << 30
GROUPS: dict[str, float | None] = {"license": None, "partner": 1.0}
"""Each task is in a concurrency group and in a rate group."""
MAX_IN_GROUP = 1_000_000
"""Limits that are never reached: only the cost of counting is measured."""
LABELED = replace(NOOP, labels={"eu_data": "yes", "team": "ml"}, pool=POOL)
"""The job of the other drains, matched by a policy."""
SHARED = replace(LABELED, tasks=tuple(replace(task, groups=tuple(GROUPS)) for task in LABELED.tasks))
"""The same, and in groups."""
_EU = json.dumps({"region": "eu"})


async def set_rules(store: Store, tenants: Sequence[str]) -> None:
    """Set a quota for every tenant, which is never reached, and rules for the pool."""
    now = await store.time()
    last: dict[str, Any] = {"version": 0, "updated_at": now, "updated_by": "benchmark"}
    await store.ensure_shard(POOL)
    await store.put_pool(
        PoolRow(name=POOL, labels=_EU, zones=("", "eu-1"), max_resources=None, note="", **last), None, an_entry()
    )
    for name in ("eu_data", "phi", "cards"):
        policy = Policy(name=name, label=name, value="", requires=_EU, note="", **last)
        await store.put_policy(policy, None, an_entry())
    for number, tenant in enumerate(tenants):
        quota = Quota(
            weight=1 + number, max_tasks=1_000, guaranteed=Resources(cpu_millis=2_000, memory_bytes=4 * GIB),
            burst=Ceiling(cpu_millis=1_000_000), failures_per_hour=500,
        )  # fmt: skip
        raised = QuotaOverride(quota=replace(quota, weight=2.0), until=now + timedelta(hours=1), by="benchmark", why="")
        row = QuotaRow(tenant=tenant, pool="", quota=quota, raised=raised if number % 3 == 0 else None, **last)
        await store.put_quota(row, None, an_entry())
        for name, seconds in GROUPS.items():
            group = GroupRow(tenant=tenant, name=name, most=MAX_IN_GROUP, per_seconds=seconds, note="", **last)
            await store.put_group(group, None, an_entry())
        frozen = FreezeRow(kind=FreezeKind.JOB, subject=f"{tenant}/other", by="ann", why="", since=now, until=None)
        await store.freeze(frozen, an_entry())
