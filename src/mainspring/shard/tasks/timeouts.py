"""Timeouts, stalls and extensions of running tasks (LIV-2, LIV-4). `core/lifecycle/timeouts.py` computes the limits.

One timer follows an attempt from its start: first to its soft limit, if it has one, and then to its hard limit. Another
one follows it from its first progress report on, or from the start if the definition has a stall limit. Limits are
counted in shard time, so that a stall of the shard expires nothing; a new leader goes by the start of the attempt, but
expires nothing before its worker could report.

An extension is part of the task's row (`RetryState.limit_seconds`). The timer is not reset: when it fires, it checks
the deadline of the attempt, and waits for the rest if there is any.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from mainspring.core.lifecycle import timeouts
from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.task import RetryState, StopKind, Task, TaskState
from mainspring.protocol.wire import Extended, Progress
from mainspring.shard import alerts
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import ExtendTask, TimerDue, TimerKind
from mainspring.shard.state.attempts import AttemptProgress
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

MIN_LIMIT_AFTER_TAKEOVER = timedelta(seconds=20)
"""After a takeover no limit expires before the workers could report what ended in between."""
MAX_NOTE_CHARS = 200


def begin(memory: ShardMemory, run: RunMemory, task: Task) -> None:
    """Start the time limits of an attempt."""
    spec = run.spec(task.position)
    soft, hard = timeouts.limits(spec, task.trail, memory.scheduler_settings)
    if soft is not None:
        _set(memory, task, TimerKind.SOFT_LIMIT, soft)
    else:
        _set(memory, task, TimerKind.TASK_LIMIT, hard)
    if spec.stall_seconds is not None:
        _set(memory, task, TimerKind.STALL, spec.stall_seconds)


def restore(memory: ShardMemory, run: RunMemory, task: Task, now: datetime) -> None:
    """Restore the time limits of an attempt found running in the rows."""
    if task.started_at is None or task.attempt_id is None:
        return
    spec, elapsed = run.spec(task.position), now - task.started_at
    soft, hard = timeouts.limits(spec, task.trail, memory.scheduler_settings)
    alerted = set()
    if soft is not None and elapsed >= timedelta(seconds=soft):
        alerted.add(AlertKind.RUNNING_LONG)
    if task.stop is not None and task.stop.kind is StopKind.STALL:
        alerted.add(AlertKind.STALLED)
    if alerted:
        memory.attempts.record(task.attempt_id, alerts=frozenset(alerted))
    kind, limit = TimerKind.SOFT_LIMIT, soft
    if limit is None or AlertKind.RUNNING_LONG in alerted:
        kind, limit = TimerKind.TASK_LIMIT, hard
    left = max(timedelta(seconds=limit) - elapsed, MIN_LIMIT_AFTER_TAKEOVER)
    _set(memory, task, kind, left.total_seconds())
    if spec.stall_seconds is not None:
        _set(memory, task, TimerKind.STALL, spec.stall_seconds)


def restore_progress(memory: ShardMemory) -> None:
    """Keep monitoring the progress of attempts that reported it within this term."""
    for attempt in memory.attempts.with_progress():
        _watch_progress(memory, memory.attempts[attempt])


def progressed(memory: ShardMemory, task: Task, report: Progress) -> None:
    """Record the progress of an attempt, and when it last changed."""
    known, note = memory.attempts.details(report.attempt).progress, report.note[:MAX_NOTE_CHARS]
    if known is not None and (known.percent, known.note) == (report.percent, note):
        return
    progress = AttemptProgress(percent=report.percent, note=note, moved=memory.shard_time)
    memory.attempts.record(report.attempt, progress=progress)
    if known is None:
        _watch_progress(memory, task)


def _watch_progress(memory: ShardMemory, task: Task) -> None:
    """Start the stall limit of a task that reports progress, unless it had one from its start."""
    if task.state is TaskState.RUNNING and memory.runs[task.run_id].spec(task.position).stall_seconds is None:
        _set(memory, task, TimerKind.STALL, _stall_limit(memory, task))


def soft_limit_due(turn: Turn, timer: TimerDue) -> None:
    """The soft limit has expired: send one alert, and set the hard limit."""
    task = _running(turn, timer)
    if task is None:
        return
    memory, spec = turn.memory, turn.memory.runs[task.run_id].spec(task.position)
    soft = timeouts.limits(spec, task.trail, memory.scheduler_settings)[0] or 0.0
    _alert(turn, task, AlertKind.RUNNING_LONG, f"{task.name} has been running for more than {soft:g} s")
    deadline = memory.attempts.details(task.attempt_id).deadline
    left = deadline - memory.shard_time if deadline is not None else _hard_limit(memory, task) - soft
    _set(memory, task, TimerKind.TASK_LIMIT, left)


def hard_limit_due(turn: Turn, timer: TimerDue) -> None:
    """The hard limit may have expired: stop the task, unless it was extended or the setting is longer now."""
    task = _running(turn, timer)
    if task is None:
        return
    left, limit = _seconds_left(turn, task), _hard_limit(turn.memory, task)
    if left > 0:
        _set(turn.memory, task, TimerKind.TASK_LIMIT, left)
    else:
        stop_requests.request(turn, task, StopKind.TIMEOUT, by="shard", why=f"it took longer than {limit:g} s")


def stall_due(turn: Turn, timer: TimerDue) -> None:
    """Stop a task that has made no progress for the stall limit."""
    task = _running(turn, timer)
    if task is None:
        return
    memory = turn.memory
    limit = _stall_limit(memory, task)
    progress = memory.attempts.details(task.attempt_id).progress
    if progress is not None and memory.shard_time - progress.moved < limit:
        _set(memory, task, TimerKind.STALL, progress.moved + limit - memory.shard_time)
    elif task.stop is None:
        why = f"it made no progress for {limit:g} s"
        stop_requests.request(turn, task, StopKind.STALL, by="shard", why=why)
        _alert(turn, task, AlertKind.STALLED, f"{task.name} has stalled and was stopped: {why}")


def run_limit_due(turn: Turn, timer: TimerDue) -> None:
    """The time limit of a run has expired: cancel its tasks."""
    run = turn.memory.runs[timer.subject]
    run.run.timed_out = True
    turn.mark(run)
    turn.open_bulk_operation(run, BulkOperationKind.CANCEL, by="shard", why="the run timed out")


def extend_attempt(turn: Turn, task: Task, attempt: str, seconds: float) -> Extended:
    """Extend an attempt while it makes progress, up to a limit; return the time that it has left."""
    memory = turn.memory
    refusal = _refuse_extension(memory, task)
    if not refusal:
        spec, elapsed = memory.runs[task.run_id].spec(task.position), _elapsed(turn, task)
        limit = timeouts.extended(spec, task.trail, memory.scheduler_settings, elapsed=elapsed, seconds=seconds)
        refusal = _set_hard_limit(turn, task, limit)
    return Extended(attempt, max(0.0, _seconds_left(turn, task)), refusal)


def extend_task(turn: Turn, event: ExtendTask, _run: RunMemory, task: Task) -> tuple[ActionStatus, str]:
    """Extend a running task for a person; return the result."""
    if task.state is not TaskState.RUNNING:
        return ActionStatus.REFUSED, f"the task is {task.state}: only a running task can be extended"
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return ActionStatus.REFUSED, f"the task is being stopped: {task.stop.why}"
    if not 0 < event.seconds <= timeouts.MAX_SECONDS:
        return ActionStatus.REFUSED, f"must be more than 0 and at most {timeouts.MAX_SECONDS:.0f} seconds"
    limit = min(_elapsed(turn, task) + event.seconds, timeouts.MAX_SECONDS)
    refusal = _set_hard_limit(turn, task, limit)
    if refusal:
        return ActionStatus.ALREADY, refusal
    left, worker = max(0.0, _seconds_left(turn, task)), turn.memory.workers.get(task.worker_id or "")
    if worker is not None and task.attempt_id is not None:
        turn.send(worker, Extended(task.attempt_id, left))
    return ActionStatus.DONE, f"{left:.0f} s left"


def _refuse_extension(memory: ShardMemory, task: Task) -> str:
    """Why an attempt can't be extended; empty if it can."""
    if task.state is not TaskState.RUNNING:
        return f"it is {task.state}"
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return f"it is being stopped: {task.stop.why}"
    progress, stall = memory.attempts.details(task.attempt_id).progress, _stall_limit(memory, task)
    if progress is None:
        return "it has not reported progress"
    return f"it has made no progress for {stall:g} s" if memory.shard_time - progress.moved >= stall else ""


def _set_hard_limit(turn: Turn, task: Task, limit: float) -> str:
    """Raise the total time limit of a task; return why not, if it is no longer than the current one."""
    current = _hard_limit(turn.memory, task)
    if limit <= current:
        return f"its limit is already {current:g} s"
    left = limit - _elapsed(turn, task)
    turn.touch(task)
    task.trail = replace(task.trail or RetryState(), limit_seconds=limit)
    turn.memory.attempts.record(task.attempt_id, deadline=turn.memory.shard_time + left)
    return ""


def _seconds_left(turn: Turn, task: Task) -> float:
    """Seconds that an attempt may still run; not positive if its limit has expired."""
    deadline = turn.memory.attempts.details(task.attempt_id).deadline
    return (
        _hard_limit(turn.memory, task) - _elapsed(turn, task) if deadline is None else deadline - turn.memory.shard_time
    )


def _hard_limit(memory: ShardMemory, task: Task) -> float:
    spec = memory.runs[task.run_id].spec(task.position)
    return timeouts.hard_limit(spec, task.trail, memory.scheduler_settings)


def _stall_limit(memory: ShardMemory, task: Task) -> float:
    return timeouts.stall_limit(memory.runs[task.run_id].spec(task.position), memory.scheduler_settings)


def _elapsed(turn: Turn, task: Task) -> float:
    return (turn.now - task.started_at).total_seconds() if task.started_at is not None else 0.0


def _running(turn: Turn, timer: TimerDue) -> Task | None:
    """The task of a timer, unless it has changed since the timer was set."""
    task = turn.memory.runs.find(timer.subject)
    return task if task is not None and task.seq == timer.stamp and task.attempt_id is not None else None


def _alert(turn: Turn, task: Task, kind: AlertKind, summary: str) -> None:
    attempt = task.attempt_id or ""
    turn.memory.attempts.record(attempt, alerts=frozenset({kind}))
    turn.batch.outbox.append(alerts.attempt(kind, task, attempt, summary, turn.now))


def _set(memory: ShardMemory, task: Task, kind: TimerKind, seconds: float) -> None:
    memory.timers.set_after(seconds, kind, task.id, task.seq)
