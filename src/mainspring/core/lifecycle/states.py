"""Task states, their transition table, and the only functions that change a state (STA-1).

                 ┌────────── retry, paused ──────────┐
                 ▼                                   │
    (new) ─► PENDING ─► QUEUED ─► ASSIGNED ─► RUNNING ─► SUCCEEDED
                 │         ▲         │           │   ├─► FAILED
                 │         └─────────┴───────────┘   ├─► TIMED_OUT
                 ├─► SKIPPED     returned, lost      └─► CANCELLED
                 └─► FAILED
    QUARANTINED is reached from every state that is not final, and left only by a person's action.

The shard performs each transition, in response to an event, through `move`. Nothing automatic leaves a final state: a
person's retry goes through `reopen`, the only other function that assigns a state.

1. A state is assigned in this file and nowhere else.
2. Every assignment returns a `Transition`; `seq` numbers them without a gap, so the history of a task is a path.
3. Within one generation the path follows the table.

If you add a state: the table here, `core/model/run.py` (its effect on the run), `api` names (STA-6), the simulator's
model of I-04, and docs/explanation/states.md.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from mainspring.core.model.task import Task, TaskState, Transition
from mainspring.protocol.errors import IllegalTransition

S = TaskState

_EDGES: dict[TaskState, frozenset[TaskState]] = {
    S.PENDING: frozenset({S.QUEUED, S.SKIPPED, S.CANCELLED, S.QUARANTINED, S.FAILED}),
    S.QUEUED: frozenset({S.ASSIGNED, S.CANCELLED, S.QUARANTINED, S.PENDING}),
    S.ASSIGNED: frozenset({S.RUNNING, S.QUEUED, S.CANCELLED, S.FAILED, S.QUARANTINED}),
    S.RUNNING: frozenset({S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.CANCELLED, S.QUEUED, S.PENDING, S.QUARANTINED}),
    S.QUARANTINED: frozenset({S.QUEUED, S.CANCELLED}),
    **dict.fromkeys((S.SUCCEEDED, S.FAILED, S.TIMED_OUT, S.CANCELLED, S.SKIPPED), frozenset[TaskState]()),
}

FINAL = frozenset(state for state in S if not _EDGES[state])
HELD_BY_WORKER = frozenset({S.ASSIGNED, S.RUNNING})
UNSUCCESSFUL = frozenset({S.FAILED, S.TIMED_OUT})


def is_allowed(start: TaskState | None, end: TaskState) -> bool:
    """Return whether the table has this transition. A new task has no state before PENDING."""
    return end is S.PENDING if start is None else end in _EDGES[start]


def create(task: Task) -> Transition:
    """Return the transition of a new task into PENDING."""
    task.seq = 1
    return Transition(
        task_id=task.id, run_id=task.run_id, tenant=task.tenant, generation=task.generation, seq=1,
        attempt=0, start=None, end=task.state, at=task.since, by="shard", because=task.because,
    )  # fmt: skip


def move(task: Task, to: TaskState, *, now: datetime, by: str, because: str) -> Transition:
    """Put `task` into state `to` and return the transition. Raises IllegalTransition if the table does not have it."""
    start = task.state
    if to not in _EDGES[start]:
        raise IllegalTransition(f"{task.id} can't go from {start} to {to} ({because!r}, by {by}): {task}")
    return _assign(task, to, now, by, because)


def reopen(task: Task, *, now: datetime, by: str, because: str) -> Transition:
    """Start a final task again: a new generation, counters at zero, PENDING. Only a person's action leads here."""
    if task.state not in FINAL:
        raise IllegalTransition(f"{task.id} is {task.state}: only a final task can be reopened: {task}")
    task.generation += 1
    task.attempt = task.tries = task.losses = 0
    task.attempt_id = task.lease_id = task.worker_id = task.cause = None
    task.assigned_at = task.started_at = task.ended_at = task.due_at = None
    task.stop = task.output = task.error = task.trail = None
    return _assign(task, S.PENDING, now, by, because)


def _assign(task: Task, to: TaskState, now: datetime, by: str, because: str) -> Transition:
    start = task.state
    task.state = to
    task.seq += 1
    task.since = now
    task.because = because
    return Transition(
        task_id=task.id, run_id=task.run_id, tenant=task.tenant, generation=task.generation, seq=task.seq,
        attempt=task.attempt, start=start, end=to, at=now, by=by, because=because,
    )  # fmt: skip


class PipelineState(StrEnum):
    """Names of the task states in the customer pipelines' API (STA-6)."""

    PENDING = "PENDING"
    CLAIMED = "CLAIMED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"
    QUARANTINED = "QUARANTINED"


_PIPELINE_NAMES = {
    S.PENDING: PipelineState.PENDING,
    S.QUEUED: PipelineState.PENDING,
    S.ASSIGNED: PipelineState.CLAIMED,
    S.RUNNING: PipelineState.RUNNING,
    S.SUCCEEDED: PipelineState.COMPLETED,
    S.FAILED: PipelineState.FAILED,
    S.TIMED_OUT: PipelineState.TIMEOUT,
    S.CANCELLED: PipelineState.CANCELLED,
    S.SKIPPED: PipelineState.SKIPPED,
    S.QUARANTINED: PipelineState.QUARANTINED,
}


def pipeline_state(state: TaskState) -> PipelineState:
    """Return the name of a state in the customer pipelines' API."""
    return _PIPELINE_NAMES[state]
