"""Feasibility and scoring of workers for a task (PLC-1, PLC-2, PLC-3).

`obstacles` alone knows what stands between a shape and a worker. Placement checks that it is empty, diagnosis prints
it: they can't disagree. If you add a constraint, add it to `Shape`, here, and to the messages of diagnosis.

Among feasible workers, `score` ranks them by a sum of these, each between 0 and 1 times its weight:

    locality    1 on a worker where an upstream of it ran, 0.5 in the zone of one
    preferred   the fraction of its preferred labels and zone that the worker has
    tightness   1 less what would be left of the worker, so that large gaps stay for large tasks; also counts how
                unevenly cores and memory would be left, since one is no use without the other
    spread      1 less the fraction of its run's tasks that are in the zone
    load        1 on a worker without leases, less the more there are for each core

P0 and P1 sample the workers that they prefer, so that they start soon. P2 takes workers with little free capacity,
wherever they are, so that it fills gaps. As long as one worker is feasible, one is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.model.resources import NAMES, Resources
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.placement.capacity_cells import SAMPLE, Group, Lean, Pair
from mainspring.core.placement.shortlists import Shortlist
from mainspring.core.placement.task_shapes import Shape, say_label
from mainspring.core.placement.worker_index import OpenWorkers

LOCALITY = 2.0
PREFERRED = 1.5
TIGHTNESS = 1.0
SPREAD = 0.5
LOAD = 0.1
_UNEVEN, _UNUSED = 1.0, 0.2
"""Penalties on what is left: the imbalance between cores and memory, and starting to use an idle worker. In
`benchmarks.placement` the first gains 2 % of utilisation, and the second keeps tasks from spreading over more workers.
"""
_TIGHT = 16
"""Workers that P2 compares. In `benchmarks.placement` 32 take twice as long for 0.5 % fewer workers."""
_ALIKE = 5
"""Consecutive workers with the same capacity after which P2 stops comparing: one more than `Group.walk` gives of a size
before it moves on to the next. In a uniform fleet, comparing more of them tells nothing.
"""
_GROUPS = 4
"""How many preference groups are sampled."""
_LOCAL = 16
"""How many of its upstreams' workers are compared."""


class Hindrance(StrEnum):
    """Kinds of obstacles."""

    NOT_READY = "not_ready"
    HELD = "held"
    """The worker is cordoned, draining or leaving: it takes nothing new."""
    UNCLAIMED = "unclaimed"
    """The worker claims its work, and has no open claim."""
    LABEL = "label"
    ZONE = "zone"
    OUTSIDE = "outside"
    """The worker is in a zone that the pool does not allow."""
    TOO_BIG = "too_big"
    """The task does not fit the worker even when it is idle."""
    NO_ROOM = "no_room"
    KEPT = "kept"
    """There is capacity, but it is reserved for another task."""
    NEAR = "near"
    """Affinity: the task must run where another of its run is."""
    APART = "apart"
    """Anti-affinity: the task must not run where another of its run is."""
    REFUSED = "refused"
    """The worker reported that it can't run such a task."""


LASTING = frozenset(
    {Hindrance.LABEL, Hindrance.ZONE, Hindrance.OUTSIDE, Hindrance.TOO_BIG, Hindrance.NEAR, Hindrance.REFUSED}
)
"""Obstacles that don't pass: `would_do` is false for a worker with one of these, and for no other."""


class Obstacle(msgspec.Struct, frozen=True, gc=False):
    """One reason why a worker can't take a task now."""

    kind: Hindrance
    detail: str


class Kin(msgspec.Struct, frozen=True, kw_only=True):
    """Affinity of a task: where the relevant other tasks of its run are."""

    near: tuple[str, ...] | None = None
    """The only workers allowed; None: any."""
    apart: frozenset[str] = frozenset()
    """Workers that are not allowed."""
    local: tuple[str, ...] = ()
    """Workers where its upstreams ran. Only a few of many are used: then they are everywhere."""
    zones: dict[str, int] = {}
    """Number of tasks of its run in each zone."""


NO_KIN = Kin()


def obstacles(
    shape: Shape, worker: Worker, kin: Kin = NO_KIN, task_id: str = "", zones: tuple[str, ...] = ()
) -> list[Obstacle]:
    """Why `worker` can't take a task of this shape now; empty if it can.

    `task_id` is the task whose reservation counts as free; `zones` are those of the pool, empty for any.
    """
    found: list[Obstacle] = []
    if worker.status is not WorkerStatus.READY:
        found.append(Obstacle(Hindrance.NOT_READY, f"{worker.id} is {worker.status}"))
    if not worker.takes_new():
        found.extend(_why_nothing_new(worker))
    for key, value in shape.labels:
        if not _has_label(worker, key, value):
            found.append(Obstacle(Hindrance.LABEL, f"{worker.id} has no label {say_label(key, value)}"))
    if shape.zone is not None and shape.zone != worker.zone:
        found.append(Obstacle(Hindrance.ZONE, f"{worker.id} is in zone {worker.zone or 'none'}, not {shape.zone}"))
    if zones and worker.zone not in zones:
        detail = f"{worker.id} is in zone {worker.zone or 'none'}, which is not one of the pool's"
        found.append(Obstacle(Hindrance.OUTSIDE, detail))
    if kin.near is not None and worker.id not in kin.near:
        found.append(Obstacle(Hindrance.NEAR, f"{worker.id} is not where {', '.join(shape.near)} ran"))
    if worker.id in kin.apart:
        found.append(Obstacle(Hindrance.APART, f"{worker.id} runs {', '.join(shape.apart)} of the same run"))
    if worker.refused and shape in worker.refused:
        found.append(Obstacle(Hindrance.REFUSED, f"{worker.id} refused such a task"))
    free = worker.free_for(task_id)
    if not shape.resources.fits(free):
        found.extend(_shortages(shape.resources, worker, free))
    return found


def would_do(shape: Shape, worker: Worker, kin: Kin = NO_KIN, zones: tuple[str, ...] = ()) -> bool:
    """Whether `obstacles` has nothing `LASTING`: the worker would take such a task if it were ready and had capacity.

    For scans of a large fleet: a third of the cost of the list of obstacles.
    """
    for key, value in shape.labels:
        if not _has_label(worker, key, value):
            return False
    if (shape.zone is not None and shape.zone != worker.zone) or (zones and worker.zone not in zones):
        return False
    if (kin.near is not None and worker.id not in kin.near) or (worker.refused and shape in worker.refused):
        return False
    return shape.resources.fits(worker.total)


def choose(
    shape: Shape,
    open_workers: OpenWorkers,
    random: Random,
    *,
    priority: Priority,
    kin: Kin = NO_KIN,
    task_id: str = "",
    zones: tuple[str, ...] = (),
    shortlists: dict[Shape, Shortlist] | None = None,
) -> Worker | None:
    """Choose the worker for a task of this shape; None if none is feasible: then the shape is parked.

    1. The worker with a reservation for the task, if the capacity is free by now.
    2. With affinity to certain workers, the best of those; in a fleet no larger than a sample, the best of all.
    3. Else the best of its upstreams' workers, of those with a rare preferred label, and of a sample of the preferred
       groups, or, for P2 or if the sample has none, of workers with little free capacity.

    P2 without affinity takes the best of the workers found for its shape before, if they are among `shortlists`; else
    they are added.
    """

    def will_do(worker: Worker) -> bool:
        return not obstacles(shape, worker, kin, task_id, zones)

    keeper = open_workers.keeper(task_id) if task_id else None
    if keeper is not None and will_do(keeper):
        return keeper
    if kin.near is not None:
        return _best(shape, list(filter(will_do, _known(kin.near, open_workers))), kin, ())
    if shortlists is not None and priority is Priority.P2 and kin is NO_KIN:
        listed = shortlists[shape].best(will_do) if shape in shortlists else None
        if listed is None:
            found = _found(shape, open_workers, random, priority, kin, (), zones, will_do)
            shortlists[shape] = Shortlist(found, lambda worker: score(shape, worker))
            listed = shortlists[shape].best(will_do)
        return listed
    if len(kin.local) > _LOCAL:
        kin = replace(kin, local=kin.local[:_LOCAL])
    local = _zones_of(kin.local, open_workers) if kin.local else ()
    return _best(shape, _found(shape, open_workers, random, priority, kin, local, zones, will_do), kin, local)


def _found(
    shape: Shape, open_workers: OpenWorkers, random: Random, priority: Priority, kin: Kin, local: tuple[str, ...],
    zones: tuple[str, ...], will_do: Callable[[Worker], bool],
) -> list[Worker]:  # fmt: skip
    """Feasible workers to compare: all of a small fleet, some of a large one."""
    if len(open_workers.all) <= SAMPLE:
        return list(filter(will_do, open_workers.all))
    wanted = shape.resources
    found = list(filter(will_do, _known(kin.local, open_workers)))
    for group in filter(None, map(open_workers.rare, shape.prefer)):
        found += islice(filter(will_do, group.walk(wanted, random)), SAMPLE)
    groups = open_workers.groups(shape.labels, shape.zone, zones, _lean(shape, kin, local))
    if priority is not Priority.P2:
        found += _first(groups, SAMPLE, lambda group: filter(will_do, group.sample(wanted, random)))
    if priority is Priority.P2 or not found:
        found += _first(groups, _TIGHT, lambda group: _varied(filter(will_do, group.walk(wanted, random))))
    return found


def _known(ids: Iterable[str], open_workers: OpenWorkers) -> Iterator[Worker]:
    """Those of these workers that are in the index."""
    return (worker for worker in map(open_workers.get, ids) if worker is not None)


def score(shape: Shape, worker: Worker, kin: Kin = NO_KIN, local: tuple[str, ...] = ()) -> float:
    """Score a feasible worker for a task; `local` are the zones where its upstreams ran."""
    value = TIGHTNESS * _tightness(shape.resources, worker) + LOAD * _ease(worker)
    if kin is NO_KIN and not local and not shape.prefer and shape.prefer_zone is None:
        return value
    if worker.id in kin.local:
        value += LOCALITY / 2
    return value + _liking(shape, kin, local, worker.zone, lambda key, value: _has_label(worker, key, value))


def score_of(shape: Shape, worker: Worker, open_workers: OpenWorkers, kin: Kin = NO_KIN) -> float:
    """The score by which `choose` compares a worker with others."""
    kin = replace(kin, local=kin.local[:_LOCAL]) if kin.local else kin
    return score(shape, worker, kin, () if kin.near is not None else _zones_of(kin.local, open_workers))


def _zones_of(names: Iterable[str], open_workers: OpenWorkers) -> tuple[str, ...]:
    """The zones of those workers that are in the index, each once."""
    return tuple(dict.fromkeys(worker.zone for worker in _known(names, open_workers)))


def _best(shape: Shape, workers: Sequence[Worker], kin: Kin, local: tuple[str, ...]) -> Worker | None:
    if len(workers) <= 1:
        return workers[0] if workers else None
    return max(workers, key=lambda worker: score(shape, worker, kin, local))


def _first(groups: Sequence[Group], most: int, look: Callable[[Group], Iterable[Worker]]) -> list[Worker]:
    """Workers of the first groups that have any, `most` in all."""
    found: list[Worker] = []
    heard, heard_most = 0, min(len(groups), _GROUPS)
    for group in groups:
        some = list(islice(look(group), most // heard_most))
        if some:
            found += some
            heard += 1
            if heard == heard_most:
                break
    return found


def _varied(workers: Iterable[Worker]) -> Iterator[Worker]:
    """Yield workers until too many consecutive ones are alike."""
    total = used = None
    alike = 0
    for worker in workers:
        alike = alike + 1 if worker.used == used and worker.total == total else 1
        total, used = worker.total, worker.used
        yield worker
        if alike == _ALIKE:
            return


def _lean(shape: Shape, kin: Kin, local: tuple[str, ...]) -> Lean | None:
    """The task's preferences of zones and labels; None if it has none."""
    if not (shape.prefer or shape.prefer_zone is not None or local or kin.zones):
        return None

    def lean(zone: str, pairs: Mapping[Pair, None]) -> float:
        return _liking(shape, kin, local, zone, lambda key, value: (key, value) in pairs)

    return lean


def _liking(shape: Shape, kin: Kin, local: tuple[str, ...], zone: str, has_label: Callable[[str, str], bool]) -> float:
    """The part of the score that depends on zone and labels."""
    liking = LOCALITY / 2 if zone in local else 0.0
    wishes = len(shape.prefer) + (shape.prefer_zone is not None)
    if wishes:
        granted = sum(has_label(key, value) for key, value in shape.prefer) + (shape.prefer_zone == zone)
        liking += PREFERRED * granted / wishes
    if kin.zones:
        liking += SPREAD * (1 - kin.zones.get(zone, 0) / max(1, sum(kin.zones.values())))
    return liking


def _tightness(wanted: Resources, worker: Worker) -> float:
    """1 less what would be left of the worker, the imbalance, and whether it is idle.

    Written out: a call for each part costs as much as all the rest, for each worker that is compared.
    """
    total, used = worker.total, worker.used
    cores = memory = gpus = disk = 0.0
    if total.cpu_millis:
        cores = (total.cpu_millis - used.cpu_millis - wanted.cpu_millis) / total.cpu_millis
    if total.memory_bytes:
        memory = (total.memory_bytes - used.memory_bytes - wanted.memory_bytes) / total.memory_bytes
    if total.gpus:
        gpus = (total.gpus - used.gpus - wanted.gpus) / total.gpus
    if total.disk_bytes:
        disk = (total.disk_bytes - used.disk_bytes - wanted.disk_bytes) / total.disk_bytes
    left = (cores + memory + gpus + disk) / 4
    return 1 - (left + _UNEVEN * abs(cores - memory) + (0 if used.cpu_millis else _UNUSED)) / (1 + _UNEVEN + _UNUSED)


def _ease(worker: Worker) -> float:
    leases = len(worker.leases)
    return 1 / (1 + leases * 1_000 / (worker.total.cpu_millis or 1)) if leases else 1.0


def _has_label(worker: Worker, key: str, value: str) -> bool:
    return worker.labels.get(key) == value if value else key in worker.labels


def _why_nothing_new(worker: Worker) -> list[Obstacle]:
    found = []
    if worker.hold or worker.leaving:
        held = f"{worker.hold} ({worker.hold_why})" if worker.hold else "leaving"
        found.append(Obstacle(Hindrance.HELD, f"{worker.id} is {held}"))
    if worker.wants == 0:
        found.append(Obstacle(Hindrance.UNCLAIMED, f"{worker.id} has no claim open"))
    return found


def _shortages(wanted: Resources, worker: Worker, free: Resources) -> list[Obstacle]:
    found = []
    unused = worker.total - worker.used
    for name in NAMES:
        needs, has, left = getattr(wanted, name), getattr(worker.total, name), getattr(unused, name)
        if needs > has:
            found.append(Obstacle(Hindrance.TOO_BIG, f"{worker.id} has {has} {name} in total, {needs} needed"))
        elif needs > left:
            found.append(Obstacle(Hindrance.NO_ROOM, f"{worker.id} has {left} {name} free, {needs} needed"))
        elif needs > getattr(free, name):
            detail = f"{worker.id} has {left} {name} free, but reserved for other tasks; {needs} needed"
            found.append(Obstacle(Hindrance.KEPT, detail))
    return found
