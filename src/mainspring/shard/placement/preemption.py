"""Preemption: capacity for starved queues (PLC-5, PLC-6, PLC-9), reserved in `shard/placement/reservations.py`.

A starved queue is checked after its priority is dispatched and before a lower one is, so that no lower priority takes
the capacity. Its oldest task gets capacity by one of these modes:

    P0                             P2, then P1, is preempted
    within its tenant's guarantee  burst usage of other tenants is reclaimed
    P1, if set so                  P2 is moved to another worker
    any, after some seconds        capacity is reserved for the next tenant (`shard/placement/starvation_guard.py`)

Options that stop nothing come first: reservations of lower priorities, and the recalled rest of groups. A task has one
reservation at a time, for `kept_room_seconds`, which limits how often it can preempt.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache, partial

from msgspec.structs import replace

from mainspring.core.fairness.quotas import is_guaranteed
from mainspring.core.model.resources import NOTHING, Resources
from mainspring.core.model.task import Preemptor, Priority, StopKind, Task
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement.preemption_policy import (
    MOST_LOOKED_AT,
    Fleet,
    Looks,
    Mode,
    Plan,
    Wanted,
    decide_victims,
    is_going,
    plan_on,
)
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import decision_log
from mainspring.shard.actions import stop_requests
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.placement import concurrency_groups, gates, reservations, starvation_guard
from mainspring.shard.placement.starved_queues import Line
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn

LINES_PER_TURN = 64
ROOMS_PER_TURN = 8
"""Per queue: each may scan the whole pool. The next turn continues."""
LOOK_AGAIN_SECONDS = 1.0
"""After a check that found nothing."""
_MOVES_TO = 64
"""Number of workers considered as targets for moved tasks."""
_WHY = {
    Mode.TAKE_OVER: "",
    Mode.PREEMPT: "preempted for {winner}",
    Mode.RECLAIM: "reclaimed beyond its tenant's guarantee for {winner}",
    Mode.DEFRAGMENT: "moved to another worker for {winner}",
}


def make_room(turn: Turn, priority: Priority, only: Shape | None = None) -> bool:
    """Make capacity for the starved queues of a priority; True if something may be placed now."""
    memory = turn.memory
    _sweep(memory, priority)
    looks = Looks()
    freed = _take_over(turn, priority, only, looks)
    for line in memory.needs.pop_due(priority, memory.life, LINES_PER_TURN):
        if turn.spent() or not looks.left or (only is not None and line[2] != only):
            memory.needs.put_off(line, memory.life)
        else:
            freed = _look(turn, line, looks) or freed
    _set_alarm(memory)
    return freed


def _look(turn: Turn, line: Line, looks: Looks) -> bool:
    """Make capacity for the oldest tasks of a queue without reservations; True if some is free at once."""
    memory, (priority, tenant, shape) = turn.memory, line
    head = memory.queues.first(priority, tenant, shape)
    if head is None or shape not in memory.queues.parked:
        memory.needs.forget(line)
        return False
    need = memory.needs.need(line, head.id, memory.life)
    waited, freed = memory.life - need.since, False
    found: tuple[Mode, Plan] | None = None
    over = frozenset(_less_important(memory, priority))
    fleet = _survey(turn, over, looks)
    most = ROOMS_PER_TURN + len(memory.kept_rooms.get(line, ()))
    tasks = memory.queues.oldest(priority, tenant, shape, most)
    for task in tasks:
        if task.reserved is not None:
            continue
        waits_for_room = _waits_for_room(turn, task, shape)
        found = _find_plan(turn, task, over, replace(fleet, use=_lasting_use(turn)), found) if waits_for_room else None
        if found is None:
            if waits_for_room and task is head and waited >= memory.tuning.keep_room_after_seconds:
                starvation_guard.keep_for_next(turn, task, shape)
            _look_again(memory, line, waited)
            return freed
        freed = _carry_out(turn, task, *found) or freed
    if len(tasks) == most:
        memory.needs.put_off(line, memory.life, memory.life)
    else:
        memory.needs.forget(line)
    return freed


def _sweep(memory: ShardMemory, priority: Priority) -> None:
    """Mark the queues of parked shapes as starved: one queue parks the shape for all.

    P0 queues are few and can't wait; the others are marked once a second.
    """
    needs, life = memory.needs, memory.life
    if not memory.queues.parked:
        return
    if priority is Priority.P0:
        for line in memory.queues.parked_lines((Priority.P0,)):
            needs.press(line, life)
    elif life >= needs.swept + LOOK_AGAIN_SECONDS:
        needs.swept, needs.is_new = life, False
        for line in memory.queues.parked_lines((Priority.P1, Priority.P2)):
            needs.press(line, life)
    elif needs.is_new:
        needs.wake(needs.swept + LOOK_AGAIN_SECONDS)


def _take_over(turn: Turn, priority: Priority, only: Shape | None, looks: Looks) -> bool:
    """Transfer ready reservations of lower priorities to higher ones.

    Queues that they could help are checked now. A reservation that is not ready is exchanged for one that is; True if
    any was.
    """
    memory, freed = turn.memory, False
    over = frozenset(_less_important(memory, priority)) if memory.needs.stirred else frozenset[str]()
    for worker in [memory.workers[name] for name in memory.needs.stirred if name in memory.workers]:
        if over.isdisjoint(worker.kept):
            continue
        room = worker.free
        for task_id, kept in worker.kept.items():
            room += kept if task_id in over else NOTHING
        memory.needs.hurry(priority, memory.life, partial(_fits, room))
        lines = [line for line in memory.kept_rooms if line[0] is priority and only in (None, line[2])]
        for line in lines:
            if _fits(room, line[2]) and not turn.spent():
                freed = _exchange(turn, line, worker, _survey(turn, over, looks), over) or freed
    if priority is Priority.P2:
        memory.needs.stirred.clear()
    return freed


def _fits(room: Resources, shape: Shape) -> bool:
    return shape.resources.fits(room)


def _exchange(turn: Turn, line: Line, worker: Worker, fleet: Fleet, over: frozenset[str]) -> bool:
    """Exchange pending reservations of a queue for capacity on this worker."""
    memory, shape, freed = turn.memory, line[2], False
    for task in list(memory.kept_rooms[line].values()):
        kept = None if task.reserved is None else memory.workers.get(task.reserved.worker)
        if kept is None or reservations.has_come(memory, task, kept) or not _waits_for_room(turn, task, shape):
            continue
        plan = _plan_at_once(memory, task, worker, fleet, over)
        if plan is None:
            break
        reservations.give_back(turn, task)
        freed = _carry_out(turn, task, Mode.TAKE_OVER, plan) or freed
    return freed


def _plan_at_once(memory: ShardMemory, task: Task, worker: Worker, fleet: Fleet, over: frozenset[str]) -> Plan | None:
    """Plan to place a task on this worker at once, with capacity reserved for lower priorities."""
    wanted = Wanted(
        mode=Mode.TAKE_OVER, tenant=task.tenant, resources=memory.shape(task).resources, over=over, at_once=True,
        may_take=reservations.may_take(memory, task),
    )  # fmt: skip
    plan = plan_on(wanted, worker, fleet, frozenset())
    return plan if plan is not None and wanted.may_take(worker) else None


def _look_again(memory: ShardMemory, line: Line, waited: float) -> None:
    """Schedule the next check of a queue: soon after a change, otherwise with a backoff that grows with its wait."""
    after = memory.tuning.keep_room_after_seconds
    delay = after - waited if waited < after else max(LOOK_AGAIN_SECONDS, waited)
    memory.needs.put_off(line, memory.life + min(LOOK_AGAIN_SECONDS, delay), memory.life + delay)


def _waits_for_room(turn: Turn, task: Task, shape: Shape) -> bool:
    """Whether a task waits for capacity and nothing else."""
    memory, run = turn.memory, turn.memory.runs[task.run_id]
    if shape in memory.barred or memory.waits_for_group(shape) or run.subject() in memory.failing_jobs.open:
        return False
    if not run.may_place(task) or gates.hinders_run(memory, run, turn.now) is not None:
        return False
    if gates.passes_over(turn, task.priority, task.tenant):
        return False
    kept = _kept_beside(memory, task)
    if gates.exceeds(memory, task.priority, task.tenant, shape, turn.now, kept) is not None:
        return False
    return concurrency_groups.has_slot(turn, task, shape)


def _survey(turn: Turn, over: frozenset[str], looks: Looks) -> Fleet:
    """Facts about the pool for planning."""
    memory = turn.memory
    open_workers = memory.open_workers.all if memory.tuning.defragment else []
    return Fleet(
        now=turn.now,
        looks=looks,
        holders=cache(lambda levels: _holders(memory, levels, over)),
        use={},
        quota=lambda tenant: memory.rules.quota(tenant, turn.now),
        lost=lambda lease: _seconds_lost(turn, lease),
        others=turn.random.sample(open_workers, min(_MOVES_TO, len(open_workers))),
    )


def _find_plan(
    turn: Turn, task: Task, over: frozenset[str], fleet: Fleet, before: tuple[Mode, Plan] | None
) -> tuple[Mode, Plan] | None:
    """Find the mode and plan by which a task gets capacity; None if it has to wait.

    Reserved capacity that is ready goes before capacity that others are still releasing.

    `before` is the plan of the previous task in its queue: stages that failed for that one are skipped.
    """
    memory = turn.memory
    shape = memory.shape(task)
    for worker in [worker for worker in fleet.holders(frozenset()) if not over.isdisjoint(worker.kept)]:
        at_once = _plan_at_once(memory, task, worker, fleet, over)
        if at_once is not None and at_once.rooms:
            return Mode.TAKE_OVER, at_once
    mode = _right(turn, task, shape)
    if mode is Mode.TAKE_OVER and not over:
        return None
    stage = before[1].stage if before is not None and before[0] is mode else 0
    wanted = Wanted(
        mode=mode, tenant=task.tenant, resources=shape.resources, over=over, stage=stage,
        may_take=reservations.may_take(memory, task),
    )  # fmt: skip
    plan = decide_victims(wanted, fleet, turn.random)
    if plan is None or (mode is Mode.TAKE_OVER and not plan.rooms):
        return None
    return mode, plan


def _right(turn: Turn, task: Task, shape: Shape) -> Mode:
    """The mode by which a task may preempt others."""
    memory = turn.memory
    if task.priority is Priority.P0:
        return Mode.PREEMPT
    quota = memory.rules.quota(task.tenant, turn.now)
    use = sum(_kept_beside(memory, task), start=memory.use.get(task.tenant, NOTHING) + shape.resources)
    if is_guaranteed(quota, use):
        return Mode.RECLAIM
    if task.priority is Priority.P1 and memory.tuning.defragment and shape.resources.fits(_free_total(memory)):
        return Mode.DEFRAGMENT
    return Mode.TAKE_OVER


def _holders(memory: ShardMemory, levels: frozenset[Priority], over: frozenset[str]) -> list[Worker]:
    """Workers with leases of these priorities, with stopping leases, or with reservations that may be transferred."""
    names = dict.fromkeys(lease.worker_id for lease in memory.going.values())
    for task in map(memory.find, sorted(over)):
        if task is not None and task.reserved is not None:
            names[task.reserved.worker] = None
    for priority in sorted(levels):
        names.update(dict.fromkeys(memory.holders[priority]))
    return [memory.workers[name] for name in names]


def _less_important(memory: ShardMemory, priority: Priority) -> Iterator[str]:
    """Tasks whose reservation a priority may take: of lower priorities, for P1 only if nothing was preempted for it."""
    for (lower, _, _), kept in memory.kept_rooms.items():
        if lower > priority:
            for other in kept.values():
                if priority is Priority.P0 or (other.reserved is not None and other.reserved.yields):
                    yield other.id


def _lasting_use(turn: Turn) -> Mapping[str, Resources]:
    """Usage of each tenant without stopping leases. A view, not a copy: there may be many tenants and queues."""
    use, left = turn.memory.use, dict[str, Resources]()
    for lease in turn.memory.going.values():
        if is_going(lease, turn.now):
            left[lease.tenant] = left.get(lease.tenant, use[lease.tenant]) - lease.shape.resources
    return ChainMap(left, use) if left else use


def _kept_beside(memory: ShardMemory, task: Task) -> list[Resources]:
    """Reservations of the tenant's other tasks, which count against its quota."""
    return [
        shape.resources
        for (_, tenant, shape), kept in memory.kept_rooms.items()
        if tenant == task.tenant
        for task_id in kept
        if task_id != task.id
    ]


def _free_total(memory: ShardMemory) -> Resources:
    total = NOTHING
    for worker in memory.open_workers.all[:MOST_LOOKED_AT]:
        total += worker.free
    return total


def _seconds_lost(turn: Turn, lease: Lease) -> float:
    """Work that would be lost if a lease ended now."""
    return sum(stop_requests.seconds_lost(turn, task) for task in lease.members.values())


def _carry_out(turn: Turn, task: Task, mode: Mode, plan: Plan) -> bool:
    """Preempt the victims, and reserve their capacity; True if the task fits at once."""
    memory = turn.memory
    decision_log.room_is_made(turn, task, mode, plan)
    for task_id in plan.rooms:
        other = memory.find(task_id)
        if other is not None:
            waited = memory.tuning.keep_room_after_seconds if other.reserved and other.reserved.yields else 0.0
            reservations.give_back(turn, other)
            line = (other.priority, other.tenant, memory.shape(other))
            memory.needs.press_again(line, other.id, waited, memory.life)
    winner = _preemptor(memory, task)
    why = _WHY[mode].format(winner=winner)
    grace = timedelta(seconds=memory.tuning.preemption_grace_seconds)
    for lease in plan.victims:
        for member in list(lease.members.values()):
            if member.stop is None or member.stop.kind is StopKind.HOLD:
                stop_requests.request(
                    turn, member, StopKind.PREEMPT, by="shard", why=why, grace=grace, preempted_for=winner
                )
    moved = len(plan.victims)
    say = f"{moved} lease{'s' if moved > 1 else ''} preempted for it" if moved else "capacity is already being released"
    reservations.keep(turn, task, plan.worker, say, yields=mode is Mode.TAKE_OVER)
    return reservations.has_come(memory, task, plan.worker)


def _preemptor(memory: ShardMemory, task: Task) -> Preemptor:
    job = memory.runs[task.run_id].subject()
    return Preemptor(task=task.id, name=task.name, job=job, tenant=task.tenant, run=task.run_id, priority=task.priority)


def _set_alarm(memory: ShardMemory) -> None:
    """Set a timer for the next check that must not be missed."""
    needs, due = memory.needs, memory.needs.next_alarm
    needs.next_alarm = None
    if due is not None and (needs.alarm is None or due < needs.alarm):
        needs.alarm = due
        memory.set_length(due - memory.life, TimerDue(kind=TimerKind.KEPT_ROOM, subject=""))
