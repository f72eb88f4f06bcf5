"""Adopt runs from intake, and restore runs from rows."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import datetime, timedelta

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import Checkpoint, Spread, SpreadKind
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task, TaskState
from mainspring.core.model.worker import Lease
from mainspring.shard.actions import reopen
from mainspring.shard.events import RunArrived, TimerDue, TimerKind
from mainspring.shard.placement import limit_ledger, reservations
from mainspring.shard.state.dynamic_tasks import Growth
from mainspring.shard.state.memory import PAST_INTAKE, ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import circuit_breakers, deadlines, progress, restore, timeouts
from mainspring.shard.turn import Turn

S = TaskState
SMALL_RUN = 32
"""Runs of up to this many tasks are created at once, without a bulk operation."""


def adopt(turn: Turn, event: RunArrived) -> None:
    """Adopt a run, with any action that preceded it applied: create its tasks, and queue those without upstream."""
    memory = turn.memory
    row = memory.overtaken.pop(event.run.id, event.run)
    if row is not None and row.id not in memory.runs:
        take_in(turn, copy(row), event.job)


def take_in(turn: Turn, row: Run, job: Job) -> RunMemory:
    """Adopt a run that is not adopted yet. From now on only the shard writes its row."""
    memory = turn.memory
    run = RunMemory(run=row, job=job, changed_at=turn.now, growth=Growth() if job.is_growing else None)
    memory.runs[row.id] = run
    memory.in_memory.count(row.priority, row.tenant, row.task_count)
    row.adopted_at = turn.now
    row.because = "adopted"
    turn.mark(run)
    if job.spec.timeout_seconds is not None:
        memory.set_length(job.spec.timeout_seconds, _limit_of(row))
    deadlines.begin(memory, run, turn.now)
    if row.task_count <= SMALL_RUN:
        for position in range(row.task_count):
            progress.make(turn, run, position)
    else:
        turn.open_spread(run, SpreadKind.ADOPT, by="shard", why="the run is being adopted")
    return run


def recall_run(
    memory: ShardMemory, row: Run, job: Job, tasks: list[Task], spreads: list[Spread], now: datetime
) -> RunMemory:
    """Restore a run from its rows, which only the shard writes from now on. Everything else is derived."""
    run = RunMemory(run=row, job=job, tasks=tasks, changed_at=row.stuck_at or now)
    memory.runs[row.id] = run
    if job.is_growing:
        run.growth = restore.growth(job, tasks, spreads)
    waiting = {row.priority: row.task_count - len(tasks)}
    for task in tasks:
        if task.state not in PAST_INTAKE:  # a pending change of the run's priority may not have reached this task
            waiting[task.priority] = waiting.get(task.priority, 0) + 1
        if task.state not in FINAL or task.birth is None or not task.birth.replaced:
            run.counts[task.state] = run.counts.get(task.state, 0) + 1
    for priority, count in waiting.items():
        memory.in_memory.count(priority, row.tenant, count)
    for spread in spreads:
        run.spreads[spread.kind, spread.parent] = spread
        if row.held is None:
            memory.spreads.append((row.id, spread.kind, spread.parent))
        retried = memory.find(spread.parent) if spread.kind is SpreadKind.REOPEN and spread.parent else None
        if retried is not None:
            reopen.watch_below(run, retried)
    for position, task in enumerate(tasks):
        run.waiting.append(0 if task.state in FINAL else progress.count_waiting(run, position))
        if task.state not in FINAL:
            _recall_task(memory, run, task, now)
    if job.spec.groups and limit_ledger.is_in(run):
        memory.groups.enter(run)
    limit = job.spec.timeout_seconds
    if limit is not None and row.adopted_at is not None:
        left = max(timedelta(seconds=limit) - (now - row.adopted_at), timeouts.LEAST_LIMIT_LEFT)
        memory.set_length(left.total_seconds(), _limit_of(row))
    deadlines.recall(memory, run, now)
    return run


def recall_checkpoints(memory: ShardMemory, checkpoints: Iterable[Checkpoint]) -> None:
    """Restore the checkpoints of runs in memory."""
    for saved in checkpoints:
        task = memory.find(saved.task_id)
        if task is not None:
            memory.runs[task.run_id].checkpoints[task.position] = saved.document
            if saved.attempt_id in memory.attempts:
                memory.saved_at[saved.attempt_id] = saved.saved_at


def _limit_of(row: Run) -> TimerDue:
    return TimerDue(kind=TimerKind.RUN_LIMIT, subject=row.id, stamp=row.generation)


def _recall_task(memory: ShardMemory, run: RunMemory, task: Task, now: datetime) -> None:
    if task.state is S.QUEUED:
        memory.queues.push(task, memory.shape(task))
        reservations.recall(memory, task)
    elif task.state is S.PENDING and task.due_at is not None:
        run.delayed += 1
        circuit_breakers.recall_retry(memory, task, now)
        memory.set_instant(task.due_at, TimerDue(kind=TimerKind.RETRY, subject=task.id, stamp=task.seq))
    elif task.state is S.PENDING and not run.waiting[task.position]:
        memory.undecided.append((task.run_id, task.position))
    elif task.worker_id is not None and task.lease_id is not None and task.attempt_id is not None:
        _recall_lease(memory, task, task.worker_id, task.lease_id, task.attempt_id)
    if task.state is S.RUNNING:
        timeouts.recall(memory, run, task, now)


def _recall_lease(memory: ShardMemory, task: Task, worker_id: str, lease_id: str, attempt_id: str) -> None:
    """A worker holds this attempt according to the rows: expect the worker, and count its capacity as used."""
    if worker_id not in memory.workers:
        memory.meet(worker_id)
    memory.hold(attempt_id, task)
    lease = memory.leases.get(lease_id)
    if lease is not None:
        lease.members[attempt_id] = task
        memory.reconsider(lease)
        memory.note_going(task)
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
    memory.note_going(task)
