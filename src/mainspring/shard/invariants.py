"""Invariants of open tasks (STA-7, I-12, I-41, I-45, I-60).

A task that is not final waits for named upstreams, for a time or for a person, is in a queue, or is held by a worker.
`unexplained` finds the tasks of a run for which none of this is true. The shard checks a few runs at a time, reports
what it finds, and repairs it by deciding again. The simulator checks all runs, and expects no findings. A run without
findings that makes no progress is for `shard/tasks/stuck_runs.py`.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Task, TaskState
from mainspring.shard import alerts
from mainspring.shard.events import TaskUndecided
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import progress, stuck_runs
from mainspring.shard.turn import Turn

S = TaskState
RUNS_PER_CHECK = 20
TASKS_PER_CHECK = 2_000


def check(turn: Turn) -> None:
    """Check the next few runs. Findings are reported, and their tasks are decided again."""
    memory = turn.memory
    tasks, stuck_after = 0, timedelta(seconds=memory.scheduler_settings.stuck_after_seconds)
    for run in memory.runs.next_to_check(RUNS_PER_CHECK):
        tasks += len(run.tasks)
        if stuck_runs.is_stuck(run, turn.now, stuck_after):
            stuck_runs.report_and_retry(turn, run)
        if len(run.tasks) <= TASKS_PER_CHECK:
            for task, fault in unexplained(memory, run):
                _repair(turn, run, task, fault)
        if tasks > TASKS_PER_CHECK:
            return


def unexplained(memory: ShardMemory, run: RunMemory) -> list[tuple[Task, str]]:
    """Tasks of a run that nothing will ever move on, each with its fault."""
    faults = ((task, _fault(memory, run, task)) for task in run.tasks if task.state not in FINAL)
    return [(task, fault) for task, fault in faults if fault is not None]


def _fault(memory: ShardMemory, run: RunMemory, task: Task) -> str | None:
    position = task.position
    if run.is_replaced(task):
        return None if run.bulk_operations or task.worker_id is not None else "it was replaced, but has not ended"
    match task.state:
        case S.PENDING:
            pending = progress.count_waiting(run, position)
            if run.waiting[position] != pending:
                return f"it counts {run.waiting[position]} open upstream tasks, but there are {pending}"
            undecided = TaskUndecided(run_id=task.run_id, position=position) in memory.backlog.undecided
            resting = run.is_suspended() or bool(run.bulk_operations) or undecided
            if not pending and task.due_at is None and not resting:
                return "it is PENDING, but waits for nothing"
        case S.QUEUED:
            waits = run.bulk_operations or memory.queues.is_waiting(task, memory.shape(task))
            if run.may_start() and not waits:
                return "it is QUEUED, but in no queue"
        case S.ASSIGNED | S.RUNNING:
            if not memory.leases.has(task):
                return f"it is {task.state}, but no lease has it"
        case _:
            pass
    return None


def _repair(turn: Turn, run: RunMemory, task: Task, fault: str) -> None:
    turn.batch.outbox.append(alerts.unexplained(task, fault, turn.now))
    is_queued = task.state is S.QUEUED
    progress.count_again(turn, run, task)
    if is_queued:
        turn.memory.queues.restore(task, turn.memory.shape(task))
