"""A batch: the rows that change together, and the effects that follow once they are durable.

A shard makes it, the host commits it, the store writes it, whole or not at all. Rows are copies, taken when the batch
is closed: what the shard's memory does afterwards does not reach them, so the same batch can be written twice.
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
    """A task's new row, and what its row must be before: the compare-and-swap (STA-2)."""

    task: Task
    was: TaskState
    was_seq: int


class LateResult(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A result that came for an attempt already over. Kept with the attempt, never applied (I-52)."""

    attempt_id: str
    outcome: str
    output: str | None
    error: str | None
    at: datetime


class SpreadKind(StrEnum):
    """Work on a run that may exceed a batch."""

    ADOPT = "adopt"
    """Make its tasks."""
    CANCEL = "cancel"
    """Cancel whatever is not over."""
    FAIL_FAST = "fail_fast"
    """Cancel whatever has not started."""
    PAUSE = "pause"
    """Take what is queued out of the queues, call back what has not started."""
    RESUME = "resume"
    """Queue again what may run."""
    REPRIORITISE = "priority"
    """Give whatever is not over the priority that the run has by now."""
    REOPEN = "reopen"
    """Start again what was cancelled or skipped because of a task that a person retries."""
    FAN_OUT = "fan_out"
    """Make a task for each item of a list (DAG-2)."""
    GROW = "grow"
    """Make the tasks that an output adds (DAG-5)."""


class Spread(msgspec.Struct, gc=False, kw_only=True):
    """How far such work is. A new leader goes on where it stopped. (run, parent, generation, kind) is the key."""

    run_id: str
    parent: str
    """The task whose output made it, or empty for the run itself."""
    generation: int
    kind: SpreadKind
    shard: str
    total: int
    done: int
    by: str
    why: str


class Outgoing(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Something that must reach somebody outside, at least once, in the order of its key."""

    id: str
    """Made of run, generation and kind, so that the receiver can ignore what it has seen."""
    key: str
    """Rows of one key are delivered in order, one at a time."""
    kind: str
    payload: str
    """JSON."""
    created_at: datetime


class RejectedEvent(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """An event that could not be taken, kept for a person (one bad value never stops a shard)."""

    id: str
    shard: str
    kind: str
    subject: str
    """The id of the task, run or shape that it is about."""
    event: str
    """As JSON, with what no store takes replaced."""
    fault: str
    at: datetime


class Checkpoint(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What an attempt saved for the next one of its task; only the latest is kept (WRK-7)."""

    task_id: str
    run_id: str
    attempt_id: str
    document: str
    """JSON."""
    saved_at: datetime


class WorkerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A worker as people see it in lists. Scheduling reads of it only whether it is cordoned or draining."""

    id: str
    shard: str
    offer: str
    """Its resources as JSON."""
    labels: str
    zone: str
    version: str
    status: str
    since: datetime
    last_heard_at: datetime
    hold: str = ""
    """`cordoned` or `draining`: it gets nothing new. Empty: it may (WRK-9)."""
    hold_why: str = ""
    """By whom, and why."""


class BreakerRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A circuit that is open: retries of one signature, or a whole job, are held back (RTY-4)."""

    shard: str
    kind: str
    """`signature` or `job`."""
    subject: str
    """The signature, or `tenant/job`."""
    because: str
    """For people: the error that is alike, or the share that fails."""
    opened_at: datetime
    probed_at: datetime | None = None
    """When something was last let through to see whether it is better."""
    closed_at: datetime | None = None
    """Set: its row goes."""


class DurationRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How long a task of a job usually takes, from its latest successes; the run as a whole has an empty `task`."""

    shard: str
    tenant: str
    job: str
    task: str
    count: int
    """How many there have been."""
    p50_seconds: float
    p90_seconds: float
    p99_seconds: float
    samples: tuple[float, ...]
    """The latest ones, oldest first, in seconds."""
    updated_at: datetime


class TallyRow(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """How many tasks of a tenant failed in a part of an hour, so that a new leader knows (ADM-5)."""

    shard: str
    tenant: str
    since: datetime
    """When the part began: parts are five minutes long."""
    failures: int


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Something to let out once the batch is durable. The concrete ones are in `shard/effects.py`."""


class Batch(msgspec.Struct, kw_only=True):
    """The only output of a shard. Until it is committed, the world outside knows nothing of it."""

    runs: list[Run] = []
    """New values of the columns that a shard may change."""
    new_tasks: list[Task] = []
    tasks: list[TaskChange] = []
    transitions: list[Transition] = []
    attempts: list[Attempt] = []
    late: list[LateResult] = []
    spreads: list[Spread] = []
    """A spread whose `done` is its `total` is over, and its row goes."""
    outbox: list[Outgoing] = []
    rejected: list[RejectedEvent] = []
    workers: list[WorkerRow] = []
    checkpoints: list[Checkpoint] = []
    """Replaces what was saved before for the same task."""
    breakers: list[BreakerRow] = []
    """Opened, probed or closed."""
    durations: list[DurationRow] = []
    shares: list[ShareRow] = []
    """Parts of limits that this shard has lowered, or of which it needs another amount: `granted` never rises here. One
    of 0 of which nothing is needed goes; one that the shard does not hold is not made."""
    tallies: list[TallyRow] = []
    """Replace what was counted before for the same shard, tenant and part. Those of the shard that are older than 65
    minutes go."""
    archived: list[str] = []
    """Runs, all final, that move to history: so many of their tasks as a batch may move, and with the last the run."""
    audit: list[AuditEntry] = []
    """What people asked for, and was carried out in this batch."""
    decisions: list[Decision] = []
    """Some of what was decided in this batch, and why. One whose id is there already is not written again."""
    artifacts: list[ArtifactRow] = []
    """Files of attempts whose results are applied in this batch. One that is there already is not written again."""
    effects: list[Effect] = []

    def rows(self) -> int:
        """How many rows it writes. An empty batch only renews the lease."""
        return (
            len(self.runs) + len(self.new_tasks) + len(self.tasks) + len(self.transitions) + len(self.attempts)
            + len(self.late) + len(self.spreads) + len(self.outbox) + len(self.rejected) + len(self.workers)
            + len(self.checkpoints) + len(self.breakers) + len(self.durations) + len(self.archived) + len(self.audit)
            + len(self.shares) + len(self.tallies) + len(self.decisions) + len(self.artifacts)
        )  # fmt: skip
