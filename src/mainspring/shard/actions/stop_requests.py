"""Stop requests (STA-8): part of the task's row, committed before the signal, and sent again as needed.

A task that is asked to stop keeps its state and its capacity until its worker reports that the process is gone, or is
lost. An unstarted attempt is recalled (`Recall`); a running one is signaled (`Stop`). An HTTP worker gets the request
with the reply to its next call about the attempt; what it has not started is returned at once
(`shard/workers/claims.py`).
"""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from mainspring.core.model.task import Preemptor, StopKind, StopRequest, Task, TaskState
from mainspring.protocol.wire import Recall, Stop
from mainspring.shard.turn import Turn

GRACE = timedelta(seconds=30)
"""From SIGTERM to SIGKILL."""
_REQUEUING = frozenset({StopKind.EVICT, StopKind.PREEMPT})
_NOT_YOURS = "this attempt no longer belongs to this worker"


def request(
    turn: Turn, task: Task, kind: StopKind, *, by: str, why: str, cause: str | None = None,
    grace: timedelta = GRACE, preempted_for: Preemptor | None = None,
) -> None:  # fmt: skip
    """Ask a task that a worker holds to stop. A cancel overrides other reasons; a repeated request is ignored."""
    if task.stop is not None and (task.stop.kind is StopKind.CANCEL or _same_kind(task.stop.kind, kind)):
        return
    stop = StopRequest(
        kind=kind, by=by, why=why, kill_at=turn.now + grace, cause=cause, preempted_for=preempted_for,
        for_task=None if preempted_for is None else preempted_for.task,
    )  # fmt: skip
    _record(turn, task, stop)


def kill(turn: Turn, task: Task, kind: StopKind, *, by: str, why: str, grace: timedelta) -> bool:
    """Kill the process of a held task after a grace period, as a cancel or an eviction.

    An existing deadline is brought forward, never postponed. False if the task would have ended the same way, and as
    soon.
    """
    stop, kill_at = task.stop, turn.now + grace
    if stop is None or stop.kind is StopKind.HOLD:
        changed = StopRequest(kind=kind, by=by, why=why, kill_at=kill_at)
    elif stop.kind is StopKind.CANCEL or (kind is StopKind.EVICT and stop.kind in _REQUEUING):
        changed = replace(stop, kill_at=min(kill_at, stop.kill_at))
    else:
        changed = StopRequest(kind=kind, by=by, why=why, kill_at=min(kill_at, stop.kill_at))
    if changed == stop:
        return False
    _record(turn, task, changed)
    return True


def _record(turn: Turn, task: Task, stop: StopRequest) -> None:
    """Write the request to the task's row, and signal it."""
    turn.touch(task)
    task.stop = stop
    turn.memory.leases.note_stopping(task)
    signal(turn, task)


def _same_kind(one: StopKind, other: StopKind) -> bool:
    return one is other or {one, other} == {StopKind.TIMEOUT, StopKind.STALL}


def signal(turn: Turn, task: Task) -> None:
    """Send the worker the stop request in the task's row."""
    worker = turn.memory.workers.get(task.worker_id or "")
    if worker is None or task.stop is None or task.attempt_id is None:
        return
    if task.state is TaskState.ASSIGNED and worker.claim_slots is not None:
        turn.memory.claims.recall(task.attempt_id)
    elif task.state is TaskState.ASSIGNED:
        turn.send(worker, Recall((task.attempt_id,)))
    elif task.stop.kind is not StopKind.HOLD:
        left = max(0.0, (task.stop.kill_at - turn.now).total_seconds())
        turn.send(worker, Stop(task.attempt_id, task.stop.why, left))


def seconds_lost(turn: Turn, task: Task) -> float:
    """Seconds of work lost if a task ended now: since its start, or since its last checkpoint."""
    if task.state is not TaskState.RUNNING or task.started_at is None:
        return 0.0
    since = max(task.started_at, turn.memory.attempts.details(task.attempt_id).saved_at or task.started_at)
    return max(0.0, (turn.now - since).total_seconds())


def disown(turn: Turn, worker_id: str, attempt: str) -> None:
    """Tell a worker that an attempt no longer belongs to it (LIV-5)."""
    worker = turn.memory.workers.get(worker_id)
    if worker is not None:
        turn.send(worker, Stop(attempt, _NOT_YOURS, 0.0))
