"""Reports of workers about attempts, and what follows for the task.

A report is applied only if its attempt is live and belongs to that worker (I-13); otherwise the worker gets a stop or
a verdict, and nothing changes. Every report is idempotent.
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.lifecycle import failures, timeouts
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.retry_policy import FailedAttempt, decide_failure
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.batch import LateResult
from mainspring.core.model.task import AttemptEnd, RecordedAttempt, RetryState, StopKind, StopRequest, Task, TaskState
from mainspring.protocol.wire import Answer, Outcome, Verdict
from mainspring.shard import events as happened
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import LookUpAttempt, Send
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import circuit_breakers, progress
from mainspring.shard.tasks import timeouts as limits
from mainspring.shard.turn import Turn

S = TaskState
_OVER_TIME = frozenset({StopKind.TIMEOUT, StopKind.STALL})
_RECORDED_ENDS = frozenset({AttemptEnd.SUCCEEDED, AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.STOPPED})


def received(turn: Turn, event: happened.AttemptsReceived) -> None:
    """The worker has received these attempts."""
    for attempt in event.attempts:
        task = _find_held(turn, event, attempt)
        if task is None:
            stop_requests.disown(turn, event.worker, attempt)
        elif task.lease_id is not None:
            turn.memory.leases[task.lease_id].received = True


def started(turn: Turn, event: happened.AttemptStarted) -> None:
    """The process of an attempt has started: RUNNING, and its time limit begins."""
    task = _find_held(turn, event, event.attempt)
    if task is None:
        stop_requests.disown(turn, event.worker, event.attempt)
    elif task.state is S.ASSIGNED:
        start(turn, task)
        if task.stop is not None and task.stop.kind is StopKind.HOLD:
            task.stop = None
        stop_requests.signal(turn, task)


def returned(turn: Turn, event: happened.AttemptReturned) -> None:
    """The worker returned an attempt that it had not started."""
    task = _find_held(turn, event, event.attempt)
    if task is None or task.state is not S.ASSIGNED:
        return
    if event.refusal is not None:
        worker = turn.memory.workers[event.worker]
        worker.refused = worker.refused | {turn.memory.shape(task)}
        give_back(turn, task, because=f"{event.worker} refused it: {event.refusal}")
    else:
        give_back(turn, task, because=f"{event.worker} returned it before it started")


def ended(turn: Turn, event: happened.AttemptEnded) -> None:
    """The process of an attempt has ended: record the result, and reply once it is durable."""
    task = _find_held(turn, event, event.attempt)
    if task is None:
        _answer_unknown(turn, event)
        return
    _answer(turn, event, Verdict.APPLIED)
    settle(turn, task, event)


def settle(turn: Turn, task: Task, event: happened.AttemptEnded) -> None:
    """Apply the result of a live attempt to its task."""
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    if task.state is S.ASSIGNED and (event.outcome is not Outcome.STOPPED):
        start(turn, task)
    match event.outcome:
        case Outcome.SUCCEEDED:
            _succeed(turn, run, task, event)
        case Outcome.FAILED:
            _fail(turn, run, task, event)
        case Outcome.STOPPED:
            _record_stop(turn, run, task, stop, by=event.worker)


def checkpoint(turn: Turn, event: happened.CheckpointSaved) -> None:
    """Save a checkpoint: the next attempt of the task gets it, on any worker (WRK-7)."""
    task = _find_held(turn, event, event.attempt)
    if task is None:
        stop_requests.disown(turn, event.worker, event.attempt)
    else:
        turn.save_checkpoint(task, event.attempt, event.document)


def progressed(turn: Turn, event: happened.WorkerHeartbeat) -> None:
    """Record the progress of a worker's attempts."""
    for said in event.progress:
        task = _find_held(turn, event, said.attempt)
        if task is not None:
            limits.progressed(turn.memory, task, said)


def give_back(turn: Turn, task: Task, *, because: str) -> None:
    """End an attempt that never started; the task is queued again, or ends if that was requested."""
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    turn.end_attempt(task, AttemptEnd.RETURNED)
    if stop is not None and stop.kind is StopKind.CANCEL:
        progress.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
    elif stop is not None and stop.kind is StopKind.PREEMPT:
        _note_preemption(task, stop)
        _requeue(turn, run, task, by=stop.by, because=stop.why)
    else:
        _requeue(turn, run, task, by="shard", because=because)


def lose(turn: Turn, task: Task, *, because: str, worker_lost: bool) -> None:
    """End a started attempt that is gone, perhaps with its worker."""
    run = turn.memory.runs[task.run_id]
    stop, worker = task.stop, task.worker_id or ""
    if stop is not None and stop.kind in _OVER_TIME:
        task.tries += (
            1  # it used its time: neither counter alone would bound a task that alternates between timeout and loss
        )
    elif stop is None or stop.kind is StopKind.HOLD:
        task.losses += 1  # an attempt that was asked to stop and is gone is not a loss
    turn.end_attempt(task, AttemptEnd.LOST, why=because)
    if stop is not None and stop.kind is not StopKind.HOLD:
        _conclude_stop(turn, run, task, stop, by="shard", worker=worker)
    else:
        lost = failures.lost(because)
        ending = FailedAttempt(end=AttemptEnd.LOST, failure=lost, worker=worker, worker_lost=worker_lost)
        _record_failure(turn, run, task, ending, None, by="shard", because=because)


def finish(turn: Turn, run: RunMemory, task: Task, state: TaskState, *, by: str, because: str) -> None:
    """Move a task to its final state."""
    task.ended_at = turn.now
    turn.move(task, state, by=by, because=because)
    progress.ended(turn, run, task)


def _succeed(turn: Turn, run: RunMemory, task: Task, event: happened.AttemptEnded) -> None:
    """The attempt succeeded. If its output can't be added to the run, the attempt failed (DAG-5)."""
    task.tries += 1
    grows = run.spec(task.position).grows and not run.is_replaced(task)
    fault = progress.expand(turn, run, task, event.output) if grows else None
    if fault is not None:
        _keep_artifacts(turn, task, event, succeeded=False)
        turn.end_attempt(task, AttemptEnd.FAILED, why=fault)
        task.error = progress.fault(fault)
        finish(turn, run, task, S.FAILED, by="shard", because=fault)
        return
    _keep_artifacts(turn, task, event, succeeded=True)
    turn.end_attempt(task, AttemptEnd.SUCCEEDED)
    task.output = event.output
    task.error = None
    circuit_breakers.succeeded(turn, run, task)
    finish(turn, run, task, S.SUCCEEDED, by=event.worker, because="succeeded")


def _keep_artifacts(turn: Turn, task: Task, event: happened.AttemptEnded, *, succeeded: bool) -> None:
    """Record the artifacts of an attempt with its result (WRK-11)."""
    for one in event.artifacts:
        row = ArtifactRow(
            run_id=task.run_id, task_id=task.id, attempt_id=event.attempt, path=one.path, task=task.name,
            partition=task.origin.index if task.origin is not None and task.origin.label else None, tenant=task.tenant,
            size_bytes=one.size_bytes, sha256=one.sha256, location=one.location, keep_seconds=one.keep_seconds,
            succeeded=succeeded, stored_at=turn.now,
        )  # fmt: skip
        turn.batch.artifacts.append(row)


def _find_held(turn: Turn, event: happened.WorkerEvent, attempt: str) -> Task | None:
    """Return the task of a live attempt of this worker."""
    task = turn.memory.attempts.get(attempt)
    return task if task is not None and task.worker_id == event.worker else None


def start(turn: Turn, task: Task) -> None:
    """Move a task that a worker holds to RUNNING; its time limit begins."""
    task.started_at = turn.now
    task.ran_on = task.worker_id
    turn.memory.queues.wake_affinity(task.run_id)
    turn.move(task, S.RUNNING, by=task.worker_id or "", because="process started")
    limits.begin(turn.memory, turn.memory.runs[task.run_id], task)
    if task.lease_id is not None:
        turn.memory.leases[task.lease_id].received = True


def _fail(turn: Turn, run: RunMemory, task: Task, event: happened.AttemptEnded) -> None:
    """The process failed. If the worker is to blame, it counts as a loss, not as an attempt."""
    policy = run.spec(task.position).retry or run.job.spec.retry
    failure = failures.classify(event.error, policy.rules, job=run.subject())
    if failure.kind is FailureClass.INFRASTRUCTURE:
        task.losses += 1
    else:
        task.tries += 1
    stop = task.stop
    task.error = event.error
    _keep_artifacts(turn, task, event, succeeded=False)
    turn.end_attempt(task, AttemptEnd.FAILED, event.error)
    ending = FailedAttempt(end=AttemptEnd.FAILED, failure=failure, worker=event.worker)
    _record_failure(turn, run, task, ending, stop, by=event.worker)


def _record_stop(turn: Turn, run: RunMemory, task: Task, stop: StopRequest | None, *, by: str) -> None:
    if task.state is S.ASSIGNED:
        give_back(turn, task, because=f"{by} stopped it before it started")
    elif (stop is None or stop.kind is StopKind.HOLD) and _is_leaving(turn, by):
        # The worker is shutting down and stopped its tasks, as in an eviction: neither an attempt nor a loss.
        turn.end_attempt(task, AttemptEnd.STOPPED, why=f"{by} is leaving")
        _requeue(turn, run, task, by=by, because=f"{by} is leaving")
    elif stop is None or stop.kind is StopKind.HOLD:
        lose(turn, task, because=f"{by} stopped it without a request", worker_lost=False)
    else:
        late = stop.kind in _OVER_TIME
        turn.end_attempt(task, AttemptEnd.TIMED_OUT if late else AttemptEnd.STOPPED, why=stop.why)
        if late:
            task.tries += 1
        _conclude_stop(turn, run, task, stop, by=by, worker=by)


def _is_leaving(turn: Turn, worker_id: str) -> bool:
    worker = turn.memory.workers.get(worker_id)
    return worker is not None and worker.leaving


def _conclude_stop(turn: Turn, run: RunMemory, task: Task, stop: StopRequest, *, by: str, worker: str) -> None:
    """The process is gone after a stop request: the outcome depends on the kind of request (STA-8)."""
    match stop.kind:
        case StopKind.CANCEL:
            progress.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
        case StopKind.TIMEOUT | StopKind.STALL:
            spec, job, scheduler_settings = run.spec(task.position), run.subject(), turn.memory.scheduler_settings
            if stop.kind is StopKind.STALL:
                failure = failures.stalled(timeouts.stall_limit(spec, scheduler_settings), job=job)
            else:
                failure = failures.timed_out(timeouts.hard_limit(spec, task.trail, scheduler_settings), job=job)
            ending = FailedAttempt(end=AttemptEnd.TIMED_OUT, failure=failure, worker=worker)
            _record_failure(turn, run, task, ending, None, by=by)
        case StopKind.PREEMPT | StopKind.EVICT | StopKind.HOLD:
            _note_preemption(task, stop)
            _requeue(turn, run, task, by=stop.by, because=stop.why)


def _note_preemption(task: Task, stop: StopRequest) -> None:
    """Keep the task that this one was preempted for while it is queued again: diagnosis names it."""
    if stop.preempted_for is not None:
        task.trail = replace(task.trail or RetryState(), preempted_for=stop.preempted_for)


def _record_failure(
    turn: Turn, run: RunMemory, task: Task, ending: FailedAttempt, stop: StopRequest | None, *, by: str,
    because: str = "",
) -> None:  # fmt: skip
    """Retry or fail. A task with a cancel request is not retried."""
    circuit_breakers.failed(turn, run, ending.failure)
    if ending.failure.signature in turn.memory.limits.signature_breakers.open:
        ending = replace(ending, is_widespread=True)
    step = decide_failure(
        task, run.spec(task.position), run.job.spec, ending, turn.memory.scheduler_settings, retries=run.run.retries,
        max_memory=_most_memory(turn, ending), now=turn.now,
    )  # fmt: skip
    task.trail = step.trail
    if step.state in FINAL:
        finish(turn, run, task, step.state, by=by, because=step.because)
    elif stop is not None and stop.kind is StopKind.CANCEL:
        progress.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
    elif step.state is S.QUEUED:
        _requeue(turn, run, task, by=by, because=because or step.because)
    elif run.is_stopped():
        progress.cancel_unstarted(turn, run, task)
    else:
        turn.move(task, step.state, by=by, because=step.because)
        if step.due_at is not None:
            run.run.retries += 1
            turn.mark(run)
            turn.delay(task, circuit_breakers.retry_at(turn, step.due_at, step.trail.signature))


def _most_memory(turn: Turn, ending: FailedAttempt) -> int | None:
    """Memory of the largest worker, looked up only if more memory could help."""
    if ending.failure.kind is not FailureClass.RESOURCE:
        return None
    return max((worker.total.memory_bytes for worker in turn.memory.workers.values()), default=None)


def _requeue(turn: Turn, run: RunMemory, task: Task, *, by: str, because: str) -> None:
    """Queue the task again, unless its run is stopped."""
    if run.is_stopped():
        progress.cancel_unstarted(turn, run, task)
        return
    progress.queue_again(turn, run, task, by=by, because=because)


def _answer_unknown(turn: Turn, event: happened.AttemptEnded) -> None:
    """Reply to a result of an attempt that is not live: its row decides the verdict, and nothing changes.

    The result is kept as late only if the attempt belonged to this worker.
    """
    if not event.looked_up:
        turn.batch.effects.append(LookUpAttempt(event))
        return
    verdict = _verdict_of(event, event.recorded)
    is_own = event.recorded is not None and event.recorded.worker_id == event.worker
    if verdict is Verdict.SUPERSEDED and is_own:
        late = LateResult(
            attempt_id=event.attempt, outcome=event.outcome, output=event.output, error=event.error, at=turn.now
        )
        turn.batch.late.append(late)
    _answer(turn, event, verdict)


def _verdict_of(event: happened.AttemptEnded, recorded: RecordedAttempt | None) -> Verdict:
    if recorded is None:
        return Verdict.UNKNOWN
    if recorded.worker_id == event.worker and recorded.end in _RECORDED_ENDS:
        return Verdict.ALREADY
    if recorded.end is AttemptEnd.REJECTED:
        return Verdict.REJECTED
    return Verdict.SUPERSEDED


def _answer(turn: Turn, event: happened.AttemptEnded, verdict: Verdict) -> None:
    turn.batch.effects.append(Send(event.worker, event.session, Answer(event.attempt, verdict)))
