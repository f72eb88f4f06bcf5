"""A task and what belongs to it: its row, its stop request, the record of a transition, an attempt that is over.

The fields of these structs are the columns of their tables, in the same order: what is in memory is what is stored,
and nothing has to be mapped. (msgspec structs without garbage collection: 120 bytes a task, five times cheaper to
make than a dataclass, and a million of them don't slow the collector down.)
"""

from __future__ import annotations

from datetime import datetime
from enum import IntEnum, StrEnum

import msgspec


class TaskState(StrEnum):
    """Where a task is. `core/lifecycle/states.py` has the table of transitions."""

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
    """Why a task that a worker holds is asked to stop, and so what it becomes (STA-8)."""

    CANCEL = "cancel"
    """CANCELLED."""
    TIMEOUT = "timeout"
    """TIMED_OUT, or a retry."""
    STALL = "stall"
    """It lives and gets nowhere (LIV-2): TIMED_OUT, or a retry."""
    PREEMPT = "preempt"
    """QUEUED; the try does not count."""
    EVICT = "evict"
    """QUEUED; the try does not count."""
    HOLD = "hold"
    """Its run is paused, or its worker drained: given back if it has not started, left alone if it has."""


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
    """Asked to stop is durable: part of the task's row, committed before the signal, sent again by a new leader."""

    kind: StopKind
    by: str
    why: str
    kill_at: datetime
    for_task: str | None = None
    """The task that the room is for, if this is preemption."""
    cause: str | None = None
    """The task whose failure led here, if one did: a retry of that one reopens this one."""
    preempted_for: Preemptor | None = None
    """Who the capacity is for, if this is preemption: known also when that task is gone."""


class Birth(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How a task came to be that the job's definition alone did not make: by a fan-out, or by a task's output."""

    parent: int
    """Position of the task with `for_each` (also in that task's own row), or of the one whose output made it."""
    generation: int
    """Of the parent, when it made this one."""
    index: int
    """Which of them it is: for a fan-out the `partition`, from 0."""
    total: int
    label: str = ""
    """For people, what tells it from the others of a fan-out: `fetch[Oslo]`."""
    replaced: bool = False
    """Its parent has been started again since: once it is over it counts no more."""


class Trail(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What earlier attempts of this generation left behind for the decision about the next one (RTY-1 to RTY-5)."""

    signature: str = ""
    """Of the last failure: the same for failures that are alike."""
    workers: tuple[str, ...] = ()
    """Where it failed with that signature, each once."""
    lost_on: tuple[str, ...] = ()
    """Workers that were lost while it ran there, each once."""
    memory_bytes: int | None = None
    """Asked for instead of what the definition says: it ran out of memory."""
    limit_seconds: float | None = None
    """Its hard limit, instead of what the definition says: it was too slow, or asked for more time."""
    is_probe: bool = False
    """Let through an open breaker to see whether it is better by now."""
    first_start: datetime | None = None
    """When the first attempt started, once there is another one."""
    preempted_for: Preemptor | None = None
    """While it is queued again because its latest attempt was preempted: who that was for. Cleared on placement."""
    fan_out_limit: tuple[int, int] | None = None
    """Items of its list, and the limit that they exceed: the task waits until a person resumes or cancels the run."""


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """Room that is kept for a task on a worker, so that nobody else gets what is being freed for it (PLC-6)."""

    worker: str
    until: datetime
    """Given back then, if the task has not started."""
    why: str = ""
    """For people: what is being moved out of its way, or what it waits for."""
    yields: bool = False
    """Nobody was stopped for it: anything more important may have it."""


class Task(msgspec.Struct, gc=False, kw_only=True):
    """One node of a run, with its current attempt inside."""

    id: str
    run_id: str
    shard: str
    tenant: str
    name: str
    position: int
    """Where it stands in the run's topological order."""
    priority: Priority
    state: TaskState = TaskState.PENDING
    generation: int = 1
    seq: int = 0
    """How many transitions it has made. Never restarts."""
    attempt: int = 0
    """The number of the current or last attempt within this generation."""
    tries: int = 0
    """Attempts of this generation that count against the limit."""
    losses: int = 0
    """Attempts of this generation that were lost with their worker."""
    attempt_id: str | None = None
    lease_id: str | None = None
    worker_id: str | None = None
    cause: str | None = None
    """The task because of which this one was cancelled or skipped."""
    because: str = ""
    since: datetime
    due_at: datetime | None = None
    """PENDING until then: a retry delay."""
    assigned_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stop: StopRequest | None = None
    output: str | None = None
    error: str | None = None
    birth: Birth | None = None
    trail: Trail | None = None
    ran_on: str | None = None
    """The worker of its latest attempt that started, also when that is over: what is to run near it goes there."""
    reserved: Reservation | None = None
    """While it is QUEUED: where room is kept for it. Cleared when it is placed, cancelled, or after its time."""


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
    """It was asked to stop: cancelled, preempted or evicted."""
    LOST = "lost"
    """Its worker was lost, or no longer had it."""
    RETURNED = "returned"
    """Never started: recalled, refused, or not received in time."""
    REJECTED = "rejected"
    """Its report could not be taken."""


class Attempt(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One try at a task, now over."""

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
    """What the rows say of an attempt that the shard does not have in memory."""

    id: str
    task_id: str
    worker_id: str
    end: AttemptEnd | None
    """None: it is the current attempt of its task."""
