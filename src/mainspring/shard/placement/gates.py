"""What keeps a tenant, or a task, from being placed though there may be room: freezes, quotas, budgets, policies.

    a freeze of everything, or of the pool   nothing is placed
    a freeze of a tenant, its quota, or      the tenant is passed over; by a quota never for its P0 (PLC-4)
    its budget of failures
    a freeze of a job, a policy, a group     the task is set aside (`shard/placement/blocked.py`)
    of its job

Each answers in words, for those who ask why something waits. Running work goes on, whatever is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.fairness.quotas import excess
from mainspring.core.model.resources import NAMES, NOTHING, Resources, say_amount
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.placement import concurrency_groups, failure_throttle
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

POLICY, FREEZE = "policy:", "freeze:"
"""What tasks are set aside for begins with this."""


def freezes_all(memory: ShardMemory, now: datetime) -> str | None:
    """What keeps everything here from starting."""
    frozen = memory.rules.freeze_of_all(now) if memory.rules.freezes else None
    return None if frozen is None else str(frozen)


def freezes(memory: ShardMemory, tenant: str, now: datetime) -> str | None:
    """What keeps all of a tenant's tasks from starting."""
    frozen = freeze_over(memory, tenant, now)
    return None if frozen is None else str(frozen)


def freeze_over(memory: ShardMemory, tenant: str, now: datetime) -> FreezeRow | None:
    """The freeze that keeps all of a tenant's tasks from starting, if there is one."""
    frozen = memory.frozen_tenants.get(tenant)
    if frozen is not None and frozen.holds_at(now):
        return frozen
    return memory.rules.freeze_of_all(now) if memory.rules.freezes else None


def passes_over(turn: Turn, priority: Priority, tenant: str) -> bool:
    """Whether nothing of a tenant's may be started at a priority now."""
    if turn.memory.frozen_tenants and freezes(turn.memory, tenant, turn.now) is not None:
        return True
    return priority is not Priority.P0 and failure_throttle.most_starts(turn, tenant) == 0


def exceeds(
    memory: ShardMemory, priority: Priority, tenant: str, shape: Shape, now: datetime, kept: Sequence[Resources] = ()
) -> str | None:
    """The limit of its quota that a tenant would be beyond with one more room of this shape, and these beside it."""
    if priority is Priority.P0 or tenant not in memory.rules.quotas:
        return None
    use = sum(kept, start=memory.use.get(tenant, NOTHING) + shape.resources)
    return excess(memory.rules.quota(tenant, now), use, memory.lease_counts.get(tenant, 0) + 1 + len(kept))


def never_fits(memory: ShardMemory, tenant: str, shape: Shape, now: datetime) -> bool:
    """Whether a task of this shape alone is more than its tenant may use."""
    return excess(memory.rules.quota(tenant, now), shape.resources, 1) is not None


def admit(turn: Turn, shape: Shape, tasks: list[Task]) -> list[Task]:
    """Those of these tasks, taken out of a line, whose runs may start something. The others are set aside."""
    memory = turn.memory
    looks_at_jobs = bool(memory.frozen_jobs or memory.rules.policies)
    admitted = []
    for task in tasks:
        run = memory.runs[task.run_id]
        hindrance = hinders_run(memory, run, turn.now) if looks_at_jobs else None
        if hindrance is not None:
            turn.set_aside(*hindrance, task, shape)
            continue
        group = concurrency_groups.admits_run(turn, run, shape) if run.job.spec.groups else None
        if group is not None:
            concurrency_groups.set_aside(turn, group, task, shape)
            continue
        admitted.append(task)
    return admitted


def hinders_run(memory: ShardMemory, run: RunMemory, now: datetime) -> tuple[str, str] | None:
    """A freeze of its job, or a policy, that keeps a run from starting anything: what to wait for, and in words."""
    frozen = memory.frozen_jobs.get(run.subject()) if memory.frozen_jobs else None
    if frozen is not None and frozen.holds_at(now):
        return freeze_of_job(run.subject()), str(frozen)
    policy = memory.rules.forbids(run.job.spec.labels)
    return None if policy is None else (f"{POLICY}{run.job.id}", f"policy {policy.name} keeps it out of this pool")


def freeze_of_job(subject: str) -> str:
    """What tasks of a frozen job wait for."""
    return f"{FREEZE}{subject}"


def say_excess(memory: ShardMemory, tenant: str, limit: str, now: datetime) -> str:
    """A limit of its quota that one more task of a tenant would exceed, in words."""
    quota = memory.rules.quota(tenant, now)
    if limit not in NAMES:
        tasks = "1 task" if quota.max_tasks == 1 else f"{quota.max_tasks} tasks"
        return f"its quota is {tasks} at a time, and it has {memory.lease_counts.get(tenant, 0)}"
    most = getattr(quota.guaranteed, limit) + (getattr(quota.burst, limit) or 0)
    used = getattr(memory.use.get(tenant, NOTHING), limit)
    return f"its quota is {say_amount(limit, most)}, and it uses {say_amount(limit, used)}"
