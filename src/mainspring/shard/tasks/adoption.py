"""Adopt runs from intake, and restore runs from rows."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from datetime import datetime, timedelta

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.batch import BulkOperation, BulkOperationKind, Checkpoint
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task, TaskState
from mainspring.core.model.worker import Lease
from mainspring.shard.actions import reopen
from mainspring.shard.events import BulkOperationStep, RunArrived, TaskUndecided, TimerKind
from mainspring.shard.placement import reservations
from mainspring.shard.state import limit_ledger
from mainspring.shard.state.dynamic_tasks import DynamicTasks, restore_dynamic_tasks
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.state.runs import PAST_INTAKE
from mainspring.shard.tasks import circuit_breakers, deadlines, progress, timeouts
from mainspring.shard.turn import Turn

S = TaskState
SMALL_RUN_TASKS = 32
"""Runs of up to this many tasks are created at once, without a bulk operation."""


def adopt(turn: Turn, event: RunArrived) -> None:
    """Adopt a run, with any action that preceded it applied: create its tasks, and queue those without upstream."""
    memory = turn.memory
    row = memory.runs.current(event.run)
    memory.runs.drop_override(event.run.id)
    if row is not None and row.id not in memory.runs:
        take_in(turn, copy(row), event.job)


def take_in(turn: Turn, row: Run, job: Job) -> RunMemory:
    """Adopt a run that is not adopted yet. From now on only the shard writes its row."""
    memory = turn.memory
    run = RunMemory(run=row, job=job, changed_at=turn.now, dynamic_tasks=DynamicTasks() if job.is_dynamic else None)
    memory.runs.add(run)
    memory.runs.unstarted.count(row.priority, row.tenant, row.task_count)
    row.adopted_at = turn.now
    row.because = "adopted"
    turn.mark(run)
    if job.spec.timeout_seconds is not None:
        memory.timers.set_after(job.spec.timeout_seconds, TimerKind.RUN_LIMIT, row.id, row.generation)
    deadlines.begin(memory, run, turn.now)
    if row.task_count <= SMALL_RUN_TASKS:
        for position in range(row.task_count):
            progress.create_task(turn, run, position)
    else:
        turn.open_bulk_operation(run, BulkOperationKind.ADOPT, by="shard", why="the run is being adopted")
    return run


def restore_run(
    memory: ShardMemory, row: Run, job: Job, tasks: list[Task], bulk_operations: list[BulkOperation], now: datetime
) -> RunMemory:
    """Restore a run from its rows, which only the shard writes from now on. Everything else is derived."""
    run = RunMemory(run=row, job=job, tasks=tasks, changed_at=row.stuck_at or now)
    memory.runs.add(run)
    if job.is_dynamic:
        run.dynamic_tasks = restore_dynamic_tasks(job, tasks, bulk_operations)
    waiting = {row.priority: row.task_count - len(tasks)}
    for task in tasks:
        if task.state not in PAST_INTAKE:  # a pending change of the run's priority may not have reached this task
            waiting[task.priority] = waiting.get(task.priority, 0) + 1
        if task.state not in FINAL or task.origin is None or not task.origin.replaced:
            run.counts[task.state] = run.counts.get(task.state, 0) + 1
    for priority, count in waiting.items():
        memory.runs.unstarted.count(priority, row.tenant, count)
    for operation in bulk_operations:
        run.bulk_operations[operation.kind, operation.parent] = operation
        if row.held is None:
            memory.backlog.add(BulkOperationStep(run_id=row.id, kind=operation.kind, parent=operation.parent))
        if operation.kind is BulkOperationKind.REOPEN:
            retried = memory.runs.find(operation.parent)
            if retried is not None:
                reopen.record_descendants(run, retried)
    for position, task in enumerate(tasks):
        run.waiting.append(0 if task.state in FINAL else progress.count_waiting(run, position))
        if task.state not in FINAL:
            _restore_task(memory, run, task, now)
    if job.spec.groups and limit_ledger.is_admitted(run):
        memory.limits.ledger.enter(run)
    limit = job.spec.timeout_seconds
    if limit is not None and row.adopted_at is not None:
        left = max(timedelta(seconds=limit) - (now - row.adopted_at), timeouts.MIN_LIMIT_AFTER_TAKEOVER)
        memory.timers.set_after(left.total_seconds(), TimerKind.RUN_LIMIT, row.id, row.generation)
    deadlines.restore(memory, run, now)
    return run


def restore_checkpoints(memory: ShardMemory, checkpoints: Iterable[Checkpoint]) -> None:
    """Restore the checkpoints of runs in memory."""
    for saved in checkpoints:
        task = memory.runs.find(saved.task_id)
        if task is not None:
            memory.runs[task.run_id].checkpoints[task.position] = saved.document
            memory.attempts.record(saved.attempt_id, saved_at=saved.saved_at)


def _restore_task(memory: ShardMemory, run: RunMemory, task: Task, now: datetime) -> None:
    if task.state is S.QUEUED:
        memory.queues.push(task, memory.shape(task))
        reservations.restore(memory, task)
    elif task.state is S.PENDING and task.due_at is not None:
        run.delayed += 1
        circuit_breakers.restore_retry(memory, task, now)
        memory.timers.set_at(task.due_at, TimerKind.RETRY, task.id, task.seq)
    elif task.state is S.PENDING and not run.waiting[task.position]:
        memory.backlog.undecided.append(TaskUndecided(run_id=task.run_id, position=task.position))
    elif task.worker_id is not None and task.lease_id is not None and task.attempt_id is not None:
        _restore_lease(memory, task, task.worker_id, task.lease_id, task.attempt_id)
    if task.state is S.RUNNING:
        timeouts.restore(memory, run, task, now)


def _restore_lease(memory: ShardMemory, task: Task, worker_id: str, lease_id: str, attempt_id: str) -> None:
    """A worker holds this attempt according to the rows: expect the worker, and count its capacity as used."""
    if worker_id not in memory.workers:
        memory.add_worker(worker_id)
    memory.add_attempt(attempt_id, task)
    lease = memory.leases.get(lease_id)
    if lease is None:
        lease = Lease(
            id=lease_id, worker_id=worker_id, tenant=task.tenant, priority=task.priority, shape=memory.shape(task),
            members={}, received=True,
        )  # fmt: skip
        memory.open_lease(lease)
    lease.members[attempt_id] = task
    memory.leases.update_priority(lease)
    memory.leases.note_stopping(task)
