"""Dispatch: from the queues to the workers (PLC-1, PLC-4, PLC-10), and recall of groups for higher priorities.

Strict priority, then tenant order (`shard/placement/fair_share.py`), then the oldest task. One decision serves a group
of short tasks of one shape. A shape that finds no capacity is parked, so that it hides nothing behind it.
`shard/placement/gates.py` decides what may not start even if there is capacity.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from mainspring.core.fairness.queue_heads import QueueHeads
from mainspring.core.lifecycle import timeouts
from mainspring.core.model.task import Priority, RetryState, Task, TaskState
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement.feasibility import NO_AFFINITY, Affinity, choose
from mainspring.core.placement.task_shapes import Shape, without_affinity
from mainspring.protocol.ids import new_id
from mainspring.protocol.wire import Assign, Assignment, Offer, Recall
from mainspring.shard import decision_log
from mainspring.shard.events import TimerKind
from mainspring.shard.placement import concurrency_groups, failure_throttle, gates, preemption, reservations
from mainspring.shard.placement.affinity import affinity_of
from mainspring.shard.placement.fair_share import TenantOrder
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.tasks import circuit_breakers, fan_out, inputs
from mainspring.shard.turn import Turn
from mainspring.shard.workers import claims

S = TaskState
_MAX_PASSES = 16
"""Passes from the highest priority to the lowest in one turn."""


def place(turn: Turn, only: Shape | None = None) -> bool:
    """Place waiting tasks on workers while there is capacity and budget; False if more can be placed.

    Reserved capacity that becomes free on the way goes to the highest priority that it helps: dispatch starts over.
    """
    claims.return_recalled(turn)
    is_done = _place_all(turn, only)
    claims.reply_to_claims(turn)
    return is_done


def _place_all(turn: Turn, only: Shape | None) -> bool:
    memory = turn.memory
    concurrency_groups.apply_freed(turn)
    turn.put_back()
    if memory.rules.freezes and memory.rules.freeze_of_all(turn.now) is not None:
        return True
    for _ in range(_MAX_PASSES):
        wake_count = memory.queues.wake_count
        _place_levels(turn, only)
        if turn.spent():
            return False
        if memory.queues.wake_count == wake_count:
            return True
    return False


def _place_levels(turn: Turn, only: Shape | None) -> None:
    """Dispatch one priority after another, until parked shapes are woken."""
    memory = turn.memory
    wake_count = memory.queues.wake_count
    for priority in Priority:
        if memory.queues.suspended_from is not None and priority >= memory.queues.suspended_from:
            return
        _place_level(turn, priority, only, wake_count)
        if preemption.preempt(turn, priority, only):
            _place_level(turn, priority, only, wake_count)
        if turn.spent() or memory.queues.wake_count != wake_count:
            return


def _place_level(turn: Turn, priority: Priority, only: Shape | None, wake_count: int) -> None:
    """Place ready reservations; then give one lease at a time to the first tenant in order.

    Tenants that may not start anything are skipped.
    """
    memory = turn.memory
    _place_reserved(turn, priority, only)
    heads = QueueHeads(memory.queues, priority, only)
    tenants = TenantOrder(turn, priority, heads, memory.queues.tenants(priority, only=only))
    while heads.any_left() and not turn.spent() and memory.queues.wake_count == wake_count:
        tenant = tenants.first()
        if tenant is None:
            return
        shape = heads.first(tenant)
        if shape is None or gates.passes_over(turn, priority, tenant):
            tenants.drop()
        elif gates.exceeds(memory, priority, tenant, shape, turn.now) is None:
            _place_one(turn, priority, tenant, shape)
            tenants.move()
        elif gates.exceeds_alone(memory, tenant, shape, turn.now):
            heads.skip(tenant, shape)
        else:
            tenants.drop()
            if only is None and memory.rules.quotas[tenant].changes_at(turn.now) is None:
                memory.queues.skip(priority, tenant)


def _place_reserved(turn: Turn, priority: Priority, only: Shape | None) -> None:
    """Place queues whose reservation is ready, even if no other task of their shape finds capacity."""
    memory = turn.memory
    for queue_key in memory.queues.take_ready(priority, only):
        _, tenant, shape = queue_key
        for _ in range(len(memory.queues.reserved.get(queue_key, ()))):
            if gates.passes_over(turn, priority, tenant) or reservations.ready(turn, priority, tenant, shape) is None:
                break
            if gates.exceeds(memory, priority, tenant, shape, turn.now) is not None:
                break
            _place_one(turn, priority, tenant, shape)


def _place_one(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> None:
    """Place the oldest tasks of a queue in one lease, or park its shape."""
    memory = turn.memory
    worker = _choose(turn, priority, tenant, shape)
    if worker is None:
        why = f"no worker has free capacity for {shape}"
        decision_log.no_capacity(turn, priority, tenant, shape)
        memory.queues.park_for_capacity(shape, why)
        for other in memory.queues.also_full(priority, shape) if shape.run else ():
            memory.queues.park_for_capacity(other, why)
        _recall_group_for(turn, priority, shape)
        memory.queues.starved.mark_starved((priority, tenant, shape), memory.shard_time)
        return
    if shape.groups and not concurrency_groups.admits_shape(turn, tenant, shape):
        return
    size = _group_size(turn, priority, tenant, shape) if worker.claim_slots is None else 1
    tasks = memory.queues.take(priority, tenant, shape, size)
    tasks = [task for task in tasks if memory.runs[task.run_id].may_place(task)]
    if memory.limits.job_breakers.open:
        tasks = [task for task in tasks if circuit_breakers.may_be_placed(turn, task)]
    tasks = gates.admit(turn, shape, tasks)
    if tasks:
        _assign(turn, worker, shape, tasks)


def _choose(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> Worker | None:
    """Choose the worker for the oldest task of a queue: its reservation, or the best one with capacity."""
    memory = turn.memory
    kept = reservations.ready(turn, priority, tenant, shape)
    head = memory.queues.first(priority, tenant, shape) if kept is None else None
    if head is None or (shape.run and memory.queues.is_full(shape)):
        return kept

    def choose_for(shape: Shape, affinity: Affinity) -> Worker | None:
        return choose(
            shape, memory.workers.open, turn.random, priority=priority, affinity=affinity, task_id=head.id,
            zones=memory.limits.zones, shortlists=turn.shortlists,
        )  # fmt: skip

    worker = choose_for(shape, affinity_of(memory, head, shape))
    if worker is None and shape.run and choose_for(without_affinity(shape), NO_AFFINITY) is None:
        memory.queues.mark_full(shape)
    return worker


def _group_size(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> int:
    """Size of a group: more than one only if more tasks wait than there are free slots."""
    if shape.group_size == 1:
        return 1
    memory = turn.memory
    most = failure_throttle.max_starts(turn, tenant) if priority is not Priority.P0 else None
    size = shape.group_size if most is None else min(most, shape.group_size)
    return max(1, min(size, memory.queues.depth[priority, tenant] // memory.free_slots(shape)))


def _assign(turn: Turn, worker: Worker, shape: Shape, tasks: list[Task]) -> None:
    memory = turn.memory
    lease = Lease(
        id=new_id("lease", turn.now, turn.random), worker_id=worker.id, tenant=tasks[0].tenant,
        priority=tasks[0].priority, shape=shape, members={},
    )  # fmt: skip
    decision_log.placed(turn, lease.id, worker, shape, tasks)
    group = []
    for task in tasks:
        turn.touch(task)
        attempt_id = new_id("att", turn.now, turn.random)
        task.attempt += 1
        task.attempt_id = attempt_id
        task.lease_id = lease.id
        task.worker_id = worker.id
        task.assigned_at = turn.now
        _forget_start(task)
        turn.move(task, S.ASSIGNED, by="shard", because=f"placed on {worker.id}")
        memory.add_attempt(attempt_id, task)
        lease.members[attempt_id] = task
        group.append(_assignment(memory, task, attempt_id, shape.resources.memory_bytes))
    memory.open_lease(lease)
    memory.limits.ledger.spend(shape.groups)
    failure_throttle.started(memory, lease.tenant, len(tasks))
    capacity = shape.resources
    offer = Offer(capacity.cpu_millis, capacity.memory_bytes, capacity.gpus, capacity.disk_bytes)
    if worker.claim_slots is not None:
        claims.deliver_claimed(turn, worker, lease, group[0], offer)
        return
    memory.timers.set_after(memory.scheduler_settings.assignment_timeout_seconds, TimerKind.RECEIPT, lease.id)
    turn.send(worker, Assign(lease.id, tuple(group), offer))


def _forget_start(task: Task) -> None:
    """Clear the state of the previous attempt; the start of the first one is kept for the end of the run."""
    if task.started_at is not None or (task.trail is not None and task.trail.preempted_for is not None):
        trail = task.trail or RetryState()
        task.trail = replace(trail, first_start=trail.first_start or task.started_at, preempted_for=None)
        task.started_at = None


def _assignment(memory: ShardMemory, task: Task, attempt_id: str, memory_bytes: int) -> Assignment:
    run = memory.runs[task.run_id]
    spec = run.spec(task.position)
    given, failed = inputs.inputs(run, task.position)
    item, window = fan_out.item(run, task), run.run.window_at
    origin = None if item is None else task.origin
    return Assignment(
        attempt=attempt_id, task=task.id, run=task.run_id, tenant=task.tenant, name=task.name, number=task.attempt,
        work=bytes(spec.work).decode(), params=run.run.params, inputs=given, failed_upstreams=tuple(failed),
        timeout_seconds=timeouts.hard_limit(spec, task.trail, memory.scheduler_settings),
        checkpoint=run.checkpoints.get(task.position), memory_bytes=memory_bytes, item=item,
        partition=None if origin is None else origin.index,
        total=None if origin is None else origin.total, window="" if window is None else _instant(window),
    )  # fmt: skip


def _instant(at: datetime) -> str:
    """Format an instant for workers."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _recall_group_for(turn: Turn, priority: Priority, shape: Shape) -> None:
    """Recall the rest of one group of lower priority that holds capacity for this shape."""
    for lease in turn.memory.leases.values():
        if lease.priority > priority and not lease.recalled and shape.resources.fits(lease.shape.resources):
            waiting = tuple(attempt for attempt, task in lease.members.items() if task.state is S.ASSIGNED)
            worker = turn.memory.workers[lease.worker_id]
            if len(lease.members) > 1 and waiting and worker.session and worker.accepts_work():
                turn.memory.leases.recall(lease)
                turn.send(worker, Recall(waiting))
                return
