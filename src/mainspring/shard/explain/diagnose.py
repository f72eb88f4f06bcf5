"""Diagnose a task (OBS-1) on its leader: made on request, from the state that the leader decides by.

    PENDING              `shard/explain/pending_tasks.py`   upstream, a time, a retry, or never
    QUEUED               `shard/explain/queued_tasks.py`    its gates, in order: rules, then capacity
    ASSIGNED, RUNNING    `shard/explain/running_tasks.py`   as usual, slow, stuck, silent, stopping
    QUARANTINED          the same
    final                `core/explain/from_rows.py`        from its row

Read-only, free of cost between requests, and bounded. Suggestions, and the expected start of a task that waits for
capacity, quota or groups, are added by `shard/explain/advice.py`.
"""

from __future__ import annotations

from datetime import datetime

from msgspec.structs import replace

from mainspring.core.explain import from_rows
from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import BY_LEADER, STALE_SECONDS, Diagnosis, Expected, Reason
from mainspring.core.lifecycle.states import FINAL, HELD_BY_WORKER
from mainspring.core.model.task import Task, TaskState
from mainspring.shard.explain.diagnosis_context import DiagnosisContext, TaskContext
from mainspring.shard.explain.findings import Finding, name_of
from mainspring.shard.explain.pending_tasks import pending
from mainspring.shard.explain.queued_tasks import queued
from mainspring.shard.explain.running_tasks import held_by_worker, quarantined
from mainspring.shard.state.memory import ShardMemory

S = TaskState
_MAX_ID_CHARS = 200
_MOST_INFORMATIVE = (S.QUEUED, S.QUARANTINED, S.ASSIGNED, S.RUNNING, S.PENDING)
"""Of a run's tasks, those in the first of these states are the most informative;"""
_MOST_INFORMATIVE_IF_PAUSED = (S.QUEUED, S.PENDING, *_MOST_INFORMATIVE)
"""and these if the run is paused or held: running tasks continue, and are no sign of that."""


def diagnose(
    memory: ShardMemory, task_id: str, now: datetime, *, batch: int | None = None, age_seconds: float = 0.0
) -> Diagnosis | None:
    """Diagnose a task, without suggestions; None if it is not in memory.

    `batch` is the number of the leader's last batch, and `age_seconds` its age.
    """
    task = find(memory, task_id)
    if task is None:
        return None
    if task.state in FINAL:
        cause = None if task.cause is None else memory.runs.find(task.cause)
        ended = from_rows.of_ended_task(task, memory.runs[task.run_id].job.spec.name, now, cause)
        return replace(ended, by=BY_LEADER, batch=batch, age_seconds=age_seconds)
    context = DiagnosisContext(memory, now).context_of(task)
    found = _lagging(age_seconds) if age_seconds > STALE_SECONDS else _find_reason(context)
    return Diagnosis(
        subject=task.id,
        name=name_of(memory, task),
        tenant=task.tenant,
        state=task.state.value,
        since=task.since,
        reason=found.reason,
        verdict=found.verdict,
        at=now,
        by=BY_LEADER,
        age_seconds=age_seconds,
        batch=batch,
        run=task.run_id,
        task=task.id,
        pool=memory.shard,
        priority=task.priority,
        expected=found.expected,
        gates=found.gates,
        blockers=found.blockers.shown,
        more_blockers=found.blockers.more,
        ruled_out=found.ruled_out,
        numbers=found.numbers,
    )


def find(memory: ShardMemory, task_id: str) -> Task | None:
    """Find a task by an id from a request; None also if it is no valid id."""
    if not task_id.isascii() or len(task_id) > _MAX_ID_CHARS:
        return None
    task = memory.runs.find(task_id)
    return task if task is not None and task.id == task_id else None


def representative_task(memory: ShardMemory, run_id: str) -> str | None:
    """Return the most informative open task of a run in memory; None if there is none.

    Of one state the task that has been in it longest; of pending ones one that waits for a time or for nothing
    upstream.
    """
    run = memory.runs.get(run_id)
    if run is None:
        return None
    for state in _MOST_INFORMATIVE_IF_PAUSED if run.is_suspended() else _MOST_INFORMATIVE:
        if run.counts.get(state):
            tasks = (task for task in run.tasks if task.state is state)
            if state is S.PENDING:
                return min(tasks, key=lambda task: (task.due_at is None, run.waiting[task.position], task.since)).id
            return min(tasks, key=lambda task: task.since).id
    return None


def _find_reason(context: TaskContext) -> Finding:
    if context.task.state is S.QUEUED:
        return queued(context)
    if context.task.state in HELD_BY_WORKER:
        return held_by_worker(context)
    return quarantined(context) if context.task.state is S.QUARANTINED else pending(context)


def _lagging(age_seconds: float) -> Finding:
    """The state is too old to name a cause."""
    return Finding(
        reason=Reason.SCHEDULER_LAG,
        verdict=words.behind(age_seconds),
        expected=Expected.unknown("the scheduler is behind"),
        numbers={"lag_seconds": age_seconds},
    )
