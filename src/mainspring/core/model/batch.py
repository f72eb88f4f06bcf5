"""Batch: the rows that change together, and the effects that follow once they are durable.

A shard builds it, the host commits it, and the store writes it atomically. Rows are copies, taken when the batch is
closed: later changes in the shard's memory don't reach them, so the same batch can be written twice.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.decisions import Decision
from mainspring.core.model.run import Run
from mainspring.core.model.task import Attempt, Task, TaskState, Transition


class TaskChange(msgspec.Struct, frozen=True, gc=False):
    """A task's new row, and the expected previous one: a compare-and-swap (STA-2)."""

    task: Task
    was: TaskState
    was_seq: int


class LateResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A result for an attempt that has already ended. Stored with the attempt, never applied (I-52)."""

    attempt_id: str
    outcome: str
    output: str | None
    error: str | None
    at: datetime


class BulkOperationKind(StrEnum):
    """Kind of a bulk operation: work on a run that may exceed one batch."""

    ADOPT = "adopt"
    """Create its tasks."""
    CANCEL = "cancel"
    """Cancel all tasks that have not ended."""
    FAIL_FAST = "fail_fast"
    """Cancel all tasks that have not started."""
    PAUSE = "pause"
    """Dequeue queued tasks and recall assigned ones."""
    RESUME = "resume"
    """Queue eligible tasks again."""
    REPRIORITIZE = "priority"
    """Apply the run's priority to all tasks that have not ended."""
    REOPEN = "reopen"
    """Reopen tasks that were cancelled or skipped because of a task that is retried."""
    FAN_OUT = "fan_out"
    """Create a task for each item of a list (DAG-2)."""
    GROW = "grow"
    """Create the tasks that an output adds (DAG-5)."""


class BulkOperation(msgspec.Struct, gc=False, kw_only=True):
    """Progress of a bulk operation. A new leader resumes it. The key is (run, parent, generation, kind)."""

    run_id: str
    parent: str
    """Task whose output caused it; empty for the run itself."""
    generation: int
    kind: BulkOperationKind
    shard: str
    total: int
    done: int
    by: str
    why: str


class OutboxRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An outbox row: a message delivered at least once, in order per key."""

    id: str
    """Derived from run, generation and kind, so that the receiver can ignore duplicates."""
    key: str
    """Rows with the same key are delivered in order, one at a time."""
    kind: str
    payload: str
    """JSON."""
    created_at: datetime


class RejectedEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event that the shard rejected, kept for inspection: one bad value never stops a shard."""

    id: str
    shard: str
    kind: str
    subject: str
    """Id of the task, run or shape concerned."""
    event: str
    """As JSON, with characters replaced that a store can't hold."""
    fault: str
    at: datetime


class Checkpoint(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """State that an attempt saved for the next attempt of its task; only the latest is kept (WRK-7)."""

    task_id: str
    run_id: str
    attempt_id: str
    document: str
    """JSON."""
    saved_at: datetime


class WorkerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A worker as listed by the API. Scheduling reads only whether it is cordoned or draining."""

    id: str
    shard: str
    offer: str
    """Its resources, as JSON."""
    labels: str
    zone: str
    version: str
    status: str
    since: datetime
    last_heartbeat_at: datetime
    hold: str = ""
    """`cordoned` or `draining`: no new work is assigned. Empty: schedulable (WRK-9)."""
    hold_why: str = ""
    """Who cordoned it, and why."""


class BreakerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An open circuit breaker that holds the retries of one signature, or a whole job (RTY-4)."""

    shard: str
    kind: str
    """`signature` or `job`."""
    subject: str
    """The signature, or `tenant/job`."""
    because: str
    """The shared error, or the failure rate."""
    opened_at: datetime
    probed_at: datetime | None = None
    """When the last probe was let through."""
    closed_at: datetime | None = None
    """When set, the row is deleted."""


class DurationRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Recent durations of a task of a job, successes only; an empty `task` stands for the whole run."""

    shard: str
    tenant: str
    job: str
    task: str
    count: int
    """Number of successes recorded."""
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    samples: tuple[float, ...]
    """Latest durations in seconds, oldest first."""
    updated_at: datetime


class FailureCountRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Failed tasks of a tenant in a five-minute bucket, so that a new leader knows them (ADM-5)."""

    shard: str
    tenant: str
    since: datetime
    """Start of the bucket."""
    failures: int


class Effect(msgspec.Struct, frozen=True, gc=False):
    """An effect, released once the batch is durable. The concrete ones are in `shard/effects.py`."""


class Batch(msgspec.Struct, kw_only=True):
    """The only output of a shard. Nothing of it is visible outside until it is committed."""

    runs: list[Run] = []
    """New values of the columns that a shard may change."""
    new_tasks: list[Task] = []
    tasks: list[TaskChange] = []
    transitions: list[Transition] = []
    attempts: list[Attempt] = []
    late: list[LateResult] = []
    bulk_operations: list[BulkOperation] = []
    """A bulk operation whose `done` equals its `total` is complete, and its row is deleted."""
    outbox: list[OutboxRow] = []
    rejected: list[RejectedEvent] = []
    workers: list[WorkerRow] = []
    checkpoints: list[Checkpoint] = []
    """Each replaces the previous checkpoint of its task."""
    breakers: list[BreakerRow] = []
    """Opened, probed or closed."""
    durations: list[DurationRow] = []
    shares: list[ShareRow] = []
    """Limit shares that this shard lowers, or whose need it changes: `granted` never rises here. A share of 0 without
    need is deleted; a share that the shard does not hold is not created."""
    failure_counts: list[FailureCountRow] = []
    """Each replaces the stored count of the same shard, tenant and bucket. Buckets of the shard older than 65 minutes
    are deleted."""
    archived: list[str] = []
    """Final runs that move to history, a batch of tasks at a time; the run moves with its last task."""
    audit: list[AuditEntry] = []
    """Requested actions that were executed in this batch."""
    decisions: list[Decision] = []
    """Sampled decisions of this batch, with their reasons. An id that exists is not written again."""
    artifacts: list[ArtifactRow] = []
    """Files of attempts whose results are applied in this batch. One that exists is not written again."""
    effects: list[Effect] = []

    def rows(self) -> int:
        """Return the number of rows written. An empty batch only renews the lease."""
        return sum(len(getattr(self, name)) for name in _ROWS)


_ROWS = tuple(name for name in Batch.__struct_fields__ if name != "effects")
