"""Which worker takes a task, and why another can't (PLC-1, PLC-2).

`obstacles` is the one place that knows what stands between a shape and a worker. Placement asks for emptiness,
diagnosis prints the list: they can't disagree. If you add a constraint, add it to `Shape`, here, and to the sentences
of diagnosis.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random

import msgspec

from mainspring.core.resources import NAMES, Resources
from mainspring.core.shapes import Shape, say_label
from mainspring.core.workers import Worker, WorkerStatus

SAMPLE = 16
"""How many workers are looked at before all are. The best of 16 is in the top tenth four times out of five."""


class Hindrance(StrEnum):
    """The kinds of obstacle."""

    NOT_READY = "not_ready"
    HELD = "held"
    """The worker is cordoned or draining, or is leaving: it gets nothing new."""
    LABEL = "label"
    ZONE = "zone"
    TOO_BIG = "too_big"
    """The worker would not do even if it were empty."""
    NO_ROOM = "no_room"
    REFUSED = "refused"
    """The worker said that it can't run such a task."""


class Obstacle(msgspec.Struct, frozen=True, gc=False):
    """One reason why a worker can't take a task now."""

    kind: Hindrance
    detail: str


def obstacles(shape: Shape, worker: Worker) -> list[Obstacle]:
    """Why `worker` can't take a task of this shape now; empty if it can."""
    found: list[Obstacle] = []
    if worker.status is not WorkerStatus.READY:
        found.append(Obstacle(Hindrance.NOT_READY, f"{worker.id} is {worker.status}"))
    if not worker.takes_new():
        found.append(Obstacle(Hindrance.HELD, f"{worker.id} is {_say_hold(worker)}"))
    for key, value in shape.labels:
        if not _has_label(worker, key, value):
            found.append(Obstacle(Hindrance.LABEL, f"{worker.id} has no label {say_label(key, value)}"))
    if shape.zone is not None and shape.zone != worker.zone:
        found.append(Obstacle(Hindrance.ZONE, f"{worker.id} is in zone {worker.zone or 'none'}, not {shape.zone}"))
    if shape in worker.refused:
        found.append(Obstacle(Hindrance.REFUSED, f"{worker.id} has refused such a task"))
    free = worker.free
    if not shape.resources.fits(free):
        found.extend(_shortages(shape.resources, worker, free))
    return found


def choose(shape: Shape, workers: Sequence[Worker], random: Random) -> Worker | None:
    """The worker to give a task of this shape: the tightest fit of a sample, else the first that will do.

    `workers` are those with any room. None if none will do: then the shape is parked.
    """
    if len(workers) > SAMPLE:
        start = random.randrange(len(workers) - SAMPLE + 1)
        best = _tightest(shape, workers[start : start + SAMPLE])
        if best is not None:
            return best
        return next((worker for worker in workers if not obstacles(shape, worker)), None)
    return _tightest(shape, workers)


def _tightest(shape: Shape, workers: Sequence[Worker]) -> Worker | None:
    best, least = None, 0
    for worker in workers:
        if not obstacles(shape, worker):
            left = worker.total.cpu_millis - worker.used.cpu_millis
            if best is None or left < least:
                best, least = worker, left
    return best


def _has_label(worker: Worker, key: str, value: str) -> bool:
    return worker.labels.get(key) == value if value else key in worker.labels


def _say_hold(worker: Worker) -> str:
    return f"{worker.hold} ({worker.hold_why})" if worker.hold else "leaving"


def _shortages(wanted: Resources, worker: Worker, free: Resources) -> list[Obstacle]:
    found = []
    for name in NAMES:
        needs, has, left = getattr(wanted, name), getattr(worker.total, name), getattr(free, name)
        if needs > has:
            found.append(Obstacle(Hindrance.TOO_BIG, f"{worker.id} has {has} {name} in all, {needs} are needed"))
        elif needs > left:
            found.append(Obstacle(Hindrance.NO_ROOM, f"{worker.id} has {left} {name} left, {needs} are needed"))
    return found
