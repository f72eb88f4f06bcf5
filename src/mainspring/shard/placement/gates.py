"""Gates: freezes, quotas, failure budgets and policies that prevent placement even if there is capacity.

    a freeze of everything, or of the pool   nothing is placed
    a freeze of a tenant, its quota, or      the tenant is skipped; P0 is exempt from quotas (PLC-4)
    its failure budget
    a freeze of a job, a policy, a group     the task is blocked (`shard/state/blocked.py`)
    of its job

Each has a description for diagnosis. Running tasks are not affected.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.fairness.pools import Policy
from mainspring.core.fairness.quotas import excess
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources, format_amount
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.placement import concurrency_groups, failure_throttle
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

POLICY, FREEZE = "policy:", "freeze:"
"""Prefixes of the subjects that tasks are blocked on."""


def freeze_over(memory: ShardMemory, tenant: str, now: datetime) -> FreezeRow | None:
    """The freeze that applies to all tasks of a tenant, if any."""
    frozen = memory.limits.frozen_tenants.get(tenant)
    if frozen is not None and frozen.holds_at(now):
        return frozen
    return memory.rules.freeze_of_all(now) if memory.rules.freezes else None


def passes_over(turn: Turn, priority: Priority, tenant: str) -> bool:
    """Whether no task of a tenant may start at a priority now."""
    if turn.memory.limits.frozen_tenants and freeze_over(turn.memory, tenant, turn.now) is not None:
        return True
    return priority is not Priority.P0 and failure_throttle.max_starts(turn, tenant) == 0


def exceeds(
    memory: ShardMemory, priority: Priority, tenant: str, shape: Shape, now: datetime, kept: Sequence[Resources] = ()
) -> str | None:
    """The quota limit that a tenant would exceed with one more lease of this shape, and with these resources."""
    if priority is Priority.P0 or tenant not in memory.rules.quotas:
        return None
    use = sum(kept, start=memory.leases.use.get(tenant, ZERO_RESOURCES) + shape.resources)
    return excess(memory.rules.quota(tenant, now), use, memory.leases.counts.get(tenant, 0) + 1 + len(kept))


def exceeds_alone(memory: ShardMemory, tenant: str, shape: Shape, now: datetime) -> bool:
    """Whether a single task of this shape exceeds the tenant's quota."""
    return excess(memory.rules.quota(tenant, now), shape.resources, 1) is not None


def admit(turn: Turn, shape: Shape, tasks: list[Task]) -> list[Task]:
    """Those of these dequeued tasks whose runs may start tasks. The others are blocked."""
    memory = turn.memory
    has_job_rules = bool(memory.limits.frozen_jobs or memory.rules.policies)
    admitted = []
    for task in tasks:
        run = memory.runs[task.run_id]
        block = blocking_rule(memory, run, turn.now) if has_job_rules else None
        if block is None and run.job.spec.groups:
            group = concurrency_groups.admits_run(turn, run, shape)
            block = None if group is None else (group.limit, concurrency_groups.describe(group))
        if block is None:
            admitted.append(task)
        else:
            turn.block(*block, task, shape)
    return admitted


def blocking_rule(memory: ShardMemory, run: RunMemory, now: datetime) -> tuple[str, str] | None:
    """A freeze of its job, or a policy, that keeps a run from starting tasks: the subject, and its description."""
    frozen = memory.limits.frozen_jobs.get(run.subject()) if memory.limits.frozen_jobs else None
    if frozen is not None and frozen.holds_at(now):
        return freeze_of_job(run.subject()), str(frozen)
    policy = memory.rules.forbids(run.job.spec.labels)
    return None if policy is None else (f"{POLICY}{run.job.id}", format_policy(policy))


def format_policy(policy: Policy) -> str:
    """Describe a policy that keeps a job out of the pool."""
    return f"policy {policy.name} does not allow it in this pool"


def freeze_of_job(subject: str) -> str:
    """Subject of tasks blocked by a freeze of their job."""
    return f"{FREEZE}{subject}"


def format_excess(memory: ShardMemory, tenant: str, limit: str, now: datetime) -> str:
    """Describe a quota limit that one more task of a tenant would exceed."""
    quota = memory.rules.quota(tenant, now)
    if limit not in NAMES:
        tasks = "1 task" if quota.max_tasks == 1 else f"{quota.max_tasks} tasks"
        return f"it has {memory.leases.counts.get(tenant, 0)} of {tasks} at a time"
    most = getattr(quota.guaranteed, limit) + (getattr(quota.burst, limit) or 0)
    used = getattr(memory.leases.use.get(tenant, ZERO_RESOURCES), limit)
    return f"it uses {format_amount(limit, used)} of {format_amount(limit, most)}"
