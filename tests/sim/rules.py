"""The rules, implemented a second time: for the checks, which do not use the code under test.

Quotas: only specified resources count. A tenant is within its guarantee while it exceeds no guaranteed resource.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from mainspring.core.fairness.freezes import FreezeKind
from mainspring.core.fairness.quotas import Quota
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, Task, TaskState
from mainspring.core.placement.task_shapes import Shape
from tests.sim.model import Model

_NAMES = ("cpu_millis", "memory_bytes", "gpus", "disk_bytes")
_SOON = timedelta(seconds=5)
"""A recalled group ends soon, unless its running task has run for longer than this."""


class LeaseView(msgspec.Struct, kw_only=True):
    """A live lease, according to the rows."""

    worker: str
    tenant: str
    priority: Priority
    resources: Resources
    tasks: list[Task]
    recalled: bool = False
    """Its unstarted tasks were recalled, which only the leader knows: it is in no row. One running task may be left."""

    def is_going(self, now: datetime) -> bool:
        """Whether its capacity will soon be free: all tasks were asked to stop, or recalled."""
        if all(map(is_asked_to_go, self.tasks)):
            return True
        return self.recalled and not any(
            task.state is TaskState.RUNNING and task.started_at is not None and task.started_at < now - _SOON
            for task in self.tasks
        )


def is_asked_to_go(task: Task) -> bool:
    """Whether a task was asked to stop, started or not."""
    return task.stop is not None and task.stop.kind is not StopKind.HOLD


def lease_views(model: Model, recalled: frozenset[str] = frozenset()) -> dict[str, LeaseView]:
    """All live leases. `recalled`: those with recalled tasks."""
    found: dict[str, LeaseView] = {}
    for task in model.live.values():
        lease = found.get(task.lease_id or "")
        if lease is None:
            found[task.lease_id or ""] = LeaseView(
                worker=task.worker_id or "", tenant=task.tenant, priority=task.priority,
                resources=model.shape_of(task).resources, tasks=[task], recalled=task.lease_id in recalled,
            )  # fmt: skip
        else:
            lease.tasks.append(task)
            lease.priority = min(lease.priority, task.priority)
    return found


def use_by_tenant(leases: dict[str, LeaseView]) -> dict[str, tuple[Resources, int]]:
    """Resources and number of the leases of each tenant."""
    found: dict[str, tuple[Resources, int]] = {}
    for lease in leases.values():
        use, count = found.get(lease.tenant, (ZERO_RESOURCES, 0))
        found[lease.tenant] = (use + lease.resources, count + 1)
    return found


def promises(quota: Quota) -> list[str]:
    """Resources with a guarantee."""
    return [name for name in _NAMES if getattr(quota.guaranteed, name) > 0]


def is_within_promise(quota: Quota, use: Resources) -> bool:
    """Whether a tenant with this usage is within its guarantee."""
    return bool(promises(quota)) and all(
        getattr(use, name) <= getattr(quota.guaranteed, name) for name in promises(quota)
    )


def is_below_promise(quota: Quota, use: Resources) -> bool:
    """Whether a tenant with this usage has less than its guarantee of every guaranteed resource."""
    return bool(promises(quota)) and all(
        getattr(use, name) < getattr(quota.guaranteed, name) for name in promises(quota)
    )


def exceeded(quota: Quota, use: Resources, count: int) -> str | None:
    """The resource of which this usage exceeds the quota."""
    if quota.max_tasks is not None and count > quota.max_tasks:
        return f"{count} leases of {quota.max_tasks}"
    for name in _NAMES:
        burst = getattr(quota.burst, name)
        if burst is not None and getattr(use, name) > burst + getattr(quota.guaranteed, name):
            return f"{getattr(use, name)} {name} of {burst + getattr(quota.guaranteed, name)}"
    return None


def frozen(rules: SharingRules, tenant: str, job: str, now: datetime) -> str | None:
    """The freeze that applies to a tenant's job."""
    for row in rules.freezes:
        over = row.until is not None and row.until <= now
        mine = {FreezeKind.TENANT: tenant, FreezeKind.JOB: f"{tenant}/{job}"}.get(row.kind, row.subject)
        if not over and row.subject == mine:
            return f"{row.kind} {row.subject}"
    return None


def forbidden(rules: SharingRules, labels: dict[str, str]) -> str | None:
    """The policy that keeps a job with these labels out of the pool."""
    have = msgspec.json.decode(rules.pool.labels) if rules.pool is not None else {}
    for policy in rules.policies:
        if policy.label in labels and policy.value in ("", labels[policy.label]):
            needs = msgspec.json.decode(policy.requires)
            if any(have.get(key) != value for key, value in needs.items()):
                return policy.name
    return None


def limits_of_task(model: Model, task: Task) -> list[str]:
    """Limits that a task counts against itself; those of its run are not included."""
    job = model.job_of(task.run_id).spec
    names = dict.fromkeys(name for name in model.spec_of(task).groups if name not in job.groups)
    return [f"group:{task.tenant}/{name}" for name in names]


def limits_of_run(model: Model, run_id: str) -> list[str]:
    """The limits that a run counts against."""
    tenant = model.runs[run_id].tenant
    return [f"group:{tenant}/{name}" for name in dict.fromkeys(model.job_of(run_id).spec.groups)]


def has_begun(model: Model, run_id: str) -> bool:
    """Whether a task of a run was placed since its adoption."""
    since = model.runs[run_id].adopted_at
    return since is not None and any(
        task.assigned_at is not None and task.assigned_at >= since for task in model.tasks[run_id]
    )


def hindered(
    model: Model, task: Task, rules: SharingRules, now: datetime, use: dict[str, tuple[Resources, int]]
) -> str | None:
    """Rules or run states that may keep a QUEUED task from being placed: rather too many than too few."""
    run, job = model.runs[task.run_id], model.job_of(task.run_id).spec
    shape = model.shape_of(task)
    if run.paused or run.held is not None or run.cancelled_by is not None or run.failed_task or run.timed_out:
        return "its run is held"
    if task.state is not TaskState.QUEUED:
        return "it does not wait"
    if shape.affinity or shape.anti_affinity:
        return "others of its run"
    limits = (*limits_of_task(model, task), *limits_of_run(model, task.run_id))
    if any(limit in rules.groups for limit in limits):
        return "its groups"
    if ("job", f"{task.tenant}/{job.name}") in model.breakers:
        return "the circuit of its job"
    stopped = frozen(rules, task.tenant, job.name, now) or forbidden(rules, job.labels)
    if stopped is not None:
        return stopped
    if is_poisoned(model, shape):
        return "a fault of its shape"
    if task.priority is Priority.P0 or task.tenant not in rules.quotas:
        return None
    quota = rules.quotas[task.tenant].at(now)
    if model.failed_lately(task.tenant) >= max(1, quota.failures_per_hour):
        return "its tenant's budget of failures"
    used, count = use.get(task.tenant, (ZERO_RESOURCES, 0))
    return exceeded(quota, used + shape.resources, count + 1)


def is_poisoned(model: Model, shape: Shape) -> bool:
    """Whether placing this shape makes the shard fail."""
    return any(shape in job.shapes for job in map(model.job_of, model.runs) if "-poison-place" in job.spec.name)
