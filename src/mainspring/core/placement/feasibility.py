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
from mainspring.core.placement.capacity_cells import SAMPLE, Group, Pair, Preference
from mainspring.core.placement.task_shapes import Shape, format_label
from mainspring.core.placement.worker_index import OpenWorkers

LOCALITY = 2.0
PREFERRED = 1.5
TIGHTNESS = 1.0
SPREAD = 0.5
LOAD = 0.1
_IMBALANCE, _UNUSED = 1.0, 0.2
"""Penalties on what is left: the imbalance between cores and memory, and starting to use an idle worker. In
`benchmarks.placement` the first gains 2 % of utilization, and the second keeps tasks from spreading over more workers.
"""
_MAX_TIGHT = 16
"""Workers that P2 compares. In `benchmarks.placement` 32 take twice as long for 0.5 % fewer workers."""
_MAX_SIMILAR = 5
"""Consecutive workers with the same capacity after which P2 stops comparing: one more than `Group.walk` gives of a size
before it moves on to the next. In a uniform fleet, comparing more of them tells nothing.
"""
_MAX_GROUPS = 4
"""How many preference groups are sampled."""
_MAX_LOCAL = 16
"""How many of its upstreams' workers are compared."""
MAX_USES = 8
"""Tasks after which the search is repeated: other workers may fit better by then. In `benchmarks.placement` 16 need 2 %
more workers, and 4 search nearly twice as often.
"""


class ObstacleKind(StrEnum):
    """Kinds of obstacles."""

    NOT_READY = "not_ready"
    CORDONED = "cordoned"
    """The worker is cordoned, draining or leaving: it takes nothing new."""
    UNCLAIMED = "unclaimed"
    """The worker claims its work, and has no open claim."""
    LABEL = "label"
    ZONE = "zone"
    ZONE_NOT_ALLOWED = "zone_not_allowed"
    """The worker is in a zone that the pool does not allow."""
    TOO_BIG = "too_big"
    """The task does not fit the worker even when it is idle."""
    NO_CAPACITY = "no_capacity"
    RESERVED = "reserved"
    """There is capacity, but it is reserved for another task."""
    AFFINITY = "affinity"
    """Affinity: the task must run where another of its run is."""
    ANTI_AFFINITY = "anti_affinity"
    """Anti-affinity: the task must not run where another of its run is."""
    REFUSED = "refused"
    """The worker reported that it can't run such a task."""


H = ObstacleKind
PERMANENT = frozenset({H.LABEL, H.ZONE, H.ZONE_NOT_ALLOWED, H.TOO_BIG, H.AFFINITY, H.REFUSED})
"""Obstacles that don't pass: `is_feasible` is false for a worker with one of these, and for no other."""


class Obstacle(msgspec.Struct, frozen=True, gc=False):
    """One reason why a worker can't take a task now."""

    kind: ObstacleKind
    detail: str


class Affinity(msgspec.Struct, frozen=True, kw_only=True):
    """Affinity of a task: where the relevant other tasks of its run are."""

    affinity: tuple[str, ...] | None = None
    """The only workers allowed; None: any."""
    anti_affinity: frozenset[str] = frozenset()
    """Workers that are not allowed."""
    local: tuple[str, ...] = ()
    """Workers where its upstreams ran. Only a few of many are used: then they are everywhere."""
    zones: dict[str, int] = {}
    """Number of tasks of its run in each zone."""


NO_AFFINITY = Affinity()


class Shortlist:
    """Workers found by one search for a shape, reused for the next tasks of that shape, until used often enough.

    A search in a large fleet costs ten times what it costs to compare its results again, and most turns place many
    tasks of few shapes. Workers are compared in their current state.
    """

    def __init__(self, workers: Sequence[Worker], score: Callable[[Worker], float]) -> None:
        self._score = score
        self._entries = [_Entry(worker, score(worker)) for worker in workers]
        self._left = MAX_USES

    def best(self, can_take: Callable[[Worker], bool]) -> Worker | None:
        """Return the best that is still feasible; None if a new search is due."""
        while self._entries and self._left:
            best = self._entries[0]
            for entry in self._entries:
                if entry.used is not entry.worker.used:
                    entry.used, entry.score = entry.worker.used, self._score(entry.worker)
                if entry.score > best.score:
                    best = entry
            if can_take(best.worker):
                self._left -= 1
                return best.worker
            self._entries.remove(best)
        return None


class _Entry:
    """A worker with its score, and its usage then: another object after each change."""

    __slots__ = ("score", "used", "worker")

    def __init__(self, worker: Worker, score: float) -> None:
        self.worker = worker
        self.score = score
        self.used: Resources = worker.used


def obstacles(
    shape: Shape, worker: Worker, affinity: Affinity = NO_AFFINITY, task_id: str = "", zones: tuple[str, ...] = ()
) -> list[Obstacle]:
    """Return why `worker` can't take a task of this shape now; empty if it can.

    `task_id` is the task whose reservation counts as free; `zones` are those of the pool, empty for any.
    """
    found: list[Obstacle] = []
    if worker.status is not WorkerStatus.READY:
        found.append(Obstacle(H.NOT_READY, f"{worker.id} is {worker.status}"))
    if not worker.accepts_work():
        found.extend(_why_not_accepting(worker))
    for key, value in shape.labels:
        if not _has_label(worker, key, value):
            found.append(Obstacle(H.LABEL, f"{worker.id} has no label {format_label(key, value)}"))
    if shape.zone is not None and shape.zone != worker.zone:
        found.append(Obstacle(H.ZONE, f"{worker.id} is in zone {worker.zone or 'none'}, not {shape.zone}"))
    if zones and worker.zone not in zones:
        detail = f"{worker.id} is in zone {worker.zone or 'none'}, which is not one of the pool's"
        found.append(Obstacle(H.ZONE_NOT_ALLOWED, detail))
    if affinity.affinity is not None and worker.id not in affinity.affinity:
        found.append(Obstacle(H.AFFINITY, f"{worker.id} is not where {', '.join(shape.affinity)} ran"))
    if worker.id in affinity.anti_affinity:
        found.append(Obstacle(H.ANTI_AFFINITY, f"{worker.id} runs {', '.join(shape.anti_affinity)} of the same run"))
    if worker.refused and shape in worker.refused:
        found.append(Obstacle(H.REFUSED, f"{worker.id} refused such a task"))
    free = worker.free_for(task_id)
    if not shape.resources.fits(free):
        found.extend(_shortages(shape.resources, worker, free))
    return found


def is_feasible(shape: Shape, worker: Worker, affinity: Affinity = NO_AFFINITY, zones: tuple[str, ...] = ()) -> bool:
    """Whether `obstacles` has nothing `PERMANENT`: the worker would take such a task if it were ready and had capacity.

    For scans of a large fleet: a third of the cost of the list of obstacles.
    """
    for key, value in shape.labels:
        if not _has_label(worker, key, value):
            return False
    if (shape.zone is not None and shape.zone != worker.zone) or (zones and worker.zone not in zones):
        return False
    if (affinity.affinity is not None and worker.id not in affinity.affinity) or (
        worker.refused and shape in worker.refused
    ):
        return False
    return shape.resources.fits(worker.total)


def choose(
    shape: Shape,
    open_workers: OpenWorkers,
    random: Random,
    *,
    priority: Priority,
    affinity: Affinity = NO_AFFINITY,
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

    def can_take(worker: Worker) -> bool:
        return not obstacles(shape, worker, affinity, task_id, zones)

    reserving_worker = open_workers.reserving_worker(task_id) if task_id else None
    if reserving_worker is not None and can_take(reserving_worker):
        return reserving_worker
    if affinity.affinity is not None:
        return _best(shape, list(filter(can_take, _present(affinity.affinity, open_workers))), affinity, ())
    if shortlists is not None and priority is Priority.P2 and affinity is NO_AFFINITY:
        listed = shortlists[shape].best(can_take) if shape in shortlists else None
        if listed is None:
            found = _candidates(shape, open_workers, random, priority, affinity, (), zones, can_take)
            shortlists[shape] = Shortlist(found, lambda worker: score(shape, worker))
            listed = shortlists[shape].best(can_take)
        return listed
    if len(affinity.local) > _MAX_LOCAL:
        affinity = replace(affinity, local=affinity.local[:_MAX_LOCAL])
    local = _zones_of(affinity.local, open_workers) if affinity.local else ()
    found = _candidates(shape, open_workers, random, priority, affinity, local, zones, can_take)
    return _best(shape, found, affinity, local)


def _candidates(
    shape: Shape, open_workers: OpenWorkers, random: Random, priority: Priority, affinity: Affinity,
    local: tuple[str, ...],
    zones: tuple[str, ...], can_take: Callable[[Worker], bool],
) -> list[Worker]:  # fmt: skip
    """Feasible workers to compare: all of a small fleet, some of a large one."""
    if len(open_workers.all) <= SAMPLE:
        return list(filter(can_take, open_workers.all))
    wanted = shape.resources
    found = list(filter(can_take, _present(affinity.local, open_workers)))
    for group in filter(None, map(open_workers.rare, shape.prefer)):
        found += islice(filter(can_take, group.walk(wanted, random)), SAMPLE)
    groups = open_workers.groups(shape.labels, shape.zone, zones, _preference(shape, affinity, local))
    if priority is not Priority.P2:
        found += _from_first_groups(groups, SAMPLE, lambda group: filter(can_take, group.sample(wanted, random)))
    if priority is Priority.P2 or not found:
        found += _from_first_groups(
            groups, _MAX_TIGHT, lambda group: _varied(filter(can_take, group.walk(wanted, random)))
        )
    return found


def _present(ids: Iterable[str], open_workers: OpenWorkers) -> Iterator[Worker]:
    """Filter the workers that are in the index."""
    return (worker for worker in map(open_workers.get, ids) if worker is not None)


def score(shape: Shape, worker: Worker, affinity: Affinity = NO_AFFINITY, local: tuple[str, ...] = ()) -> float:
    """Score a feasible worker for a task; `local` are the zones where its upstreams ran."""
    value = TIGHTNESS * _tightness(shape.resources, worker) + LOAD * _load_score(worker)
    if affinity is NO_AFFINITY and not local and not shape.prefer and shape.prefer_zone is None:
        return value
    if worker.id in affinity.local:
        value += LOCALITY / 2
    return value + _preference_score(
        shape, affinity, local, worker.zone, lambda key, value: _has_label(worker, key, value)
    )


def score_of(shape: Shape, worker: Worker, open_workers: OpenWorkers, affinity: Affinity = NO_AFFINITY) -> float:
    """The score by which `choose` compares a worker with others."""
    affinity = replace(affinity, local=affinity.local[:_MAX_LOCAL]) if affinity.local else affinity
    local = () if affinity.affinity is not None else _zones_of(affinity.local, open_workers)
    return score(shape, worker, affinity, local)


def _zones_of(names: Iterable[str], open_workers: OpenWorkers) -> tuple[str, ...]:
    """The zones of those workers that are in the index, each once."""
    return tuple(dict.fromkeys(worker.zone for worker in _present(names, open_workers)))


def _best(shape: Shape, workers: Sequence[Worker], affinity: Affinity, local: tuple[str, ...]) -> Worker | None:
    if len(workers) <= 1:
        return workers[0] if workers else None
    return max(workers, key=lambda worker: score(shape, worker, affinity, local))


def _from_first_groups(groups: Sequence[Group], most: int, search: Callable[[Group], Iterable[Worker]]) -> list[Worker]:
    """Workers of the first groups that have any, `most` in all."""
    found: list[Worker] = []
    answered, max_groups = 0, min(len(groups), _MAX_GROUPS)
    for group in groups:
        some = list(islice(search(group), most // max_groups))
        if some:
            found += some
            answered += 1
            if answered == max_groups:
                break
    return found


def _varied(workers: Iterable[Worker]) -> Iterator[Worker]:
    """Yield workers until too many consecutive ones are alike."""
    total = used = None
    similar = 0
    for worker in workers:
        similar = similar + 1 if worker.used == used and worker.total == total else 1
        total, used = worker.total, worker.used
        yield worker
        if similar == _MAX_SIMILAR:
            return


def _preference(shape: Shape, affinity: Affinity, local: tuple[str, ...]) -> Preference | None:
    """The task's preferences of zones and labels; None if it has none."""
    if not (shape.prefer or shape.prefer_zone is not None or local or affinity.zones):
        return None

    def preference(zone: str, pairs: Mapping[Pair, None]) -> float:
        return _preference_score(shape, affinity, local, zone, lambda key, value: (key, value) in pairs)

    return preference


def _preference_score(
    shape: Shape, affinity: Affinity, local: tuple[str, ...], zone: str, has_label: Callable[[str, str], bool]
) -> float:
    """The part of the score that depends on zone and labels."""
    preference_value = LOCALITY / 2 if zone in local else 0.0
    preferences = len(shape.prefer) + (shape.prefer_zone is not None)
    if preferences:
        met = sum(has_label(key, value) for key, value in shape.prefer) + (shape.prefer_zone == zone)
        preference_value += PREFERRED * met / preferences
    if affinity.zones:
        preference_value += SPREAD * (1 - affinity.zones.get(zone, 0) / max(1, sum(affinity.zones.values())))
    return preference_value


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
    return 1 - (left + _IMBALANCE * abs(cores - memory) + (0 if used.cpu_millis else _UNUSED)) / (
        1 + _IMBALANCE + _UNUSED
    )


def _load_score(worker: Worker) -> float:
    leases = len(worker.leases)
    return 1 / (1 + leases * 1_000 / (worker.total.cpu_millis or 1)) if leases else 1.0


def _has_label(worker: Worker, key: str, value: str) -> bool:
    return worker.labels.get(key) == value if value else key in worker.labels


def _why_not_accepting(worker: Worker) -> list[Obstacle]:
    found = []
    if worker.hold or worker.leaving:
        held = f"{worker.hold} ({worker.hold_why})" if worker.hold else "leaving"
        found.append(Obstacle(H.CORDONED, f"{worker.id} is {held}"))
    if worker.claim_slots == 0:
        found.append(Obstacle(H.UNCLAIMED, f"{worker.id} has no claim open"))
    return found


def _shortages(wanted: Resources, worker: Worker, free: Resources) -> list[Obstacle]:
    found = []
    unused = worker.total - worker.used
    for name in NAMES:
        needs, has, left = getattr(wanted, name), getattr(worker.total, name), getattr(unused, name)
        if needs > has:
            found.append(Obstacle(H.TOO_BIG, f"{worker.id} has {has} {name} in total, {needs} needed"))
        elif needs > left:
            found.append(Obstacle(H.NO_CAPACITY, f"{worker.id} has {left} {name} free, {needs} needed"))
        elif needs > getattr(free, name):
            detail = f"{worker.id} has {left} {name} free, but reserved for other tasks; {needs} needed"
            found.append(Obstacle(H.RESERVED, detail))
    return found
