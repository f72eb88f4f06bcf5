"""Leases: the capacity of workers that attempts use, and the usage of each tenant.

1. A lease is in `leases` of its worker, and its resources are in `used` of it, exactly while it is here.
2. `use` and `counts` are the sums over the leases of each tenant (I-60); a tenant without leases is in neither.
3. `holders` is the number of leases per priority and worker.
4. `stopping` has every lease with a task that was asked to stop (other than a HOLD), or whose rest was recalled.
"""

from __future__ import annotations

from collections.abc import Mapping

from mainspring.core.fairness.recent_usage import RecentUsage
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, Task
from mainspring.core.model.worker import Lease, Worker
from mainspring.shard.state.registry import Registry


class Leases(Registry[Lease]):
    """The live leases of a shard, by id."""

    def __init__(self) -> None:
        super().__init__()
        self._holders: dict[Priority, dict[str, int]] = {priority: {} for priority in Priority}
        self.holders: Mapping[Priority, Mapping[str, int]] = self._holders
        self._stopping: dict[str, Lease] = {}
        self.stopping: Mapping[str, Lease] = self._stopping
        self._use: dict[str, Resources] = {}
        self.use: Mapping[str, Resources] = self._use
        """By tenant: total resources of its leases."""
        self._counts: dict[str, int] = {}
        self.counts: Mapping[str, int] = self._counts
        """By tenant: number of its leases."""
        self.recent_usage = {priority: RecentUsage() for priority in Priority}
        """By tenant: recent usage, which orders tenants with equal shares."""

    def open(self, lease: Lease, worker: Worker, shard_time: float) -> None:
        """Add a lease, and count its resources as used."""
        self.attach(lease, worker)
        lease.since = shard_time
        self._use[lease.tenant] = self._use.get(lease.tenant, ZERO_RESOURCES) + lease.shape.resources
        self._counts[lease.tenant] = self._counts.get(lease.tenant, 0) + 1

    def attach(self, lease: Lease, worker: Worker) -> None:
        """Attach a lease to its worker, and count its resources there only."""
        self._by_id[lease.id] = lease
        worker.leases[lease.id] = lease
        worker.used += lease.shape.resources
        self._count_holder(lease, 1)

    def close(self, lease: Lease, worker: Worker, capacity: Resources, *, shard_time: float, weight: float) -> None:
        """Remove a lease whose last attempt has ended, and charge its tenant for it."""
        resources, tenant = lease.shape.resources, lease.tenant
        del self._by_id[lease.id], worker.leases[lease.id]
        self._stopping.pop(lease.id, None)
        self._count_holder(lease, -1)
        worker.used -= resources
        self.recent_usage[lease.priority].add(
            tenant, resources, capacity, seconds=shard_time - lease.since, weight=weight
        )
        if self._counts[tenant] == 1:
            del self._use[tenant], self._counts[tenant]
        else:
            self._use[tenant] -= resources
            self._counts[tenant] -= 1

    def update_priority(self, lease: Lease) -> None:
        """Recompute the priority of a lease whose tasks changed."""
        self._count_holder(lease, -1)
        lease.update_priority()
        self._count_holder(lease, 1)

    def recall(self, lease: Lease) -> None:
        """Record that the rest of a group is recalled."""
        lease.recalled = True
        self._stopping[lease.id] = lease

    def note_stopping(self, task: Task) -> None:
        """Record that a held task was asked to stop. A HOLD is only a request to return it."""
        if task.lease_id is not None and task.stop is not None and task.stop.kind is not StopKind.HOLD:
            self._stopping[task.lease_id] = self._by_id[task.lease_id]

    def has(self, task: Task) -> bool:
        """Whether a task is a member of its lease."""
        lease = self._by_id.get(task.lease_id or "")
        return lease is not None and lease.members.get(task.attempt_id or "") is task

    def load_usage(
        self, use: Mapping[str, Resources], counts: Mapping[str, int], recent: Mapping[Priority, RecentUsage]
    ) -> None:
        """Set the usage of a snapshot that has only a part of the leases."""
        self._use.update(use)
        self._counts.update(counts)
        self.recent_usage.update((priority, usage.copy()) for priority, usage in recent.items())

    def _count_holder(self, lease: Lease, change: int) -> None:
        holders = self._holders[lease.priority]
        count = holders.get(lease.worker_id, 0) + change
        if count:
            holders[lease.worker_id] = count
        else:
            del holders[lease.worker_id]
