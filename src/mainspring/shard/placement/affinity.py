"""Affinity: where the other tasks of a run are, as far as it matters for placement (PLC-2, PLC-3).

    near     where the named tasks started last; anywhere while none of them has
    apart    where the named tasks are now
    local    where its upstream tasks ran
    zones    how many tasks of its run each zone has now

A fan-out stands for all of its members; of many members a few are checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mainspring.core.model.task import Task
from mainspring.core.placement.feasibility import NO_AFFINITY, Affinity
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

_MAX_UPSTREAMS = 8
_MAX_ZONE_TASKS = 64
_MAX_AFFINITY_TASKS = 64


def affinity_of(memory: ShardMemory, task: Task, shape: Shape) -> Affinity:
    """Affinity facts about the other tasks of its run, for a task that is about to be placed."""
    run = memory.runs[task.run_id]
    if run.run.task_count == 1:
        return NO_AFFINITY
    local = tuple(dict.fromkeys(_upstream_workers(run, task)))
    zones = _zones(memory, run)
    if not (shape.run or local or zones):
        return NO_AFFINITY
    return Affinity(
        affinity=_affinity_workers(memory, run, shape),
        anti_affinity=_anti_affinity_workers(run, task, shape),
        local=local,
        zones=zones,
    )


def _affinity_workers(memory: ShardMemory, run: RunMemory, shape: Shape) -> tuple[str, ...] | None:
    """Eligible are those of these workers that are here. If all are gone, the affinity is void."""
    named = (run.tasks[position] for name in shape.affinity for position in run.positions_of(name))
    ran = dict.fromkeys(task.ran_on for task in islice(named, _MAX_AFFINITY_TASKS) if task.ran_on is not None)
    here = tuple(worker for worker in ran if worker in memory.workers)
    if here or memory.shard_time >= memory.scheduler_settings.lost_after_seconds:
        return here or None
    return tuple(ran) or None


def _anti_affinity_workers(run: RunMemory, task: Task, shape: Shape) -> frozenset[str]:
    if not shape.anti_affinity:
        return frozenset()
    held = (other for other in run.live.values() if other is not task and other.name in shape.anti_affinity)
    return frozenset(other.worker_id for other in held if other.worker_id is not None)


def _upstream_workers(run: RunMemory, task: Task) -> Iterator[str]:
    upstream = (member for parent in run.parents(task.position) for member in run.members_at(parent))
    for position in islice(upstream, _MAX_UPSTREAMS):
        if position < len(run.tasks):
            worker = run.tasks[position].ran_on
            if worker is not None:
                yield worker


def _zones(memory: ShardMemory, run: RunMemory) -> dict[str, int]:
    """Empty while no worker of the run has a zone, as in most pools."""
    found: dict[str, int] = {}
    for task in islice(run.live.values(), _MAX_ZONE_TASKS):
        worker = memory.workers.get(task.worker_id or "")
        zone = "" if worker is None else worker.zone
        found[zone] = found.get(zone, 0) + 1
    return found if any(found) else {}
