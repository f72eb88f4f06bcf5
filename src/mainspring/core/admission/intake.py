"""Intake: how much waiting work a shard takes into memory, and of which tenants (ARCHITECTURE.md).

Runs wait in the store until there is capacity for their tasks in memory. Each priority has a high-water mark of tasks
that wait in memory, and a tenant may fill only its share of it: the mark divided by the number of tenants that have
intake or waiting tasks at that priority. So a flood, or work that can't run, crowds out no other tenant, and a shard's
memory stays bounded: tasks on workers don't count, they are bounded by the workers.

1. P0 has no mark: all of it is taken.
2. A tenant below its share that has intake gets some: in this read, or, if more than `chunk` tenants want some, after
   those with less in memory.
3. No tenant is given more than its share, and nothing is taken back: a run is adopted whole, so a tenant may exceed its
   share by one run less a task, and a new tenant gets its share on top of what others filled before. With n tenants
   that came one after another the sum is at most the mark times 1 + 1/2 + ... + 1/n.
4. The highest priority comes first, and each has its own chunk: a trickle of P0 does not stop P2's intake. The order
   of execution is not decided here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority

UNBOUNDED = frozenset({Priority.P0})
"""Priorities without a high-water mark."""


class Waiting(msgspec.Struct, frozen=True, order=True):
    """A tenant with intake at a priority."""

    priority: Priority
    tenant: str


class IntakeRequest(msgspec.Struct, frozen=True):
    """Intake to read for a tenant."""

    priority: Priority
    tenant: str
    runs: int
    """Maximum number of runs, as a run has at least one task: `choose` cuts them to that many tasks."""


class TaskCounts:
    """Waiting tasks per priority and tenant."""

    def __init__(self) -> None:
        self._levels: dict[Priority, dict[str, int]] = {priority: {} for priority in Priority}

    def count(self, priority: Priority, tenant: str, by: int) -> None:
        """Add to the number of waiting tasks."""
        level = self._levels[priority]
        left = level.get(tenant, 0) + by
        if left:
            level[tenant] = left
        else:
            level.pop(tenant, None)

    def of(self, priority: Priority, tenant: str) -> int:
        """Return the number of waiting tasks of a tenant."""
        return self._levels[priority].get(tenant, 0)

    def tenants(self, priority: Priority) -> AbstractSet[str]:
        """Return the tenants with waiting tasks at a priority."""
        return self._levels[priority].keys()


def tasks_in_transit(handed: Iterable[Run], adopted: Container[str]) -> TaskCounts:
    """Count the tasks of runs that were handed over but not adopted yet."""
    found = TaskCounts()
    for run in handed:
        if run.id not in adopted:
            found.count(run.priority, run.tenant, run.task_count)
    return found


def plan_intake(
    waiting: Sequence[Waiting], in_memory: TaskCounts, coming: TaskCounts, mark: int, chunk: int
) -> list[IntakeRequest]:
    """Decide what to read from intake: by priority, tenants with the least in memory first, each tenant at most once.

    `in_memory` counts the tasks of adopted runs that have not ended and are on no worker, including tasks not created
    yet; `coming` those handed over but not adopted. `mark` is the high-water mark of each priority but P0, `chunk`
    bounds what is read per priority at once.

    P0 waits for this: it costs nothing for tenants in memory without intake, of which there may be thousands.
    """
    wants: list[IntakeRequest] = []
    for priority in Priority:
        tenants = {one.tenant for one in waiting if one.priority is priority}
        if not tenants:
            continue
        filled = {tenant: in_memory.of(priority, tenant) + coming.of(priority, tenant) for tenant in tenants}
        part = max(1, mark // _count(priority, tenants, in_memory, coming))
        capacity = {tenant: chunk if priority in UNBOUNDED else min(chunk, part - filled[tenant]) for tenant in tenants}
        below_share = sorted((tenant for tenant in tenants if capacity[tenant] > 0), key=lambda one: (filled[one], one))
        below_share = below_share[:chunk]
        even_share = chunk // len(below_share) if below_share else 0
        wants += [IntakeRequest(priority, tenant, min(capacity[tenant], even_share)) for tenant in below_share]
    return wants


def _count(priority: Priority, tenants: set[str], in_memory: TaskCounts, coming: TaskCounts) -> int:
    """Return the number of tenants with intake or tasks at a priority."""
    there = in_memory.tenants(priority)
    return len(there) + sum(tenant not in there for tenant in tenants | coming.tenants(priority))


def choose(runs: Sequence[Run], wants: Sequence[IntakeRequest]) -> list[Run]:
    """Select, in order, the runs whose tasks fit.

    A tenant's first run is always taken, whole, however large it is, and further runs while there is capacity left.
    Other runs stay in intake, and no later run of the tenant overtakes them.
    """
    capacity = {(want.priority, want.tenant): want.runs for want in wants}
    chosen: list[Run] = []
    for run in runs:
        key = (run.priority, run.tenant)
        if capacity.get(key, 0) > 0:
            capacity[key] -= run.task_count
            chosen.append(run)
    return chosen
