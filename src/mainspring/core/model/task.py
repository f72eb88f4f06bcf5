"""Task rows: task, stop request, transition, attempt.

The fields of these structs are the columns of their tables, in the same order, so no mapping is needed. They are
msgspec structs without garbage collection: 120 bytes a task, five times cheaper to create than a dataclass, and a
million of them don't slow the collector down.
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec


class TaskState(StrEnum):
    """State of a task. `core/lifecycle/states.py` has the transition table."""

    PENDING = "PENDING"
    QUEUED = "QUEUED"
    ASSIGNED = "ASSIGNED"
    RUNNING = "RUNNING"
    QUARANTINED = "QUARANTINED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class Priority(IntEnum):
    """Strict: a P1 starts only where no P0 could."""

    P0 = 0
    P1 = 1
    P2 = 2


class StopKind(StrEnum):
    """Kind of stop request, which decides the next state of the task (STA-8)."""

    CANCEL = "cancel"
    """CANCELLED."""
    TIMEOUT = "timeout"
    """TIMED_OUT, or a retry."""
    STALL = "stall"
    """Heartbeats without progress (LIV-2): TIMED_OUT, or a retry."""
    PREEMPT = "preempt"
    """QUEUED; the attempt does not count."""
    EVICT = "evict"
    """QUEUED; the attempt does not count."""
    HOLD = "hold"
    """Its run is paused or its worker is draining: returned if it has not started, left running otherwise."""


class Preemptor(msgspec.Struct, frozen=True, gc=False):
    """The task that another one was preempted for."""

    task: str
    """Its id."""
    name: str
    job: str
    """`tenant/job`."""
    tenant: str
    run: str
    priority: Priority

    def __str__(self) -> str:
        return f"{self.name} of {self.job} (tenant {self.tenant}, {self.priority.name}, run {self.run})"


class StopRequest(msgspec.Struct, frozen=True, gc=False):
    """A durable stop request: part of the task's row, committed before the signal, sent again by a new leader."""

    kind: StopKind
    by: str
    why: str
    kill_at: datetime
    for_task: str | None = None
    """With preemption: the task that gets the capacity."""
    cause: str | None = None
    """The failed task that caused the stop, if any: a retry of it reopens this one."""
    preempted_for: Preemptor | None = None
    """The task that the capacity is for, if this is a preemption. Known also after that task is gone."""


class Origin(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Origin of a dynamic task: created by a fan-out, or by a task's output."""

    parent: int
    """Position of the task with `for_each` (also in that task's own row), or of the task whose output created it."""
    generation: int
    """Generation of the parent that created it."""
    index: int
    """Index among its siblings; in a fan-out the `partition`, from 0."""
    total: int
    label: str = ""
    """Display label in a fan-out: `fetch[Oslo]`."""
    replaced: bool = False
    """Its parent was started again: once it has ended it is no longer counted."""


class RetryState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """State of earlier attempts in this generation, as input of the retry decision (RTY-1 to RTY-5)."""

    signature: str = ""
    """Signature of the last failure, shared by similar failures."""
    workers: tuple[str, ...] = ()
    """Workers where it failed with that signature, each once."""
    lost_on: tuple[str, ...] = ()
    """Workers that were lost while running it, each once."""
    memory_bytes: int | None = None
    """Memory request after running out of memory, in place of the definition's."""
    limit_seconds: float | None = None
    """Hard limit after a timeout or an extension, in place of the definition's."""
    is_probe: bool = False
    """Let through an open circuit breaker as a probe."""
    first_start: datetime | None = None
    """Start of the first attempt, once there is a second one."""
    preempted_for: Preemptor | None = None
    """The task that preempted the latest attempt, while this one is queued again. Cleared on placement."""
    fan_out_limit: tuple[int, int] | None = None
    """Items of its list, and the limit that they exceed: the task waits until a person resumes or cancels the run."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Capacity reserved for a task on a worker, so that no other task takes what is being freed for it (PLC-6)."""

    worker: str
    until: datetime
    """Released then, if the task has not started."""
    why: str = ""
    """Which tasks are preempted for it, or what it waits for."""
    yields: bool = False
    """No task was stopped for it: tasks of higher priority may take it."""


class Task(msgspec.Struct, gc=False, kw_only=True):
    """One node of a run, including its current attempt."""

    id: str
    run_id: str
    shard: str
    tenant: str
    name: str
    position: int
    """Position in the run's topological order."""
    priority: Priority
    state: TaskState = TaskState.PENDING
    generation: int = 1
    seq: int = 0
    """Number of transitions. Never reset."""
    attempt: int = 0
    """Number of the current or last attempt in this generation."""
    tries: int = 0
    """Attempts of this generation that count against the limit."""
    losses: int = 0
    """Attempts of this generation that were lost with their worker."""
    attempt_id: str | None = None
    lease_id: str | None = None
    worker_id: str | None = None
    cause: str | None = None
    """The task that caused this one to be cancelled or skipped."""
    because: str = ""
    since: datetime
    due_at: datetime | None = None
    """PENDING until then: the retry delay."""
    assigned_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stop: StopRequest | None = None
    output: str | None = None
    error: str | None = None
    origin: Origin | None = None
    trail: RetryState | None = None
    ran_on: str | None = None
    """Worker of its latest started attempt, also after it has ended; used for affinity."""
    reserved: Reservation | None = None
    """While QUEUED: its reservation. Cleared when it is placed or cancelled, or when the reservation expires."""


class Transition(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The record of one change of state (STA-4)."""

    task_id: str
    run_id: str
    tenant: str
    generation: int
    seq: int
    attempt: int
    start: TaskState | None
    end: TaskState
    at: datetime
    by: str
    because: str


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    """Stopped on request: cancelled, preempted or evicted."""
    LOST = "lost"
    """Its worker was lost, or no longer had it."""
    RETURNED = "returned"
    """Never started: recalled, refused, or not received in time."""
    REJECTED = "rejected"
    """Its result could not be stored."""


class Attempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One try at a task, now ended."""

    id: str
    task_id: str
    run_id: str
    shard: str
    tenant: str
    generation: int
    number: int
    worker_id: str
    lease_id: str
    assigned_at: datetime
    started_at: datetime | None
    ended_at: datetime
    end: AttemptEnd
    error: str | None = None
    """JSON."""


class RecordedAttempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Stored facts of an attempt that is not in the shard's memory."""

    id: str
    task_id: str
    worker_id: str
    end: AttemptEnd | None
    """None: it is the current attempt of its task."""
