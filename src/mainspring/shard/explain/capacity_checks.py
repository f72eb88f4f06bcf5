"""Capacity gates of a queued task: no matching worker, none large enough, fragmentation, others first, all full.

The scheduler's own record is `FairQueues.parked`: shapes without capacity. The order is asked of the functions that it
decides by: strict priority, then `sharing.place_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import MOST_NAMED, InTheWay, Reason
from mainspring.core.model.resources import NAMES, say_amounts
from mainspring.core.model.task import Priority, Task
from mainspring.core.model.worker import Lease
from mainspring.core.placement.feasibility import Hindrance
from mainspring.core.text.sentences import say_together
from mainspring.shard.explain import matching
from mainspring.shard.explain.diagnosis_context import Look, Rival
from mainspring.shard.explain.findings import Finding, cannot_say, holder, lefts, named, never, soonest, waiter
from mainspring.shard.explain.matching import Suiting
from mainspring.shard.explain.rule_checks import Hold
from mainspring.shard.placement import fair_share

_LEASES_LOOKED_AT = 256
_PLACES_COUNTED = 1_000


# workers


def unmatched(look: Look) -> Hold | None:
    """No worker matches its constraints, or all that match are unavailable."""
    found = look.suiting()
    if found.all_away():
        return Hold(words.MATCH, Reason.NO_MATCHING_WORKER, found.why, partial(_tell_away, found))
    if found.suits or matching.is_too_big(found):
        return None
    return Hold(words.MATCH, Reason.NO_MATCHING_WORKER, found.why, partial(_tell_unmatched, look, found))


def oversized(look: Look) -> Hold | None:
    """All matching workers are too small."""
    found = look.suiting()
    if found.suits:
        return None
    return Hold(words.SIZE, Reason.TOO_BIG, found.why, partial(_tell_too_big, look, found))


def _tell_unmatched(look: Look, found: Suiting) -> Finding:
    memory = look.memory
    if not memory.workers:
        nobody = cannot_say("the pool has no workers")
        verdict = words.no_worker_at_all(memory.shard)
        return Finding(reason=Reason.NO_MATCHING_WORKER, verdict=verdict, says="no workers", expected=nobody)
    lacking, similar = matching.lacks(memory, found)
    if not lacking:
        similar = found.why
    lacking = lacking or matching.all_that_is_asked(look.shape)
    hope = matching.hope(memory, look.shape, look.now)
    basis = f"no worker offers {lacking}"
    return Finding(
        reason=Reason.NO_MATCHING_WORKER,
        verdict=words.no_such_worker(lacking, similar, hope),
        says=f"0 of {len(memory.workers):,}",
        expected=cannot_say(f"{basis} now; {hope}") if hope else never(basis),
        numbers={"workers": float(len(memory.workers)), "would_do": 0.0},
    )


def _tell_away(found: Suiting) -> Finding:
    names = [f"{suit.worker.id} ({_say_away(suit)})" for suit in found.suits]
    ways = [
        InTheWay(kind="worker", id=suit.worker.id, says=name) for suit, name in zip(found.suits, names, strict=True)
    ]
    shown, others = named(ways)
    return Finding(
        reason=Reason.NO_MATCHING_WORKER,
        verdict=words.only_away(matching.all_that_is_asked(found.shape), names, len(names)),
        says=f"{len(names)} unavailable",
        expected=cannot_say("it depends on when they are available again"),
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"would_do": float(len(names))},
    )


def _say_away(suit: matching.Suit) -> str:
    worker = suit.worker
    if Hindrance.NOT_READY in suit.kinds:
        return f"{worker.status}"
    if Hindrance.HELD not in suit.kinds:
        return "no claim open"
    return worker.hold or "leaving"  # the reason of a cordon may name people


def _tell_too_big(look: Look, found: Suiting) -> Finding:
    short = matching.shortage(found)
    needs = say_together(say_amounts(look.shape.resources))
    hope = matching.hope(look.memory, look.shape, look.now)
    verdict = words.too_big(needs, "", hope) if short is None else words.too_big(*short, hope)
    basis = "no worker has enough total capacity"
    return Finding(
        reason=Reason.TOO_BIG,
        verdict=verdict,
        says=f"needs {needs if short is None else short[0]}",
        expected=cannot_say(f"{basis} now; {hope}") if hope else never(basis),
        numbers={"workers": float(len(found.alike))},
    )


# room


def in_pieces(look: Look) -> Hold | None:
    """Free capacity is reserved for others, or spread over several workers."""
    if not look.is_parked() or look.task.reserved is not None:
        return None
    found = look.suiting()
    keepers = found.keepers()
    if keepers:
        tasks = [task for worker in keepers for task in map(look.memory.find, worker.kept) if task is not None]
        is_above = bool(tasks) and all(task.priority < look.task.priority for task in tasks)
        reason = Reason.PRIORITY_QUEUE_WAIT if is_above else Reason.NO_WORKER_CAPACITY
        return Hold(words.PIECE, reason, found.why, partial(_tell_kept, look, reason, len(keepers), tasks))
    if look.shape.resources.fits(found.free):
        return Hold(words.PIECE, Reason.FRAGMENTED, found.why, partial(_tell_fragmented, look, found))
    return None


def _tell_kept(look: Look, reason: Reason, workers: int, tasks: list[Task]) -> Finding:
    shown, others = named(waiter(look.memory, task, look.now) for task in tasks)
    return Finding(
        reason=reason,
        verdict=words.kept_for_others(workers, more_important=reason is Reason.PRIORITY_QUEUE_WAIT),
        says=f"reserved on {words.say_count(workers, 'worker')}",
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"keepers": float(workers)},
    )


def _tell_fragmented(look: Look, found: Suiting) -> Finding:
    wanted, free, most = look.shape.resources, found.free, found.most_free()
    shown, others = _holders(look, found)
    return Finding(
        reason=Reason.FRAGMENTED,
        verdict=words.fragmented(wanted, free, most, is_all=found.is_all),
        says=f"{say_amounts(most)[0] if say_amounts(most) else 'nothing'} on one worker",
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"free_cores": free.cpu_millis / 1000, "most_free_cores": most.cpu_millis / 1000},
    )


def outranked(look: Look) -> Hold | None:
    """Tasks of higher priority go first."""
    if look.task.reserved is not None:
        return None
    rivals = [
        (priority, rival) for priority in Priority if priority < look.task.priority
        for rival in look.survey.rivals(look, priority)
    ]  # fmt: skip
    if not rivals:
        return None
    count = sum(rival.tasks for _, rival in rivals)
    why = words.behind_priority(count, look.task.priority, is_all=not look.survey.has_left_out)
    return Hold(words.PRIORITY, Reason.PRIORITY_QUEUE_WAIT, why, partial(_tell_outranked, look, rivals, count, why))


def _tell_outranked(look: Look, rivals: list[tuple[Priority, Rival]], count: int, verdict: str) -> Finding:
    first = (
        task
        for priority, rival in rivals[:MOST_NAMED]
        for _, task in look.memory.queues.peek(priority, rival.tenant, rival.shape, MOST_NAMED)
    )
    shown, others = named((waiter(look.memory, task, look.now) for task in islice(first, MOST_NAMED)), count)
    return Finding(
        reason=Reason.PRIORITY_QUEUE_WAIT,
        verdict=verdict,
        says=f"{count:,} ahead",
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"ahead": float(count)},
    )


def outshared(look: Look) -> Hold | None:
    """Other tenants rank before its own, by guarantee or by share."""
    memory, task, now = look.memory, look.task, look.now
    others = any(priority is task.priority and tenant != task.tenant for priority, tenant in memory.queues.depth)
    if task.reserved is not None or not others:
        return None
    mine = fair_share.place_of(memory, task.priority, task.tenant, now, look.shape)
    first = [
        (place, rival) for rival in look.survey.rivals(look, task.priority) if rival.tenant != task.tenant
        and (place := fair_share.place_of(memory, task.priority, rival.tenant, now, rival.shape)) < mine
    ]  # fmt: skip
    if not first:
        return None
    first.sort(key=lambda one: (one[0], one[1].tenant))
    return Hold(
        words.SHARE,
        Reason.FAIR_SHARE,
        f"{task.tenant} is at {look.survey.part_of_share(task.tenant):.0%} of its fair share, others go first",
        partial(_tell_outshared, look, mine, first),
    )


def _tell_outshared(look: Look, mine: fair_share.Place, first: list[tuple[fair_share.Place, Rival]]) -> Finding:
    waiting: dict[str, int] = {}
    for _, rival in first:
        waiting[rival.tenant] = waiting.get(rival.tenant, 0) + rival.tasks
    shown, others = named(
        InTheWay(
            kind="tenant", id=tenant, tenant=tenant, priority=look.task.priority,
            says=f"{tenant} (at {look.survey.part_of_share(tenant):.0%} of its fair share, {count:,} waiting)",
        )
        for tenant, count in waiting.items()
    )  # fmt: skip
    own, other = look.survey.part_of_share(look.task.tenant), look.survey.part_of_share(first[0][1].tenant)
    is_guaranteed = mine[0] and not first[0][0][0]
    return Finding(
        reason=Reason.FAIR_SHARE,
        verdict=words.behind_share(look.task.tenant, own, other, guaranteed=is_guaranteed),
        says=f"{own:.0%}",
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"share": own, "other_share": other, "tenants_ahead": float(len(waiting))},
    )


def roomless(look: Look) -> Hold | None:
    """All matching workers are full, or one is being freed for it."""
    if look.task.reserved is None and not look.is_parked():
        return None
    found = look.suiting()
    return Hold(words.ROOM, Reason.NO_WORKER_CAPACITY, found.why, partial(_tell_roomless, look, found))


def _tell_roomless(look: Look, found: Suiting) -> Finding:
    memory, task = look.memory, look.task
    if task.reserved is not None:
        return _tell_making_room(look)
    others_of_run = [one for one in look.run.live.values() if one.name in look.shape.apart]
    if others_of_run and not found.roomless():
        shown, others = named(holder(memory, one, look.now) for one in others_of_run)
        verdict = words.apart(list(look.shape.apart))
        return Finding(reason=Reason.NO_WORKER_CAPACITY, verdict=verdict, in_the_way=shown, others_in_the_way=others)
    name = _scarce(look, found)
    workers = found.roomless()
    free, total = getattr(found.free, name), sum(getattr(worker.total, name) for worker in workers)
    ahead = place_in_line(look)
    next_room = _next_room(look, found)
    shown, others = _holders(look, found)
    says = words.say_part(name, free, total)
    return Finding(
        reason=Reason.NO_WORKER_CAPACITY,
        verdict=words.no_room(says, ahead, task.priority, next_room),
        says=f"{says} free",
        in_the_way=shown,
        others_in_the_way=others,
        numbers={"ahead": float(ahead), "free": float(free), "total": float(total), "would_do": float(len(workers))}
        | ({} if next_room is None else {"next_room_seconds": next_room}),
    )


def _tell_making_room(look: Look) -> Finding:
    memory, room = look.memory, look.task.reserved
    assert room is not None
    worker = memory.workers.get(room.worker)
    leases = [] if worker is None else list(worker.leases.values())
    tasks = [task for lease in leases for task in lease.members.values()]
    going = [task for task in tasks if task.stop is not None and task.stop.for_task == look.task.id] or tasks
    shown, others = named(holder(memory, task, look.now) for task in going)
    return Finding(
        reason=Reason.NO_WORKER_CAPACITY,
        verdict=words.making_room(room.worker, room.why),
        says=f"reserved on {room.worker}",
        in_the_way=shown,
        others_in_the_way=others,
    )


def place_in_line(look: Look) -> int:
    """How many tasks of its queue are before it."""
    queues, task = look.memory.queues, look.task
    for place, (_, other) in enumerate(queues.peek(task.priority, task.tenant, look.shape, _PLACES_COUNTED)):
        if other is task:
            return place
    return queues.count_before(task, look.shape)


def _scarce(look: Look, found: Suiting) -> str:
    """The resource that no worker has enough of; cores, if none alone."""
    wanted, most = look.shape.resources, found.most_free()
    return next((name for name in NAMES if getattr(wanted, name) > getattr(most, name)), NAMES[0])


def _leases(found: Suiting) -> Iterator[Lease]:
    leases = (lease for suit in found.here() for lease in suit.worker.leases.values())
    return islice(leases, _LEASES_LOOKED_AT)


def _next_room(look: Look, found: Suiting) -> float | None:
    """Seconds until the first lease that would free enough usually ends; None if unknown."""
    memory, seconds_left = look.memory, lefts(look.memory, look.now)
    first: float | None = None
    for lease in _leases(found):
        worker = memory.workers[lease.worker_id]
        if look.shape.resources.fits(worker.free + lease.shape.resources):
            members = [seconds_left(task) for task in lease.members.values()]
            known = [left for left in members if left is not None]
            if len(known) == len(members) and (first is None or sum(known) < first):
                first = sum(known)
    return first


def _holders(look: Look, found: Suiting) -> tuple[tuple[InTheWay, ...], int]:
    """The tasks that hold the capacity, the first to finish first."""
    tasks = [task for lease in _leases(found) for task in islice(lease.members.values(), 1)]
    count = sum(len(suit.worker.leases) for suit in found.here())
    return soonest(look.memory, tasks, look.now, count)
