"""Which workers of a pool match a task, and what keeps these from taking it now.

Of a large fleet a part is examined. That no worker matches is reported only after a scan of all of them: it costs
0.5 µs a worker (`feasibility.is_feasible`), and is done only if none of the part matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice

import msgspec
from msgspec.structs import replace

from mainspring.core.explain import messages as words
from mainspring.core.explain.unplaced import explain
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources, format_amount, format_amounts, largest_of
from mainspring.core.model.task import Task
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.placement.feasibility import PERMANENT, Affinity, Obstacle, ObstacleKind, is_feasible, obstacles
from mainspring.core.placement.task_shapes import Shape, format_label
from mainspring.core.text.sentences import join_words
from mainspring.shard.placement.affinity import affinity_of
from mainspring.shard.state.memory import ShardMemory

MAX_EXAMINED = 128
SETTLED_SECONDS = 5.0
"""Life of a leader after which its workers have reconnected."""
_UNAVAILABLE = frozenset({ObstacleKind.NOT_READY, ObstacleKind.CORDONED, ObstacleKind.UNCLAIMED})
_CAPACITY = frozenset({ObstacleKind.NO_CAPACITY, ObstacleKind.RESERVED})


class WorkerMatch(msgspec.Struct, frozen=True):
    """A matching worker, and what keeps it from taking the task now."""

    worker: Worker
    kinds: frozenset[ObstacleKind]


class WorkerMatches(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How the workers of a pool match a shape."""

    shape: Shape
    affinity: Affinity
    matches: tuple[WorkerMatch, ...]
    """Matching workers, or some of them."""
    is_all: bool
    """There are no others that match and accept tasks."""
    same_kind: tuple[Worker, ...]
    """If none of the first examined matches: workers that match apart from size."""
    why: str
    """Why no worker takes it, in one sentence."""

    def all_unavailable(self) -> bool:
        """Return whether all matching workers are unavailable: cordoned or silent."""
        return bool(self.matches) and all(matched.kinds & _UNAVAILABLE for matched in self.matches)

    def available(self) -> Iterator[WorkerMatch]:
        """Matching workers that accept tasks."""
        return (matched for matched in self.matches if not matched.kinds & _UNAVAILABLE)

    def reserving(self) -> list[Worker]:
        """Workers with free capacity that is reserved for others."""
        return [matched.worker for matched in self.available() if matched.kinds == {ObstacleKind.RESERVED}]

    def lacking_capacity(self) -> list[Worker]:
        """Workers that lack only capacity."""
        return [matched.worker for matched in self.available() if matched.kinds <= _CAPACITY]

    @cached_property
    def free(self) -> Resources:
        """Total free capacity of these. Cached, as many queues ask."""
        free = (largest_of((worker.free, ZERO_RESOURCES)) for worker in self.lacking_capacity())
        return sum(free, start=ZERO_RESOURCES)

    def most_free(self) -> Resources:
        """The most of each resource that is free on one of them."""
        return largest_of((ZERO_RESOURCES, *(worker.free for worker in self.lacking_capacity())))


def match_workers(memory: ShardMemory, task: Task, shape: Shape) -> WorkerMatches:
    """Match the workers of a pool with a queued task."""
    affinity, zones = affinity_of(memory, task, shape), memory.limits.zones
    workers = _some(memory)
    found = [obstacles(shape, worker, affinity, task.id, zones) for worker in workers]
    why = explain(shape, found, _free_on(workers, found))
    is_all = len(workers) == len(memory.workers)
    matches = [matched for matched in map(WorkerMatch, workers, map(_kinds, found)) if not matched.kinds & PERMANENT]
    same_kind = () if matches else tuple(_same_kind(memory, shape, affinity))
    if not is_all and all(matched.kinds & _UNAVAILABLE for matched in matches):
        fits = (one for one in same_kind or memory.workers.open.all if is_feasible(shape, one, affinity, zones))
        others = list(islice(fits, MAX_EXAMINED))
        matches = [
            WorkerMatch(one, _kinds(obstacles(shape, one, affinity, task.id, zones))) for one in others
        ] or matches
        is_all = 0 < len(others) < MAX_EXAMINED
    return WorkerMatches(
        shape=shape, affinity=affinity, matches=tuple(matches), is_all=is_all, same_kind=same_kind, why=why
    )


def _same_kind(memory: ShardMemory, shape: Shape, affinity: Affinity) -> Iterator[Worker]:
    """Workers that match apart from size; without devices a worker is of another kind."""
    bare, needs_gpu = replace(shape, resources=ZERO_RESOURCES), shape.resources.gpus > 0
    for worker in memory.workers.values():
        if is_feasible(bare, worker, affinity, memory.limits.zones) and (worker.total.gpus or not needs_gpu):
            yield worker


def _some(memory: ShardMemory) -> list[Worker]:
    """Return all workers, or an even sample of many."""
    step = -(-len(memory.workers) // MAX_EXAMINED)
    return list(islice(memory.workers.values(), 0, None, max(1, step)))


def _kinds(found: Sequence[Obstacle]) -> frozenset[ObstacleKind]:
    return frozenset(one.kind for one in found)


def _free_on(workers: Sequence[Worker], found: Sequence[Sequence[Obstacle]]) -> Resources:
    """Total free capacity of the workers that lack only capacity."""
    free = ZERO_RESOURCES
    for worker, obstacles_found in zip(workers, found, strict=True):
        if all(one.kind is ObstacleKind.NO_CAPACITY for one in obstacles_found) and not worker.free.is_negative():
            free += worker.free
    return free


# without a match


def may_still_come(memory: ShardMemory) -> bool:
    """Return whether there may be workers that have not reported to this leader yet."""
    is_young = memory.shard_time < SETTLED_SECONDS
    return is_young or any(one.status is WorkerStatus.EXPECTED for one in memory.workers.values())


def arrival(memory: ShardMemory, shape: Shape, now: datetime) -> str:
    """Return why a matching worker may come though none is here, in words; empty if none is known.

    Affinity does not count: it may differ by then.
    """
    gone = memory.workers.recent.recent(now)
    last = next((one for one in gone if is_feasible(shape, one.worker, zones=memory.limits.zones)), None)
    if last is not None:
        return words.offered_until(last.worker.id, last.until, now)
    has_refused = any(shape in worker.refused for worker in memory.workers.values())
    return words.MAY_COME_BACK if has_refused or may_still_come(memory) else ""


def lacks(memory: ShardMemory, context: WorkerMatches) -> tuple[str, str]:
    """The constraints that no worker meets, and similar values that exist, in words."""
    shape, workers = context.shape, list(memory.workers.values())
    missing, similar = [], []
    for key, value in shape.labels:
        values = Counter(worker.labels[key] for worker in workers if key in worker.labels)
        if not values or (value and value not in values):
            missing.append(format_label(key, value))
            similar += [
                f"{count:,} {'has' if count == 1 else 'have'} {format_label(key, other)}"
                for other, count in values.most_common(3)
            ]
    zones = Counter(worker.zone for worker in workers)
    if shape.zone is not None and shape.zone not in zones:
        missing.append(f"zone {shape.zone}")
        similar += [f"{count:,} in {zone or 'no zone'}" for zone, count in zones.most_common(3)]
    if shape.resources.gpus and not any(worker.total.gpus for worker in workers):
        missing.append(format_amount("gpus", shape.resources.gpus))
    return join_words(missing), ", ".join(similar)


def format_constraints(shape: Shape) -> str:
    """Labels, zone and devices, in words."""
    asked = [format_label(key, value) for key, value in shape.labels]
    asked += [f"zone {shape.zone}"] if shape.zone is not None else []
    asked += [format_amount("gpus", shape.resources.gpus)] if shape.resources.gpus else []
    asked += [f"the worker of {', '.join(shape.affinity)}"] if shape.affinity else []
    return join_words(asked or format_amounts(shape.resources))


def is_too_big(context: WorkerMatches) -> bool:
    """Return whether workers match apart from size, and none is large enough."""
    totals = {worker.total for worker in context.same_kind}
    return bool(totals) and not any(context.shape.resources.fits(total) for total in totals)


def shortage(context: WorkerMatches) -> tuple[str, str] | None:
    """The resource that no worker has enough of: what is needed, and the most that one has; None: none alone."""
    wanted, totals = context.shape.resources, {worker.total for worker in context.same_kind}
    for name in NAMES:
        most = max(getattr(total, name) for total in totals)
        if getattr(wanted, name) > most:
            return format_amount(name, getattr(wanted, name)), format_amount(name, most)
    return None
