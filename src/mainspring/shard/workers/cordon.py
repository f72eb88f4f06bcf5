"""Cordon, drain and evict workers (WRK-9).

    (none) ──cordon──► CORDONED ──drain, evict──► DRAINING
       ▲───────────────uncordon──────────────────────┘

A cordon is part of the worker's row, so that a new leader knows it, and of `Workers.cordoned`, so that it still applies
when the worker reconnects. Stop requests to its tasks are part of the tasks' rows (`shard/actions/stop_requests.py`):
uncordon does not withdraw them.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from mainspring.core.model.task import StopKind, Task, TaskState
from mainspring.core.model.worker import Hold
from mainspring.protocol.errors import Broken
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CordonWorker, DrainWorker, EvictWorker, UncordonWorker, WorkerAction
from mainspring.shard.placement import reservations
from mainspring.shard.turn import Turn


def apply(turn: Turn, event: WorkerAction) -> None:
    """Execute an action on a worker, and reply to it."""
    if event.worker not in turn.memory.workers and event.worker not in turn.memory.workers.cordoned:
        turn.respond(event, ActionStatus.NOT_FOUND, f"worker {event.worker} not found")
        return
    match event:
        case CordonWorker():
            changed = _cordon_of(turn, event) is Hold.NONE and _set_cordon(turn, event, Hold.CORDONED)
        case DrainWorker():
            changed = _drain(turn, event)
        case EvictWorker():
            changed = _set_cordon(turn, event, Hold.DRAINING)
            changed = _evict(turn, event) or changed
        case UncordonWorker():
            changed = _set_cordon(turn, event, Hold.NONE)
        case _:
            raise Broken(f"no handler for {event}")
    if changed:
        turn.respond(event, ActionStatus.DONE)
    else:
        turn.respond(event, ActionStatus.ALREADY, f"{event.worker} is {_cordon_of(turn, event) or 'not cordoned'}")


def _drain(turn: Turn, event: WorkerAction) -> bool:
    """Cordon a worker, and recall what it has not started; False if nothing changed."""
    changed = _set_cordon(turn, event, Hold.DRAINING)
    for task in _tasks_on(turn, event.worker):
        if task.state is TaskState.ASSIGNED:
            stop_requests.request(
                turn, task, StopKind.HOLD, by=event.by, why=f"{event.worker} is draining: {_reason(event)}"
            )
    return changed


def _evict(turn: Turn, event: WorkerAction) -> bool:
    """Stop all tasks of a worker that are not being stopped yet; False if there are none."""
    asked = False
    for task in _tasks_on(turn, event.worker):
        if task.stop is None or task.stop.kind is StopKind.HOLD:
            why = f"evicted from {event.worker}: {_reason(event)}"
            stop_requests.request(turn, task, StopKind.EVICT, by=event.by, why=why)
            asked = True
    return asked


def _set_cordon(turn: Turn, event: WorkerAction, hold: Hold) -> bool:
    """Set or clear a cordon, in the worker's row and in memory; False if nothing changed."""
    if _cordon_of(turn, event) is hold:
        return False
    memory = turn.memory
    worker, row = memory.workers.get(event.worker), memory.workers.cordoned.get(event.worker)
    why = _reason(event) if hold else ""
    if worker is not None:
        worker.hold, worker.hold_why = hold, why
        if hold:
            reservations.release_all(turn, worker)
        memory.refresh(worker)
        turn.save_worker(worker)
    elif row is not None:
        turn.save_worker_row(replace(row, hold=hold, hold_why=why))
    return True


def _cordon_of(turn: Turn, event: WorkerAction) -> Hold:
    row = turn.memory.workers.cordoned.get(event.worker)
    return Hold(row.hold) if row is not None else Hold.NONE


def _tasks_on(turn: Turn, worker_id: str) -> Iterator[Task]:
    worker = turn.memory.workers.get(worker_id)
    if worker is not None:
        yield from [task for lease in worker.leases.values() for task in lease.members.values()]


def _reason(event: WorkerAction) -> str:
    return f"{event.why} ({event.by})" if event.why else f"by {event.by}"
