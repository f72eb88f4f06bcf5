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

from collections.abc import Container, Iterable, Mapping, Sequence

import msgspec

from mainspring.core.runs import Run
from mainspring.core.tasks import Priority

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


def with_handed(
    in_memory: Mapping[tuple[Priority, str], int], handed: Iterable[Run], adopted: Container[str]
) -> dict[tuple[Priority, str], int]:
    """Tasks that wait in memory, and those of runs on their way there: handed over, and not adopted yet."""
    counts = dict(in_memory)
    for run in handed:
        if run.id not in adopted:
            key = (run.priority, run.tenant)
            counts[key] = counts.get(key, 0) + run.task_count
    return counts


def decide_wants(
    waiting: Sequence[Waiting], in_memory: Mapping[tuple[Priority, str], int], mark: int, chunk: int
) -> list[Want]:
    """What to read from intake now: by priority, those with the least in memory first, each tenant at most once.

    `in_memory` counts the tasks of runs that are adopted which are not over and which no worker holds, those not made
    yet included. `mark` is the high-water mark of each priority but P0, `chunk` bounds what is read of each priority at
    once.
    """
    wants: list[Want] = []
    for priority in Priority:
        tenants = {one.tenant for one in waiting if one.priority is priority}
        if not tenants:
            continue
        filled = _filled(in_memory, priority, tenants)
        part = max(1, mark // len(tenants | filled.keys()))
        room = {
            tenant: chunk if priority in UNMARKED else min(chunk, part - filled.get(tenant, 0)) for tenant in tenants
        }
        hungry = sorted((tenant for tenant in tenants if room[tenant] > 0), key=lambda one: (filled.get(one, 0), one))
        hungry = hungry[:chunk]
        evenly = chunk // len(hungry) if hungry else 0
        wants += [Want(priority, tenant, min(room[tenant], evenly)) for tenant in hungry]
    return wants


def _filled(
    in_memory: Mapping[tuple[Priority, str], int], priority: Priority, tenants: Iterable[str]
) -> dict[str, int]:
    """Who has how much in memory at a priority; without a mark only those that want more matter.

    P0 waits for this: to look through the memory for 10,000 tenants takes 1.3 ms.
    """
    if priority in UNMARKED:
        return {tenant: in_memory.get((priority, tenant), 0) for tenant in tenants}
    return {tenant: tasks for (level, tenant), tasks in in_memory.items() if level is priority and tasks > 0}


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
