"""How much waiting work a shard takes into memory, and whose (DESIGN, "From submission to result").

Runs wait in the store until there is room for their tasks. For each priority there is a high-water mark of tasks that
wait in memory, and a tenant may fill only its part of it: the mark divided by the tenants that have intake or work
waiting in memory at that priority. So a flood, and work that can't run, crowd out nobody else's, and a shard's memory
stays bounded: what workers hold does not count, but the fleet bounds that.

1. P0 has no mark: whatever waits is wanted.
2. A tenant that has less in memory than its part, and intake, gets something: in this read, or if more than `chunk`
   tenants want, once those that have less in memory have got theirs.
3. Nobody is given more than its part, and nothing is taken back: a run that is begun is adopted whole, so a tenant may
   exceed its part by one run less a task, and a tenant that comes late finds its part on top of what others filled
   before it came. With n tenants that came one after another the sum is at most the mark times 1 + 1/2 + ... + 1/n.
4. The most important priority comes first, and each has a chunk of its own: a trickle of P0 does not stop P2's intake.
   What runs first is not decided here.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from collections.abc import Set as AbstractSet

import msgspec

from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority

UNMARKED = frozenset({Priority.P0})
"""Priorities whose intake is not held back by the memory they fill."""


class Waiting(msgspec.Struct, frozen=True, order=True):
    """There is intake of this tenant at this priority."""

    priority: Priority
    tenant: str


class Want(msgspec.Struct, frozen=True):
    """How much intake of a tenant is wanted."""

    priority: Priority
    tenant: str
    runs: int
    """At most so many runs, as a run has at least a task: `choose` cuts them to so many tasks."""


class Filled:
    """How many tasks of each tenant wait in memory at each priority, or are on their way there."""

    def __init__(self) -> None:
        self._levels: dict[Priority, dict[str, int]] = {priority: {} for priority in Priority}

    def count(self, priority: Priority, tenant: str, by: int) -> None:
        """So many more, or fewer, tasks of this tenant wait."""
        level = self._levels[priority]
        left = level.get(tenant, 0) + by
        if left:
            level[tenant] = left
        else:
            level.pop(tenant, None)

    def of(self, priority: Priority, tenant: str) -> int:
        """How many tasks of a tenant wait."""
        return self._levels[priority].get(tenant, 0)

    def tenants(self, priority: Priority) -> AbstractSet[str]:
        """Those that have tasks waiting at a priority."""
        return self._levels[priority].keys()

    def as_counts(self) -> dict[tuple[Priority, str], int]:
        """The same by priority and tenant."""
        return {
            (priority, tenant): tasks for priority, level in self._levels.items() for tenant, tasks in level.items()
        }


def on_their_way(handed: Iterable[Run], adopted: Container[str]) -> Filled:
    """The tasks of runs that were handed over, and are not adopted yet."""
    found = Filled()
    for run in handed:
        if run.id not in adopted:
            found.count(run.priority, run.tenant, run.task_count)
    return found


def decide_wants(waiting: Sequence[Waiting], in_memory: Filled, coming: Filled, mark: int, chunk: int) -> list[Want]:
    """What to read from intake now: by priority, those with the least in memory first, each tenant at most once.

    `in_memory` counts the tasks of runs that are adopted which are not over and which no worker holds, those not made
    yet included; `coming` those on their way there. `mark` is the high-water mark of each priority but P0, `chunk`
    bounds what is read of each priority at once.

    P0 waits for this: it costs nothing for tenants in memory that want no more, of which there may be thousands.
    """
    wants: list[Want] = []
    for priority in Priority:
        tenants = {one.tenant for one in waiting if one.priority is priority}
        if not tenants:
            continue
        filled = {tenant: in_memory.of(priority, tenant) + coming.of(priority, tenant) for tenant in tenants}
        part = max(1, mark // _count(priority, tenants, in_memory, coming))
        room = {tenant: chunk if priority in UNMARKED else min(chunk, part - filled[tenant]) for tenant in tenants}
        hungry = sorted((tenant for tenant in tenants if room[tenant] > 0), key=lambda one: (filled[one], one))
        hungry = hungry[:chunk]
        evenly = chunk // len(hungry) if hungry else 0
        wants += [Want(priority, tenant, min(room[tenant], evenly)) for tenant in hungry]
    return wants


def _count(priority: Priority, tenants: set[str], in_memory: Filled, coming: Filled) -> int:
    """How many tenants want something at a priority, or have it in memory, or are to have it there."""
    there = in_memory.tenants(priority)
    return len(there) + sum(tenant not in there for tenant in tenants | coming.tenants(priority))


def choose(runs: Sequence[Run], wants: Sequence[Want]) -> list[Run]:
    """Of the runs that were read, in their order, those whose tasks there is room for.

    A tenant's first run is always taken, whole, however large it is, and the next one while there is room left. What is
    not chosen stays in intake, and none of that tenant's later runs overtakes it.
    """
    room = {(want.priority, want.tenant): want.runs for want in wants}
    chosen: list[Run] = []
    for run in runs:
        key = (run.priority, run.tenant)
        if room.get(key, 0) > 0:
            room[key] -= run.task_count
            chosen.append(run)
    return chosen
