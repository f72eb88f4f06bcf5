"""HTTP workers (WRK-2): they claim work, start it, and report progress and results by calls of their own.

    claim ──► ASSIGNED ──start──► RUNNING ──complete, fail──► as any result
                 │                   │ ▲ heartbeat: the time limit restarts
                 │                   └─ silent for `claim_heartbeat_timeout_seconds` ──► lost, by the task's policy
                 (LIV-1)
                 └─ not started within the claim's own time, or recalled ──► QUEUED (LIV-3)

1. Such a worker gets work only while it has an open claim, and no more than it claims (`Worker.claim_slots`). A claim
   gets its reply from the first turn that has work for it, or when its wait time has expired; then it is closed.
2. Nothing is sent to it. A stop request is in the task's row, and in the reply to the next heartbeat. Claimed work that
   it has not started can be recalled at any time: it asks before it starts.
3. Its attempts are monitored one by one, not the worker itself. It is forgotten when it holds nothing and has claimed
   nothing for a while.
4. A new leader finds its attempts in the rows, and gives each the full time again.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.model.resources import Resources, largest_of
from mainspring.core.model.task import StopKind, Task, TaskState
from mainspring.core.model.worker import Lease, Worker, WorkerStatus
from mainspring.protocol.errors import Broken
from mainspring.protocol.wire import Assignment, Offer, Outcome, Progress, Stop
from mainspring.shard.effects import ActionReply, ActionStatus, ClaimedAttempt
from mainspring.shard.events import AttemptEnded, TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.open_claims import Claim
from mainspring.shard.tasks import timeouts
from mainspring.shard.turn import Turn
from mainspring.shard.workers import liveness, reports
from mainspring.shard.workers.claim_events import (
    ClaimAbandoned,
    ClaimCall,
    ClaimEnded,
    ClaimHeartbeat,
    ClaimStarted,
    ClaimWork,
)

S = TaskState
MAX_CLAIMS = 10_000
"""Open in a shard at a time."""
MAX_CLAIMS_PER_WORKER = 100
"""Open per worker at a time."""
DEFAULT_CLAIM_CAPACITY = Resources(cpu_millis=4_000, memory_bytes=16 * 1024**3, disk_bytes=256 * 1024**3)
"""Resources assumed per claim of a worker that does not report any."""
NO_HEARTBEAT = "no heartbeat from"
"""The message of a loss by silence begins with this."""
_NOT_HELD = "the attempt has ended, or belongs to another worker"


def deliver_claimed(turn: Turn, worker: Worker, lease: Lease, assignment: Assignment, needs: Offer) -> None:
    """Add an assignment to the reply of a claim. The worker has to start it in time."""
    memory = turn.memory
    claim = memory.claims.first(worker.id)
    if claim is None:
        raise Broken(f"{worker.id} was given {lease.id}, but has no open claim")
    run = memory.runs[assignment.run]
    claimed = ClaimedAttempt(
        assignment=assignment, needs=needs, job=run.run.job_id, priority=lease.priority,
        scheduled_at=run.run.window_at or run.run.created_at,
        expires_at=turn.now + timedelta(seconds=claim.hold_seconds),
    )  # fmt: skip
    memory.claims.deliver(claim, claimed)
    memory.timers.set_after(claim.hold_seconds, TimerKind.RECEIPT, lease.id)


def reply_to_claims(turn: Turn) -> None:
    """Reply to claims that got work, and to those whose wait time has expired."""
    for claim in turn.memory.claims.take_ready():
        reply = ActionReply(claim.request_id, ActionStatus.DONE, worker=claim.worker, claimed=tuple(claim.claimed))
        turn.batch.effects.append(reply)
        _update_claim_slots(turn.memory, claim.worker)


def abandon(turn: Turn, event: ClaimAbandoned) -> None:
    """Queue the work of an abandoned claim again."""
    memory = turn.memory
    if memory.claims.close(event.claim) is not None:
        _update_claim_slots(memory, event.worker)
    for attempt in event.attempts:
        task = memory.attempts.get(attempt)
        if task is not None and task.worker_id == event.worker and task.state is S.ASSIGNED:
            reports.give_back(turn, task, because=f"{event.worker} disconnected before it received it")


def return_recalled(turn: Turn) -> None:
    """Requeue recalled attempts that have not started: the worker asks before it starts one."""
    for attempt in turn.memory.claims.take_recalled():
        task = turn.memory.attempts.get(attempt)
        if task is not None and task.state is S.ASSIGNED:
            _return_unstarted(turn, task, task.stop.why if task.stop is not None else "")


def _return_unstarted(turn: Turn, task: Task, why: str) -> None:
    reports.give_back(turn, task, because=f"recalled before {task.worker_id} started it: {why}")


def restore(memory: ShardMemory) -> None:
    """Give attempts found in the rows their full time, and keep the claims of this term.

    Recalled attempts that had not started are returned by the first turn.
    """
    for worker in memory.workers.values():
        if worker.claim_slots is None:
            continue
        worker.status = WorkerStatus.READY
        _set_total(memory, worker, worker.total)
        for lease in worker.leases.values():
            for attempt, task in lease.members.items():
                lease.received = task.state is S.RUNNING
                _watch(memory, lease, task)
                if not lease.received:
                    seconds = memory.scheduler_settings.claim_heartbeat_timeout_seconds
                    memory.timers.set_after(seconds, TimerKind.RECEIPT, lease.id)
                    if task.stop is not None:
                        memory.claims.recall(attempt)
        _update_claim_slots(memory, worker.id)
    for claim in memory.claims.open.values():
        _set_wait(memory, claim)


def wait_due(turn: Turn, timer: TimerDue) -> None:
    """The wait time of a claim has expired: it gets its reply when the turn closes."""
    turn.memory.claims.expire(int(timer.subject))


def silence_due(turn: Turn, timer: TimerDue) -> None:
    """An attempt may have been silent for too long."""
    memory = turn.memory
    task = memory.runs.find(timer.subject)
    if task is None or task.lease_id is None:
        return
    lease = memory.leases[task.lease_id]
    silent_seconds, most = (
        memory.shard_time - lease.last_heartbeat,
        memory.scheduler_settings.claim_heartbeat_timeout_seconds,
    )
    if silent_seconds < most:
        _set_silence_timer(memory, task, most - silent_seconds)
    else:
        because = f"{NO_HEARTBEAT} {task.worker_id} for {silent_seconds:.0f} s"
        reports.lose(turn, task, because=because, worker_lost=True)


def claim(turn: Turn, event: ClaimWork) -> None:
    """Open a claim."""
    memory = turn.memory
    memory.claims.close(event.request_id)
    if len(memory.claims.open) >= MAX_CLAIMS:
        turn.respond(event, ActionStatus.REFUSED, f"{MAX_CLAIMS:,} open claims in {memory.shard}: retry later")
        return
    if memory.claims.count(event.worker) >= MAX_CLAIMS_PER_WORKER:
        turn.respond(event, ActionStatus.REFUSED, f"{event.worker} already has {MAX_CLAIMS_PER_WORKER} open claims")
        return
    opened = Claim(
        request_id=event.request_id, worker=event.worker, left=event.wanted, hold_seconds=event.hold_seconds,
        until=memory.shard_time + event.wait_seconds,
    )  # fmt: skip
    memory.claims.add(opened)
    _update_worker(turn, event)
    if event.wait_seconds > 0:
        _set_wait(memory, opened)
    else:
        memory.claims.expire(opened.request_id)


def _update_worker(turn: Turn, event: ClaimWork) -> None:
    """Update a worker from its claim; its row is written if something changed."""
    memory, offer = turn.memory, event.offer
    worker = memory.workers.get(event.worker)
    has_changed = worker is None
    if worker is None:
        worker = memory.add_worker(event.worker)
        worker.status = WorkerStatus.READY
        liveness.watch(turn, worker)
    before = (worker.labels, worker.zone, worker.version)
    worker.labels, worker.zone, worker.version = after = (event.labels, event.zone, event.version)
    has_changed = has_changed or before != after
    if offer is None:
        _set_total(memory, worker, worker.used + _for_claims(memory.claims.wanted(worker.id)))
    else:
        total = worker.total
        _set_total(memory, worker, Resources(offer.cpu_millis, offer.memory_bytes, offer.gpus, offer.disk_bytes))
        has_changed = has_changed or worker.total != total
    worker.last_heartbeat = memory.shard_time
    _update_claim_slots(memory, worker.id)
    if has_changed:
        turn.save_worker(worker)


def _set_total(memory: ShardMemory, worker: Worker, total: Resources) -> None:
    """Set the total resources of a worker: never less than what it holds."""
    memory.workers.set_total(worker, largest_of((total, worker.used)))


def _for_claims(count: int) -> Resources:
    """Free resources assumed for a worker that does not report any."""
    one = DEFAULT_CLAIM_CAPACITY
    return Resources(one.cpu_millis * count, one.memory_bytes * count, one.gpus * count, one.disk_bytes * count)


def _update_claim_slots(memory: ShardMemory, worker_id: str) -> None:
    """Update the number of tasks that a worker claims."""
    worker = memory.workers.get(worker_id)
    if worker is not None:
        worker.claim_slots = memory.claims.wanted(worker_id)
        memory.refresh(worker)


def start(turn: Turn, event: ClaimStarted) -> None:
    """The worker wants to start an attempt that it claimed."""
    task = _held(turn, event, event.attempt)
    if task is None:
        turn.respond(event, ActionStatus.REFUSED, _NOT_HELD)
    elif task.state is S.RUNNING:
        turn.respond(event, ActionStatus.ALREADY)
    elif task.stop is not None or not turn.memory.runs[task.run_id].may_start():
        why = task.stop.why if task.stop is not None else "its run may not start tasks"
        _return_unstarted(turn, task, why)
        turn.respond(event, ActionStatus.REFUSED, f"the attempt was recalled: {why}")
    else:
        reports.start(turn, task)
        if task.lease_id is not None:
            _watch(turn.memory, turn.memory.leases[task.lease_id], task)
        turn.respond(event, ActionStatus.DONE)


def heartbeat(turn: Turn, event: ClaimHeartbeat) -> None:
    """Record progress, and reply whether the attempt is to stop. One that outlives its grace period is lost."""
    task, memory = _held(turn, event, event.attempt), turn.memory
    if task is None:
        turn.respond(event, ActionStatus.REFUSED, _NOT_HELD)
        return
    if task.state is not S.RUNNING:
        turn.respond(event, ActionStatus.REFUSED, "the attempt has not been started")
        return
    if event.checkpoint is not None:
        turn.save_checkpoint(task, event.attempt, event.checkpoint)
    stop = task.stop if task.stop is not None and task.stop.kind is not StopKind.HOLD else None
    if stop is not None and stop.kill_at <= turn.now:
        reports.lose(turn, task, because=f"{event.worker} did not stop it in time: {stop.why}", worker_lost=False)
        turn.respond(event, ActionStatus.REFUSED, f"the attempt did not stop within its grace period: {stop.why}")
        return
    if event.percent is not None or event.note is not None:
        timeouts.progressed(memory, task, Progress(event.attempt, event.percent, event.note or ""))
    extended, requested = None, event.extend_seconds
    if requested is not None:
        extended = timeouts.extend_attempt(turn, task, event.attempt, requested)
    signal = None if stop is None else Stop(event.attempt, stop.why, (stop.kill_at - turn.now).total_seconds())
    turn.batch.effects.append(ActionReply(event.request_id, ActionStatus.DONE, stop=signal, extended=extended))


def end(turn: Turn, event: ClaimEnded) -> None:
    """Record the result of an attempt. A failure after a stop request counts as stopped."""
    task = _held(turn, event, event.attempt)
    if task is None:
        if event.is_late:
            reports.keep_late_result(turn, event)
        turn.respond(event, ActionStatus.REFUSED, _NOT_HELD)
        return
    stops = task.stop is not None and task.stop.kind is not StopKind.HOLD
    outcome = Outcome.STOPPED if stops and event.outcome is Outcome.FAILED else event.outcome
    ended = AttemptEnded(
        worker=event.worker, session="", attempt=event.attempt, outcome=outcome, output=event.output, error=event.error
    )
    reports.apply_result(turn, task, ended)
    turn.respond(event, ActionStatus.DONE)


def _held(turn: Turn, event: ClaimCall, attempt: str) -> Task | None:
    """Return the task of a live attempt of this worker, and record the heartbeat."""
    memory = turn.memory
    task = memory.attempts.get(attempt)
    if task is None or task.worker_id != event.worker or task.lease_id is None:
        return None
    memory.leases[task.lease_id].last_heartbeat = memory.workers[event.worker].last_heartbeat = memory.shard_time
    return task


def _watch(memory: ShardMemory, lease: Lease, task: Task) -> None:
    """Set a timer for the silence of a started attempt."""
    lease.last_heartbeat = memory.shard_time
    if task.state is S.RUNNING:
        _set_silence_timer(memory, task, memory.scheduler_settings.claim_heartbeat_timeout_seconds)


def _set_silence_timer(memory: ShardMemory, task: Task, seconds: float) -> None:
    memory.timers.set_after(seconds, TimerKind.CLAIM_SILENCE, task.id, task.seq)


def _set_wait(memory: ShardMemory, claim: Claim) -> None:
    seconds = max(0.0, claim.until - memory.shard_time)
    memory.timers.set_after(seconds, TimerKind.CLAIM, str(claim.request_id))
