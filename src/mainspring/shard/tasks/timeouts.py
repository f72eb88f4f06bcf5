"""Timeouts, stalls and extensions of running tasks (LIV-2, LIV-4). `core/lifecycle/timeouts.py` computes the limits.

One timer follows an attempt from its start: first to its soft limit, if it has one, and then to its hard limit. Another
one follows it from its first progress report on, or from the start if the definition has a stall limit. Limits are
counted in shard time, so that a stall of the shard expires nothing; a new leader goes by the start of the attempt, but
expires nothing before its worker could report.

An extension is part of the task's row (`Trail.limit_seconds`). The timer is not reset: when it fires, it checks the
deadline (`ShardMemory.deadlines`), and waits for the rest if there is any.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from mainspring.core.lifecycle import timeouts
from mainspring.core.model.alerts import AlertKind
from mainspring.core.model.task import StopKind, Task, TaskState, Trail
from mainspring.protocol.wire import Extended, Progress
from mainspring.shard import alerts
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import Reply
from mainspring.shard.events import ExtendTask, MoreTimeAsked, TimerDue, TimerKind
from mainspring.shard.state.memory import Headway, ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

LEAST_LIMIT_LEFT = timedelta(seconds=20)
"""After a takeover no limit expires before the workers could report what ended in between."""
LONGEST_NOTE = 200


def begin(memory: ShardMemory, run: RunMemory, task: Task) -> None:
    """Start the time limits of an attempt."""
    spec = run.spec(task.position)
    soft, hard = timeouts.limits(spec, task.trail, memory.tuning)
    if soft is not None:
        _set(memory, task, TimerKind.SOFT_LIMIT, soft)
    else:
        _set(memory, task, TimerKind.TASK_LIMIT, hard)
    if spec.stall_seconds is not None:
        _set(memory, task, TimerKind.STALL, spec.stall_seconds)


def recall(memory: ShardMemory, run: RunMemory, task: Task, now: datetime) -> None:
    """Restore the time limits of an attempt found running in the rows."""
    if task.started_at is None or task.attempt_id is None:
        return
    spec, elapsed = run.spec(task.position), now - task.started_at
    soft, hard = timeouts.limits(spec, task.trail, memory.tuning)
    told = set()
    if soft is not None and elapsed >= timedelta(seconds=soft):
        told.add(AlertKind.RUNNING_LONG)
    if task.stop is not None and task.stop.kind is StopKind.STALL:
        told.add(AlertKind.STALLED)
    if told:
        memory.told[task.attempt_id] = frozenset(told)
    kind, limit = TimerKind.SOFT_LIMIT, soft
    if limit is None or AlertKind.RUNNING_LONG in told:
        kind, limit = TimerKind.TASK_LIMIT, hard
    left = max(timedelta(seconds=limit) - elapsed, LEAST_LIMIT_LEFT)
    _set(memory, task, kind, left.total_seconds())
    if spec.stall_seconds is not None:
        _set(memory, task, TimerKind.STALL, spec.stall_seconds)


def recall_headway(memory: ShardMemory) -> None:
    """Keep monitoring the progress of attempts that reported it within this term."""
    for attempt in memory.headway:
        task = memory.attempts[attempt]
        spec = memory.runs[task.run_id].spec(task.position)
        if task.state is TaskState.RUNNING and spec.stall_seconds is None:
            _set(memory, task, TimerKind.STALL, timeouts.stall_limit(spec, memory.tuning))


def progressed(memory: ShardMemory, task: Task, said: Progress) -> None:
    """Record the progress of an attempt, and when it last changed."""
    known, note = memory.headway.get(said.attempt), said.note[:LONGEST_NOTE]
    if known is not None and (known.percent, known.note) == (said.percent, note):
        return
    memory.headway[said.attempt] = Headway(percent=said.percent, note=note, moved=memory.life)
    spec = memory.runs[task.run_id].spec(task.position)
    if known is None and spec.stall_seconds is None and task.state is TaskState.RUNNING:
        _set(memory, task, TimerKind.STALL, timeouts.stall_limit(spec, memory.tuning))


def soft_limit_due(turn: Turn, timer: TimerDue) -> None:
    """The soft limit has expired: send one alert, and set the hard limit."""
    task = _running(turn, timer)
    if task is None or task.attempt_id is None:
        return
    memory, spec = turn.memory, turn.memory.runs[task.run_id].spec(task.position)
    soft = timeouts.limits(spec, task.trail, memory.tuning)[0] or 0.0
    _tell(turn, task, AlertKind.RUNNING_LONG, f"{task.name} has been running for more than {soft:g} s")
    deadline = memory.deadlines.get(task.attempt_id)
    hard = timeouts.hard_limit(spec, task.trail, memory.tuning)
    left = deadline - memory.life if deadline is not None else hard - soft
    _set(memory, task, TimerKind.TASK_LIMIT, left)


def hard_limit_due(turn: Turn, timer: TimerDue) -> None:
    """The hard limit may have expired: stop the task, unless it was extended or the setting is longer now."""
    task = _running(turn, timer)
    if task is None or task.attempt_id is None:
        return
    memory = turn.memory
    deadline = memory.deadlines.get(task.attempt_id, 0.0)
    if deadline > memory.life:
        _set(memory, task, TimerKind.TASK_LIMIT, deadline - memory.life)
        return
    limit = timeouts.hard_limit(memory.runs[task.run_id].spec(task.position), task.trail, memory.tuning)
    if deadline == 0 and _elapsed(turn, task) < limit:
        _set(memory, task, TimerKind.TASK_LIMIT, limit - _elapsed(turn, task))
        return
    stop_requests.request(turn, task, StopKind.TIMEOUT, by="shard", why=f"it took longer than {limit:g} s")


def stall_due(turn: Turn, timer: TimerDue) -> None:
    """Stop a task that has made no progress for the stall limit."""
    task = _running(turn, timer)
    if task is None or task.attempt_id is None:
        return
    memory = turn.memory
    limit = timeouts.stall_limit(memory.runs[task.run_id].spec(task.position), memory.tuning)
    headway = memory.headway.get(task.attempt_id)
    if headway is not None and memory.life - headway.moved < limit:
        _set(memory, task, TimerKind.STALL, headway.moved + limit - memory.life)
        return
    if task.stop is None:
        why = f"it made no progress for {limit:g} s"
        stop_requests.request(turn, task, StopKind.STALL, by="shard", why=why)
        _tell(turn, task, AlertKind.STALLED, f"{task.name} has stalled and was stopped: {why}")


def more_time(turn: Turn, event: MoreTimeAsked) -> None:
    """An attempt requests an extension: granted while it makes progress, up to a limit."""
    memory = turn.memory
    task = memory.attempts.get(event.attempt)
    if task is None or task.worker_id != event.worker:
        stop_requests.disown(turn, event.worker, event.attempt)
        return
    turn.send(memory.workers[event.worker], prolong(turn, task, event.attempt, event.seconds))


def prolong(turn: Turn, task: Task, attempt: str, seconds: float) -> Extended:
    """Extend an attempt if allowed; return the time that it has left."""
    run = turn.memory.runs[task.run_id]
    refusal = _why_not(turn, run, task)
    if not refusal:
        spec, elapsed = run.spec(task.position), _elapsed(turn, task)
        limit = timeouts.extended(spec, task.trail, turn.memory.tuning, elapsed=elapsed, seconds=seconds)
        refusal = _prolong(turn, run, task, limit)
    return Extended(attempt, _left(turn, run, task), refusal)


def extend(turn: Turn, run: RunMemory, task: Task, event: ExtendTask) -> tuple[Reply, str]:
    """Extend a running task for a person; return the result."""
    if task.state is not TaskState.RUNNING:
        return Reply.REFUSED, f"the task is {task.state}: only a running task can be extended"
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return Reply.REFUSED, f"the task is being stopped: {task.stop.why}"
    if not 0 < event.seconds <= timeouts.LONGEST_SECONDS:
        return Reply.REFUSED, f"must be more than 0 and at most {timeouts.LONGEST_SECONDS:.0f} seconds"
    limit = min(_elapsed(turn, task) + event.seconds, timeouts.LONGEST_SECONDS)
    refusal = _prolong(turn, run, task, limit)
    worker = turn.memory.workers.get(task.worker_id or "")
    if worker is not None and task.attempt_id is not None and not refusal:
        turn.send(worker, Extended(task.attempt_id, _left(turn, run, task)))
    return (Reply.ALREADY, refusal) if refusal else (Reply.DONE, f"{_left(turn, run, task):.0f} s left")


def _why_not(turn: Turn, run: RunMemory, task: Task) -> str:
    """Why an attempt can't be extended; empty if it can."""
    if task.state is not TaskState.RUNNING:
        return f"it is {task.state}"
    if task.stop is not None and task.stop.kind is not StopKind.HOLD:
        return f"it is being stopped: {task.stop.why}"
    headway = turn.memory.headway.get(task.attempt_id or "")
    stall = timeouts.stall_limit(run.spec(task.position), turn.memory.tuning)
    if headway is None:
        return "it has not reported progress"
    if turn.memory.life - headway.moved >= stall:
        return f"it has made no progress for {stall:g} s"
    return ""


def _prolong(turn: Turn, run: RunMemory, task: Task, limit: float) -> str:
    """Raise the total time limit of a task; return why not, if it is no longer than the current one."""
    now_allowed = timeouts.hard_limit(run.spec(task.position), task.trail, turn.memory.tuning)
    if limit <= now_allowed:
        return f"its limit is already {now_allowed:g} s"
    left = limit - _elapsed(turn, task)
    turn.touch(task)
    task.trail = replace(task.trail or Trail(), limit_seconds=limit)
    turn.memory.deadlines[task.attempt_id or ""] = turn.memory.life + left
    return ""


def _left(turn: Turn, run: RunMemory, task: Task) -> float:
    """Seconds that an attempt may still run."""
    deadline = turn.memory.deadlines.get(task.attempt_id or "")
    if deadline is not None:
        return max(0.0, deadline - turn.memory.life)
    limit = timeouts.hard_limit(run.spec(task.position), task.trail, turn.memory.tuning)
    return max(0.0, limit - _elapsed(turn, task))


def _elapsed(turn: Turn, task: Task) -> float:
    return (turn.now - task.started_at).total_seconds() if task.started_at is not None else 0.0


def _running(turn: Turn, timer: TimerDue) -> Task | None:
    """The task of a timer, unless it has changed since the timer was set."""
    task = turn.memory.find(timer.subject)
    return task if task is not None and task.seq == timer.stamp and task.worker_id is not None else None


def _tell(turn: Turn, task: Task, kind: AlertKind, summary: str) -> None:
    attempt = task.attempt_id or ""
    turn.memory.told[attempt] = turn.memory.told.get(attempt, frozenset()) | {kind}
    turn.batch.outbox.append(alerts.attempt(kind, task, attempt, summary, turn.now))


def _set(memory: ShardMemory, task: Task, kind: TimerKind, seconds: float) -> None:
    memory.set_length(seconds, TimerDue(kind=kind, subject=task.id, stamp=task.seq))
