"""Worker liveness: registration, silence, loss, shutdown (LIV-1, LIV-3, LIV-5, LIV-6).

    EXPECTED ──registers──► READY ──10 s silent──► SUSPECT ──5 s more──► LOST
        │                   │ ▲──────heartbeat────────┘                    │
        └── 15 s silent ─► LOST                       registers again ─────┘
                            └───shuts down────► GONE

Two checks find a silent worker: a timer here, and the rows, in which servers record heartbeats
(`host/maintenance/worker_watch.py`). Each alone is enough, and both decide by the shard's own memory. They do so when
the turn closes, after all events that have arrived until then: a turn stays open while the previous batch is written.

HTTP workers are never suspect and never lost: their attempts are, one by one (`shard/workers/claims.py`). One that
holds nothing, and has claimed nothing for long, is forgotten.

Seconds are shard time (`ShardMemory.shard_time`): a stall of the shard or an outage expires nothing. The limits are
settings (`core/model/settings.py`).
"""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.model.resources import Resources
from mainspring.core.model.task import TaskState
from mainspring.core.model.worker import Worker, WorkerStatus, is_claimant
from mainspring.protocol.wire import Welcome
from mainspring.shard import events as happened
from mainspring.shard.actions import stop_requests
from mainspring.shard.effects import CloseLink
from mainspring.shard.events import TimerKind
from mainspring.shard.placement import reservations
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.turn import Turn
from mainspring.shard.workers import reports

NOT_STARTED_IN_TIME = "did not start it in time"
"""Why the work of a claim is queued again."""


def register(turn: Turn, event: happened.WorkerRegistered) -> None:
    """Open a session of a worker: reconcile the attempts that it holds with those in the rows."""
    memory = turn.memory
    worker = memory.workers.get(event.worker)
    if worker is None:
        worker = memory.add_worker(event.worker)
    offer = event.offer
    memory.workers.set_total(worker, Resources(offer.cpu_millis, offer.memory_bytes, offer.gpus, offer.disk_bytes))
    worker.session, worker.labels, worker.zone, worker.version = event.session, event.labels, event.zone, event.version
    worker.status, worker.last_heartbeat, worker.refused = WorkerStatus.READY, memory.shard_time, set()
    worker.leaving = False
    memory.workers.recent.forget(worker.id)
    turn.send(worker, Welcome(event.session, memory.scheduler_settings.lost_after_seconds))
    _compare(turn, worker, frozenset(event.holds))
    reservations.compare(turn, worker)
    watch(turn, worker)
    memory.refresh(worker)
    turn.save_worker(worker)


def apply_settings(turn: Turn, event: happened.SettingsChanged) -> None:
    """Apply changed settings, and tell all workers the limit if it has changed: their own limits follow it."""
    before, after = turn.memory.scheduler_settings, event.scheduler_settings
    turn.memory.apply_settings(after)
    if before.lost_after_seconds == after.lost_after_seconds:
        return
    for worker in turn.memory.workers.values():
        if worker.session and worker.claim_slots is None:
            turn.send(worker, Welcome(worker.session, after.lost_after_seconds))


def carry_over(before: ShardMemory, after: ShardMemory) -> None:
    """Carry over what can't be loaded from rows when the memory is reloaded within a term: mainly worker reports."""
    after.timers.shard_time = before.shard_time
    after.runs.carry_over(before.runs)
    after.queues.suspended_from = before.queues.suspended_from
    after.limits.retries = before.limits.retries
    if before.rules.version > after.rules.version:
        after.set_rules(before.rules)
    after.limits.ledger.carry_over(before.limits.ledger)
    after.claims, after.workers.recent = before.claims, before.workers.recent
    after.claims.reset_undelivered()
    for shape, fault in before.queues.faulty.items():
        after.queues.park_faulty(shape, fault)
    for old in before.workers.values():
        worker = after.add_worker(old.id)
        after.workers.set_total(worker, old.total)
        worker.session, worker.labels, worker.zone = old.session, old.labels, old.zone
        worker.version, worker.status, worker.last_heartbeat = old.version, old.status, old.last_heartbeat
        worker.refused, worker.leaving = old.refused, old.leaving
        after.refresh(worker)


def carry_over_attempts(before: ShardMemory, after: ShardMemory) -> None:
    """Carry over what was reported of attempts within this term, and keep waiting for acknowledgments."""
    for attempt, progress in before.attempts.with_progress().items():
        after.attempts.record(attempt, progress=progress)
    for lease in after.leases.values():
        worker, known = before.workers.get(lease.worker_id), before.leases.get(lease.id)
        if worker is not None and worker.session and (known is None or not known.received):
            lease.received = False
            after.timers.set_after(after.scheduler_settings.assignment_timeout_seconds, TimerKind.RECEIPT, lease.id)


def note_heartbeat(turn: Turn, event: happened.WorkerEvent) -> bool:
    """Record a heartbeat; False if the session is not the current one, and the event has to be dropped."""
    worker = turn.memory.workers.get(event.worker)
    if worker is None or worker.session != event.session:
        turn.batch.effects.append(CloseLink(event.worker, event.session))
        return False
    worker.last_heartbeat = turn.memory.shard_time
    if worker.status is WorkerStatus.SUSPECT:
        worker.status = WorkerStatus.READY
        turn.memory.refresh(worker)
    return True


def leave(turn: Turn, event: happened.WorkerLeaving) -> None:
    """A worker accepts no more work: its running tasks continue, or are returned by the worker."""
    worker = turn.memory.workers[event.worker]
    worker.leaving = True
    reservations.release_all(turn, worker)
    turn.memory.refresh(worker)
    turn.save_worker(worker)


def remove_gone(turn: Turn, event: happened.WorkerGone) -> None:
    """Remove a worker that shut down cleanly. Tasks that it should have had are queued again."""
    worker = turn.memory.workers[event.worker]
    _remove_worker(turn, worker, WorkerStatus.GONE, f"{worker.id} left without it")
    turn.batch.effects.append(CloseLink(event.worker, event.session))


def watch(turn: Turn, worker: Worker) -> None:
    """Set a timer for a worker's silence."""
    if turn.memory.workers.watch(worker):
        _set_silence_timer(turn, worker, turn.memory.scheduler_settings.suspect_after_seconds)


def silence_due(turn: Turn, timer: happened.TimerDue) -> None:
    """Check whether a worker has been silent for too long."""
    worker = turn.memory.workers[timer.subject]
    silent_seconds, scheduler_settings = turn.memory.shard_time - worker.last_heartbeat, turn.memory.scheduler_settings
    if worker.claim_slots is not None:
        _forget_idle(turn, worker, silent_seconds)
    elif silent_seconds >= scheduler_settings.lost_after_seconds:
        _mark_lost(turn, worker)
    elif silent_seconds >= scheduler_settings.suspect_after_seconds:
        _suspect(turn, worker)
        _set_silence_timer(turn, worker, scheduler_settings.lost_after_seconds - silent_seconds)
    else:
        _set_silence_timer(turn, worker, scheduler_settings.suspect_after_seconds - silent_seconds)


def silent_workers(turn: Turn, event: happened.WorkerSilent) -> None:
    """Note a worker that is silent according to its row: it is checked when the turn closes (`remove_silent`).

    A worker that is not here belonged to an older leader, and holds nothing: only its row has to be corrected.
    """
    memory = turn.memory
    if event.row.id in memory.workers:
        turn.silent_workers.append(event.row.id)
    elif memory.shard_time >= memory.scheduler_settings.lost_after_seconds:
        known = memory.workers.cordoned.get(event.row.id)
        hold, why = (known.hold, known.hold_why) if known is not None else ("", "")
        status = WorkerStatus.GONE if is_claimant(event.row.id) else WorkerStatus.LOST
        row = replace(event.row, status=status, since=turn.now, hold=hold, hold_why=why)
        turn.save_worker_row(row)
        memory.workers.recent.note_row(row)


def remove_silent(turn: Turn) -> None:
    """Mark workers lost that are silent according to their rows, if this shard has not heard them either."""
    memory = turn.memory
    for name in turn.silent_workers:
        worker = memory.workers.get(name)
        if worker is None or worker.claim_slots is not None:
            continue
        if memory.shard_time - worker.last_heartbeat >= memory.scheduler_settings.lost_after_seconds:
            _mark_lost(turn, worker)


def receipt_due(turn: Turn, timer: happened.TimerDue) -> None:
    """An assignment was not acknowledged in time: queue it again (LIV-3).

    A live worker that does not receive its messages gets nothing more in this session, and has to register again. An
    HTTP worker can have many reasons not to start in time.
    """
    lease = turn.memory.leases.get(timer.subject)
    if lease is None or lease.received:
        return
    worker = turn.memory.workers[lease.worker_id]
    failing = "did not acknowledge it" if worker.claim_slots is None else NOT_STARTED_IN_TIME
    for attempt, task in list(lease.members.items()):
        if task.state is TaskState.ASSIGNED:
            reports.give_back(turn, task, because=f"{worker.id} {failing}")
            stop_requests.disown(turn, worker.id, attempt)
    if worker.claim_slots is not None:
        return
    _suspect(turn, worker)
    turn.batch.effects.append(CloseLink(worker.id, worker.session))


def _compare(turn: Turn, worker: Worker, holds: frozenset[str]) -> None:
    for lease in list(worker.leases.values()):
        lease.received = True
        for attempt, task in list(lease.members.items()):
            if attempt in holds:
                stop_requests.signal(turn, task)
            else:
                _reclaim(turn, attempt, f"{worker.id} reconnected without it", worker_lost=True)
    for attempt in sorted(holds):
        known = turn.memory.attempts.get(attempt)
        if known is None or known.worker_id != worker.id:
            stop_requests.disown(turn, worker.id, attempt)


def _reclaim(turn: Turn, attempt: str, because: str, *, worker_lost: bool) -> None:
    task = turn.memory.attempts[attempt]
    if task.state is TaskState.ASSIGNED:
        reports.give_back(turn, task, because=because)
    else:
        reports.lose(turn, task, because=because, worker_lost=worker_lost)


def _suspect(turn: Turn, worker: Worker) -> None:
    if worker.status is WorkerStatus.READY:
        worker.status = WorkerStatus.SUSPECT
        turn.memory.refresh(worker)


def _mark_lost(turn: Turn, worker: Worker) -> None:
    silent_seconds = turn.memory.shard_time - worker.last_heartbeat
    _remove_worker(turn, worker, WorkerStatus.LOST, f"{worker.id} was silent for {silent_seconds:.0f} s")


def _forget_idle(turn: Turn, worker: Worker, silent_seconds: float) -> None:
    """Forget an HTTP worker that holds nothing and has no open claim."""
    most = turn.memory.scheduler_settings.claim_heartbeat_timeout_seconds
    if silent_seconds >= most and not worker.leases and not worker.claim_slots:
        _remove_worker(turn, worker, WorkerStatus.GONE, f"{worker.id} has claimed nothing for {silent_seconds:.0f} s")
    else:
        _set_silence_timer(turn, worker, most)


def _remove_worker(turn: Turn, worker: Worker, status: WorkerStatus, because: str) -> None:
    """Remove a worker: its leases end, and it is forgotten until it registers again."""
    turn.memory.workers.close(worker, status, turn.now)
    turn.memory.refresh(worker)
    for lease in list(worker.leases.values()):
        for attempt in list(lease.members):
            _reclaim(turn, attempt, because, worker_lost=status is WorkerStatus.LOST)
    reservations.release_all(turn, worker)
    turn.save_worker(worker)
    turn.memory.workers.remove(worker.id)
    turn.memory.queues.wake_all_affinity()


def _set_silence_timer(turn: Turn, worker: Worker, seconds: float) -> None:
    turn.memory.timers.set_after(seconds, TimerKind.SILENCE, worker.id, worker.watched)
