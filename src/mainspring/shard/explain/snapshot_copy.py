"""Copy what the start of one task depends on out of a shard's memory (`snapshot.py`).

    workers   all of a small fleet; of a large one those with leases of the task's tenant, some that would take the
              task, and some of the others
    queues    of the task's priority and above as much as may start before it, below less: the first tasks of each,
              and the task itself at its position

Read-only. The bounds are such that 100,000 tasks in 10,000 queues take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from datetime import datetime
from itertools import islice

from msgspec.structs import replace

from mainspring.core.lifecycle.states import HELD_BY_WORKER
from mainspring.core.model.resources import Resources
from mainspring.core.model.task import Priority, Task, TaskState
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.core.placement.feasibility import is_feasible
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.errors import Broken
from mainspring.shard.explain import matching
from mainspring.shard.explain.snapshot import (
    LONG_QUEUE,
    CopiedBlocked,
    CopiedLease,
    Coverage,
    Gates,
    Snapshot,
    copy_ledger,
    copy_throttle,
    copy_worker,
)
from mainspring.shard.explain.snapshot_runs import CopiedRuns
from mainspring.shard.placement.affinity import affinity_of
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.starved_queues import QueueKey

MAX_WAITING = 128
"""Limit of queued tasks, and again of blocked ones."""
_WAITING_IF_LONG, _QUEUE_LENGTH_IF_LONG = 64, 16
"""The same, in total and per queue, if the start follows from the throughput: only a few tasks are placed then in each
forecast, and a similar one replaces each (`Forecast._fill_up`). In 10,000 queues, half as many tasks make a copy cost
8 ms instead of 12, and each memory made from it 1.5 instead of 2.2.
"""
MAX_WORKERS = 64
MAX_LEASES = 200
_SAMPLED_LEASES = 96
"""Of a fleet that is not copied completely: each lease costs 10 µs in every forecast."""
MAX_EXAMINED = 12_000
"""Workers, for whether one of them matches; if none does, all of them."""
_MAX_TENANTS = 16
"""At one priority."""
_MAX_SHAPES = 1_000
"""In total: queues examined for the oldest of each tenant."""
_MAX_QUEUES = 24
_MAX_QUEUE_LENGTH = 64
_OF_LOWER = 0.25
"""The fraction of what is copied that may be less important than the task."""
_LATELY = (15.0, 30.0, 60.0, 120.0)
"""Seconds over which arrivals are counted. Older runs may have ended, and are not seen: the highest rate counts."""
_MIN_ARRIVALS, _MAX_ARRIVALS = 5, 200
_UNAVAILABLE = frozenset({WorkerStatus.LOST, WorkerStatus.GONE})
_UNDER_WAY = HELD_BY_WORKER | {TaskState.QUEUED}


def take_snapshot(memory: ShardMemory, task_id: str, now: datetime) -> Snapshot:
    """Take a snapshot around a task in memory. Raises Broken if it is not in memory."""
    task = memory.runs.find(task_id)
    if task is None:
        raise Broken(f"{task_id} is not in memory")
    shape = memory.shape(task)
    runs = CopiedRuns(memory)
    ahead = count_ahead(memory, task)
    queues = _Queues(memory, task, shape, is_long_queue=ahead >= LONG_QUEUE)
    workers, could_take = _choose_workers(memory, task, shape)
    mine = runs.take(task)
    leases = [_copy_lease(runs, lease) for worker in workers for lease in worker.leases.values()]
    kept = [one for tasks in memory.queues.reserved.values() for one in tasks.values()][:MAX_WAITING]
    waiting = {one.id: one for one in (*queues.tasks, *kept) if not memory.queues.blocked.has(one)}
    order = sorted(waiting.values(), key=lambda one: (one.since, queues.arrivals.get(one.id, queues.latest)))
    queue = tuple(map(runs.take, order))
    blocked = tuple(_copy_blocked(memory, task, runs))
    omitted = {runs.take(last): many for last, many in queues.omitted}
    arrived, per_second = _arrivals(memory, runs, now)
    newcomers = tuple(runs.take(one) for one in arrived if runs.has(one))
    copied, names = runs.finish()
    all_workers = sum(worker.status not in _UNAVAILABLE for worker in memory.workers.values())
    return Snapshot(
        task_id=mine,
        at=now,
        shard=memory.shard,
        scheduler_settings=replace(memory.scheduler_settings, decisions_sampled_per_1000=0),
        shard_time=memory.shard_time,
        runs=copied,
        workers=tuple(map(copy_worker, workers)),
        held={
            worker.id: memory.workers.cordoned[worker.id] for worker in workers if worker.id in memory.workers.cordoned
        },
        leases=tuple(leases),
        queue=queue,
        blocked=blocked,
        saved_at={
            attempt: saved_at
            for lease in leases
            for attempt, _ in lease.members
            if (saved_at := memory.attempts.details(attempt).saved_at) is not None
        },
        departed=tuple(memory.workers.recent.recent(now))[::-1],
        gates=_copy_gates(memory, queues, {one.tenant for one in waiting.values()} | {task.tenant}, names),
        names=names,
        duration_samples=runs.duration_samples,
        newcomers=newcomers,
        arrivals_per_second=per_second,
        coverage=Coverage(
            workers=all_workers,
            part=len(workers) / max(1, all_workers, len(workers)),
            ahead=ahead,
            is_complete=queues.is_complete,
            omitted=omitted,
            could_take=could_take,
            arrival="" if could_take else matching.arrival(memory, shape, now),
        ),
    )


def count_ahead(memory: ShardMemory, task: Task) -> int:
    """About how many tasks start before one: all more important ones, the older ones of its tenant, and of each other
    tenant as many as it has turns until then.
    """
    queues, mine = memory.queues, _weight(memory, task.tenant)
    older = sum(
        queues.count_before(task, one) for one in islice(queues.shapes_of(task.priority, task.tenant), _MAX_SHAPES)
    )
    total = older
    for (priority, tenant), depth in queues.depth.items():
        if priority < task.priority:
            total += depth
        elif priority is task.priority and tenant != task.tenant:
            total += min(depth, int((older + 1) * _weight(memory, tenant) / mine))
    return total


def _weight(memory: ShardMemory, tenant: str) -> float:
    row = memory.rules.quotas.get(tenant)
    return 1.0 if row is None else row.quota.weight


# queues


class _Queues:
    """The queues that are copied."""

    def __init__(self, memory: ShardMemory, task: Task, shape: Shape, *, is_long_queue: bool) -> None:
        self._memory, self._task, self.shape = memory, task, shape
        self.is_complete = True
        self.keys: dict[QueueKey, None] = {}
        self.tasks: list[Task] = []
        self.arrivals: dict[str, int] = {}
        """By task: its arrival number."""
        self.latest = 0
        self.omitted: list[tuple[Task, int]] = []
        """The last task that was copied of a queue, and how many more there are."""
        self._before = 0
        self._longest = _QUEUE_LENGTH_IF_LONG if is_long_queue else _MAX_QUEUE_LENGTH
        if task.state is TaskState.QUEUED and not memory.queues.blocked.has(task):
            self._before = memory.queues.count_before(task, shape)
            self.tasks.append(task)
        upper = [one for one in Priority if one <= task.priority]
        most = _WAITING_IF_LONG if is_long_queue else MAX_WAITING
        self._take(upper, most)
        lower = [one for one in Priority if one > task.priority]
        self._take(lower, int(_OF_LOWER * most))

    def _take(self, priorities: list[Priority], most: int) -> None:
        keys = [key for priority in priorities for key in self._queues_of(priority)]
        if len(keys) > _MAX_QUEUES:
            self.is_complete = self.is_complete and not any(key[0] <= self._task.priority for key in keys[_MAX_QUEUES:])
            keys = keys[:_MAX_QUEUES]
        each = min(self._longest, max(1, most // max(1, len(keys))))
        for key in keys:
            self._take_queue(key, each)

    def _queues_of(self, priority: Priority) -> Iterator[QueueKey]:
        """The queues of a priority: of each tenant its oldest, those of the task's own tenant first."""
        memory, mine = self._memory, self._task.tenant
        tenants = dict.fromkeys([mine] if (priority, mine) in memory.queues.depth else [])
        tenants.update((tenant, None) for level, tenant in memory.queues.depth if level is priority)
        if len(tenants) > _MAX_TENANTS and priority <= self._task.priority:
            self.is_complete = False
        parts = max(1, min(len(tenants), _MAX_TENANTS))
        for tenant in islice(tenants, _MAX_TENANTS):
            yield from self._queues_of_tenant(priority, tenant, max(1, _MAX_QUEUES // parts), _MAX_SHAPES // parts)

    def _queues_of_tenant(self, priority: Priority, tenant: str, most: int, budget: int) -> list[QueueKey]:
        queues = self._memory.queues
        shapes = queues.shapes_of(priority, tenant)
        mine = self.shape if priority is self._task.priority and tenant == self._task.tenant else None
        if len(shapes) > most:
            self.is_complete = self.is_complete and priority > self._task.priority
            heads = [(shape, queues.peek(priority, tenant, shape, 1)) for shape in shapes[:budget]]
            heads.sort(key=lambda one: (one[1][0][1].since if one[1] else self._task.since, one[0] != mine))
            shapes = [shape for shape, _ in heads[:most]]
        if mine is not None and mine in shapes:
            shapes = [mine, *(shape for shape in shapes if shape != mine)]
        return [(priority, tenant, shape) for shape in shapes]

    def _take_queue(self, key: QueueKey, most: int) -> None:
        priority, tenant, shape = key
        self.keys[key] = None
        entries = self._memory.queues.peek(priority, tenant, shape, most)
        self.arrivals.update((task.id, arrival) for arrival, task in entries)
        self.latest = max(self.latest, *(arrival + 1 for arrival, _ in entries[-1:]), 0)
        tasks = [task for _, task in entries]
        is_mine = tenant == self._task.tenant and priority is self._task.priority and shape == self.shape
        is_short = len(tasks) < most
        length = self._before if is_mine else self._memory.queues.length(tenant, shape, (priority,))
        if is_mine:
            tasks = [one for one in tasks[: self._before] if one is not self._task]
        self.tasks += tasks
        if tasks and length > len(tasks) and not is_short and not shape.run:
            self.omitted.append((tasks[-1], length - len(tasks)))


def _arrivals(memory: ShardMemory, runs: CopiedRuns, now: datetime) -> tuple[list[Task], float]:
    """A task of each recently arrived run with open tasks, and arrivals per second.

    Empty if none of them was copied, as behind a long queue: then there is no example of what could arrive.
    """
    found, ages = list[Task](), list[float]()
    latest = list(islice(reversed(memory.runs.values()), _MAX_ARRIVALS))
    if not any(map(runs.has_any, latest)):
        return [], 0.0
    for run in latest:
        age = _LATELY[-1] if run.run.adopted_at is None else (now - run.run.adopted_at).total_seconds()
        if age >= _LATELY[-1]:
            break
        task = next((one for one in islice(run.tasks, _MAX_QUEUE_LENGTH) if one.state in _UNDER_WAY), None)
        if task is not None:
            found.append(task)
            ages.append(age)
    counts = ((sum(age < seconds for age in ages), seconds) for seconds in _LATELY)
    rates = [count / seconds for count, seconds in counts if count >= _MIN_ARRIVALS]
    return (found, max(rates)) if rates else ([], 0.0)


# the workers


def _choose_workers(memory: ShardMemory, task: Task, shape: Shape) -> tuple[list[Worker], int]:
    """The workers to copy, and how many of all would take the task if they were idle."""
    here = [worker for worker in memory.workers.values() if worker.status not in _UNAVAILABLE]
    able = [worker for worker in here[:MAX_EXAMINED] if _could_take(memory, task, shape, worker)]
    if not able and len(here) > MAX_EXAMINED:
        affinity = affinity_of(memory, task, shape)
        others = (worker for worker in here[MAX_EXAMINED:] if is_feasible(shape, worker, affinity, memory.limits.zones))
        able = list(islice(others, MAX_WORKERS))
    if len(here) <= MAX_WORKERS and len(memory.leases) <= MAX_LEASES:
        return here, len(able)
    chosen: dict[str, Worker] = {}
    if task.reserved is not None and task.reserved.worker in memory.workers:
        chosen[task.reserved.worker] = memory.workers[task.reserved.worker]
    of_tenant = (lease.worker_id for lease in memory.leases.values() if lease.tenant == task.tenant)
    wanted = (
        *(memory.workers[name] for name in islice(of_tenant, MAX_WORKERS // 4)),
        *_spread(sorted(able, key=lambda one: one.free.cpu_millis, reverse=True)[: MAX_WORKERS // 4], MAX_WORKERS),
        *_spread(able, MAX_WORKERS // 2),
        *_spread(here, MAX_WORKERS),
    )
    leases = 0
    for worker in wanted:
        if worker.id in chosen or len(chosen) >= MAX_WORKERS:
            continue
        if leases + len(worker.leases) > _SAMPLED_LEASES and chosen:
            break
        chosen[worker.id] = worker
        leases += len(worker.leases)
    return list(chosen.values()), len(able)


def _could_take(memory: ShardMemory, task: Task, shape: Shape, worker: Worker) -> bool:
    if not shape.resources.fits(worker.total):
        return False
    if not (shape.labels or shape.zone or shape.affinity or memory.limits.zones or worker.refused):
        return True
    return is_feasible(shape, worker, affinity_of(memory, task, shape), memory.limits.zones)


def _spread(workers: list[Worker], most: int) -> list[Worker]:
    """An even sample."""
    step = max(1, len(workers) // max(1, most))
    return workers[::step][:most]


def _copy_lease(runs: CopiedRuns, lease: Lease) -> CopiedLease:
    mine = replace(lease, members={}, since=0.0, last_heartbeat=0.0)
    held = (one for one in lease.members.items() if one[1].state in HELD_BY_WORKER)
    return CopiedLease(lease=mine, members=tuple((attempt, runs.take(task)) for attempt, task in held))


# gates


def _copy_blocked(memory: ShardMemory, task: Task, runs: CopiedRuns) -> Iterator[CopiedBlocked]:
    """Blocked tasks, first those with the same cause as the task."""
    mine = memory.queues.blocked.subject_of(task)
    subjects = dict.fromkeys([mine[0]] if mine is not None else [])
    subjects.update(dict.fromkeys(memory.queues.blocked.subjects()[:_MAX_QUEUES]))
    each = max(1, MAX_WAITING // max(1, len(subjects)))
    for subject in subjects:
        tasks = [blocked_task.task for blocked_task in memory.queues.blocked.waiting(subject, each)]
        if mine is not None and subject == mine[0] and task not in tasks:
            tasks.append(task)
        found = memory.queues.blocked.subject_of(tasks[0]) if tasks else None
        if found is not None:
            yield CopiedBlocked(subject=subject, why=found[1], tasks=tuple(map(runs.take, tasks)))


def _copy_gates(memory: ShardMemory, queues: _Queues, tenants: set[str], names: dict[str, str]) -> Gates:
    shapes = dict.fromkeys([queues.shape, *(key[2] for key in queues.keys)])
    here = {true: mine for mine, true in names.items()}
    known = memory.queues.starved.known()
    return Gates(
        rules=memory.rules,
        ledger=copy_ledger(memory.limits.ledger),
        failure_counts=tuple(
            row for tenant in sorted(tenants) for row in memory.limits.failures.rows(memory.shard, tenant)
        ),
        throttles={
            tenant: copy_throttle(memory.limits.throttles[tenant])
            for tenant in sorted(tenants)
            if tenant in memory.limits.throttles
        },
        job_breakers=tuple(map(copy, memory.limits.job_breakers.open.values())),
        faulty_shapes=dict(memory.queues.faulty),
        parked={shape: memory.queues.parked[shape] for shape in shapes if shape in memory.queues.parked},
        starved_queues={
            key: replace(known[key], head=here.get(known[key].head, "")) for key in queues.keys if key in known
        },
        ready_queues=tuple(key for key in memory.queues.ready() if key in queues.keys),
        suspended_from=memory.queues.suspended_from,
        use=dict[str, Resources](memory.leases.use),
        lease_counts=dict(memory.leases.counts),
        recent_usage={priority: past.copy() for priority, past in memory.leases.recent_usage.items()},
        capacity=memory.workers.capacity,
    )
