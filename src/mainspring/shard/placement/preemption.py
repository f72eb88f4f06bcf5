"""Preemption: capacity for starved queues (PLC-5, PLC-6, PLC-9), reserved in `shard/placement/reservations.py`.

A starved queue is checked after its priority is dispatched and before a lower one is, so that no lower priority takes
the capacity. Its oldest task gets capacity by one of these modes:

    P0                             P2, then P1, is preempted
    within its tenant's guarantee  burst usage of other tenants is reclaimed
    P1, if set so                  P2 is moved to another worker
    any, after some seconds        capacity is reserved for the next tenant (`shard/placement/starvation_guard.py`)

Options that stop nothing come first: reservations of lower priorities, and the recalled rest of groups. A task has one
reservation at a time, for `reservation_seconds`, which limits how often it can preempt.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import cache, partial
from typing import cast

from msgspec.structs import replace

from mainspring.core.fairness.quotas import is_guaranteed
from mainspring.core.model.resources import ZERO_RESOURCES, Resources
from mainspring.core.model.task import Preemptor, Priority, StopKind, Task
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement.preemption_policy import (
    MAX_EXAMINED,
    CapacityRequest,
    ClusterView,
    Mode,
    Plan,
    SearchBudget,
    decide_victims,
    is_ending,
    plan_on,
)
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard import decision_log
from mainspring.shard.actions import stop_requests
from mainspring.shard.events import TimerKind
from mainspring.shard.placement import concurrency_groups, gates, reservations, starvation_guard
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.starved_queues import RECHECK_SECONDS, QueueKey
from mainspring.shard.turn import Turn

QUEUES_PER_TURN = 64
RESERVATIONS_PER_TURN = 8
"""Per queue: each may scan the whole pool. The next turn continues."""
_MAX_MOVE_TARGETS = 64
"""Number of workers considered as targets for moved tasks."""
_WHY = {
    Mode.TAKE_OVER: "",
    Mode.PREEMPT: "preempted for {winner}",
    Mode.RECLAIM: "reclaimed beyond its tenant's guarantee for {winner}",
    Mode.DEFRAGMENT: "moved to another worker for {winner}",
}


def preempt(turn: Turn, priority: Priority, only: Shape | None = None) -> bool:
    """Make capacity for the starved queues of a priority; True if something may be placed now."""
    memory = turn.memory
    if memory.queues.parked:
        memory.queues.starved.sweep(priority, memory.shard_time, memory.queues.parked_queues)
    budget = SearchBudget()
    freed = _take_over(turn, priority, only, budget)
    for queue_key in memory.queues.starved.pop_due(priority, memory.shard_time, QUEUES_PER_TURN):
        if turn.spent() or not budget.left or (only is not None and queue_key[2] != only):
            memory.queues.starved.defer(queue_key, memory.shard_time)
        else:
            freed = _check_queue(turn, queue_key, budget) or freed
    _set_alarm(memory)
    return freed


def _check_queue(turn: Turn, queue_key: QueueKey, budget: SearchBudget) -> bool:
    """Make capacity for the oldest tasks of a queue without reservations; True if some is free at once."""
    memory, (priority, tenant, shape) = turn.memory, queue_key
    head = memory.queues.first(priority, tenant, shape)
    if head is None or shape not in memory.queues.parked:
        memory.queues.starved.forget(queue_key)
        return False
    starved = memory.queues.starved.starved(queue_key, head.id, memory.shard_time)
    waited, freed = memory.shard_time - starved.since, False
    found: tuple[Mode, Plan] | None = None
    over = frozenset(_takeable_reservations(memory, priority))
    cluster = _view_pool(turn, over, budget)
    most = RESERVATIONS_PER_TURN + len(memory.queues.reserved.get(queue_key, ()))
    tasks = memory.queues.oldest(priority, tenant, shape, most)
    for task in tasks:
        if task.reserved is not None:
            continue
        waits_for_capacity = _waits_for_capacity(turn, task, shape)
        before, found = found, None
        if waits_for_capacity:
            found = _find_plan(turn, task, over, replace(cluster, use=_lasting_usage(turn)), before)
        if found is None:
            if waits_for_capacity and task is head and waited >= memory.scheduler_settings.reserve_after_seconds:
                starvation_guard.reserve_for_next(turn, task, shape)
            _schedule_check(memory, queue_key, waited)
            return freed
        freed = _execute(turn, task, *found) or freed
    if len(tasks) == most:
        memory.queues.starved.defer(queue_key, memory.shard_time, memory.shard_time)
    else:
        memory.queues.starved.forget(queue_key)
    return freed


def _take_over(turn: Turn, priority: Priority, only: Shape | None, budget: SearchBudget) -> bool:
    """Transfer ready reservations of lower priorities to higher ones.

    Queues that they could help are checked now. A reservation that is not ready is exchanged for one that is; True if
    any was.
    """
    memory, queues, freed = turn.memory, turn.memory.queues, False
    changed = list(queues.starved.changed_workers)
    over = frozenset(_takeable_reservations(memory, priority) if changed else ())
    for worker in filter(None, map(memory.workers.get, changed)):
        if over.isdisjoint(worker.reserved):
            continue
        takeable = (reserved for task_id, reserved in worker.reserved.items() if task_id in over)
        fits = partial(_fits, sum(takeable, start=worker.free))
        queues.starved.check_now(priority, memory.shard_time, fits)
        for queue_key in [key for key in queues.reserved if key[0] is priority and only in (None, key[2])]:
            if fits(queue_key[2]) and not turn.spent():
                freed = _exchange(turn, queue_key, worker, _view_pool(turn, over, budget), over) or freed
    if priority is Priority.P2:
        queues.starved.clear_changed_workers()
    return freed


def _fits(capacity: Resources, shape: Shape) -> bool:
    return shape.resources.fits(capacity)


def _exchange(turn: Turn, queue_key: QueueKey, worker: Worker, cluster: ClusterView, over: frozenset[str]) -> bool:
    """Exchange pending reservations of a queue for capacity on this worker."""
    memory, shape, freed = turn.memory, queue_key[2], False
    for task in list(memory.queues.reserved[queue_key].values()):
        reserved = None if task.reserved is None else memory.workers.get(task.reserved.worker)
        if reserved is None or reservations.is_ready(memory, task, reserved):
            continue
        if not _waits_for_capacity(turn, task, shape):
            continue
        plan = _plan_at_once(memory, task, worker, cluster, over)
        if plan is None:
            break
        reservations.release(turn, task)
        freed = _execute(turn, task, Mode.TAKE_OVER, plan) or freed
    return freed


def _plan_at_once(
    memory: ShardMemory, task: Task, worker: Worker, cluster: ClusterView, over: frozenset[str]
) -> Plan | None:
    """Plan to place a task on this worker at once, with capacity reserved for lower priorities."""
    wanted = CapacityRequest(
        mode=Mode.TAKE_OVER, tenant=task.tenant, resources=memory.shape(task).resources, over=over, at_once=True,
        may_take=reservations.may_take(memory, task),
    )  # fmt: skip
    plan = plan_on(wanted, worker, cluster, frozenset())
    return plan if plan is not None and wanted.may_take(worker) else None


def _schedule_check(memory: ShardMemory, queue_key: QueueKey, waited: float) -> None:
    """Schedule the next check of a queue: soon after a change, otherwise with a backoff that grows with its wait."""
    after = memory.scheduler_settings.reserve_after_seconds
    delay = after - waited if waited < after else max(RECHECK_SECONDS, waited)
    memory.queues.starved.defer(queue_key, memory.shard_time + min(RECHECK_SECONDS, delay), memory.shard_time + delay)


def _waits_for_capacity(turn: Turn, task: Task, shape: Shape) -> bool:
    """Whether a task waits for capacity and nothing else."""
    memory, run = turn.memory, turn.memory.runs[task.run_id]
    if shape in memory.queues.faulty or memory.limits.ledger.waits(shape):
        return False
    if run.subject() in memory.limits.job_breakers.open or not run.may_place(task):
        return False
    if gates.blocking_rule(memory, run, turn.now) is not None or gates.passes_over(turn, task.priority, task.tenant):
        return False
    reserved = _reserved_beside(memory, task)
    if gates.exceeds(memory, task.priority, task.tenant, shape, turn.now, reserved) is not None:
        return False
    return concurrency_groups.has_slot(turn, task, shape)


def _view_pool(turn: Turn, over: frozenset[str], budget: SearchBudget) -> ClusterView:
    """Facts about the pool for planning."""
    memory = turn.memory
    open_workers = memory.workers.open.all if memory.scheduler_settings.defragment else []
    return ClusterView(
        now=turn.now,
        budget=budget,
        holders=cache(lambda levels: _holders(memory, levels, over)),
        use={},
        quota=lambda tenant: memory.rules.quota(tenant, turn.now),
        lost=lambda lease: _seconds_lost(turn, lease),
        others=turn.random.sample(open_workers, min(_MAX_MOVE_TARGETS, len(open_workers))),
    )


def _find_plan(
    turn: Turn, task: Task, over: frozenset[str], cluster: ClusterView, before: tuple[Mode, Plan] | None
) -> tuple[Mode, Plan] | None:
    """Find the mode and plan by which a task gets capacity; None if it has to wait.

    Reserved capacity that is ready goes before capacity that others are still releasing.

    `before` is the plan of the previous task in its queue: stages that failed for that one are skipped.
    """
    memory = turn.memory
    shape = memory.shape(task)
    for worker in [worker for worker in cluster.holders(frozenset()) if not over.isdisjoint(worker.reserved)]:
        at_once = _plan_at_once(memory, task, worker, cluster, over)
        if at_once is not None and at_once.reservations:
            return Mode.TAKE_OVER, at_once
    mode = _mode(turn, task, shape)
    if mode is Mode.TAKE_OVER and not over:
        return None
    stage = before[1].stage if before is not None and before[0] is mode else 0
    wanted = CapacityRequest(
        mode=mode, tenant=task.tenant, resources=shape.resources, over=over, stage=stage,
        may_take=reservations.may_take(memory, task),
    )  # fmt: skip
    plan = decide_victims(wanted, cluster, turn.random)
    if plan is None or (mode is Mode.TAKE_OVER and not plan.reservations):
        return None
    return mode, plan


def _mode(turn: Turn, task: Task, shape: Shape) -> Mode:
    """The mode by which a task may preempt others."""
    memory = turn.memory
    if task.priority is Priority.P0:
        return Mode.PREEMPT
    use = memory.leases.use.get(task.tenant, ZERO_RESOURCES) + shape.resources
    if is_guaranteed(memory.rules.quota(task.tenant, turn.now), sum(_reserved_beside(memory, task), start=use)):
        return Mode.RECLAIM
    may_defragment = task.priority is Priority.P1 and memory.scheduler_settings.defragment
    if may_defragment and shape.resources.fits(_free_total(memory)):
        return Mode.DEFRAGMENT
    return Mode.TAKE_OVER


def _holders(memory: ShardMemory, levels: frozenset[Priority], over: frozenset[str]) -> list[Worker]:
    """Workers with leases of these priorities, with stopping leases, or with reservations that may be transferred."""
    names = dict.fromkeys(lease.worker_id for lease in memory.leases.stopping.values())
    for task in map(memory.runs.find, sorted(over)):
        if task is not None and task.reserved is not None:
            names[task.reserved.worker] = None
    for priority in sorted(levels):
        names.update(dict.fromkeys(memory.leases.holders[priority]))
    return [memory.workers[name] for name in names]


def _takeable_reservations(memory: ShardMemory, priority: Priority) -> Iterator[str]:
    """Tasks whose reservation a priority may take: of lower priorities, for P1 only if nothing was preempted for it."""
    for (lower, _, _), reserved in memory.queues.reserved.items():
        if lower > priority:
            for other in reserved.values():
                if priority is Priority.P0 or (other.reserved is not None and other.reserved.yields):
                    yield other.id


def _lasting_usage(turn: Turn) -> Mapping[str, Resources]:
    """Usage of each tenant without stopping leases. A view, not a copy: there may be many tenants and queues."""
    use, left = turn.memory.leases.use, dict[str, Resources]()
    for lease in turn.memory.leases.stopping.values():
        if is_ending(lease, turn.now):
            left[lease.tenant] = left.get(lease.tenant, use[lease.tenant]) - lease.shape.resources
    return ChainMap(left, cast("dict[str, Resources]", use)) if left else use


def _reserved_beside(memory: ShardMemory, task: Task) -> list[Resources]:
    """Reservations of the tenant's other tasks, which count against its quota."""
    return [
        shape.resources
        for (_, tenant, shape), reserved in memory.queues.reserved.items()
        if tenant == task.tenant
        for task_id in reserved
        if task_id != task.id
    ]


def _free_total(memory: ShardMemory) -> Resources:
    return sum((worker.free for worker in memory.workers.open.all[:MAX_EXAMINED]), start=ZERO_RESOURCES)


def _seconds_lost(turn: Turn, lease: Lease) -> float:
    """Work that would be lost if a lease ended now."""
    return sum(stop_requests.seconds_lost(turn, task) for task in lease.members.values())


def _execute(turn: Turn, task: Task, mode: Mode, plan: Plan) -> bool:
    """Preempt the victims, and reserve their capacity; True if the task fits at once."""
    memory = turn.memory
    decision_log.preempts(turn, task, mode, plan)
    for other in map(memory.runs.find, plan.reservations):
        if other is not None:
            is_starving = other.reserved is not None and other.reserved.yields
            waited = memory.scheduler_settings.reserve_after_seconds if is_starving else 0.0
            reservations.release(turn, other)
            queue_key = (other.priority, other.tenant, memory.shape(other))
            memory.queues.starved.mark_starved_since(queue_key, other.id, waited, memory.shard_time)
    winner = _preemptor(memory, task)
    why = _WHY[mode].format(winner=winner)
    grace = timedelta(seconds=memory.scheduler_settings.preemption_grace_seconds)
    for lease in plan.victims:
        for member in list(lease.members.values()):
            if member.stop is None or member.stop.kind is StopKind.HOLD:
                stop_requests.request(
                    turn, member, StopKind.PREEMPT, by="shard", why=why, grace=grace, preempted_for=winner
                )
    count = len(plan.victims)
    why = f"{count} lease{'s' if count > 1 else ''} preempted for it" if count else "capacity is already being released"
    reservations.reserve(turn, task, plan.worker, why, yields=mode is Mode.TAKE_OVER)
    return reservations.is_ready(memory, task, plan.worker)


def _preemptor(memory: ShardMemory, task: Task) -> Preemptor:
    job = memory.runs[task.run_id].subject()
    return Preemptor(task=task.id, name=task.name, job=job, tenant=task.tenant, run=task.run_id, priority=task.priority)


def _set_alarm(memory: ShardMemory) -> None:
    """Set a timer for the next check that must not be missed."""
    due = memory.queues.starved.set_alarm()
    if due is not None:
        memory.timers.set_after(due - memory.shard_time, TimerKind.RESERVATION, "")
