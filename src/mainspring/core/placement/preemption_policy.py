"""Who has to make room for whom (PLC-5, PLC-6, PLC-9).

    TAKE_OVER    anybody                                 has room that is kept for a less important one
    PREEMPT      a P0                                    takes from P2, and from P1 only if no P2 will do anywhere
    RECLAIM      a tenant that is within its guarantee   takes what others have on burst: P2, then P1, never P0
    DEFRAGMENT   a P1 that fits the pool but no worker   moves P2 that fits elsewhere now

Of each worker that could take the task the cheapest leases are picked, then those are given back that are not needed;
the best of these plans is carried out. Better is: no P1 among them; nothing that its tenant is guaranteed; fewer
leases; less progress lost.

1. Nobody makes room for its own priority or a lower one, but for a guarantee.
2. Nothing is stopped without a gain: with all of a plan the task fits, and without any one part of it it does not.
3. Reclaiming never leaves another tenant below its own guarantee, so that it can't take back what was taken from it.
4. What is going already counts as room: nothing is asked for twice, and nothing more while that is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.fairness.quotas import Quota, is_guaranteed
from mainspring.core.model.resources import NAMES, NOTHING, Resources
from mainspring.core.model.task import Priority, StopKind, TaskState
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.core.placement.feasibility import obstacles

MOST_LOOKED_AT = 2_000
"""Workers in one turn: a look at so many takes about 20 ms."""
ENOUGH_PLANS = 16
"""So many workers that would do are compared; the best of 16 is nearly as good as the best of all."""
_RECALLED_SECONDS = 5.0
"""The rest of a group that was called back ends by itself, and soon, unless it is late by then."""


class Mode(StrEnum):
    """By what right room is asked for."""

    TAKE_OVER = "take over"
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    DEFRAGMENT = "defragment"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The room that is asked for."""

    mode: Mode
    tenant: str
    resources: Resources
    may_take: Callable[[Worker], bool]
    """Whether nothing but room stands between the task and a worker."""
    over: frozenset[str] = frozenset()
    """Tasks whose kept room this one may have."""
    stage: int = 0
    """Where to begin, if it is known that nothing comes of the stages before: one that is alike has tried them."""
    at_once: bool = False
    """Whether what is going is no room yet."""


class Looks(msgspec.Struct):
    """How many workers may still be looked at."""

    left: int = MOST_LOOKED_AT


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What has to be known of those who have room."""

    now: datetime
    holders: Callable[[frozenset[Priority]], Sequence[Worker]]
    """Workers with leases of these priorities, or with something that is going or kept; others can't help."""
    use: Mapping[str, Resources]
    """What each tenant's leases add up to, without those that are going."""
    quota: Callable[[str], Quota]
    lost: Callable[[Lease], float]
    """Seconds of work that would have to be done again."""
    others: Sequence[Worker] = ()
    """For moving: workers that have some room."""
    looks: Looks


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What has to go so that a task fits a worker. All of it may be going already: then nothing has to be asked for."""

    worker: Worker
    victims: tuple[Lease, ...] = ()
    rooms: tuple[str, ...] = ()
    """Tasks for which room is no longer kept there."""
    cost: tuple[bool, bool, int, float, int] = (False, False, 0, 0.0, 0)
    """P1 among the victims, guaranteed ones among them, how many, seconds lost, rooms given up: less is better."""
    stage: int = 0
    looked_at: int = 1
    """How many workers were looked at for it."""


class _Part(msgspec.Struct, frozen=True, gc=False):
    """Something that could go from a worker: kept room, or a lease."""

    rank: int
    """0 is kept room, then P2 on burst, P2 that is guaranteed, P1 on burst, P1 that is guaranteed."""
    lost: float
    name: str
    resources: Resources
    lease: Lease | None = None


def decide_victims(wanted: Wanted, fleet: Fleet, random: Random) -> Plan | None:
    """What has to go, and where, for the task to fit; None if nothing that may go would help, as far as was looked.

    In stages: P1 goes only if no P2 will do anywhere. Each but the last may use half of the looks that are left.
    """
    stages, looks = _levels(wanted.mode), fleet.looks.left
    for stage, levels in enumerate(stages):
        if stage < wanted.stage:
            continue
        plans = []
        least = 0 if levels is stages[-1] else fleet.looks.left // 2
        for worker in _walk(wanted, fleet.holders(levels), fleet.looks, least, random):
            plan = plan_on(wanted, worker, fleet, levels)
            if plan is not None and wanted.may_take(worker):
                plans.append(plan)
                if len(plans) == ENOUGH_PLANS or not (plan.victims or plan.rooms):
                    break
        if plans:
            best = min(plans, key=lambda plan: plan.cost)
            return replace(best, stage=stage, looked_at=looks - fleet.looks.left)
    return None


def _levels(mode: Mode) -> tuple[frozenset[Priority], ...]:
    low = frozenset({Priority.P2})
    if mode is Mode.TAKE_OVER:
        return (frozenset(),)
    return (low,) if mode is Mode.DEFRAGMENT else (low, frozenset({Priority.P1, Priority.P2}))


def _walk(wanted: Wanted, workers: Sequence[Worker], looks: Looks, least: int, random: Random) -> Iterator[Worker]:
    """Workers that the task would fit if they were empty, from a random one on, until so few looks are left."""
    count = len(workers)
    start = random.randrange(count) if count else 0
    for step in range(min(count, looks.left - least)):
        looks.left -= 1
        worker = workers[(start + step) % count]
        if worker.status is WorkerStatus.READY and wanted.resources.fits(worker.total):
            yield worker


def plan_on(wanted: Wanted, worker: Worker, fleet: Fleet, levels: frozenset[Priority]) -> Plan | None:
    """What has to go from one worker, of leases of these priorities; None if all of it would not be enough."""
    room, leases = worker.total - worker.used - worker.kept_total, list[Lease]()
    most = room
    for lease in worker.leases.values():
        if is_going(lease, fleet.now):
            if wanted.at_once:
                continue
            room += lease.shape.resources
            most += lease.shape.resources
        elif lease.priority in levels:
            most += lease.shape.resources
            leases.append(lease)
    parts = [_Part(0, 0.0, task_id, kept) for task_id, kept in worker.kept.items() if task_id in wanted.over]
    if wanted.resources.fits(room):
        return Plan(worker=worker)
    if not parts and not wanted.resources.fits(most):
        return None
    parts += _of_leases(wanted, worker, fleet, [(fleet.lost(lease), lease) for lease in leases])
    chosen = _pick(wanted.resources, room, parts)
    if chosen is None:
        return None
    victims = tuple(part.lease for part in chosen if part.lease is not None)
    if wanted.mode is Mode.DEFRAGMENT and not _new_places(victims, worker, fleet):
        return None
    ranks = {part.rank for part in chosen}
    cost = (
        any(rank > 2 for rank in ranks), any(rank in (2, 4) for rank in ranks), len(victims),
        sum(part.lost for part in chosen), len(chosen) - len(victims),
    )  # fmt: skip
    rooms = tuple(part.name for part in chosen if part.lease is None)
    return Plan(worker=worker, victims=victims, rooms=rooms, cost=cost)


def is_going(lease: Lease, now: datetime) -> bool:
    """Whether the room of a lease is free soon anyway: all of it was asked to stop, or the rest was called back."""
    for task in lease.members.values():
        if task.stop is None or task.stop.kind is StopKind.HOLD:
            break
    else:
        return True
    if not lease.recalled:
        return False
    late = now - timedelta(seconds=_RECALLED_SECONDS)
    return not any(
        task.state is TaskState.RUNNING and task.started_at is not None and task.started_at < late
        for task in lease.members.values()
    )


def _of_leases(wanted: Wanted, worker: Worker, fleet: Fleet, leases: list[tuple[float, Lease]]) -> Iterator[_Part]:
    """The leases that may go, each with what it would cost. The first that go of a tenant are those on its burst."""
    left: dict[str, Resources] = {}
    for lost, lease in sorted(leases, key=lambda one: (-one[1].priority, one[0], one[1].id)):
        quota, use = fleet.quota(lease.tenant), left.get(lease.tenant, fleet.use.get(lease.tenant, NOTHING))
        rest = use - lease.shape.resources
        on_burst = not is_guaranteed(quota, use)
        if wanted.mode is Mode.RECLAIM and not (
            lease.tenant != wanted.tenant and on_burst and keeps_guarantee(quota, rest)
        ):
            continue
        if wanted.mode is Mode.DEFRAGMENT and not _can_move(lease, worker, fleet):
            continue
        left[lease.tenant] = rest
        rank = (1 if lease.priority is Priority.P2 else 3) + (0 if on_burst else 1)
        yield _Part(rank, lost, lease.id, lease.shape.resources, lease)


def keeps_guarantee(quota: Quota, use: Resources) -> bool:
    """Whether a tenant that uses this much still has what it was promised, in one of the resources at least.

    What it asks for next is then beyond its guarantee, and takes nothing back.
    """
    promised = [name for name in NAMES if getattr(quota.guaranteed, name)]
    return not promised or any(getattr(use, name) >= getattr(quota.guaranteed, name) for name in promised)


def _pick(needs: Resources, room: Resources, parts: Sequence[_Part]) -> list[_Part] | None:
    """Parts with which a task fits, and without any one of which it does not: cheap ones first, then large ones."""
    together = room
    for part in parts:
        together += part.resources
    if not needs.fits(together):
        return None
    short = needs - room
    chosen: list[_Part] = []
    for part in sorted(parts, key=lambda one: (one.rank, -coverage(one.resources, short), one.lost, one.name)):
        chosen.append(part)
        room += part.resources
        if needs.fits(room):
            break
    for part in sorted(chosen, key=lambda one: (one.rank, one.lost), reverse=True):
        if needs.fits(room - part.resources):
            chosen.remove(part)
            room -= part.resources
    return chosen


def coverage(resources: Resources, short: Resources) -> float:
    """How much of what is short this much would be, as a sum of parts of each resource."""
    parts: list[float] = []
    for name in NAMES:
        lack, has = getattr(short, name), getattr(resources, name)
        if lack > 0:
            parts.append(min(has, lack) / lack)
    return sum(parts)


def _can_move(lease: Lease, worker: Worker, fleet: Fleet) -> bool:
    """Whether a lease has room elsewhere now. What depends on where others of its run are stays where it is."""
    return not lease.shape.run and _new_places((lease,), worker, fleet)


def _new_places(leases: Sequence[Lease], worker: Worker, fleet: Fleet) -> bool:
    """Whether all of these leases find room on other workers, together."""
    taken: dict[str, Resources] = {}
    for lease in leases:
        for other in fleet.others:
            needs = taken.get(other.id, NOTHING) + lease.shape.resources
            if other is not worker and needs.fits(other.free) and not obstacles(lease.shape, other):
                taken[other.id] = needs
                break
        else:
            return False
    return True
