"""Events of a shard. They enter through `Shard.handle`, and nothing else changes a shard.

Each event concerns one run, task, worker or shape, so that an event that fails has an owner. What the shard finds due
itself (a timer, a step of a bulk operation, the placement of a shape) is an event for the same reason.

To add an event: a handler in `shard/handlers.py`, an owner in `shard/rejected_events.py`, a producer in `host/`,
and the simulator.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import BulkOperation, BulkOperationKind, Checkpoint, WorkerRow
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority, RecordedAttempt, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.wire import Artifact, Offer, Outcome, Progress


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Base class of all events. Each concrete event has a `tag`: its permanent name on the wire and in rows."""


def name_of(event: Event) -> str:
    """Return the name of an event, as used in rows and logs."""
    return str(type(event).__struct_config__.tag)


# from intake


class RunArrived(Event, frozen=True, kw_only=True, tag="RunArrived"):
    """A run arrived from intake, and the shard has capacity for it."""

    run: Run
    job: Job


class RunUnreadable(Event, frozen=True, kw_only=True, tag="RunUnreadable"):
    """A run whose definition or rows can't be read. It is held."""

    run: Run
    fault: str


# from workers


class WorkerEvent(Event, frozen=True, kw_only=True):
    """An event sent by a worker, within a session."""

    worker: str
    session: str


class WorkerRegistered(WorkerEvent, frozen=True, kw_only=True, tag="WorkerRegistered"):
    """A worker opened a session and reported all attempts that it holds."""

    offer: Offer
    labels: dict[str, str]
    zone: str
    version: str
    holds: tuple[str, ...]


class WorkerHeartbeat(WorkerEvent, frozen=True, kw_only=True, tag="WorkerHeartbeat"):
    """Heartbeat of a worker, with the progress of its attempts."""

    progress: tuple[Progress, ...] = ()


class WorkerLeaving(WorkerEvent, frozen=True, kw_only=True, tag="WorkerLeaving"):
    """A worker accepts no more work in this session."""


class WorkerGone(WorkerEvent, frozen=True, kw_only=True, tag="WorkerGone"):
    """A worker holds nothing and shuts down."""


class AttemptsReceived(WorkerEvent, frozen=True, kw_only=True, tag="AttemptsReceived"):
    """The worker has received these attempts and stored them in its spool."""

    attempts: tuple[str, ...]


class AttemptStarted(WorkerEvent, frozen=True, kw_only=True, tag="AttemptStarted"):
    """The process of an attempt has started."""

    attempt: str


class AttemptEnded(WorkerEvent, frozen=True, kw_only=True, tag="AttemptEnded"):
    """The process of an attempt has ended."""

    attempt: str
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    looked_up: bool = False
    recorded: RecordedAttempt | None = None
    """The attempt as its row has it: looked up because it was not in memory."""


class AttemptReturned(WorkerEvent, frozen=True, kw_only=True, tag="AttemptReturned"):
    """The worker returned an attempt that it had not started: recalled, or refused with a reason (PLC-7)."""

    attempt: str
    refusal: str | None = None


class CheckpointSaved(WorkerEvent, frozen=True, kw_only=True, tag="CheckpointSaved"):
    """An attempt saved a checkpoint for the next attempt of its task (WRK-7)."""

    attempt: str
    document: str


class ExtensionRequested(WorkerEvent, frozen=True, kw_only=True, tag="ExtensionRequested"):
    """A running attempt asks for more time (LIV-4)."""

    attempt: str
    seconds: float


class EventNotStorable(Event, frozen=True, kw_only=True, tag="EventNotStorable"):
    """A worker's event was found on receipt to be impossible to store."""

    event: WorkerEvent
    fault: str


# from users and maintenance loops


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a run that was not in memory. All None if there is no such run outside history."""

    run: Run | None = None
    job: Job | None = None
    tasks: tuple[Task, ...] = ()
    bulk_operations: tuple[BulkOperation, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()


class ActionRequest(Event, frozen=True, kw_only=True):
    """A request whose sender waits for the reply under `request_id`."""

    by: str
    why: str = ""
    request_id: int = 0
    audit: AuditEntry | None = None
    """The entry for the audit log, written once the action is executed."""


class RunAction(ActionRequest, frozen=True, kw_only=True):
    """An action on a run."""

    run_id: str
    rows: RunRows | None = None
    """Set if the run was not in memory and its rows were looked up."""


class TaskAction(RunAction, frozen=True, kw_only=True):
    """An action on one task of a run."""

    task_id: str


class CancelRun(RunAction, frozen=True, kw_only=True, tag="CancelRun"):
    """Cancel the run: unstarted tasks never start, running tasks are asked to stop."""


class PauseRun(RunAction, frozen=True, kw_only=True, tag="PauseRun"):
    """Pause the run: no further task starts. Running tasks continue."""


class ResumeRun(RunAction, frozen=True, kw_only=True, tag="ResumeRun"):
    """Resume a paused run."""


class CancelTask(TaskAction, frozen=True, kw_only=True, tag="CancelTask"):
    """Cancel one task and its descendants."""


class ReopenTask(TaskAction, frozen=True, kw_only=True, tag="ReopenTask"):
    """Restart a final task, and every task that was cancelled or skipped because of it."""


class RetryRun(RunAction, frozen=True, kw_only=True, tag="RetryRun"):
    """Restart all failed and timed-out tasks of the run, and the tasks cancelled or skipped because of them."""


class ExtendTask(TaskAction, frozen=True, kw_only=True, tag="ExtendTask"):
    """Extend the time limit of a running task."""

    seconds: float


class ClearTask(TaskAction, frozen=True, kw_only=True, tag="ClearTask"):
    """Release a quarantined task."""


class KillTask(TaskAction, frozen=True, kw_only=True, tag="KillTask"):
    """Kill the process of a running task after a grace period; the task is cancelled, or queued again."""

    grace_seconds: float = 0.0
    again: bool = False
    """Queue the task again; the attempt does not count."""


class SaveCheckpoint(TaskAction, frozen=True, kw_only=True, tag="SaveCheckpoint"):
    """Replace the checkpoint of a task if it is still the expected one (WRK-7)."""

    attempt_id: str
    """The attempt that saves it, or the latest attempt of the task."""
    document: str
    expected: str | None = None
    """Digest of the current document (`core.work.digest_of`); empty: there is none; None: any document."""


class ChangePriority(RunAction, frozen=True, kw_only=True, tag="ChangePriority"):
    """Change the priority of a run and of its tasks that have not ended (OPS-1). Running tasks continue."""

    priority: Priority


class WorkerAction(ActionRequest, frozen=True, kw_only=True):
    """An action on a worker (WRK-9)."""

    worker: str


class CordonWorker(WorkerAction, frozen=True, kw_only=True, tag="CordonWorker"):
    """Cordon the worker: it gets no new work. Its running tasks continue."""


class DrainWorker(WorkerAction, frozen=True, kw_only=True, tag="DrainWorker"):
    """Cordon the worker, and recall what it has not started."""


class EvictWorker(WorkerAction, frozen=True, kw_only=True, tag="EvictWorker"):
    """Drain the worker, and stop its running tasks: they are queued again, and the attempts do not count."""


class UncordonWorker(WorkerAction, frozen=True, kw_only=True, tag="UncordonWorker"):
    """Undo cordon, drain or evict: the worker accepts work again."""


class WorkerSilent(Event, frozen=True, kw_only=True, tag="WorkerSilent"):
    """The worker's row shows a long silence: the second check for lost workers (LIV-1)."""

    row: WorkerRow


class RunsExpired(Event, frozen=True, kw_only=True, tag="RunsExpired"):
    """The retention period of these final runs has expired: they move to history."""

    run_ids: tuple[str, ...]


class StoreLagged(Event, frozen=True, kw_only=True, tag="StoreLagged"):
    """The store is slow: nothing of this priority or below is placed. None: it has caught up (HA-4)."""

    hold: Priority | None


class SettingsChanged(Event, frozen=True, kw_only=True, tag="SettingsChanged"):
    """An operator changed the settings (OPS-5)."""

    scheduler_settings: SchedulerSettings


class RulesChanged(Event, frozen=True, kw_only=True, tag="RulesChanged"):
    """The sharing rules changed."""

    rules: SharingRules


class ShareGranted(Event, frozen=True, kw_only=True, tag="ShareGranted"):
    """The shard's share of a limit, as its row in `shares` has it.

    Each time the shard lowers its share, it changes the stamp, and the batch may still be on its way. A grant with an
    older stamp is dropped.
    """

    limit: str
    granted: int
    stamp: int = 0


class ShareWanted(Event, frozen=True, kw_only=True, tag="ShareWanted"):
    """Other pools need more of a limit, or it was lowered: reduce the share to `target` as soon as usage allows."""

    limit: str
    target: int


class RateGranted(Event, frozen=True, kw_only=True, tag="RateGranted"):
    """Starts granted under a rate limit. They are already taken from the store."""

    limit: str
    amount: int
    more_at: datetime | None
    """When more can be granted; None: at once."""


# raised by the shard itself


class TimerKind(StrEnum):
    """What a timer is for."""

    RETRY = "retry"
    RECEIPT = "receipt"
    """An assignment must be received within 30 s (LIV-3)."""
    TASK_LIMIT = "task_limit"
    SOFT_LIMIT = "soft_limit"
    """The task runs long: send an alert (LIV-4)."""
    STALL = "stall"
    """The task may be stalled (LIV-2)."""
    PACE = "pace"
    """A paced operation may continue (DAG-2, DAG-9)."""
    CIRCUIT = "circuit"
    """An open circuit breaker may have been idle for long (RTY-4)."""
    RULES = "rules"
    """A freeze, quota override or reservation of capacity begins or ends."""
    LIMIT = "limit"
    """More of a group's limit can be requested (PLC-12)."""
    THROTTLE = "throttle"
    """A tenant over its failure budget may start something again (ADM-5)."""
    RESERVATION = "reservation"
    """A reservation expires. Without a subject: check starved queues again."""
    RUN_LIMIT = "run_limit"
    DEADLINE = "deadline"
    """Check again whether the run will meet its deadline (PLC-11)."""
    SILENCE = "silence"
    CLAIM = "claim"
    """The wait time of a claim is over (WRK-2)."""
    CLAIM_SILENCE = "claim_silence"
    """A claimed attempt may have been silent for too long."""


class TimerDue(Event, frozen=True, kw_only=True, tag="TimerDue"):
    """A timer fired. It is stale, and ignored, if its subject has changed since it was set."""

    kind: TimerKind
    subject: str
    stamp: int = 0


class BulkOperationStep(Event, frozen=True, kw_only=True, tag="BulkOperationStep"):
    """The next step of a bulk operation: work that exceeds a batch."""

    run_id: str
    kind: BulkOperationKind
    parent: str = ""


class TaskUndecided(Event, frozen=True, kw_only=True, tag="TaskUndecided"):
    """A task that was found while loading and may be ready."""

    run_id: str
    position: int


class PropagationStep(Event, frozen=True, kw_only=True, tag="PropagationStep"):
    """A task has ended: notify more of its children."""

    run_id: str
    position: int


class PlaceShape(Event, frozen=True, kw_only=True, tag="PlaceShape"):
    """Tasks of this shape may find capacity."""

    shape: Shape


class InvariantsDue(Event, frozen=True, kw_only=True, tag="InvariantsDue"):
    """Check the next runs for tasks that nothing will move on (STA-7)."""
