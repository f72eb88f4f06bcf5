"""Snapshot: a copy of the part of a shard's memory that decides when one task starts.

`take_snapshot` (`shard/explain/snapshot_copy.py`) makes it in a few milliseconds; it may be passed to another thread.
`memory_of` makes a memory of it for each forecast (`shard/explain/forecast_engine.py`), and `discard_memory` discards
that.

1. A snapshot shares only immutable objects with the memory that it was copied from, and is never changed.
2. Runs are small: of each the relevant tasks are copied and renumbered, so their ids differ from the real ones (`names`
   has these). Everything else keeps its name and value.
3. For a queue that was not copied completely, `omitted` has the rest as a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from datetime import datetime

import msgspec
from msgspec.structs import replace

from mainspring.core.fairness.recent_usage import RecentUsage
from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.lifecycle.circuit_breakers import CircuitBreaker
from mainspring.core.model.batch import FailureCountRow, WorkerRow
from mainspring.core.model.job import Job
from mainspring.core.model.resources import Resources
from mainspring.core.model.run import Run
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.model.worker import Lease, Worker
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.events import TimerKind
from mainspring.shard.placement import reservations, rule_changes
from mainspring.shard.state.limit_ledger import LimitLedger
from mainspring.shard.state.limits import Throttle
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.recent_workers import RecentWorker, RecentWorkers
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.starved_queues import QueueKey, StarvedQueue

LONG_QUEUE = 300
"""Tasks ahead from which on a few of them tell the throughput as well as many."""


class CopiedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The relevant part of a run."""

    run: Run
    job: Job
    tasks: tuple[Task, ...]
    waiting: tuple[int, ...]
    """For each task: how many upstream tasks it waits for."""


class CopiedLease(msgspec.Struct, frozen=True, kw_only=True):
    """A lease, with its members by attempt and task."""

    lease: Lease
    """Without members."""
    members: tuple[tuple[str, str], ...]


class CopiedBlocked(msgspec.Struct, frozen=True, kw_only=True):
    """Tasks that are blocked by one cause."""

    subject: str
    why: str
    tasks: tuple[str, ...]


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """State of the gates, and of the order of waiting work."""

    rules: SharingRules
    ledger: LimitLedger
    failure_counts: tuple[FailureCountRow, ...]
    throttles: Mapping[str, Throttle]
    job_breakers: tuple[CircuitBreaker, ...]
    faulty_shapes: Mapping[Shape, str]
    parked: Mapping[Shape, str]
    starved_queues: Mapping[QueueKey, StarvedQueue]
    ready_queues: tuple[QueueKey, ...]
    suspended_from: Priority | None
    use: Mapping[str, Resources]
    lease_counts: Mapping[str, int]
    recent_usage: Mapping[Priority, RecentUsage]
    capacity: Resources


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the whole was copied."""

    workers: int
    """Real number of workers."""
    part: float
    """The fraction of them that was copied."""
    ahead: int
    """About how many tasks start before this one, in reality."""
    is_complete: bool
    """Whether every queue that could be ahead was copied, at least in part."""
    omitted: Mapping[str, int]
    """By the last task that was copied of a queue: how many more there are, of the task's own queue only before it."""
    could_take: int
    """How many workers would take the task if they were idle."""
    arrival: str
    """If none: why a matching one may come, in words."""

    def is_long_queue(self) -> bool:
        """Return whether so many tasks are ahead that the start follows from the throughput."""
        return self.ahead >= LONG_QUEUE


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a shard's memory that decides when one task starts."""

    task_id: str
    """The task's id in the copy."""
    at: datetime
    shard: str
    scheduler_settings: SchedulerSettings
    shard_time: float
    runs: tuple[CopiedRun, ...]
    workers: tuple[Worker, ...]
    """Without leases and reservations."""
    held: Mapping[str, WorkerRow]
    """The rows of those workers that are cordoned or draining."""
    departed: tuple[RecentWorker, ...]
    leases: tuple[CopiedLease, ...]
    queue: tuple[str, ...]
    """Queued tasks, in order of arrival."""
    blocked: tuple[CopiedBlocked, ...]
    saved_at: Mapping[str, datetime]
    gates: Gates
    names: Mapping[str, str]
    """The real ids of tasks."""
    duration_samples: Mapping[tuple[str, str, str], tuple[float, ...]]
    """By tenant, job and task: recent durations, shortest first."""
    newcomers: tuple[str, ...]
    """Tasks of recently arrived runs, as far as they were copied: more like these will arrive."""
    arrivals_per_second: float
    coverage: Coverage

    def task(self) -> Task:
        """The task under diagnosis."""
        run_id, _, place = f"run_{self.task_id[5:]}".partition(".")
        return next(run.tasks[int(place)] for run in self.runs if run.run.id == run_id)


def memory_of(snapshot: Snapshot) -> ShardMemory:
    """Make a memory from a snapshot."""
    memory = ShardMemory(snapshot.shard, snapshot.scheduler_settings)
    fill(memory, snapshot)
    return memory


def fill(memory: ShardMemory, snapshot: Snapshot) -> None:
    """Fill an empty memory from a snapshot."""
    memory.timers.shard_time = snapshot.shard_time
    memory.queues.starved.max_logged = 0
    memory.timers.advance(snapshot.at)
    memory.set_rules(snapshot.gates.rules)
    tasks: dict[str, Task] = {}
    for copied in snapshot.runs:
        run = _run(copied)
        memory.runs.add(run)
        tasks.update((task.id, task) for task in run.tasks)
    for worker in snapshot.workers:
        memory.workers.restore(copy_worker(worker))
    memory.workers.load(snapshot.held.values())
    memory.workers.recent = RecentWorkers(snapshot.departed)
    for lease in snapshot.leases:
        _open(memory, lease, tasks)
    for worker in memory.workers.values():
        memory.workers.open.update(worker)
    for attempt, saved_at in snapshot.saved_at.items():
        memory.attempts.record(attempt, saved_at=saved_at)
    _queue(memory, snapshot, tasks)
    _close_gates(memory, snapshot.gates, snapshot.at)
    for task in tasks.values():
        if task.reserved is not None:
            reservations.restore(memory, task)
        if task.due_at is not None:
            memory.timers.set_at(task.due_at, TimerKind.RETRY, task.id, task.seq)
    for queue_key in snapshot.gates.ready_queues:
        memory.queues.mark_ready(queue_key)


def discard_memory(memory: ShardMemory) -> None:
    """Discard a memory that was made from a snapshot.

    It is full of cycles: timers refer to the memory, the index to its workers. Left to the collector they cost it 14 ms
    per question with 100,000 tasks in 10,000 queues, and 7 without; even what is freed by reference counting makes it
    scan the whole memory of the leader, for 0.3 s in every 50th question.
    """
    for worker in tuple(memory.workers.open.all):
        memory.workers.open.discard(worker.id)
    vars(memory).clear()


def copy_ledger(ledger: LimitLedger) -> LimitLedger:
    """Return an independent copy."""
    other = LimitLedger()
    other.use, other.runs, other.shares = dict(ledger.use), dict(ledger.runs), dict(ledger.shares)
    other.stamps, other.targets, other.requested = dict(ledger.stamps), dict(ledger.targets), dict(ledger.requested)
    other.rate_budgets = {limit: copy(rate_budget) for limit, rate_budget in ledger.rate_budgets.items()}
    other.not_before, other.freed = dict(ledger.not_before), set(ledger.freed)
    other.parked = {limit: set(shapes) for limit, shapes in ledger.parked.items()}
    return other


def copy_throttle(throttle: Throttle) -> Throttle:
    """Return an independent copy."""
    return Throttle(bucket=copy(throttle.bucket), due=throttle.due)


def _run(copied: CopiedRun) -> RunMemory:
    tasks = [replace(task) for task in copied.tasks]
    counts: dict[TaskState, int] = {}
    delayed = 0
    for task in tasks:
        counts[task.state] = counts.get(task.state, 0) + 1
        delayed += task.due_at is not None
    return RunMemory(
        run=replace(copied.run),
        job=copied.job,
        tasks=tasks,
        waiting=list(copied.waiting),
        counts=counts,
        delayed=delayed,
    )


def copy_worker(worker: Worker) -> Worker:
    """Return an independent copy, without leases and reservations."""
    return Worker(
        id=worker.id, session=worker.session, total=worker.total, labels=dict(worker.labels), zone=worker.zone,
        status=worker.status, last_heartbeat=worker.last_heartbeat, refused=set(worker.refused), hold=worker.hold,
        hold_why=worker.hold_why, leaving=worker.leaving, claim_slots=worker.claim_slots,
    )  # fmt: skip


def _open(memory: ShardMemory, copied: CopiedLease, tasks: Mapping[str, Task]) -> None:
    """Open a lease. Total usage comes with the gates, the index of open workers at the end."""
    lease = replace(copied.lease, members={})
    for attempt, task_id in copied.members:
        task = tasks.get(task_id)
        if task is not None:
            lease.members[attempt] = task
            memory.add_attempt(attempt, task)
    memory.leases.attach(lease, memory.workers[lease.worker_id])
    if lease.recalled:
        memory.leases.recall(lease)
    for task in lease.members.values():
        memory.leases.note_stopping(task)


def _queue(memory: ShardMemory, snapshot: Snapshot, tasks: Mapping[str, Task]) -> None:
    """Restore the queues. Blocked tasks come first, each alone in its queue, and leave it again."""
    for blocked_task in snapshot.blocked:
        for task in filter(None, map(tasks.get, blocked_task.tasks)):
            shape = memory.shape(task)
            memory.queues.push(task, shape)
            memory.queues.take(task.priority, task.tenant, shape, 1)
            memory.queues.blocked.put(blocked_task.subject, blocked_task.why, task, shape)
    for task in filter(None, map(tasks.get, snapshot.queue)):
        memory.queues.push(task, memory.shape(task))


def _close_gates(memory: ShardMemory, gates: Gates, now: datetime) -> None:
    memory.limits.ledger = copy_ledger(gates.ledger)
    memory.leases.load_usage(gates.use, gates.lease_counts, gates.recent_usage)
    memory.workers.set_capacity(gates.capacity)
    memory.limits.failures.load(gates.failure_counts)
    memory.queues.suspended_from = gates.suspended_from
    for shape, fault in gates.faulty_shapes.items():
        memory.queues.park_faulty(shape, fault)
    for shape, why in gates.parked.items():
        memory.queues.park_for_capacity(shape, why)
    for queue_key, starved in gates.starved_queues.items():
        memory.queues.starved.restore(queue_key, copy(starved))
        memory.queues.starved.wake(max(starved.due, memory.shard_time))
    for tenant, throttle in gates.throttles.items():
        memory.limits.throttles[tenant] = copy_throttle(throttle)
        memory.timers.set_after(max(0.0, throttle.due - memory.shard_time), TimerKind.THROTTLE, tenant)
    for circuit in gates.job_breakers:
        memory.limits.job_breakers.open[circuit.subject] = copy(circuit)
    for limit, until in memory.limits.ledger.not_before.items():
        memory.timers.set_at(until, TimerKind.LIMIT, limit)
    rule_changes.watch(memory, now)
