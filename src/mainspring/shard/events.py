"""What can happen to a shard. Events come in through `Shard.handle`, and nothing else changes a shard.

Each event is about one thing, so that one that can't be taken has an owner: a run, a task, a worker or a shape. What
the shard finds due by itself (a timer, a step of a spread, the placing of a shape) is an event too, for that reason.

If you add one: a case in `Shard._apply`, an owner in `shard/rejected_events.py`, a producer in `host/`, and the
simulator.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.fairness.sharing_rules import SharingRules
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Checkpoint, Spread, SpreadKind, WorkerRow
from mainspring.core.model.job import Job
from mainspring.core.model.run import Run
from mainspring.core.model.settings import Tuning
from mainspring.core.model.task import Priority, RecordedAttempt, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.protocol.wire import Artifact, Offer, Outcome, Progress


class Event(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The root of all events. One that can happen has a `tag`: its name on the wire and in rows, for ever."""


def name_of(event: Event) -> str:
    """Return the name of an event, as rows and logs have it."""
    return str(type(event).__struct_config__.tag)


# what comes from intake


class RunArrived(Event, frozen=True, kw_only=True, tag="RunArrived"):
    """A run is in intake, and there is room for it."""

    run: Run
    job: Job


class RunUnreadable(Event, frozen=True, kw_only=True, tag="RunUnreadable"):
    """A run whose definition or rows can't be read: it is held."""

    run: Run
    fault: str


# what workers say


class WorkerEvent(Event, frozen=True, kw_only=True):
    """Said by a worker, in a session."""

    worker: str
    session: str


class WorkerRegistered(WorkerEvent, frozen=True, kw_only=True, tag="WorkerRegistered"):
    """A worker has opened a session, and says all that it has in hands."""

    offer: Offer
    labels: dict[str, str]
    zone: str
    version: str
    holds: tuple[str, ...]


class WorkerBeat(WorkerEvent, frozen=True, kw_only=True, tag="WorkerBeat"):
    """A worker lives, and this is how far its attempts are."""

    progress: tuple[Progress, ...] = ()


class WorkerLeaving(WorkerEvent, frozen=True, kw_only=True, tag="WorkerLeaving"):
    """A worker wants nothing more in this session."""


class WorkerGone(WorkerEvent, frozen=True, kw_only=True, tag="WorkerGone"):
    """A worker has nothing in hands, and ends."""


class AttemptsReceived(WorkerEvent, frozen=True, kw_only=True, tag="AttemptsReceived"):
    """These attempts are in the worker's journal."""

    attempts: tuple[str, ...]


class AttemptStarted(WorkerEvent, frozen=True, kw_only=True, tag="AttemptStarted"):
    """An attempt's process runs."""

    attempt: str


class AttemptEnded(WorkerEvent, frozen=True, kw_only=True, tag="AttemptEnded"):
    """An attempt's process is gone."""

    attempt: str
    outcome: Outcome
    output: str | None = None
    error: str | None = None
    artifacts: tuple[Artifact, ...] = ()
    looked_up: bool = False
    recorded: RecordedAttempt | None = None
    """What the rows say, once they have been asked: the attempt was not in memory."""


class AttemptReturned(WorkerEvent, frozen=True, kw_only=True, tag="AttemptReturned"):
    """An attempt was given back: recalled and not started, or refused with a reason (PLC-7)."""

    attempt: str
    refusal: str | None = None


class CheckpointSaved(WorkerEvent, frozen=True, kw_only=True, tag="CheckpointSaved"):
    """An attempt has saved something for the next one of its task (WRK-7)."""

    attempt: str
    document: str


class MoreTimeAsked(WorkerEvent, frozen=True, kw_only=True, tag="MoreTimeAsked"):
    """A running attempt asks for more time (LIV-4)."""

    attempt: str
    seconds: float


class EventUnfit(Event, frozen=True, kw_only=True, tag="EventUnfit"):
    """What a worker said can't be stored, as was seen when it came in."""

    event: WorkerEvent
    fault: str


# what people and sweeps ask for


class RunRows(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was not in memory, as the rows have it; all None if there is no such run outside history."""

    run: Run | None = None
    job: Job | None = None
    tasks: tuple[Task, ...] = ()
    spreads: tuple[Spread, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()


class Asked(Event, frozen=True, kw_only=True):
    """Somebody wants something, and waits for the answer under `ticket`."""

    by: str
    why: str = ""
    ticket: int = 0
    audit: AuditEntry | None = None
    """What the audit log will say of it, once it is carried out."""


class Act(Asked, frozen=True, kw_only=True):
    """Somebody wants something of a run."""

    run_id: str
    rows: RunRows | None = None
    """Given when the run was not in memory and has been looked up."""


class CancelRun(Act, frozen=True, kw_only=True, tag="CancelRun"):
    """End the run: what has not started never does, what runs is asked to stop."""


class PauseRun(Act, frozen=True, kw_only=True, tag="PauseRun"):
    """Start nothing more of the run. What runs goes on."""


class ResumeRun(Act, frozen=True, kw_only=True, tag="ResumeRun"):
    """Go on with a paused run."""


class CancelTask(Act, frozen=True, kw_only=True, tag="CancelTask"):
    """End one task. Its descendants are cancelled with it."""

    task_id: str


class ReopenTask(Act, frozen=True, kw_only=True, tag="ReopenTask"):
    """Start a final task again, with all that was cancelled or skipped because of it."""

    task_id: str


class RetryRun(Act, frozen=True, kw_only=True, tag="RetryRun"):
    """Start again every task of the run that failed or timed out, with what was cancelled or skipped because of it."""


class ExtendTask(Act, frozen=True, kw_only=True, tag="ExtendTask"):
    """Give a running task more time."""

    task_id: str
    seconds: float


class ClearTask(Act, frozen=True, kw_only=True, tag="ClearTask"):
    """Let a quarantined task run again."""

    task_id: str


class KillTask(Act, frozen=True, kw_only=True, tag="KillTask"):
    """End the process of a running task, after so long a grace; the task is cancelled, or runs again elsewhere."""

    task_id: str
    grace_seconds: float = 0.0
    again: bool = False
    """Back to the queue; the try does not count."""


class SaveCheckpoint(Act, frozen=True, kw_only=True, tag="SaveCheckpoint"):
    """Put a document in the place of a task's checkpoint, if that is still the one that is expected (WRK-7)."""

    task_id: str
    attempt_id: str
    """The attempt that saves it, or the task's latest."""
    document: str
    expected: str | None = None
    """A digest of the document that is there (`core.work.digest_of`), empty for none; None: whatever is there."""


class ChangePriority(Act, frozen=True, kw_only=True, tag="ChangePriority"):
    """Give a run and what is not over of it another priority (OPS-1). What runs goes on."""

    priority: Priority


class WorkerAct(Asked, frozen=True, kw_only=True):
    """Somebody wants something of a worker (WRK-9)."""

    worker: str


class CordonWorker(WorkerAct, frozen=True, kw_only=True, tag="CordonWorker"):
    """Give the worker nothing new. What it has goes on."""


class DrainWorker(WorkerAct, frozen=True, kw_only=True, tag="DrainWorker"):
    """Give the worker nothing new, and call back what it has not started."""


class EvictWorker(WorkerAct, frozen=True, kw_only=True, tag="EvictWorker"):
    """Drain the worker, and ask what runs there to stop: it runs elsewhere, and the try does not count."""


class UncordonWorker(WorkerAct, frozen=True, kw_only=True, tag="UncordonWorker"):
    """Let the worker have work again, whichever of these was asked for."""


class WorkerUnheard(Event, frozen=True, kw_only=True, tag="WorkerUnheard"):
    """The rows say that a worker has not been heard of for long: the second watch over silence (LIV-1)."""

    row: WorkerRow


class RunsAged(Event, frozen=True, kw_only=True, tag="RunsAged"):
    """These final runs have stayed their time, and move to history."""

    run_ids: tuple[str, ...]


class StoreLagged(Event, frozen=True, kw_only=True, tag="StoreLagged"):
    """The store is so slow that nothing of this priority or below is placed; None: it has caught up (HA-4)."""

    hold: Priority | None


class Retuned(Event, frozen=True, kw_only=True, tag="Retuned"):
    """An operator has set other measures (OPS-5)."""

    tuning: Tuning


class Ruled(Event, frozen=True, kw_only=True, tag="Ruled"):
    """People have decided something else about who may use what: the shard goes by this from now on."""

    rules: SharingRules


class ShareGranted(Event, frozen=True, kw_only=True, tag="ShareGranted"):
    """The shard's part of a limit is so large now: what its row in `shares` says.

    Unless the shard has lowered its part since it asked, in a batch that may still be on its way: each lowering makes
    the stamp another, and an answer with an older one is dropped.
    """

    limit: str
    granted: int
    stamp: int = 0


class ShareWanted(Event, frozen=True, kw_only=True, tag="ShareWanted"):
    """Others need more of a limit, or it was lowered: come down to `target` as soon as use allows it."""

    limit: str
    target: int


class AllowanceGranted(Event, frozen=True, kw_only=True, tag="AllowanceGranted"):
    """So many more may start under a rate: taken from the store already."""

    limit: str
    amount: int
    more_at: datetime | None
    """When the next one can be had; None: at once."""


# what the shard finds due by itself


class TimerKind(StrEnum):
    """What a timer is for."""

    RETRY = "retry"
    RECEIPT = "receipt"
    """An assignment must be received within 30 s (LIV-3)."""
    TASK_LIMIT = "task_limit"
    SOFT_LIMIT = "soft_limit"
    """It takes long: somebody is told (LIV-4)."""
    STALL = "stall"
    """It may get nowhere (LIV-2)."""
    PACE = "pace"
    """Something that is paced may go on (DAG-2, DAG-9)."""
    CIRCUIT = "circuit"
    """Nothing may have been heard of an open circuit for long (RTY-4)."""
    RULES = "rules"
    """A freeze, or a raise of a quota, is over, or something booked begins or ends."""
    LIMIT = "limit"
    """More of a group's limit can be asked for (PLC-12)."""
    THROTTLE = "throttle"
    """A tenant that has used up its budget of failures may start something again (ADM-5)."""
    KEPT_ROOM = "kept_room"
    """The time of a room that is kept for a task is up; with no subject: lines that found none are looked at again."""
    RUN_LIMIT = "run_limit"
    DEADLINE = "deadline"
    """Whether a run will be over by when it is to be is looked at again (PLC-11)."""
    SILENCE = "silence"
    CLAIM = "claim"
    """A claim has waited for as long as it may (WRK-2)."""
    CLAIM_SILENCE = "claim_silence"
    """Nothing may have been heard for long of an attempt that was claimed."""


class TimerDue(Event, frozen=True, kw_only=True, tag="TimerDue"):
    """A timer has come up. It is stale, and does nothing, if its subject has moved on since it was set."""

    kind: TimerKind
    subject: str
    stamp: int = 0


class SpreadStep(Event, frozen=True, kw_only=True, tag="SpreadStep"):
    """The next part of work that exceeds a batch."""

    run_id: str
    kind: SpreadKind
    parent: str = ""


class TaskUndecided(Event, frozen=True, kw_only=True, tag="TaskUndecided"):
    """A task was found, while loading, that may be ready."""

    run_id: str
    position: int


class RippleStep(Event, frozen=True, kw_only=True, tag="RippleStep"):
    """A task has ended, and its children are to be looked at."""

    run_id: str
    position: int


class PlaceShape(Event, frozen=True, kw_only=True, tag="PlaceShape"):
    """Tasks of this shape may find room."""

    shape: Shape


class Audited(Event, frozen=True, kw_only=True, tag="Audited"):
    """Time to look whether every task can be explained (STA-7)."""
