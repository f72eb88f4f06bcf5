"""A run comes into the shard: from intake, or back from the rows."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import datetime, timedelta

from mainspring.core.batch import Checkpoint, Spread, SpreadKind
from mainspring.core.jobs import Job
from mainspring.core.runs import Run
from mainspring.core.states import FINAL
from mainspring.core.tasks import Task, TaskState
from mainspring.core.workers import Lease
from mainspring.shard import breaking, flow, limits, recalling, reopening, stuck
from mainspring.shard.events import RunArrived, TimerDue, TimerKind
from mainspring.shard.growth import Growth
from mainspring.shard.memory import ShardMemory
from mainspring.shard.run_memory import RunMemory
from mainspring.shard.turn import Turn

S = TaskState
SMALL_RUN = 32
"""A run of so few tasks is made whole at once, without the bookkeeping of a spread."""


def adopt(turn: Turn, event: RunArrived) -> None:
    """Take a run in, as an act that has overtaken it left it: make its tasks, and queue those with nothing upstream."""
    memory = turn.memory
    row = memory.overtaken.pop(event.run.id, event.run)
    if row is not None and row.id not in memory.runs:
        take_in(turn, copy(row), event.job)


def take_in(turn: Turn, row: Run, job: Job) -> RunMemory:
    """Adopt a run that is not adopted yet. The row is the shard's from now on."""
    memory = turn.memory
    run = RunMemory(run=row, job=job, changed_at=turn.now, growth=Growth() if job.is_growing else None)
    memory.runs[row.id] = run
    memory.count_in(row.priority, row.tenant, row.task_count)
    row.adopted_at = turn.now
    row.because = "adopted"
    turn.mark(run)
    if job.spec.timeout_seconds is not None:
        memory.set_length(job.spec.timeout_seconds, _limit_of(row))
    if row.task_count <= SMALL_RUN:
        for position in range(row.task_count):
            flow.make(turn, run, position)
    else:
        turn.open_spread(run, SpreadKind.ADOPT, by="shard", why="the run is being adopted")
    return run


def recall_run(
    memory: ShardMemory, row: Run, job: Job, tasks: list[Task], spreads: list[Spread], now: datetime
) -> RunMemory:
    """Bring a run back into memory from its rows, which are the shard's from now on: everything else is derived."""
    found_stuck = stuck.since(row)
    run = RunMemory(run=row, job=job, tasks=tasks, changed_at=found_stuck or now, stuck_at=found_stuck)
    memory.runs[row.id] = run
    if job.is_growing:
        run.growth = recalling.growth(job, tasks, spreads)
    open_tasks = {row.priority: row.task_count - len(tasks)}
    for task in tasks:
        is_open = task.state not in FINAL
        if is_open:  # one that a change of the run's priority has not come to yet has the old one
            open_tasks[task.priority] = open_tasks.get(task.priority, 0) + 1
        if is_open or task.birth is None or not task.birth.replaced:
            run.counts[task.state] = run.counts.get(task.state, 0) + 1
    for priority, count in open_tasks.items():
        memory.count_in(priority, row.tenant, count)
    for spread in spreads:
        run.spreads[spread.kind, spread.parent] = spread
        if row.held is None:
            memory.spreads.append((row.id, spread.kind, spread.parent))
        retried = memory.find(spread.parent) if spread.kind is SpreadKind.REOPEN and spread.parent else None
        if retried is not None:
            reopening.watch_below(run, retried)
    for position, task in enumerate(tasks):
        run.waiting.append(0 if task.state in FINAL else flow.count_waiting(run, position))
        if task.state not in FINAL:
            _recall_task(memory, run, task, now)
    limit = job.spec.timeout_seconds
    if limit is not None and row.adopted_at is not None:
        left = max(timedelta(seconds=limit) - (now - row.adopted_at), limits.LEAST_LIMIT_LEFT)
        memory.set_length(left.total_seconds(), _limit_of(row))
    return run


def recall_checkpoints(memory: ShardMemory, checkpoints: Iterable[Checkpoint]) -> None:
    """Bring back what attempts have saved, for the runs that are in memory."""
    for saved in checkpoints:
        task = memory.find(saved.task_id)
        if task is not None:
            memory.runs[task.run_id].checkpoints[task.position] = saved.document


def _limit_of(row: Run) -> TimerDue:
    return TimerDue(kind=TimerKind.RUN_LIMIT, subject=row.id, stamp=row.generation)


def _recall_task(memory: ShardMemory, run: RunMemory, task: Task, now: datetime) -> None:
    if task.state is S.QUEUED:
        memory.queues.push(task, memory.shape(task))
    elif task.state is S.PENDING and task.due_at is not None:
        run.delayed += 1
        breaking.recall_retry(memory, task, now)
        memory.set_instant(task.due_at, TimerDue(kind=TimerKind.RETRY, subject=task.id, stamp=task.seq))
    elif task.state is S.PENDING and not run.waiting[task.position]:
        memory.undecided.append((task.run_id, task.position))
    elif task.worker_id is not None and task.lease_id is not None and task.attempt_id is not None:
        _recall_lease(memory, task, task.worker_id, task.lease_id, task.attempt_id)
    if task.state is S.RUNNING:
        limits.recall(memory, run, task, now)


def _recall_lease(memory: ShardMemory, task: Task, worker_id: str, lease_id: str, attempt_id: str) -> None:
    """The rows say that a worker holds this attempt: expect the worker, and keep its room."""
    if worker_id not in memory.workers:
        memory.meet(worker_id)
    memory.attempts[attempt_id] = task
    lease = memory.leases.get(lease_id)
    if lease is not None:
        lease.members[attempt_id] = task
        lease.priority = min(lease.priority, task.priority)
        return
    shape = memory.shape(task)
    memory.open_lease(
        Lease(
            id=lease_id,
            worker_id=worker_id,
            tenant=task.tenant,
            priority=task.priority,
            shape=shape,
            members={attempt_id: task},
            received=True,
        )
    )
