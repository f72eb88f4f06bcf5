"""Which workers of a pool match a task, and what keeps these from taking it now.

Of a large fleet a part is examined. That no worker matches is reported only after a scan of all of them: it costs
0.5 µs a worker (`placement.would_do`), and is done only if none of the part matches.
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
from mainspring.core.model.resources import NAMES, NOTHING, Resources, say_amount, say_amounts
from mainspring.core.model.task import Task
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.core.placement.feasibility import LASTING, Hindrance, Kin, Obstacle, obstacles, would_do
from mainspring.core.placement.task_shapes import Shape, say_label
from mainspring.core.text.sentences import say_together
from mainspring.shard.placement.affinity import kin_of
from mainspring.shard.state.memory import ShardMemory

LOOKED_AT = 128
SETTLED_SECONDS = 5.0
"""Life of a leader after which its workers have reconnected."""
_AWAY = frozenset({Hindrance.NOT_READY, Hindrance.HELD, Hindrance.UNCLAIMED})
_ROOM = frozenset({Hindrance.NO_ROOM, Hindrance.KEPT})


class Suit(msgspec.Struct, frozen=True):
    """A matching worker, and what keeps it from taking the task now."""

    worker: Worker
    kinds: frozenset[Hindrance]


class Suiting(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """How the workers of a pool match a shape."""

    shape: Shape
    kin: Kin
    suits: tuple[Suit, ...]
    """Matching workers, or some of them."""
    is_all: bool
    """There are no others that match and accept tasks."""
    alike: tuple[Worker, ...]
    """If none of the first examined matches: workers that match apart from size."""
    why: str
    """Why no worker takes it, in one sentence."""

    def all_away(self) -> bool:
        """Whether all matching workers are unavailable: cordoned or silent."""
        return bool(self.suits) and all(suit.kinds & _AWAY for suit in self.suits)

    def here(self) -> Iterator[Suit]:
        """Matching workers that accept tasks."""
        return (suit for suit in self.suits if not suit.kinds & _AWAY)

    def keepers(self) -> list[Worker]:
        """Workers with free capacity that is reserved for others."""
        return [suit.worker for suit in self.here() if suit.kinds == {Hindrance.KEPT}]

    def roomless(self) -> list[Worker]:
        """Workers that lack only capacity."""
        return [suit.worker for suit in self.here() if suit.kinds <= _ROOM]

    @cached_property
    def free(self) -> Resources:
        """Total free capacity of these. Cached, as many queues ask."""
        total = NOTHING
        for worker in self.roomless():
            total += _not_negative(worker.free)
        return total

    def most_free(self) -> Resources:
        """The most of each resource that is free on one of them."""
        free = [_not_negative(worker.free) for worker in self.roomless()]
        return Resources(*(max((getattr(one, name) for one in free), default=0) for name in NAMES))


def suiting(memory: ShardMemory, task: Task, shape: Shape) -> Suiting:
    """Match the workers of a pool with a queued task."""
    kin, zones = kin_of(memory, task, shape), memory.zones
    workers = _some(memory)
    found = [obstacles(shape, worker, kin, task.id, zones) for worker in workers]
    why = explain(shape, found, _free_on(workers, found))
    is_all = len(workers) == len(memory.workers)
    suits = [suit for suit in map(Suit, workers, map(_kinds, found)) if not suit.kinds & LASTING]
    alike = () if suits else tuple(_alike(memory, shape, kin))
    if not is_all and all(suit.kinds & _AWAY for suit in suits):
        fits = (one for one in alike or memory.open_workers.all if would_do(shape, one, kin, zones))
        others = list(islice(fits, LOOKED_AT))
        suits = [Suit(one, _kinds(obstacles(shape, one, kin, task.id, zones))) for one in others] or suits
        is_all = 0 < len(others) < LOOKED_AT
    return Suiting(shape=shape, kin=kin, suits=tuple(suits), is_all=is_all, alike=alike, why=why)


def _alike(memory: ShardMemory, shape: Shape, kin: Kin) -> Iterator[Worker]:
    """Workers that match apart from size; without devices a worker is of another kind."""
    bare, needs_gpu = replace(shape, resources=NOTHING), shape.resources.gpus > 0
    for worker in memory.workers.values():
        if would_do(bare, worker, kin, memory.zones) and (worker.total.gpus or not needs_gpu):
            yield worker


def _some(memory: ShardMemory) -> list[Worker]:
    """All workers, or an even sample of many."""
    step = -(-len(memory.workers) // LOOKED_AT)
    return list(islice(memory.workers.values(), 0, None, max(1, step)))


def _kinds(found: Sequence[Obstacle]) -> frozenset[Hindrance]:
    return frozenset(one.kind for one in found)


def _free_on(workers: Sequence[Worker], found: Sequence[Sequence[Obstacle]]) -> Resources:
    """Total free capacity of the workers that lack only capacity."""
    free = NOTHING
    for worker, hindrances in zip(workers, found, strict=True):
        if all(one.kind is Hindrance.NO_ROOM for one in hindrances) and not worker.free.is_negative():
            free += worker.free
    return free


def _not_negative(room: Resources) -> Resources:
    return Resources(*(max(0, getattr(room, name)) for name in NAMES))


# without a match


def may_still_come(memory: ShardMemory) -> bool:
    """Whether there may be workers that have not reported to this leader yet."""
    is_young = memory.life < SETTLED_SECONDS
    return is_young or any(one.status is WorkerStatus.EXPECTED for one in memory.workers.values())


def hope(memory: ShardMemory, shape: Shape, now: datetime) -> str:
    """Why a matching worker may come though none is here, in words; empty if none is known.

    Affinity does not count: it may differ by then.
    """
    gone = memory.departures.lately(now)
    last = next((one for one in gone if would_do(shape, one.worker, zones=memory.zones)), None)
    if last is not None:
        return words.offered_until(last.worker.id, last.until, now)
    has_refused = any(shape in worker.refused for worker in memory.workers.values())
    return words.MAY_COME_BACK if has_refused or may_still_come(memory) else ""


def lacks(memory: ShardMemory, look: Suiting) -> tuple[str, str]:
    """The constraints that no worker meets, and similar values that exist, in words."""
    shape, workers = look.shape, list(memory.workers.values())
    missing, similar = [], []
    for key, value in shape.labels:
        values = Counter(worker.labels[key] for worker in workers if key in worker.labels)
        if not values or (value and value not in values):
            missing.append(say_label(key, value))
            similar += [
                f"{count:,} {'has' if count == 1 else 'have'} {say_label(key, other)}"
                for other, count in values.most_common(3)
            ]
    zones = Counter(worker.zone for worker in workers)
    if shape.zone is not None and shape.zone not in zones:
        missing.append(f"zone {shape.zone}")
        similar += [f"{count:,} in {zone or 'no zone'}" for zone, count in zones.most_common(3)]
    if shape.resources.gpus and not any(worker.total.gpus for worker in workers):
        missing.append(say_amount("gpus", shape.resources.gpus))
    return say_together(missing), ", ".join(similar)


def all_that_is_asked(shape: Shape) -> str:
    """Labels, zone and devices, in words."""
    asked = [say_label(key, value) for key, value in shape.labels]
    asked += [f"zone {shape.zone}"] if shape.zone is not None else []
    asked += [say_amount("gpus", shape.resources.gpus)] if shape.resources.gpus else []
    asked += [f"the worker of {', '.join(shape.near)}"] if shape.near else []
    return say_together(asked or say_amounts(shape.resources))


def is_too_big(look: Suiting) -> bool:
    """Whether workers match apart from size, and none is large enough."""
    totals = {worker.total for worker in look.alike}
    return bool(totals) and not any(look.shape.resources.fits(total) for total in totals)


def shortage(look: Suiting) -> tuple[str, str] | None:
    """The resource that no worker has enough of: what is needed, and the most that one has; None: none alone."""
    wanted, totals = look.shape.resources, {worker.total for worker in look.alike}
    for name in NAMES:
        most = max(getattr(total, name) for total in totals)
        if getattr(wanted, name) > most:
            return say_amount(name, getattr(wanted, name)), say_amount(name, most)
    return None
