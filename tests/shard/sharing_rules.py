"""Helpers for sharing rules."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import Ceiling, Quota, QuotaOverride, QuotaRow
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, TaskState
from tests.shard.jobs import cores, job, task
from tests.shard.world import World

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def rules(*rows: QuotaRow | GroupRow | FreezeRow | Policy | PoolRow) -> SharingRules:
    """All of these together."""
    return SharingRules(
        pool=next((row for row in rows if isinstance(row, PoolRow)), None),
        policies=[row for row in rows if isinstance(row, Policy)],
        quotas={row.tenant: row for row in rows if isinstance(row, QuotaRow)},
        groups={row.limit: row for row in rows if isinstance(row, GroupRow)},
        freezes=[row for row in rows if isinstance(row, FreezeRow)],
    )


def quota(tenant: str, *, guaranteed: float = 0, burst: float | None = None, **fields: Any) -> QuotaRow:
    """A tenant's quota in cores: its guarantee, and its burst."""
    most = Ceiling() if burst is None else Ceiling(cpu_millis=int(burst * 1000))
    given = Quota(guaranteed=cores(guaranteed), burst=most, **fields)
    return QuotaRow(tenant=tenant, pool="", quota=given, raised=None, version=1, updated_at=_THEN, updated_by="ann")


def raised(row: QuotaRow, until: datetime, **fields: Any) -> QuotaRow:
    """The same, with another quota for a while."""
    more = QuotaOverride(quota=Quota(**fields), until=until, by="ann", why="a busy week")
    return QuotaRow(
        tenant=row.tenant, pool=row.pool, quota=row.quota, raised=more, version=2, updated_at=_THEN, updated_by="ann"
    )


def freeze(kind: FreezeKind, subject: str = "", *, until: datetime | None = None) -> FreezeRow:
    """Something is frozen."""
    return FreezeRow(kind=kind, subject=subject, by="ann", why="maintenance", since=_THEN, until=until)


def group(
    name: str, most: int, *, per_seconds: float | None = None, tenant: str = "acme", version: int = 1
) -> GroupRow:
    """A group of work."""
    return GroupRow(
        tenant=tenant, name=name, most=most, per_seconds=per_seconds, note="", version=version, updated_at=_THEN,
        updated_by="ann",
    )  # fmt: skip


def pool(labels: str = "{}", zones: tuple[str, ...] = ()) -> PoolRow:
    """The pool of the world."""
    return PoolRow(
        name="pool", labels=labels, zones=zones, max_resources=None, note="", version=1, updated_at=_THEN,
        updated_by="ann",
    )  # fmt: skip


def policy(label: str, requires: str) -> Policy:
    """A policy: jobs with a label run only in other pools."""
    return Policy(
        name=f"{label}-stays", label=label, value="", requires=requires, note="", version=1, updated_at=_THEN,
        updated_by="ann",
    )  # fmt: skip


def promise(world: World, **guaranteed: float) -> None:
    """This number of cores is guaranteed to each of these tenants."""
    world.rule(rules(*(quota(tenant, guaranteed=amount) for tenant, amount in guaranteed.items())))


def submit(world: World, tenant: str, count: int, priority: Priority, **fields: Any) -> Run:
    """A run of tasks that are named for their tenant, priority and number."""
    tasks = [task(f"{tenant}{priority}{number}", **fields) for number in range(count)]
    return world.submit(job(*tasks), tenant=tenant, priority=priority)


def running(world: World, tenant: str, count: int, priority: Priority, **fields: Any) -> Run:
    """Submit, and start everything that was placed."""
    run = submit(world, tenant, count, priority, **fields)
    world.start(*[name for name, state in world.states(run).items() if state is TaskState.ASSIGNED])
    return run
