"""Cost of a placement decision among 50,000 workers, and quality of packing.

Decisions: a fleet of four kinds of worker in five zones, filled to 70 % of its cores with tasks of many sizes, each on
a random worker: this leaves more workers with free capacity, and more kinds of it, than our own code would, and so more
candidates. Then one decision for each of 1,260 distinct shapes, so that no result is reused: plain, memory-heavy, with
a zone, with a common or a rare label, with preferred labels, with GPUs, and infeasible, each at every priority. CPU
time is measured.

Packing: the same mixed tasks onto identical empty workers, by our code and by first-fit-decreasing. Both get them
largest first, as a batch. `workers_used_vs_ffd` should be at most 1. All these tasks have distinct shapes;
`few_shapes_...` is the same for tasks of 40 shapes in random order, as a shard places them: in turns, in which one
search for workers serves several tasks of a shape.

Utilization: a mixed fleet and tasks of mixed sizes in random order, by our code and by random placement on any feasible
worker. `utilisation` is the share of the fleet's cores in use when the first task found no capacity;
`utilisation_in_the_end` after all tasks were tried.

    python -m benchmarks.placement -o json
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random

from benchmarks.measure import Figures, percentile, run_benchmark
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.core.placement.feasibility import Shortlist, choose
from mainspring.core.placement.task_shapes import Shape
from mainspring.core.placement.worker_index import OpenWorkers

WORKERS = 50_000
FULL = 0.7
EACH = 30
"""Shapes of each kind, per priority."""
PACKED_TASKS = 10_000
TASKS_OF_A_TURN = 200
SPREAD_WORKERS = 500
_GIB = 1 << 30
_MACHINES = (
    Resources(8_000, 32 * _GIB, 0, 200 * _GIB), Resources(32_000, 128 * _GIB, 0, 500 * _GIB),
    Resources(64_000, 512 * _GIB, 0, 1_000 * _GIB), Resources(96_000, 768 * _GIB, 8, 2_000 * _GIB),
)  # fmt: skip
_SHARES = (0.4, 0.35, 0.2, 0.05)
_PACKED = _MACHINES[1]
"""The workers for packing."""

Place = Callable[[Resources], Worker | None]


class Fleet:
    """Workers, filled as by a shard."""

    def __init__(self, workers: Iterable[Worker]) -> None:
        self.workers = list(workers)
        self.open = OpenWorkers()
        for worker in self.workers:
            self.open.update(worker)

    def take(self, worker: Worker, resources: Resources) -> None:
        """Reserve capacity of a worker."""
        number = f"lease_{len(worker.leases)}"
        worker.leases[number] = Lease(
            id=number, worker_id=worker.id, tenant="t", priority=Priority.P2, shape=Shape(resources=resources),
            members={},
        )  # fmt: skip
        worker.used += resources
        self.open.update(worker)

    def utilisation(self) -> float:
        """The share of cores in use."""
        used = sum(worker.used.cpu_millis for worker in self.workers)
        return used / sum(worker.total.cpu_millis for worker in self.workers)


def a_fleet(size: int, random: Random) -> Fleet:
    """Workers of four kinds in five zones. Each has its host's name, half have fast disks, one in 1,000 a license."""
    return Fleet(
        Worker(
            id=f"w{number}",
            total=total,
            status=WorkerStatus.READY,
            zone=f"z{number % 5}",
            labels={"host": f"h{number}"}
            | ({"disk": "ssd"} if random.random() < 0.5 else {"disk": "hdd"})
            | ({"licence": f"l{number % 7}"} if number % 1_000 == 0 else {}),
        )
        for number, total in enumerate(random.choices(_MACHINES, _SHARES, k=size))
    )


def some_tasks(random: Random) -> Iterator[Resources]:
    """Resources of tasks: many small, a few large, with much or little memory per core."""
    for task in tasks_of_few_shapes(random):
        memory = int(task.memory_bytes * random.uniform(0.5, 1.5))
        yield Resources(task.cpu_millis, min(memory, 128 * _GIB), 0, random.choice((0, 0, 10 * _GIB)))


def tasks_of_few_shapes(random: Random) -> Iterator[Resources]:
    """The same, in round numbers."""
    while True:
        millis = random.choice((250, 500, 1_000, 1_000, 2_000, 2_000, 4_000, 8_000))
        if random.random() < 0.02:
            millis = random.choice((16_000, 24_000))
        memory = millis * _GIB // 1_000 * random.choice((1, 2, 4, 4, 8))
        yield Resources(millis, min(memory, 128 * _GIB))


def decisions(random: Random) -> Figures:
    """Measure the time of a decision, for each kind of shape."""
    fleet = a_fleet(WORKERS, random)
    _fill(fleet, random)
    by_sort: dict[str, list[float]] = {}
    found = 0
    gc.collect()
    gc.disable()
    for sort, priority, shape in shapes(random):
        began = time.thread_time()
        worker = choose(shape, fleet.open, random, priority=priority)
        by_sort.setdefault(sort, []).append(1e6 * (time.thread_time() - began))
        found += worker is not None
        if worker is not None:
            fleet.take(worker, shape.resources)
    gc.enable()
    every = [value for values in by_sort.values() for value in values]
    return {
        "workers": WORKERS,
        "full": round(fleet.utilisation(), 3),
        "shapes": len(every),
        "shapes_placed": found,
        "decision_us_mean": round(sum(every) / len(every), 1),
        "decision_us_p99": round(percentile(every, 99), 1),
        "decision_us_max": round(max(every), 1),
        "decision_us_mean_by_sort": {sort: round(sum(values) / len(values), 1) for sort, values in by_sort.items()},
    }


def _fill(fleet: Fleet, random: Random) -> None:
    """Fill the fleet: most workers to about the same share, some completely and some hardly."""
    target = FULL * sum(worker.total.cpu_millis for worker in fleet.workers)
    used = 0
    tasks = some_tasks(random)
    while used < target:
        worker = random.choice(fleet.workers)
        task = next(tasks)
        if task.fits(worker.free):
            worker.used += task
            used += task.cpu_millis
    for worker in fleet.workers:
        fleet.open.update(worker)


def shapes(random: Random) -> Iterator[tuple[str, Priority, Shape]]:
    """Distinct shapes of each kind, in random order."""
    tasks = some_tasks(random)
    makers: dict[str, Callable[[], Shape]] = {
        "plain": lambda: Shape(resources=next(tasks)),
        "memory-heavy": lambda: Shape(resources=Resources(500, random.randrange(64 * _GIB, 200 * _GIB))),
        "large": lambda: Shape(resources=Resources(random.randrange(12_000, 40_000), random.randrange(8, 64) * _GIB)),
        "zone": lambda: Shape(resources=next(tasks), zone=f"z{random.randrange(5)}"),
        "common label": lambda: Shape(resources=next(tasks), labels=(("disk", "ssd"),)),
        "rare label": lambda: Shape(resources=next(tasks), labels=(("licence", f"l{random.randrange(7)}"),)),
        "one host": lambda: Shape(resources=Resources(250, random.randrange(_GIB)), labels=(("host", "h17"),)),
        "preferred": lambda: Shape(resources=next(tasks), prefer=(("disk", "ssd"),), prefer_zone="z1"),
        "gpu": lambda: Shape(resources=next(tasks) + Resources(gpus=random.randrange(1, 9))),
        "nowhere, too many cores": lambda: Shape(resources=Resources(random.randrange(96_001, 128_000))),
        "nowhere, full": lambda: Shape(resources=Resources(random.randrange(90_000, 96_000), _GIB)),
        "nowhere, gpu": lambda: Shape(resources=Resources(60_000, random.randrange(600 * _GIB, 768 * _GIB), 8)),
        "nowhere, no such label": lambda: Shape(resources=next(tasks), labels=(("disk", "tape"),)),
        "nowhere, zone and label": lambda: Shape(
            resources=Resources(random.randrange(60_000, 96_000)), zone="z2", labels=(("disk", "hdd"),)
        ),
    }
    drawn: set[Shape] = set()
    every = [
        (sort, priority, _another(maker, drawn))
        for sort, maker in makers.items() for priority in Priority for _ in range(EACH)
    ]  # fmt: skip
    random.shuffle(every)
    return iter(every)


def _another(maker: Callable[[], Shape], drawn: set[Shape]) -> Shape:
    """A shape that was not drawn before."""
    while (shape := maker()) in drawn:
        pass
    drawn.add(shape)
    return shape


def packing(random: Random) -> Figures:
    """Workers needed for the same tasks, by our code and by first-fit-decreasing."""
    tasks = list(islice(some_tasks(random), PACKED_TASKS))
    tasks.sort(key=_size, reverse=True)
    few = list(islice(tasks_of_few_shapes(random), PACKED_TASKS))
    began = time.thread_time()
    ours_few = _pack(few, random, turn=TASKS_OF_A_TURN)
    spent = time.thread_time() - began
    ours, ffd = _pack(tasks, random, turn=1), _first_fit(tasks)
    ffd_few = _first_fit(sorted(few, key=_size, reverse=True))
    return {
        "packed_tasks": len(tasks),
        "workers_used": ours,
        "workers_used_ffd": ffd,
        "workers_used_vs_ffd": round(ours / ffd, 4),
        "few_shapes_workers_used_vs_ffd": round(ours_few / ffd_few, 4),
        "few_shapes_us_mean": round(1e6 * spent / len(few), 1),
    }


def _pack(tasks: Iterable[Resources], random: Random, *, turn: int) -> int:
    """Workers used if this many tasks are placed per turn."""
    fleet = Fleet(_identical(PACKED_TASKS // 2))
    shortlists: dict[Shape, Shortlist] = {}
    for number, task in enumerate(tasks):
        if number % turn == 0:
            shortlists.clear()
        shape = Shape(resources=task)
        worker = choose(shape, fleet.open, random, priority=Priority.P2, shortlists=shortlists)
        assert worker is not None, "the fleet is too small"
        fleet.take(worker, task)
    return sum(worker.used != ZERO_RESOURCES for worker in fleet.workers)


def _identical(size: int) -> Iterator[Worker]:
    for number in range(size):
        yield Worker(id=f"w{number}", total=_PACKED, status=WorkerStatus.READY, zone=f"z{number % 5}")


def _size(task: Resources) -> float:
    """Size of a task: its dominant share of a worker."""
    return max(task.cpu_millis / _PACKED.cpu_millis, task.memory_bytes / _PACKED.memory_bytes)


def _first_fit(tasks: Iterable[Resources]) -> int:
    """Workers used by first fit."""
    rooms: list[Resources] = []
    for task in tasks:
        place = next((place for place, room in enumerate(rooms) if task.fits(room)), None)
        if place is None:
            rooms.append(_PACKED - task)
        else:
            rooms[place] -= task
    return len(rooms)


def utilisation(random: Random) -> Figures:
    """Utilization of a fleet, by our code and at random."""
    seed = random.randrange(1 << 32)
    figures: Figures = {}
    for name in ("utilisation", "utilisation_random"):
        fleet = a_fleet(SPREAD_WORKERS, Random(seed))
        cores = sum(worker.total.cpu_millis for worker in fleet.workers)
        place = (_ours if name == "utilisation" else _at_random)(fleet, Random(seed + 1))
        asked, first = 0, None
        for task in some_tasks(Random(seed)):
            asked += task.cpu_millis
            worker = place(task)
            if worker is not None:
                fleet.take(worker, task)
            elif first is None:
                first = fleet.utilisation()
            if asked > 1.1 * cores:
                break
        figures[name] = round(first if first is not None else fleet.utilisation(), 4)
        figures[f"{name}_in_the_end"] = round(fleet.utilisation(), 4)
    return figures


def _ours(fleet: Fleet, random: Random) -> Place:
    return lambda task: choose(Shape(resources=task), fleet.open, random, priority=Priority.P2)


def _at_random(fleet: Fleet, random: Random) -> Place:
    """A random feasible worker."""

    def place(task: Resources) -> Worker | None:
        having = [worker for worker in fleet.workers if task.fits(worker.free)]
        return random.choice(having) if having else None

    return place


def main(seed: int) -> Figures:
    """Run the benchmark."""
    return decisions(Random(seed)) | packing(Random(seed)) | utilisation(Random(seed))


if __name__ == "__main__":
    run_benchmark(__doc__, main, seed=1)
