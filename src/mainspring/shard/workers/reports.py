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
from mainspring.core.model.task import AttemptEnd, RetryState, StopKind, StopRequest, Task, TaskState
from mainspring.protocol.wire import Answer, Outcome, Verdict
from mainspring.shard import events as happened
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import LookUpAttempt, Send
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import circuit_breakers, progress
from mainspring.shard.tasks import timeouts as limits
from mainspring.shard.turn import Turn
from mainspring.shard.workers.claim_events import ClaimEnded

S = TaskState
_OVER_TIME = frozenset({StopKind.TIMEOUT, StopKind.STALL})
_RECORDED_ENDS = frozenset({AttemptEnd.SUCCEEDED, AttemptEnd.FAILED, AttemptEnd.TIMED_OUT, AttemptEnd.STOPPED})


def received(turn: Turn, event: happened.AttemptsReceived) -> None:
    """The worker has received these attempts."""
    for attempt in event.attempts:
        task = _held_or_disowned(turn, event, attempt)
        if task is not None and task.lease_id is not None:
            turn.memory.leases[task.lease_id].received = True


def started(turn: Turn, event: happened.AttemptStarted) -> None:
    """The process of an attempt has started: RUNNING, and its time limit begins."""
    task = _held_or_disowned(turn, event, event.attempt)
    if task is not None and task.state is S.ASSIGNED:
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
    apply_result(turn, task, event)


def apply_result(turn: Turn, task: Task, event: happened.AttemptEnded) -> None:
    """Apply the result of a live attempt to its task."""
    run = turn.memory.runs[task.run_id]
    if event.outcome is Outcome.STOPPED:
        _record_stop(turn, run, task, by=event.worker)
        return
    if task.state is S.ASSIGNED:
        start(turn, task)
    if event.outcome is Outcome.SUCCEEDED:
        _succeed(turn, run, task, event)
    else:
        _fail(turn, run, task, event)


def checkpoint(turn: Turn, event: happened.CheckpointSaved) -> None:
    """Save a checkpoint: the next attempt of the task gets it, on any worker (WRK-7)."""
    task = _held_or_disowned(turn, event, event.attempt)
    if task is not None:
        turn.save_checkpoint(task, event.attempt, event.document)


def extension(turn: Turn, event: happened.ExtensionRequested) -> None:
    """An attempt requests an extension of its time limit: reply with the time that it has left."""
    task = _held_or_disowned(turn, event, event.attempt)
    if task is not None:
        extended = limits.extend_attempt(turn, task, event.attempt, event.seconds)
        turn.send(turn.memory.workers[event.worker], extended)


def progressed(turn: Turn, event: happened.WorkerHeartbeat) -> None:
    """Record the progress of a worker's attempts."""
    for report in event.progress:
        task = _find_held(turn, event, report.attempt)
        if task is not None:
            limits.progressed(turn.memory, task, report)


def give_back(turn: Turn, task: Task, *, because: str) -> None:
    """End an attempt that never started; the task is queued again, or ends if that was requested."""
    run = turn.memory.runs[task.run_id]
    stop = task.stop
    turn.end_attempt(task, AttemptEnd.RETURNED)
    if stop is not None and stop.kind is StopKind.CANCEL:
        progress.cancel(turn, run, task, by=stop.by, because=stop.why, cause=stop.cause)
    elif stop is not None and stop.kind is StopKind.PREEMPT:
        _requeue_stopped(turn, run, task, stop)
    else:
        progress.queue_again(turn, run, task, by="shard", because=because)


def lose(turn: Turn, task: Task, *, because: str, worker_lost: bool) -> None:
    """End a started attempt that is gone, perhaps with its worker."""
    run = turn.memory.runs[task.run_id]
    stop, worker = task.stop, task.worker_id or ""
    if stop is not None and stop.kind in _OVER_TIME:
        # It used its time: neither counter alone would bound a task that alternates between timeout and loss.
        task.tries += 1
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


def _held_or_disowned(turn: Turn, event: happened.WorkerEvent, attempt: str) -> Task | None:
    """Return the task of a live attempt of this worker; if there is none, tell the worker to stop the attempt."""
    task = _find_held(turn, event, attempt)
    if task is None:
        stop_requests.disown(turn, event.worker, attempt)
    return task


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


def _record_stop(turn: Turn, run: RunMemory, task: Task, *, by: str) -> None:
    stop, worker = task.stop, turn.memory.workers.get(by)
    if task.state is S.ASSIGNED:
        give_back(turn, task, because=f"{by} stopped it before it started")
    elif stop is not None and stop.kind is not StopKind.HOLD:
        late = stop.kind in _OVER_TIME
        turn.end_attempt(task, AttemptEnd.TIMED_OUT if late else AttemptEnd.STOPPED, why=stop.why)
        if late:
            task.tries += 1
        _conclude_stop(turn, run, task, stop, by=by, worker=by)
    elif worker is not None and worker.leaving:
        # The worker is shutting down and stopped its tasks, as in an eviction: neither an attempt nor a loss.
        turn.end_attempt(task, AttemptEnd.STOPPED, why=f"{by} is leaving")
        progress.queue_again(turn, run, task, by=by, because=f"{by} is leaving")
    else:
        lose(turn, task, because=f"{by} stopped it without a request", worker_lost=False)


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
            _requeue_stopped(turn, run, task, stop)


def _requeue_stopped(turn: Turn, run: RunMemory, task: Task, stop: StopRequest) -> None:
    """Queue a stopped task again. The task that it was preempted for is kept meanwhile: diagnosis names it."""
    if stop.preempted_for is not None:
        task.trail = replace(task.trail or RetryState(), preempted_for=stop.preempted_for)
    progress.queue_again(turn, run, task, by=stop.by, because=stop.why)


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
        progress.queue_again(turn, run, task, by=by, because=because or step.because)
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


def _answer_unknown(turn: Turn, event: happened.AttemptEnded) -> None:
    """Reply to a result of an attempt that is not live: its row decides the verdict, and nothing changes.

    The result is kept as late only if the attempt belonged to this worker.
    """
    if not event.looked_up:
        turn.batch.effects.append(LookUpAttempt(event))
        return
    recorded = event.recorded
    is_own = recorded is not None and recorded.worker_id == event.worker
    if recorded is None:
        verdict = Verdict.UNKNOWN
    elif is_own and recorded.end in _RECORDED_ENDS:
        verdict = Verdict.ALREADY
    elif recorded.end is AttemptEnd.REJECTED:
        verdict = Verdict.REJECTED
    else:
        verdict = Verdict.SUPERSEDED
        if is_own:
            keep_late_result(turn, event)
    _answer(turn, event, verdict)


def keep_late_result(turn: Turn, event: happened.AttemptEnded | ClaimEnded) -> None:
    """Keep the result of an attempt that had ended before, as a record: it changes nothing (LIV-5)."""
    late = LateResult(
        attempt_id=event.attempt, outcome=event.outcome, output=event.output, error=event.error, at=turn.now
    )
    turn.batch.late.append(late)


def _answer(turn: Turn, event: happened.AttemptEnded, verdict: Verdict) -> None:
    turn.batch.effects.append(Send(event.worker, event.session, Answer(event.attempt, verdict)))
