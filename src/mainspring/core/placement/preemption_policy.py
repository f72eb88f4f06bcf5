"""Preemption policy: whose leases end to make capacity for a task (PLC-5, PLC-6, PLC-9).

    TAKE_OVER    any priority                        takes over the reservation of a less important task
    PREEMPT      a P0                                preempts P2, and P1 only if no P2 is enough anywhere
    RECLAIM      a tenant within its guarantee       reclaims what others have on burst: P2, then P1, never P0
    DEFRAGMENT   a P1 that fits the pool but no      moves P2 that fits elsewhere now
                 single worker

On each worker that could take the task the cheapest leases are chosen, then those that turn out unnecessary are
dropped; the best of these plans is executed. Better means: no P1 among the victims; nothing that its tenant is
guaranteed; fewer leases; less progress lost.

1. Nothing is preempted for its own priority or a lower one, except for a guarantee.
2. Nothing is stopped without a gain: with all of a plan the task fits, and without any one part of it it does not.
3. Reclaiming never leaves another tenant below its own guarantee, so that it can't reclaim what was taken from it.
4. Leases that are ending already count as free: nothing is requested twice, and nothing more while they are enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from random import Random

import msgspec
from msgspec.structs import replace

from mainspring.core.fairness.quotas import Quota, is_guaranteed
from mainspring.core.model.resources import NAMES, ZERO_RESOURCES, Resources
from mainspring.core.model.task import Priority, StopKind, TaskState
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.core.placement.feasibility import obstacles

MAX_EXAMINED = 2_000
"""Workers in one turn: examining that many takes about 20 ms."""
MAX_PLANS = 16
"""Plans that are compared; the best of 16 is nearly as good as the best of all."""
_RECALLED_SECONDS = 5.0
"""The rest of a group that was recalled ends soon, unless it is late by then."""


class Mode(StrEnum):
    """On what grounds capacity is made."""

    TAKE_OVER = "take over"
    PREEMPT = "preempt"
    RECLAIM = "reclaim"
    DEFRAGMENT = "defragment"


class CapacityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for capacity."""

    mode: Mode
    tenant: str
    resources: Resources
    may_take: Callable[[Worker], bool]
    """Whether nothing but capacity stands between the task and a worker."""
    over: frozenset[str] = frozenset()
    """Tasks whose reservations it may take over."""
    stage: int = 0
    """First stage to try, if earlier ones are known to fail: a similar task has tried them."""
    at_once: bool = False
    """Whether leases that are ending don't count as free yet."""


class SearchBudget(msgspec.Struct):
    """How many workers may still be examined."""

    left: int = MAX_EXAMINED


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the cluster that a decision needs."""

    now: datetime
    holders: Callable[[frozenset[Priority]], Sequence[Worker]]
    """Workers with leases of these priorities, or with ending leases or reservations; others can't help."""
    use: Mapping[str, Resources]
    """What each tenant's leases add up to, without those that are ending."""
    quota: Callable[[str], Quota]
    lost: Callable[[Lease], float]
    """Seconds of work that would have to be done again."""
    others: Sequence[Worker] = ()
    """For moves: workers that have some free capacity."""
    budget: SearchBudget


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Leases that have to end so that a task fits a worker. If all are ending already, nothing has to be requested."""

    worker: Worker
    victims: tuple[Lease, ...] = ()
    reservations: tuple[str, ...] = ()
    """Tasks whose reservations there are released."""
    cost: tuple[bool, bool, int, float, int] = (False, False, 0, 0.0, 0)
    """P1 among the victims, guaranteed ones among them, how many, seconds lost, reservations released: lower is
    better.
    """
    stage: int = 0
    workers_examined: int = 1
    """How many workers were examined for it."""


class _Part(msgspec.Struct, frozen=True, gc=False):
    """Something that could be freed on a worker: a reservation or a lease."""

    rank: int
    """0 is a reservation, then P2 on burst, P2 that is guaranteed, P1 on burst, P1 that is guaranteed."""
    lost: float
    name: str
    resources: Resources
    lease: Lease | None = None


def decide_victims(wanted: CapacityRequest, cluster: ClusterView, random: Random) -> Plan | None:
    """Decide what has to end, and where, for the task to fit; None if nothing examined would help.

    In stages: P1 only if no P2 is enough anywhere. Each stage but the last may use half of the remaining budget.
    """
    stages, budget = _stages(wanted.mode), cluster.budget.left
    for stage, priorities in enumerate(stages):
        if stage < wanted.stage:
            continue
        plans = []
        least = 0 if priorities is stages[-1] else cluster.budget.left // 2
        for worker in _walk(wanted, cluster.holders(priorities), cluster.budget, least, random):
            plan = plan_on(wanted, worker, cluster, priorities)
            if plan is not None and wanted.may_take(worker):
                plans.append(plan)
                if len(plans) == MAX_PLANS or not (plan.victims or plan.reservations):
                    break
        if plans:
            best = min(plans, key=lambda plan: plan.cost)
            return replace(best, stage=stage, workers_examined=budget - cluster.budget.left)
    return None


def _stages(mode: Mode) -> tuple[frozenset[Priority], ...]:
    low = frozenset({Priority.P2})
    if mode is Mode.TAKE_OVER:
        return (frozenset(),)
    return (low,) if mode is Mode.DEFRAGMENT else (low, frozenset({Priority.P1, Priority.P2}))


def _walk(
    wanted: CapacityRequest, workers: Sequence[Worker], budget: SearchBudget, least: int, random: Random
) -> Iterator[Worker]:
    """Workers that the task would fit if they were idle, from a random one on, within the budget."""
    count = len(workers)
    start = random.randrange(count) if count else 0
    for step in range(min(count, budget.left - least)):
        budget.left -= 1
        worker = workers[(start + step) % count]
        if worker.status is WorkerStatus.READY and wanted.resources.fits(worker.total):
            yield worker


def plan_on(
    wanted: CapacityRequest, worker: Worker, cluster: ClusterView, priorities: frozenset[Priority]
) -> Plan | None:
    """Plan which leases of these priorities have to end on one worker; None if all of them would not be enough."""
    free, leases = worker.total - worker.used - worker.reserved_total, list[Lease]()
    most = free
    for lease in worker.leases.values():
        if is_ending(lease, cluster.now):
            if wanted.at_once:
                continue
            free += lease.shape.resources
            most += lease.shape.resources
        elif lease.priority in priorities:
            most += lease.shape.resources
            leases.append(lease)
    parts = [
        _Part(0, 0.0, task_id, reserved) for task_id, reserved in worker.reserved.items() if task_id in wanted.over
    ]
    if wanted.resources.fits(free):
        return Plan(worker=worker)
    if not parts and not wanted.resources.fits(most):
        return None
    parts += _movable_leases(wanted, worker, cluster, [(cluster.lost(lease), lease) for lease in leases])
    chosen = _pick(wanted.resources, free, parts)
    if chosen is None:
        return None
    victims = tuple(part.lease for part in chosen if part.lease is not None)
    if wanted.mode is Mode.DEFRAGMENT and not _fit_elsewhere(victims, worker, cluster):
        return None
    ranks = {part.rank for part in chosen}
    cost = (
        any(rank > 2 for rank in ranks), any(rank in (2, 4) for rank in ranks), len(victims),
        sum(part.lost for part in chosen), len(chosen) - len(victims),
    )  # fmt: skip
    reservations = tuple(part.name for part in chosen if part.lease is None)
    return Plan(worker=worker, victims=victims, reservations=reservations, cost=cost)


def is_ending(lease: Lease, now: datetime) -> bool:
    """Return whether a lease is ending anyway: all of it was asked to stop, or the rest was recalled."""
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


def _movable_leases(
    wanted: CapacityRequest, worker: Worker, cluster: ClusterView, leases: list[tuple[float, Lease]]
) -> Iterator[_Part]:
    """The leases that may end, each with its cost. The first of a tenant to end are those on its burst."""
    left: dict[str, Resources] = {}
    for lost, lease in sorted(leases, key=lambda one: (-one[1].priority, one[0], one[1].id)):
        quota, use = cluster.quota(lease.tenant), left.get(lease.tenant, cluster.use.get(lease.tenant, ZERO_RESOURCES))
        rest = use - lease.shape.resources
        on_burst = not is_guaranteed(quota, use)
        if wanted.mode is Mode.RECLAIM and not (
            lease.tenant != wanted.tenant and on_burst and keeps_guarantee(quota, rest)
        ):
            continue
        if wanted.mode is Mode.DEFRAGMENT and not _can_move(lease, worker, cluster):
            continue
        left[lease.tenant] = rest
        rank = (1 if lease.priority is Priority.P2 else 3) + (0 if on_burst else 1)
        yield _Part(rank, lost, lease.id, lease.shape.resources, lease)


def keeps_guarantee(quota: Quota, use: Resources) -> bool:
    """Return whether a tenant that uses this much still has its guarantee, in one of the resources at least.

    What it asks for next is then beyond its guarantee, and reclaims nothing.
    """
    promised = [name for name in NAMES if getattr(quota.guaranteed, name)]
    return not promised or any(getattr(use, name) >= getattr(quota.guaranteed, name) for name in promised)


def _pick(needs: Resources, free: Resources, parts: Sequence[_Part]) -> list[_Part] | None:
    """Parts with which a task fits, and without any one of which it does not: cheap ones first, then large ones."""
    together = free
    for part in parts:
        together += part.resources
    if not needs.fits(together):
        return None
    short = needs - free
    chosen: list[_Part] = []
    for part in sorted(parts, key=lambda one: (one.rank, -coverage(one.resources, short), one.lost, one.name)):
        chosen.append(part)
        free += part.resources
        if needs.fits(free):
            break
    for part in sorted(chosen, key=lambda one: (one.rank, one.lost), reverse=True):
        if needs.fits(free - part.resources):
            chosen.remove(part)
            free -= part.resources
    return chosen


def coverage(resources: Resources, short: Resources) -> float:
    """Return how much of the shortage these resources cover, as a sum of fractions of each resource."""
    lacks = ((name, getattr(short, name)) for name in NAMES)
    return float(sum(min(getattr(resources, name), lack) / lack for name, lack in lacks if lack > 0))


def _can_move(lease: Lease, worker: Worker, cluster: ClusterView) -> bool:
    """Return whether a lease fits another worker now. Tasks with affinity stay where they are."""
    return not lease.shape.run and _fit_elsewhere((lease,), worker, cluster)


def _fit_elsewhere(leases: Sequence[Lease], worker: Worker, cluster: ClusterView) -> bool:
    """Return whether all of these leases fit other workers, together."""
    taken: dict[str, Resources] = {}
    for lease in leases:
        for other in cluster.others:
            needs = taken.get(other.id, ZERO_RESOURCES) + lease.shape.resources
            if other is not worker and needs.fits(other.free) and not obstacles(lease.shape, other):
                taken[other.id] = needs
                break
        else:
            return False
    return True
