"""Detect runs in which nothing has changed or run for 30 minutes, report them, and decide them again (DAG-8).

No run should ever be stuck: every wait has an event that ends it. This check finds runs whose event is missing.
When a run was found stuck is in its row (`stuck_at`), so that a new leader knows it too.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.graph.fan_out import full_name
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Task, TaskState
from mainspring.shard import alerts
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import progress
from mainspring.shard.turn import Turn

S = TaskState
_ACTIVE = (S.QUEUED, S.ASSIGNED, S.RUNNING, S.QUARANTINED)
"""States of tasks that run, or wait for a worker or a person."""
_MAX_TASKS_NAMED = 5


def is_stuck(run: RunMemory, now: datetime, after: timedelta) -> bool:
    """Whether a run has made no progress for this long, and will make none."""
    last = max(filter(None, (run.changed_at, run.run.stuck_at)), default=now)
    if now - last < after or run.is_suspended() or run.bulk_operations or run.propagations:
        return False
    if any(run.counts.get(state) for state in _ACTIVE):
        return False
    return not run.delayed or not any(task.due_at is not None and task.due_at > now for task in run.tasks)


def report_and_retry(turn: Turn, run: RunMemory) -> None:
    """Report what a run waits for, raise an alert, and decide its tasks again."""
    since = run.run.stuck_at or run.changed_at or turn.now
    run.run.stuck_at = turn.now
    run.run.because = f"stuck since {since.isoformat()}: {explain(run)}"
    turn.mark(run)
    turn.batch.outbox.append(alerts.run_stuck(run.run, turn.now, turn.now))
    for task in [task for task in run.tasks if task.state is S.PENDING]:
        if task.due_at is not None:
            turn.touch(task)
            task.due_at = None
            run.delayed -= 1
        progress.count_again(turn, run, task)


def explain(run: RunMemory) -> str:
    """Describe what the tasks of a run wait for."""
    waiting = [task for task in run.tasks if task.state not in FINAL]
    explained = [_explain_task(run, task) for task in waiting[:_MAX_TASKS_NAMED]]
    more = f"; and {len(waiting) - _MAX_TASKS_NAMED} more" if len(waiting) > _MAX_TASKS_NAMED else ""
    return "; ".join(explained) + more if explained else "it has no open tasks"


def _explain_task(run: RunMemory, task: Task) -> str:
    name = full_name(task)
    if task.due_at is not None:
        return f"{name} waited until {task.due_at.isoformat()}"
    made = [run.tasks[parent] for parent in run.parents(task.position) if parent < len(run.tasks)]
    upstream = [f"{parent.name} ({parent.state})" for parent in made if parent.state not in FINAL]
    if upstream:
        return f"{name} waits for {', '.join(upstream[:_MAX_TASKS_NAMED])}"
    return f"{name} is {task.state} and counts {run.waiting[task.position]} open upstream tasks, but there are none"
