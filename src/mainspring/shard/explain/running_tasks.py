"""State of a task on a worker or in quarantine: as usual, slow, stuck, stopping, or out of reach."""

from __future__ import annotations

from mainspring.core.explain import messages as words
from mainspring.core.explain.diagnosis import Blocker, Reason
from mainspring.core.explain.from_rows import failure_of
from mainspring.core.lifecycle import timeouts
from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.task import StopKind, StopRequest, TaskState
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.shard.explain.diagnosis_context import TaskContext
from mainspring.shard.explain.findings import Finding, blocking_task, elapsed, named, usual

S = TaskState
_SLOW_START_SECONDS = 5.0
_MIN_SLOW_SECONDS = 10.0
"""Shorter tasks are never called slow: their machine may be busy."""
_STUCK_FACTOR = 3
"""Multiple of the rarely exceeded duration after which a task without progress reports counts as stuck."""
_MIN_STUCK_SECONDS = 60.0
_AFTER_LOSS = {S.ASSIGNED: "is requeued", S.RUNNING: "is retried"}


def held_by_worker(context: TaskContext) -> Finding:
    """State of a task that a worker has."""
    task, memory = context.task, context.memory
    worker = memory.workers.get(task.worker_id or "")
    if worker is None:
        return Finding(reason=Reason.WORKER_LOST, verdict=words.worker_gone(task.worker_id or ""))
    if _is_silent(context, worker):
        return _silent(context, worker)
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return _stopping(context, task.stop)
    return _starting(context, worker) if task.state is S.ASSIGNED else _running(context, worker)


def quarantined(context: TaskContext) -> Finding:
    """A task that is held until a person clears it."""
    task, trail = context.task, context.task.trail
    lost = trail is not None and bool(trail.lost_on) and not trail.workers
    workers = () if trail is None else trail.lost_on if lost else trail.workers
    failure = task.because if lost else failure_of(task)
    return Finding(
        reason=Reason.QUARANTINED,
        verdict=words.quarantined(failure, workers, lost=lost),
        blockers=named(Blocker("worker", name, f"failed on {name}") for name in workers),
        ruled_out=("not one worker alone",) if len(workers) > 1 else (),
        numbers={"workers": float(len(workers)), "tries": float(task.tries)},
    )


def _is_silent(context: TaskContext, worker: Worker) -> bool:
    quiet = context.memory.shard_time - worker.last_heartbeat
    return worker.status is not WorkerStatus.READY or quiet >= context.memory.scheduler_settings.suspect_after_seconds


def _silent(context: TaskContext, worker: Worker) -> Finding:
    memory = context.memory
    quiet = memory.shard_time - worker.last_heartbeat
    left = max(0.0, memory.scheduler_settings.lost_after_seconds - quiet)
    return Finding(
        reason=Reason.WORKER_LOST,
        verdict=words.worker_is_silent(worker.id, quiet, left, _AFTER_LOSS[context.task.state]),
        blockers=named([Blocker("worker", worker.id, f"{worker.id} is {worker.status}")]),
        ruled_out=("not your code: its worker is out of reach",),
        numbers={"silent_seconds": quiet, "lost_in_seconds": left},
    )


def _stopping(context: TaskContext, stop: StopRequest) -> Finding:
    if stop.kind is StopKind.PREEMPT:
        winner = None if stop.for_task is None else context.memory.runs.find(stop.for_task)
        preempts = [] if winner is None else [blocking_task(context.memory, winner, "preempts it")]
        return Finding(
            reason=Reason.PREEMPTED,
            verdict=words.being_preempted(stop.kill_at, context.now),
            blockers=named(preempts),
            ruled_out=("not your code",),
        )
    reasons = {StopKind.STALL: Reason.STUCK, StopKind.TIMEOUT: Reason.RUNNING_SLOW}
    people = [] if stop.by == "shard" else [Blocker("person", stop.by, f"requested by {stop.by}")]
    return Finding(
        reason=reasons.get(stop.kind),
        verdict=words.being_stopped(stop.why, stop.kill_at, context.now),
        blockers=named(people),
    )


def _starting(context: TaskContext, worker: Worker) -> Finding:
    task, memory, now = context.task, context.memory, context.now
    waited = 0.0 if task.assigned_at is None else (now - task.assigned_at).total_seconds()
    lease = memory.leases[task.lease_id or ""]
    members = list(lease.members.values())
    if members[0] is not task and members[0].state is S.RUNNING:
        return Finding(
            reason=None,
            verdict=words.behind_in_group(worker.id, members.index(task)),
            blockers=named([blocking_task(memory, members[0], "runs first")]),
        )
    if waited < _SLOW_START_SECONDS:
        return Finding(reason=None, verdict=words.starting(worker.id, waited), numbers={"assigned_seconds": waited})
    limit = memory.scheduler_settings.assignment_timeout_seconds
    return Finding(
        reason=Reason.STARTING_SLOW,
        verdict=words.starting_slowly(worker.id, waited, received=lease.received, limit_seconds=limit),
        blockers=named([Blocker("worker", worker.id, f"{worker.id} has not started it")]),
        ruled_out=(words.NOT_THE_QUEUE, words.WORKER_ANSWERS),
        numbers={"assigned_seconds": waited, "limit_seconds": limit}
        | ({} if lease.received else {"taken_back_in_seconds": max(0.0, limit - waited)}),
    )


def _running(context: TaskContext, worker: Worker) -> Finding:
    task, memory = context.task, context.memory
    ran, known, attempt = elapsed(task, context.now), usual(memory, task), task.attempt_id or ""
    moved = memory.attempts.details(attempt).progress
    silent = ran if moved is None else memory.shard_time - moved.moved
    middle, highest = (None, None) if known is None else (known.middle, known.highest)
    numbers = {"running_seconds": ran, "silent_seconds": silent}
    if known is not None:
        numbers |= {"usual_seconds": known.middle, "highest_seconds": known.highest}
    if moved is not None and moved.percent is not None:
        numbers["percent"] = moved.percent
    ruled_out = (words.NOT_THE_QUEUE, words.WORKER_ANSWERS)
    is_late = highest is not None and ran > max(highest, _MIN_SLOW_SECONDS)
    if _is_stuck(context, ran, silent, highest, is_late=is_late):
        verdict = words.stuck(ran, highest, silent)
        return Finding(reason=Reason.STUCK, verdict=verdict, ruled_out=ruled_out, numbers=numbers)
    progress = "" if moved is None else words.format_progress(moved.percent, moved.note)
    if is_late or AlertKind.RUNNING_LONG in memory.attempts.details(attempt).alerts:
        verdict = words.runs_slowly(ran, middle, progress)
        return Finding(reason=Reason.RUNNING_SLOW, verdict=verdict, ruled_out=ruled_out, numbers=numbers)
    return Finding(reason=None, verdict=words.runs(worker.id, ran, middle, progress), numbers=numbers)


def _is_stuck(context: TaskContext, ran: float, silent: float, highest: float | None, *, is_late: bool) -> bool:
    """Return whether it has made no progress for so long that it hardly will.

    A task that reports progress is stuck after half of its stall limit without any, or, if it is late, after a minute.
    One that does not is stuck after a multiple of the duration that it rarely exceeds.
    """
    memory, task = context.memory, context.task
    if memory.attempts.details(task.attempt_id).progress is None:
        return highest is not None and is_late and ran > max(_STUCK_FACTOR * highest, _MIN_STUCK_SECONDS)
    limit = timeouts.stall_limit(context.run.spec(task.position), memory.scheduler_settings)
    return silent >= limit / 2 or (is_late and silent >= _MIN_STUCK_SECONDS)
