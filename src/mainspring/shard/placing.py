"""From the queues to the workers (PLC-1, PLC-4, PLC-10), and back from a group when somebody more important waits.

Strict priority, then the tenant with the smallest weighted share, then its oldest task. One decision serves a group of
short tasks of one shape. A shape that finds no room is parked, so that it hides nothing behind it.
"""

from __future__ import annotations

import heapq
from datetime import UTC, datetime

from mainspring.core import time_limits
from mainspring.core.placement import choose
from mainspring.core.resources import NOTHING, dominant_share
from mainspring.core.shapes import Shape
from mainspring.core.tasks import Priority, Task, TaskState
from mainspring.core.workers import Lease, Worker
from mainspring.ids import new_id
from mainspring.shard import breaking, growing, inputs
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.memory import ShardMemory
from mainspring.shard.turn import Turn
from mainspring.wire import Assign, Assignment, Offer, Recall

S = TaskState


def place(turn: Turn, only: Shape | None = None) -> None:
    """Give waiting tasks to workers, as long as there is room and the turn's budget lasts."""
    for priority in Priority:
        if turn.memory.hold_from is not None and priority >= turn.memory.hold_from:
            return
        _place_level(turn, priority, only)
        if turn.spent():
            return


def _place_level(turn: Turn, priority: Priority, only: Shape | None) -> None:
    memory = turn.memory
    tenants = [(_share(turn, tenant), tenant) for tenant in memory.queues.tenants(priority, only=only)]
    heapq.heapify(tenants)
    while tenants and not turn.spent():
        tenant = tenants[0][1]
        shape = memory.queues.head(priority, tenant, only=only)
        if shape is None:
            heapq.heappop(tenants)
            continue
        worker = choose(shape, memory.open_workers.all, turn.random)
        if worker is None:
            memory.queues.park(shape, f"no worker has room for {shape}")
            _call_back_for(turn, priority, shape)
            continue
        tasks = memory.queues.take(priority, tenant, shape, _group_size(turn, priority, tenant, shape))
        tasks = [task for task in tasks if memory.runs[task.run_id].may_place(task)]
        if memory.failing_jobs.open:
            tasks = [task for task in tasks if breaking.may_be_placed(turn, task)]
        if tasks:
            _assign(turn, worker, shape, tasks)
        heapq.heapreplace(tenants, (_share(turn, tenant), tenant))


def _share(turn: Turn, tenant: str) -> float:
    return dominant_share(turn.memory.use.get(tenant, NOTHING), turn.memory.capacity)


def _group_size(turn: Turn, priority: Priority, tenant: str, shape: Shape) -> int:
    """A group only where more tasks wait than there are free places: otherwise each gets a place of its own."""
    if shape.group_size == 1:
        return 1
    places = max(1, turn.memory.open_workers.free_cpu_millis // max(1, shape.resources.cpu_millis))
    return max(1, min(shape.group_size, turn.memory.queues.depth[priority, tenant] // places))


def _assign(turn: Turn, worker: Worker, shape: Shape, tasks: list[Task]) -> None:
    memory = turn.memory
    lease = Lease(
        id=new_id("lease", turn.now, turn.random), worker_id=worker.id, tenant=tasks[0].tenant,
        priority=tasks[0].priority, shape=shape, members={},
    )  # fmt: skip
    group = []
    for task in tasks:
        turn.touch(task)
        attempt_id = new_id("att", turn.now, turn.random)
        task.attempt += 1
        task.attempt_id = attempt_id
        task.lease_id = lease.id
        task.worker_id = worker.id
        task.assigned_at = turn.now
        task.started_at = None
        turn.move(task, S.ASSIGNED, by="shard", because=f"placed on {worker.id}")
        memory.attempts[attempt_id] = lease.members[attempt_id] = task
        group.append(_assignment(memory, task, attempt_id, shape.resources.memory_bytes))
    memory.open_lease(lease)
    memory.set_length(memory.tuning.receipt_seconds, TimerDue(kind=TimerKind.RECEIPT, subject=lease.id))
    room = shape.resources
    needs = Offer(room.cpu_millis, room.memory_bytes, room.gpus, room.disk_bytes)
    turn.send(worker, Assign(lease.id, tuple(group), needs))


def _assignment(memory: ShardMemory, task: Task, attempt_id: str, memory_bytes: int) -> Assignment:
    run = memory.runs[task.run_id]
    spec = run.spec(task.position)
    given, failed = inputs.inputs(run, task.position)
    item, birth, window = None, None, run.run.window_at
    if task.birth is not None and run.fan_out_of(task) is not None:
        item, birth = growing.item(run, task), task.birth
    return Assignment(
        attempt=attempt_id, task=task.id, run=task.run_id, tenant=task.tenant, name=task.name, number=task.attempt,
        work=bytes(spec.work).decode(), params=run.run.params, inputs=given, failed_upstreams=tuple(failed),
        timeout_seconds=time_limits.hard_limit(spec, task.trail, memory.tuning),
        checkpoint=run.checkpoints.get(task.position), memory_bytes=memory_bytes, item=item,
        partition=None if birth is None else birth.index,
        total=None if birth is None else birth.total, window="" if window is None else _instant(window),
    )  # fmt: skip


def _instant(at: datetime) -> str:
    """An instant as workers read it."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _call_back_for(turn: Turn, priority: Priority, shape: Shape) -> None:
    """Recall the rest of one group of lower priority that holds room which this shape could use."""
    for lease in turn.memory.leases.values():
        if lease.priority > priority and not lease.recalled and shape.resources.fits(lease.shape.resources):
            waiting = tuple(attempt for attempt, task in lease.members.items() if task.state is S.ASSIGNED)
            worker = turn.memory.workers[lease.worker_id]
            if len(lease.members) > 1 and waiting and worker.session and worker.takes_new():
                lease.recalled = True
                turn.send(worker, Recall(waiting))
                return
