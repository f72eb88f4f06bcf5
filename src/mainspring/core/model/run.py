"""A run, and its state, which is derived from its tasks' and never set by hand (STA-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.task import Priority, Task, TaskState

S = TaskState


class RunState(StrEnum):
    """Where a run is."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    PARTIAL = "PARTIAL"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"


FINAL_RUN = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.PARTIAL, RunState.TIMED_OUT, RunState.CANCELLED})


_ENDINGS = {
    RunState.SUCCEEDED: "no task failed",
    RunState.FAILED: "a task failed",
    RunState.PARTIAL: "a task failed, and the others went on without it",
    RunState.TIMED_OUT: "its time was up",
}
"""Why a run has ended. One that was cancelled says who cancelled it."""


class FailurePolicy(StrEnum):
    """What the failure of one task means for the others (DAG-3)."""

    FAIL_FAST = "fail_fast"
    """Cancel what has not started. The default."""
    FAIL_AFTER_ALL = "fail_after_all"
    """Cancel descendants only; other branches finish."""
    SKIP_FAILED = "skip_failed"
    """Downstream proceeds, and is told which upstreams failed."""


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
    """Those of its job, and what has been added since; one that is still to fan out counts as one."""
    submitted_by: str
    linked_run: str | None = None
    """The run that this one repeats."""
    watched: bool = False
    """Somebody outside wants to hear of its end: it goes to the outbox."""
    created_at: datetime
    start_at: datetime
    """In intake from then on."""
    # what only the shard's commits change:
    state: RunState = RunState.PENDING
    generation: int = 1
    adopted_at: datetime | None = None
    ended_at: datetime | None = None
    paused: bool = False
    held: str | None = None
    """Why it left intake: its adoption failed, and a person must look."""
    cancelled_by: str | None = None
    failed_task: str | None = None
    """Under `fail_fast`: the task that failed first. From then on nothing new starts."""
    timed_out: bool = False
    because: str = ""
    # what whoever made it says besides:
    schedule_id: str | None = None
    """The schedule that it is a run of, if it is of one."""
    window_at: datetime | None = None
    """The window of the schedule that it is for."""
    # and what the shard counts:
    retries: int = 0
    """How often a task of it was tried again, in this generation (RTY-3)."""
    started_at: datetime | None = None
    """When the first of its tasks started; written when the run ends (OBS-5)."""
    # deadlines (PLC-11):
    finish_by: datetime | None = None
    """By when it is to be over: as whoever made it says, or from its adoption on as its job does."""
    at_risk_at: datetime | None = None
    """When it was found that it may not be over by then."""
    # progress (DAG-8):
    stuck_at: datetime | None = None
    """When it was found that nothing of the run moves; None once a task has moved again."""


RUN_COLUMNS_OF_THE_SHARD = (
    "task_count", "state", "generation", "adopted_at", "ended_at", "paused", "held", "cancelled_by", "failed_task",
    "timed_out", "because", "retries", "started_at", "priority", "finish_by", "at_risk_at",
    "stuck_at",
)  # fmt: skip


class Finish(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What, besides the tasks' states, decides how a run ended."""

    policy: FailurePolicy
    paused: bool = False
    cancelled: bool = False
    timed_out: bool = False
    complete: bool = True
    """Every task has been made, and no spread is open."""
    delayed: int = 0
    """Tasks that are PENDING because they wait for a time."""


def conclude(run: Run, state: RunState, now: datetime, tasks: Sequence[Task] = ()) -> bool:
    """Give a run the state that was derived for it, and its end a reason; True if that is another than before.

    `tasks` are those of the run: when the first of them started is known when the run has ended.
    """
    if state is run.state:
        return False
    if state in _ENDINGS:
        run.because = _ENDINGS[state]
    elif state is RunState.CANCELLED and run.cancelled_by is None:
        run.because = "a task was cancelled"
    elif run.state in FINAL_RUN:
        run.because = "a task was started again"
    run.state = state
    is_over = state in FINAL_RUN
    run.ended_at = now if is_over else None
    run.started_at = _first_start(tasks) if is_over else None
    return True


def _first_start(tasks: Sequence[Task]) -> datetime | None:
    firsts = [task.trail.first_start for task in tasks if task.trail is not None]
    starts = [task.started_at for task in tasks]
    return min((start for start in (*firsts, *starts) if start is not None), default=None)


def derive_run_state(counts: Mapping[TaskState, int], finish: Finish) -> RunState:
    """The state of an adopted run, from how many of its tasks are in each state. Replaced tasks are not counted."""
    count = counts.get
    moving = finish.delayed + count(S.QUEUED, 0) + count(S.ASSIGNED, 0) + count(S.RUNNING, 0)
    quarantined = count(S.QUARANTINED, 0)
    if moving or quarantined or count(S.PENDING, 0) or not finish.complete:
        only_a_person = quarantined and not moving and finish.complete
        return RunState.PAUSED if finish.paused or only_a_person else RunState.RUNNING
    if finish.cancelled:
        return RunState.CANCELLED
    if finish.timed_out:
        return RunState.TIMED_OUT
    if count(S.FAILED, 0) or count(S.TIMED_OUT, 0):
        return RunState.PARTIAL if finish.policy is FailurePolicy.SKIP_FAILED else RunState.FAILED
    return RunState.CANCELLED if count(S.CANCELLED, 0) else RunState.SUCCEEDED
