"""A run, and its state, which is derived from its tasks' and never set by hand (STA-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority, Task, TaskState

S = TaskState


class RunState(StrEnum):
    """State of a run."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"


UNSUCCESSFUL_RUN = frozenset({RunState.FAILED, RunState.PARTIAL, RunState.TIMED_OUT, RunState.CANCELLED})
FINAL_RUN = UNSUCCESSFUL_RUN | {RunState.SUCCEEDED}
_END_REASONS = {
    RunState.SUCCEEDED: "no task failed",
    RunState.FAILED: "a task failed",
    RunState.PARTIAL: "a task failed; the others continued",
    RunState.TIMED_OUT: "timed out",
}
"""Reason per final state. A cancelled run names who cancelled it."""


class FailurePolicy(StrEnum):
    """What the failure of one task means for the others (DAG-3)."""

    FAIL_FAST = "fail_fast"
    """Cancel what has not started. The default."""
    FAIL_AFTER_ALL = "fail_after_all"
    """Cancel descendants only; other branches finish."""
    SKIP_FAILED = "skip_failed"
    """Downstream tasks run, and are told which upstream tasks failed."""


class Run(msgspec.Struct, gc=False, kw_only=True):
    """One execution of a job. The fields are the columns of `runs`, in the same order."""

    id: str
    shard: str
    tenant: str
    job_id: str
    priority: Priority
    params: str
    """JSON."""
    task_count: int
    """Tasks of its job plus tasks added since; a fan-out that is not expanded yet counts as one."""
    submitted_by: str
    linked_run: str | None = None
    """The run that this one repeats."""
    watched: bool = False
    """Its end is reported through the outbox."""
    created_at: datetime
    start_at: datetime
    """Eligible for intake from then on."""
    # changed by the shard's commits only:
    state: RunState = RunState.PENDING
    generation: int = 1
    adopted_at: datetime | None = None
    ended_at: datetime | None = None
    paused: bool = False
    held: str | None = None
    """Why it left intake: its adoption failed, and a person must look at it."""
    cancelled_by: str | None = None
    failed_task: str | None = None
    """Under `fail_fast`: the first task that failed. No new task starts from then on."""
    timed_out: bool = False
    because: str = ""
    # origin:
    schedule_id: str | None = None
    """The schedule that created it, if any."""
    window_at: datetime | None = None
    """The schedule window that it is for."""
    # counted by the shard:
    retries: int = 0
    """Retries of its tasks in this generation (RTY-3)."""
    started_at: datetime | None = None
    """When the first of its tasks started; written when the run ends (OBS-5)."""
    # deadlines (PLC-11):
    finish_by: datetime | None = None
    """Deadline: set at submission, or by its job's `finish_within_seconds` on adoption."""
    at_risk_at: datetime | None = None
    """When it was first found at risk of missing its deadline."""
    # progress (DAG-8):
    stuck_at: datetime | None = None
    """When the run was found to make no progress; None once a task has moved again."""


RUN_COLUMNS_OF_THE_SHARD = (
    "task_count", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task",
    "timed_out", "because", "retries", "started_at", "priority", "finish_by", "at_risk_at",
    "stuck_at",
)  # fmt: skip


class RunProgress(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Facts besides the task states that decide how a run ends."""

    policy: FailurePolicy
    paused: bool = False
    cancelled: bool = False
    timed_out: bool = False
    complete: bool = True
    """Every task has been created, and no bulk operation is open."""
    delayed: int = 0
    """PENDING tasks that wait for a time."""


def update_state(run: Run, state: RunState, now: datetime, tasks: Sequence[Task] = ()) -> bool:
    """Set a run's derived state and the reason for its end; return whether the state changed.

    `tasks` are those of the run: they give the first start when the run ends.
    """
    if state is run.state:
        return False
    if state in _END_REASONS:
        run.because = _END_REASONS[state]
    elif state is RunState.CANCELLED and run.cancelled_by is None:
        run.because = "a task was cancelled"
    elif run.state in FINAL_RUN:
        run.because = "a task was retried"
    run.state = state
    is_over = state in FINAL_RUN
    run.ended_at = now if is_over else None
    run.started_at = _first_start(tasks) if is_over else None
    return True


def _first_start(tasks: Sequence[Task]) -> datetime | None:
    first_starts = [task.trail.first_start for task in tasks if task.trail is not None]
    starts = [task.started_at for task in tasks]
    return min((start for start in (*first_starts, *starts) if start is not None), default=None)


def derive_run_state(counts: Mapping[TaskState, int], finish: RunProgress) -> RunState:
    """Return the state of an adopted run from its task counts per state. Replaced tasks are not counted."""
    count = counts.get
    moving = finish.delayed + count(S.QUEUED, 0) + count(S.ASSIGNED, 0) + count(S.RUNNING, 0)
    quarantined = count(S.QUARANTINED, 0)
    if moving or quarantined or count(S.PENDING, 0) or not finish.complete:
        needs_operator = quarantined and not moving and finish.complete
        return RunState.PAUSED if finish.paused or needs_operator else RunState.RUNNING
    if finish.cancelled:
        return RunState.CANCELLED
    if finish.timed_out:
        return RunState.TIMED_OUT
    if count(S.FAILED, 0) or count(S.TIMED_OUT, 0):
        return RunState.PARTIAL if finish.policy is FailurePolicy.SKIP_FAILED else RunState.FAILED
    return RunState.CANCELLED if count(S.CANCELLED, 0) else RunState.SUCCEEDED
