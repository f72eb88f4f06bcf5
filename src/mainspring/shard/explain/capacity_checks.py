"""Capacity gates of a queued task: no matching worker, none large enough, fragmentation, others first, all full.

The scheduler's own record is `FairQueues.parked`: shapes without capacity. The order is asked of the functions that it
decides by: strict priority, then `fair_share.rank`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import islice

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MAX_NAMED, Blocker, Expected, Reason
from mainspring.core.model.resources import NAMES, format_amounts, format_part
from mainspring.core.model.task import Priority, Task
from mainspring.core.model.worker import Lease
from mainspring.core.placement.feasibility import ObstacleKind
from mainspring.core.text.sentences import count_of, join_words
from mainspring.shard.explain import matching
from mainspring.shard.explain.diagnosis_context import CompetingQueue, TaskContext
from mainspring.shard.explain.findings import (
    Blockers,
    Finding,
    holder,
    named,
    remaining_seconds,
    soonest,
    waiter,
)
from mainspring.shard.explain.matching import WorkerMatches
from mainspring.shard.explain.rule_checks import GateBlock
from mainspring.shard.placement import fair_share

_MAX_LEASES = 256
_MAX_POSITION = 1_000


# workers


def unmatched(context: TaskContext) -> GateBlock | None:
    """No worker matches the task's constraints, or all that match are unavailable."""
    found = context.match_workers()
    if found.all_unavailable():
        return GateBlock(words.MATCH, Reason.NO_MATCHING_WORKER, found.why, partial(_describe_unavailable, found))
    if found.matches or matching.is_too_big(found):
        return None
    return GateBlock(words.MATCH, Reason.NO_MATCHING_WORKER, found.why, partial(_describe_unmatched, context, found))


def oversized(context: TaskContext) -> GateBlock | None:
    """All matching workers are too small."""
    found = context.match_workers()
    if found.matches:
        return None
    return GateBlock(words.SIZE, Reason.TOO_BIG, found.why, partial(_describe_too_big, context, found))


def _describe_unmatched(context: TaskContext, found: WorkerMatches) -> Finding:
    memory = context.memory
    if not memory.workers:
        unknown = Expected.unknown("the pool has no workers")
        verdict = words.no_worker_at_all(memory.shard)
        return Finding(reason=Reason.NO_MATCHING_WORKER, verdict=verdict, says="no workers", expected=unknown)
    lacking, similar = matching.lacks(memory, found)
    if not lacking:
        similar = found.why
    lacking = lacking or matching.format_constraints(context.shape)
    arrival = matching.arrival(memory, context.shape, context.now)
    basis = f"no worker offers {lacking}"
    return Finding(
        reason=Reason.NO_MATCHING_WORKER,
        verdict=words.no_such_worker(lacking, similar, arrival),
        says=f"0 of {len(memory.workers):,}",
        expected=Expected.unknown(f"{basis} now; {arrival}") if arrival else Expected.never(basis),
        numbers={"workers": float(len(memory.workers)), "is_feasible": 0.0},
    )


def _describe_unavailable(found: WorkerMatches) -> Finding:
    names = [f"{matched.worker.id} ({_format_unavailable(matched)})" for matched in found.matches]
    ways = [Blocker("worker", matched.worker.id, name) for matched, name in zip(found.matches, names, strict=True)]
    return Finding(
        reason=Reason.NO_MATCHING_WORKER,
        verdict=words.only_away(matching.format_constraints(found.shape), names, len(names)),
        says=f"{len(names)} unavailable",
        expected=Expected.unknown("it depends on when they are available again"),
        blockers=named(ways),
        numbers={"is_feasible": float(len(names))},
    )


def _format_unavailable(matched: matching.WorkerMatch) -> str:
    worker = matched.worker
    if ObstacleKind.NOT_READY in matched.kinds:
        return f"{worker.status}"
    if ObstacleKind.CORDONED not in matched.kinds:
        return "no claim open"
    return worker.hold or "leaving"  # the reason of a cordon may name people


def _describe_too_big(context: TaskContext, found: WorkerMatches) -> Finding:
    short = matching.shortage(found)
    needs = join_words(format_amounts(context.shape.resources))
    arrival = matching.arrival(context.memory, context.shape, context.now)
    verdict = words.too_big(needs, "", arrival) if short is None else words.too_big(*short, arrival)
    basis = "no worker has enough total capacity"
    return Finding(
        reason=Reason.TOO_BIG,
        verdict=verdict,
        says=f"needs {needs if short is None else short[0]}",
        expected=Expected.unknown(f"{basis} now; {arrival}") if arrival else Expected.never(basis),
        numbers={"workers": float(len(found.same_kind))},
    )


# capacity


def fragmented(context: TaskContext) -> GateBlock | None:
    """Free capacity is reserved for others, or spread over several workers."""
    if not context.is_parked() or context.task.reserved is not None:
        return None
    found = context.match_workers()
    reserving = found.reserving()
    if reserving:
        reserved = (task_id for worker in reserving for task_id in worker.reserved)
        tasks = list(filter(None, map(context.memory.runs.find, reserved)))
        is_above = bool(tasks) and all(task.priority < context.task.priority for task in tasks)
        reason = Reason.PRIORITY_QUEUE_WAIT if is_above else Reason.NO_WORKER_CAPACITY
        describe = partial(_describe_reserved, context, reason, len(reserving), tasks)
        return GateBlock(words.PIECE, reason, found.why, describe)
    if context.shape.resources.fits(found.free):
        return GateBlock(words.PIECE, Reason.FRAGMENTED, found.why, partial(_describe_fragmented, context, found))
    return None


def _describe_reserved(context: TaskContext, reason: Reason, workers: int, tasks: list[Task]) -> Finding:
    return Finding(
        reason=reason,
        verdict=words.reserved_for_others(workers, more_important=reason is Reason.PRIORITY_QUEUE_WAIT),
        says=f"reserved on {count_of(workers, 'worker')}",
        blockers=named(waiter(context.memory, task, context.now) for task in tasks),
        numbers={"keepers": float(workers)},
    )


def _describe_fragmented(context: TaskContext, found: WorkerMatches) -> Finding:
    wanted, free, most = context.shape.resources, found.free, found.most_free()
    return Finding(
        reason=Reason.FRAGMENTED,
        verdict=words.fragmented(wanted, free, most, is_all=found.is_all),
        says=f"{format_amounts(most)[0] if format_amounts(most) else 'nothing'} on one worker",
        blockers=_holders(context, found),
        numbers={"free_cores": free.cpu_millis / 1000, "most_free_cores": most.cpu_millis / 1000},
    )


def outranked(context: TaskContext) -> GateBlock | None:
    """Tasks of higher priority go first."""
    if context.task.reserved is not None:
        return None
    competing_queues = [
        (priority, competing) for priority in Priority if priority < context.task.priority
        for competing in context.diagnosis.competing_queues(context, priority)
    ]  # fmt: skip
    if not competing_queues:
        return None
    count = sum(competing.tasks for _, competing in competing_queues)
    why = words.behind_priority(count, context.task.priority, is_all=not context.diagnosis.has_omitted)
    describe = partial(_describe_outranked, context, competing_queues, count, why)
    return GateBlock(words.PRIORITY, Reason.PRIORITY_QUEUE_WAIT, why, describe)


def _describe_outranked(
    context: TaskContext, competing_queues: list[tuple[Priority, CompetingQueue]], count: int, verdict: str
) -> Finding:
    first = (
        task
        for priority, competing in competing_queues[:MAX_NAMED]
        for _, task in context.memory.queues.peek(priority, competing.tenant, competing.shape, MAX_NAMED)
    )
    return Finding(
        reason=Reason.PRIORITY_QUEUE_WAIT,
        verdict=verdict,
        says=f"{count:,} ahead",
        blockers=named((waiter(context.memory, task, context.now) for task in islice(first, MAX_NAMED)), count),
        numbers={"ahead": float(count)},
    )


def outshared(context: TaskContext) -> GateBlock | None:
    """Other tenants rank before its own, by guarantee or by share."""
    memory, task, now = context.memory, context.task, context.now
    others = any(priority is task.priority and tenant != task.tenant for priority, tenant in memory.queues.depth)
    if task.reserved is not None or not others:
        return None
    mine = fair_share.rank(memory, task.priority, task.tenant, now, context.shape)
    first = [
        (place, competing) for competing in context.diagnosis.competing_queues(context, task.priority)
        if competing.tenant != task.tenant
        and (place := fair_share.rank(memory, task.priority, competing.tenant, now, competing.shape)) < mine
    ]  # fmt: skip
    if not first:
        return None
    first.sort(key=lambda one: (one[0], one[1].tenant))
    why = f"{task.tenant} is at {context.diagnosis.part_of_share(task.tenant):.0%} of its fair share, others go first"
    return GateBlock(words.SHARE, Reason.FAIR_SHARE, why, partial(_describe_outshared, context, mine, first))


def _describe_outshared(
    context: TaskContext, mine: fair_share.Rank, first: list[tuple[fair_share.Rank, CompetingQueue]]
) -> Finding:
    waiting = Counter[str]()
    for _, competing in first:
        waiting[competing.tenant] += competing.tasks
    share = context.diagnosis.part_of_share
    ahead = [
        (tenant, f"{tenant} (at {share(tenant):.0%} of its fair share, {count:,} waiting)")
        for tenant, count in waiting.items()
    ]
    own, other = share(context.task.tenant), share(first[0][1].tenant)
    is_guaranteed = mine[0] and not first[0][0][0]
    return Finding(
        reason=Reason.FAIR_SHARE,
        verdict=words.behind_share(context.task.tenant, own, other, guaranteed=is_guaranteed),
        says=f"{own:.0%}",
        blockers=named(Blocker("tenant", name, says, name, context.task.priority) for name, says in ahead),
        numbers={"share": own, "other_share": other, "tenants_ahead": float(len(waiting))},
    )


def lacking_capacity(context: TaskContext) -> GateBlock | None:
    """All matching workers are full, or one is being freed for it."""
    if context.task.reserved is None and not context.is_parked():
        return None
    found = context.match_workers()
    describe = partial(_describe_lacking_capacity, context, found)
    return GateBlock(words.CAPACITY, Reason.NO_WORKER_CAPACITY, found.why, describe)


def _describe_lacking_capacity(context: TaskContext, found: WorkerMatches) -> Finding:
    memory, task = context.memory, context.task
    if task.reserved is not None:
        return _describe_reservation(context)
    others_of_run = [one for one in context.run.live.values() if one.name in context.shape.anti_affinity]
    if others_of_run and not found.lacking_capacity():
        verdict = words.anti_affinity(list(context.shape.anti_affinity))
        holders = named(holder(memory, one, context.now) for one in others_of_run)
        return Finding(reason=Reason.NO_WORKER_CAPACITY, verdict=verdict, blockers=holders)
    name = _scarce(context, found)
    workers = found.lacking_capacity()
    free, total = getattr(found.free, name), sum(getattr(worker.total, name) for worker in workers)
    ahead = queue_position(context)
    next_capacity = _next_capacity(context, found)
    says = format_part(name, free, total)
    return Finding(
        reason=Reason.NO_WORKER_CAPACITY,
        verdict=words.no_free_capacity(says, ahead, task.priority, next_capacity),
        says=f"{says} free",
        blockers=_holders(context, found),
        numbers={"ahead": float(ahead), "free": float(free), "total": float(total), "is_feasible": float(len(workers))}
        | ({} if next_capacity is None else {"next_room_seconds": next_capacity}),
    )


def _describe_reservation(context: TaskContext) -> Finding:
    memory, reserved = context.memory, context.task.reserved
    assert reserved is not None
    worker = memory.workers.get(reserved.worker)
    leases = [] if worker is None else list(worker.leases.values())
    tasks = [task for lease in leases for task in lease.members.values()]
    going = [task for task in tasks if task.stop is not None and task.stop.for_task == context.task.id] or tasks
    return Finding(
        reason=Reason.NO_WORKER_CAPACITY,
        verdict=words.reserved(reserved.worker, reserved.why),
        says=f"reserved on {reserved.worker}",
        blockers=named(holder(memory, task, context.now) for task in going),
    )


def queue_position(context: TaskContext) -> int:
    """Return how many tasks of its queue are before it."""
    queues, task = context.memory.queues, context.task
    for position, (_, other) in enumerate(queues.peek(task.priority, task.tenant, context.shape, _MAX_POSITION)):
        if other is task:
            return position
    return queues.count_before(task, context.shape)


def _scarce(context: TaskContext, found: WorkerMatches) -> str:
    """The resource that no worker has enough of; cores, if none alone."""
    wanted, most = context.shape.resources, found.most_free()
    return next((name for name in NAMES if getattr(wanted, name) > getattr(most, name)), NAMES[0])


def _leases(found: WorkerMatches) -> Iterator[Lease]:
    leases = (lease for matched in found.available() for lease in matched.worker.leases.values())
    return islice(leases, _MAX_LEASES)


def _next_capacity(context: TaskContext, found: WorkerMatches) -> float | None:
    """Seconds until the first lease that would free enough usually ends; None if unknown."""
    memory, seconds_left = context.memory, remaining_seconds(context.memory, context.now)
    first: float | None = None
    for lease in _leases(found):
        worker = memory.workers[lease.worker_id]
        if context.shape.resources.fits(worker.free + lease.shape.resources):
            members = [seconds_left(task) for task in lease.members.values()]
            known = [left for left in members if left is not None]
            if len(known) == len(members) and (first is None or sum(known) < first):
                first = sum(known)
    return first


def _holders(context: TaskContext, found: WorkerMatches) -> Blockers:
    """The tasks that hold the capacity, the first to finish first."""
    tasks = [task for lease in _leases(found) for task in islice(lease.members.values(), 1)]
    count = sum(len(matched.worker.leases) for matched in found.available())
    return soonest(context.memory, tasks, context.now, count)
