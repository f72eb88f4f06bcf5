"""State of a task on a worker or in quarantine: as usual, slow, stuck, stopping, or out of reach."""

from __future__ import annotations

from mainspring.core.explain import messages_running as words
from mainspring.core.explain.diagnosis import InTheWay, Reason
from mainspring.core.explain.from_rows import failure_of
from mainspring.core.lifecycle import timeouts
from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.task import StopKind, StopRequest, Task, TaskState
from mainspring.core.model.worker import Worker, WorkerStatus
from mainspring.shard.explain.diagnosis_context import Look
from mainspring.shard.explain.findings import Finding, blocking_task, elapsed, usual

S = TaskState
_SLOW_START_SECONDS = 5.0
_LEAST_SLOW_SECONDS = 10.0
"""Shorter tasks are never called slow: their machine may be busy."""
_STUCK_TIMES = 3
"""Multiple of the rarely exceeded duration after which a task without progress reports counts as stuck."""
_LEAST_STUCK_SECONDS = 60.0
_LOST_AGAIN = {S.ASSIGNED: "is requeued", S.RUNNING: "is retried"}


def held_by_worker(look: Look) -> Finding:
    """State of a task that a worker has."""
    task, memory = look.task, look.memory
    worker = memory.workers.get(task.worker_id or "")
    if worker is None:
        return Finding(reason=Reason.WORKER_LOST, verdict=words.worker_is_gone(task.worker_id or ""))
    if _is_silent(look, worker):
        return _silent(look, worker)
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return _stopping(look, task.stop)
    return _starting(look, worker) if task.state is S.ASSIGNED else _running(look, worker)


def quarantined(look: Look) -> Finding:
    """A task that is held until a person clears it."""
    task, trail = look.task, look.task.trail
    lost = trail is not None and bool(trail.lost_on) and not trail.workers
    workers = () if trail is None else trail.lost_on if lost else trail.workers
    failure = task.because if lost else failure_of(task)
    return Finding(
        reason=Reason.QUARANTINED,
        verdict=words.quarantined(failure, workers, lost=lost),
        in_the_way=tuple(InTheWay(kind="worker", id=name, says=f"failed on {name}") for name in workers),
        ruled_out=("not one worker alone",) if len(workers) > 1 else (),
        numbers={"workers": float(len(workers)), "tries": float(task.tries)},
    )


def _is_silent(look: Look, worker: Worker) -> bool:
    quiet = look.memory.life - worker.heard
    return worker.status is not WorkerStatus.READY or quiet >= look.memory.tuning.suspect_after_seconds


def _silent(look: Look, worker: Worker) -> Finding:
    memory = look.memory
    quiet = memory.life - worker.heard
    left = max(0.0, memory.tuning.lost_after_seconds - quiet)
    return Finding(
        reason=Reason.WORKER_LOST,
        verdict=words.worker_is_silent(worker.id, quiet, left, _LOST_AGAIN[look.task.state]),
        in_the_way=(InTheWay(kind="worker", id=worker.id, says=f"{worker.id} is {worker.status}"),),
        ruled_out=("not your code: its worker is out of reach",),
        numbers={"silent_seconds": quiet, "lost_in_seconds": left},
    )


def _stopping(look: Look, stop: StopRequest) -> Finding:
    if stop.kind is StopKind.PREEMPT:
        winner = None if stop.for_task is None else look.memory.find(stop.for_task)
        return Finding(
            reason=Reason.PREEMPTED,
            verdict=words.asked_to_make_room(stop.kill_at, look.now),
            in_the_way=() if winner is None else (blocking_task(look.memory, winner, "preempts it"),),
            ruled_out=("not your code",),
        )
    reasons = {StopKind.STALL: Reason.STUCK, StopKind.TIMEOUT: Reason.RUNNING_SLOW}
    return Finding(
        reason=reasons.get(stop.kind),
        verdict=words.asked_to_stop(stop.why, stop.kill_at, look.now),
        in_the_way=() if stop.by == "shard" else (InTheWay(kind="person", id=stop.by, says=f"requested by {stop.by}"),),
    )


def _starting(look: Look, worker: Worker) -> Finding:
    task, memory, now = look.task, look.memory, look.now
    waited = 0.0 if task.assigned_at is None else (now - task.assigned_at).total_seconds()
    lease = memory.leases[task.lease_id or ""]
    before = _first(list(lease.members.values()), task)
    if before is not None and before.state is S.RUNNING:
        count = list(lease.members.values()).index(task)
        return Finding(
            reason=None,
            verdict=words.in_a_group(worker.id, count),
            in_the_way=(blocking_task(memory, before, "runs first"),),
        )
    if waited < _SLOW_START_SECONDS:
        return Finding(reason=None, verdict=words.starting(worker.id, waited), numbers={"assigned_seconds": waited})
    limit = memory.tuning.receipt_seconds
    return Finding(
        reason=Reason.STARTING_SLOW,
        verdict=words.starting_slowly(worker.id, waited, received=lease.received, limit_seconds=limit),
        in_the_way=(InTheWay(kind="worker", id=worker.id, says=f"{worker.id} has not started it"),),
        ruled_out=(words.NOT_THE_QUEUE, words.WORKER_ANSWERS),
        numbers={"assigned_seconds": waited, "limit_seconds": limit}
        | ({} if lease.received else {"taken_back_in_seconds": max(0.0, limit - waited)}),
    )


def _first(members: list[Task], task: Task) -> Task | None:
    """The task of a lease that runs before this one."""
    return members[0] if members and members[0] is not task else None


def _running(look: Look, worker: Worker) -> Finding:
    task, memory = look.task, look.memory
    ran, known, attempt = elapsed(task, look.now), usual(memory, task), task.attempt_id or ""
    headway = memory.headway.get(attempt)
    silent = ran if headway is None else memory.life - headway.moved
    middle, highest = (None, None) if known is None else (known.middle, known.highest)
    numbers = {"running_seconds": ran, "silent_seconds": silent}
    if known is not None:
        numbers |= {"usual_seconds": known.middle, "highest_seconds": known.highest}
    if headway is not None and headway.percent is not None:
        numbers["percent"] = headway.percent
    ruled_out = (words.NOT_THE_QUEUE, words.WORKER_ANSWERS)
    is_late = highest is not None and ran > max(highest, _LEAST_SLOW_SECONDS)
    if _is_stuck(look, ran, silent, highest, is_late=is_late):
        verdict = words.stuck(ran, highest, silent)
        return Finding(reason=Reason.STUCK, verdict=verdict, ruled_out=ruled_out, numbers=numbers)
    progress = "" if headway is None else words.say_progress(headway.percent, headway.note)
    if is_late or AlertKind.RUNNING_LONG in memory.told.get(attempt, ()):
        verdict = words.runs_slowly(ran, middle, progress)
        return Finding(reason=Reason.RUNNING_SLOW, verdict=verdict, ruled_out=ruled_out, numbers=numbers)
    return Finding(reason=None, verdict=words.runs(worker.id, ran, middle, progress), numbers=numbers)


def _is_stuck(look: Look, ran: float, silent: float, highest: float | None, *, is_late: bool) -> bool:
    """Whether it has made no progress for so long that it hardly will.

    A task that reports progress is stuck after half of its stall limit without any, or, if it is late, after a minute.
    One that does not is stuck after a multiple of the duration that it rarely exceeds.
    """
    memory, task = look.memory, look.task
    if task.attempt_id not in memory.headway:
        return highest is not None and is_late and ran > max(_STUCK_TIMES * highest, _LEAST_STUCK_SECONDS)
    limit = timeouts.stall_limit(look.run.spec(task.position), memory.tuning)
    return silent >= limit / 2 or (is_late and silent >= _LEAST_STUCK_SECONDS)
