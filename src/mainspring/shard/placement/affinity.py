"""Where the other tasks of a task's run are, as far as that decides where it may go, or should (PLC-2, PLC-3).

    near     where the tasks that it names started last; while none of them has, anywhere
    apart    where the tasks that it names are now
    local    where what it needs ran
    zones    how many tasks of its run each zone has now

A task that fans out stands for all of its tasks. Of many, a few are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mainspring.core.model.task import Task
from mainspring.core.placement.feasibility import NO_KIN, Kin
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory

_LOCAL_LOOKED_AT = 8
_SPREAD_LOOKED_AT = 64
_NEAR_LOOKED_AT = 64


def kin_of(memory: ShardMemory, task: Task, shape: Shape) -> Kin:
    """What a task that is about to be placed has to know of the others of its run."""
    run = memory.runs[task.run_id]
    if run.run.task_count == 1:
        return NO_KIN
    local = tuple(dict.fromkeys(_local(run, task)))
    zones = _zones(memory, run)
    if not (shape.run or local or zones):
        return NO_KIN
    return Kin(near=_near(memory, run, shape), apart=_apart(run, task, shape), local=local, zones=zones)


def _near(memory: ShardMemory, run: RunMemory, shape: Shape) -> tuple[str, ...] | None:
    """Of those workers one that is here will do. If all are gone, what was to be near is gone with them."""
    named = (run.tasks[place] for name in shape.near for place in run.places(name))
    ran = dict.fromkeys(task.ran_on for task in islice(named, _NEAR_LOOKED_AT) if task.ran_on is not None)
    here = tuple(worker for worker in ran if worker in memory.workers)
    if here or memory.life >= memory.tuning.lost_after_seconds:
        return here or None
    return tuple(ran) or None


def _apart(run: RunMemory, task: Task, shape: Shape) -> frozenset[str]:
    if not shape.apart:
        return frozenset()
    held = (other for other in run.live.values() if other is not task and other.name in shape.apart)
    return frozenset(other.worker_id for other in held if other.worker_id is not None)


def _local(run: RunMemory, task: Task) -> Iterator[str]:
    for parent in islice(_upstream(run, task), _LOCAL_LOOKED_AT):
        if parent < len(run.tasks):
            worker = run.tasks[parent].ran_on
            if worker is not None:
                yield worker


def _upstream(run: RunMemory, task: Task) -> Iterator[int]:
    for parent in run.parents(task.position):
        fan_out = None if run.growth is None else run.growth.fan_outs.get(parent)
        yield from (parent,) if fan_out is None else fan_out.members()


def _zones(memory: ShardMemory, run: RunMemory) -> dict[str, int]:
    """Nothing while no worker of the run has a zone: most fleets have none."""
    found: dict[str, int] = {}
    for task in islice(run.live.values(), _SPREAD_LOOKED_AT):
        zone = memory.workers[task.worker_id].zone if task.worker_id in memory.workers else ""
        found[zone] = found.get(zone, 0) + 1
    return found if any(found) else {}
