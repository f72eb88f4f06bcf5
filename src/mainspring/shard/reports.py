"""What workers say about attempts, and what follows for the task.

Every report names its attempt and comes from a worker. It is taken only if that attempt is live and was given to that
worker (I-13); else the reporter is told so, and nothing changes. Each report can be taken twice without harm.
"""

from __future__ import annotations

from mainspring.core.batch import LateResult
from mainspring.core.retries import Failure, decide_failure
from mainspring.core.states import FINAL
from mainspring.core.tasks import AttemptEnd, RecordedAttempt, StopKind, StopRequest, Task, TaskState
from mainspring.shard import flow, stops
from mainspring.shard.effects import LookUpAttempt, Send
from mainspring.shard.events import (
    AttemptEnded,
    AttemptReturned,
    AttemptsReceived,
    AttemptStarted,
    CheckpointSaved,
    TimerDue,
    TimerKind,
    WorkerBeat,
    WorkerEvent,
)
from mainspring.shard.memory import Headway, RunMemory
from mainspring.shard.turn import Turn
from mainspring.wire import Answer, Outcome, Verdict

S = TaskState
LONGEST_NOTE = 200
_SETTLED = frozenset({AttemptEnd.SUCCEEDED, AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.STOPPED})


def received(turn: Turn, event: AttemptsReceived) -> None:
    """The worker has these attempts in its journal."""
    for attempt in event.attempts:
        task = _held(turn, event, attempt)
        if task is None:
            stops.disown(turn, event.worker, attempt)
        elif task.lease_id is not None:
            turn.memory.leases[task.lease_id].received = True


def started(turn: Turn, event: AttemptStarted) -> None:
    """The process runs: RUNNING, from now on within its time."""
    task = _held(turn, event, event.attempt)
    if task is None:
        stops.disown(turn, event.worker, event.attempt)
    elif task.state is S.ASSIGNED:
        _start(turn, task)
        if task.stop is not None and task.stop.kind is StopKind.HOLD:
            task.stop = None
        stops.signal(turn, task)


def returned(turn: Turn, event: AttemptReturned) -> None:
    """The worker gave an attempt back, not started."""
    task = _held(turn, event, event.attempt)
    if task is None or task.state is not S.ASSIGNED:
        return
    if event.refusal is not None:
        worker = turn.memory.workers[event.worker]
        worker.refused = worker.refused | {turn.memory.shape(task)}
        give_back(turn, task, because=f"{event.worker} refused it: {event.refusal}")
    else:
        give_back(turn, task, because=f"{event.worker} gave it back, not started")


def ended(turn: Turn, event: AttemptEnded) -> None:
    """The process is gone: settle the task by what it left, and answer once that is durable."""
    task = _held(turn, event, event.attempt)
    if task is None:
        _answer_stranger(turn, event)
        return
    _answer(turn, event, Verdict.APPLIED)
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    if task.state is S.ASSIGNED and (event.outcome is not Outcome.STOPPED):
        _start(turn, task)
    match event.outcome:
        case Outcome.SUCCEEDED:
            turn.end_attempt(task, AttemptEnd.SUCCEEDED)
            task.tries += 1
            task.output = event.output
            task.error = None
            finish(turn, run, task, S.SUCCEEDED, by=event.worker, because="succeeded")
        case Outcome.FAILED:
            task.tries += 1
            task.error = event.error
            turn.end_attempt(task, AttemptEnd.FAILED, event.error)
            _settle_failure(turn, run, task, AttemptEnd.FAILED, stop, by=event.worker)
        case Outcome.STOPPED:
            _settle_stop(turn, run, task, stop, by=event.worker)


def checkpoint(turn: Turn, event: CheckpointSaved) -> None:
    """An attempt has saved something: the next one of its task finds it, wherever it runs (WRK-7)."""
    task = _held(turn, event, event.attempt)
    if task is None:
        stops.disown(turn, event.worker, event.attempt)
    else:
        turn.save_checkpoint(task, event.attempt, event.document)


def progressed(turn: Turn, event: WorkerBeat) -> None:
    """A worker says how far its attempts are: kept in memory, with when each last moved."""
    memory = turn.memory
    for said in event.progress:
        if _held(turn, event, said.attempt) is None:
            continue
        known, note = memory.headway.get(said.attempt), said.note[:LONGEST_NOTE]
        if known is None or (known.percent, known.note) != (said.percent, note):
            memory.headway[said.attempt] = Headway(percent=said.percent, note=note, moved=memory.life)


def give_back(turn: Turn, task: Task, *, because: str) -> None:
    """An attempt that never started is over; the task goes back to the queue, or ends if it was to be stopped."""
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    turn.end_attempt(task, AttemptEnd.RETURNED)
    if stop is not None and stop.kind is StopKind.CANCEL:
        flow.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
    else:
        _requeue(turn, run, task, by="shard", because=because)


def lose(turn: Turn, task: Task, *, because: str) -> None:
    """An attempt that ran is gone with its worker."""
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    if stop is not None and stop.kind is StopKind.TIMEOUT:
        task.tries += 1  # it had its time: neither count alone would bound a task that is late and lost by turns
    elif stop is None or stop.kind is StopKind.HOLD:
        task.losses += 1  # what was asked to go and is gone is no loss, however it went
    turn.end_attempt(task, AttemptEnd.LOST, why=because)
    if stop is not None and stop.kind is not StopKind.HOLD:
        _conclude_stop(turn, run, task, stop, by="shard")
    else:
        _settle_failure(turn, run, task, AttemptEnd.LOST, None, by="shard", because=because)


def finish(turn: Turn, run: RunMemory, task: Task, state: TaskState, *, by: str, because: str) -> None:
    """Put a task into its final state."""
    task.ended_at = turn.now
    turn.move(task, state, by=by, because=because)
    flow.ended(turn, run, task)


def _held(turn: Turn, event: WorkerEvent, attempt: str) -> Task | None:
    """The task of a live attempt, if it is this worker's to speak of."""
    task = turn.memory.attempts.get(attempt)
    return task if task is not None and task.worker_id == event.worker else None


def _start(turn: Turn, task: Task) -> None:
    task.started_at = turn.now
    turn.move(task, S.RUNNING, by=task.worker_id or "", because="its process has started")
    spec = turn.memory.runs[task.run_id].job.tasks[task.position]
    timer = TimerDue(kind=TimerKind.TASK_LIMIT, subject=task.id, stamp=task.seq)
    turn.memory.set_length(spec.timeout_seconds, timer)
    if task.lease_id is not None:
        turn.memory.leases[task.lease_id].received = True


def _settle_stop(turn: Turn, run: RunMemory, task: Task, stop: StopRequest | None, *, by: str) -> None:
    if task.state is S.ASSIGNED:
        give_back(turn, task, because=f"{by} stopped it before it started")
    elif stop is None or stop.kind is StopKind.HOLD:
        lose(turn, task, because=f"{by} ended it unasked")
    else:
        end = AttemptEnd.TIMED_OUT if stop.kind is StopKind.TIMEOUT else AttemptEnd.STOPPED
        turn.end_attempt(task, end, why=stop.why)
        if stop.kind is StopKind.TIMEOUT:
            task.tries += 1
        _conclude_stop(turn, run, task, stop, by=by)


def _conclude_stop(turn: Turn, run: RunMemory, task: Task, stop: StopRequest, *, by: str) -> None:
    """The process is gone as asked: what that means depends on who asked (STA-8)."""
    match stop.kind:
        case StopKind.CANCEL:
            flow.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
        case StopKind.TIMEOUT:
            _settle_failure(turn, run, task, AttemptEnd.TIMED_OUT, None, by=by)
        case StopKind.PREEMPT | StopKind.EVICT | StopKind.HOLD:
            _requeue(turn, run, task, by=stop.by, because=stop.why)


def _settle_failure(
    turn: Turn, run: RunMemory, task: Task, end: Failure, stop: StopRequest | None, *, by: str, because: str = ""
) -> None:
    """Again, or not. What was to be cancelled is not tried again."""
    verdict = decide_failure(task, run.job.tasks[task.position], end, now=turn.now)
    because = because or verdict.because
    if verdict.state in FINAL:
        finish(turn, run, task, verdict.state, by=by, because=verdict.because)
    elif stop is not None and stop.kind is StopKind.CANCEL:
        flow.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
    elif verdict.state is S.QUEUED:
        _requeue(turn, run, task, by=by, because=because)
    elif run.is_stopped():
        flow.cancel_unstarted(turn, run, task)
    else:
        turn.move(task, S.PENDING, by=by, because=because)
        if verdict.due_at is not None:
            turn.delay(task, verdict.due_at)


def _requeue(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Back to the queue, unless the run lets nothing more start."""
    if run.is_stopped():
        flow.cancel_unstarted(turn, run, task)
        return
    flow.queue_again(turn, run, task, by=by, because=because)


def _answer_stranger(turn: Turn, event: AttemptEnded) -> None:
    """A result of an attempt that is not live: what the rows say of it decides the answer, and nothing changes."""
    if not event.looked_up:
        turn.batch.effects.append(LookUpAttempt(event))
        return
    verdict = _judge(event, event.recorded)
    if verdict is Verdict.SUPERSEDED:
        late = LateResult(
            attempt_id=event.attempt, outcome=event.outcome, output=event.output, error=event.error, at=turn.now
        )
        turn.batch.late.append(late)
    _answer(turn, event, verdict)


def _judge(event: AttemptEnded, recorded: RecordedAttempt | None) -> Verdict:
    if recorded is None:
        return Verdict.UNKNOWN
    if recorded.worker_id == event.worker and recorded.end in _SETTLED:
        return Verdict.ALREADY
    if recorded.end is AttemptEnd.REJECTED:
        return Verdict.REJECTED
    return Verdict.SUPERSEDED


def _answer(turn: Turn, event: AttemptEnded, verdict: Verdict) -> None:
    turn.batch.effects.append(Send(event.worker, event.session, Answer(event.attempt, verdict)))
