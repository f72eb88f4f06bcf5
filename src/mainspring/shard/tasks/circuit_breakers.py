"""Circuit breakers: count results, and hold the work of an open breaker (RTY-4).

`core/lifecycle/circuit_breakers.py` counts and decides; this module delays tasks, writes rows and raises alerts. A task
is checked when it becomes ready (`is_held`), and again on placement in case the breaker of its job has opened since
(`may_be_placed`). A held task is PENDING until a time, and checked again then.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from mainspring.core.lifecycle.circuit_breakers import IDLE_CLOSE_SECONDS, RETRY_HOLD_SECONDS, CircuitBreaker, is_idle
from mainspring.core.lifecycle.failure_policy import FailureClass
from mainspring.core.lifecycle.failures import Failure
from mainspring.core.model.batch import BreakerRow
from mainspring.core.model.task import RetryState, Task, TaskState
from mainspring.shard import alerts
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

SIGNATURE, JOB = "signature", "job"
_RETRIED = frozenset({FailureClass.TRANSIENT, FailureClass.RESOURCE, FailureClass.TIMEOUT, FailureClass.RATE_LIMITED})
"""Failures that are retried, as far as the task is concerned: these can cause a retry storm."""


def succeeded(turn: Turn, run: RunMemory, task: Task) -> None:
    """Record a success and its duration; close the circuit breaker that it probed."""
    memory, limits, trail = turn.memory, turn.memory.limits, task.trail
    if task.started_at is not None:
        took = (turn.now - task.started_at).total_seconds()
        memory.durations.record(task.tenant, run.job.spec.name, task.name, took, life=memory.shard_time)
    limits.job_breakers.succeeded(run.subject(), turn.now.timestamp())
    if trail is not None and trail.signature in limits.signature_breakers.open:
        _close(turn, SIGNATURE, limits.signature_breakers.close(trail.signature))
    if trail is not None and trail.is_probe:
        _close(turn, JOB, limits.job_breakers.close(run.subject()))


def failed(turn: Turn, run: RunMemory, failure: Failure) -> None:
    """Record a failure of an attempt or of a dependency."""
    if failure.kind is FailureClass.INFRASTRUCTURE:
        return
    limits, now = turn.memory.limits, turn.now.timestamp()
    if failure.kind in _RETRIED:
        _open(turn, SIGNATURE, limits.signature_breakers.failed(failure.signature, failure.summary, now))
        if failure.signature in limits.signature_breakers.open:
            return  # A common failure says nothing about the job.
    _open(turn, JOB, limits.job_breakers.failed(run.subject(), now))


def is_held(turn: Turn, run: RunMemory, task: Task) -> bool:
    """Whether an open circuit breaker holds a ready task: it is delayed then. If not, the task may be a probe."""
    limits, now = turn.memory.limits, turn.now.timestamp()
    circuit = limits.job_breakers.open.get(run.subject())
    if circuit is not None:
        if limits.job_breakers.allows(circuit.subject, now):
            _probe(turn, task, JOB, circuit)
            return False
        _defer(turn, task, limits.job_breakers.held_until(circuit.subject, turn.random.random(), now), JOB, circuit)
        return True
    signature = task.trail.signature if task.trail is not None else ""
    circuit = limits.signature_breakers.open.get(signature)
    if circuit is None:
        return False
    if limits.signature_breakers.allows(signature, now):
        _probe(turn, task, SIGNATURE, circuit)
        return False
    due = now + RETRY_HOLD_SECONDS * (0.5 + turn.random.random())
    _defer(turn, task, limits.retries.take(due, signature, now=now), SIGNATURE, circuit)
    return True


def may_be_placed(turn: Turn, task: Task) -> bool:
    """Whether the circuit breaker of its job lets a queued task start; if not, it is delayed."""
    breakers, now = turn.memory.limits.job_breakers, turn.now.timestamp()
    circuit = breakers.open.get(turn.memory.runs[task.run_id].subject())
    if circuit is None or (task.trail is not None and task.trail.is_probe):
        return True
    if breakers.allows(circuit.subject, now):
        _probe(turn, task, JOB, circuit)
        return True
    due = breakers.held_until(circuit.subject, turn.random.random(), now)
    turn.move(task, TaskState.PENDING, by="shard", because=_explain_hold(JOB, circuit))
    turn.delay(task, _instant(due))
    return False


def retry_at(turn: Turn, due_at: datetime, signature: str) -> datetime:
    """Time of a retry that is due: the first second with capacity in the retry rate (RTY-3)."""
    now, due = turn.now.timestamp(), due_at.timestamp()
    taken = turn.memory.limits.retries.take(due, signature, now=now)
    return due_at if taken == due else _instant(taken)


def restore_retry(memory: ShardMemory, task: Task, now: datetime) -> None:
    """Count a retry found in the rows against the rate of its second."""
    if task.due_at is not None and task.trail is not None:
        memory.limits.retries.take(task.due_at.timestamp(), task.trail.signature, now=now.timestamp())


def circuit_due(turn: Turn, timer: TimerDue) -> None:
    """Close a circuit breaker that has been idle for long."""
    memory, now = turn.memory, turn.now.timestamp()
    for kind, circuits in ((SIGNATURE, memory.limits.signature_breakers), (JOB, memory.limits.job_breakers)):
        circuit = circuits.open.get(timer.subject)
        if circuit is None:
            continue
        if is_idle(circuit, now):
            _close(turn, kind, circuits.close(timer.subject))
        else:
            _watch(memory, circuit)


def restore(memory: ShardMemory, rows: Iterable[BreakerRow], now: datetime) -> None:
    """Restore open circuit breakers from rows."""
    for row in rows:
        opened = row.opened_at.timestamp()
        circuit = CircuitBreaker(
            subject=row.subject, because=row.because, opened_at=opened, last_seen_at=now.timestamp(),
            probed_at=row.probed_at.timestamp() if row.probed_at is not None else opened,
        )  # fmt: skip
        circuits = memory.limits.job_breakers if row.kind == JOB else memory.limits.signature_breakers
        circuits.open[row.subject] = circuit
        _watch(memory, circuit)


def _open(turn: Turn, kind: str, circuit: CircuitBreaker | None) -> None:
    if circuit is not None:
        turn.save_breaker(_row(turn, kind, circuit))
        turn.batch.outbox.append(alerts.circuit(kind, circuit, turn.memory.shard, turn.now))
        _watch(turn.memory, circuit)


def _close(turn: Turn, kind: str, circuit: CircuitBreaker | None) -> None:
    if circuit is not None:
        turn.save_breaker(replace(_row(turn, kind, circuit), closed_at=turn.now))
        turn.batch.outbox.append(alerts.circuit(kind, circuit, turn.memory.shard, turn.now, resolved=True))


def _watch(memory: ShardMemory, circuit: CircuitBreaker) -> None:
    """Set a timer for the time when a circuit breaker has been idle for long."""
    idle_at = _instant(circuit.last_seen_at + IDLE_CLOSE_SECONDS)
    memory.timers.set_at(idle_at, TimerKind.CIRCUIT, circuit.subject, int(circuit.opened_at))


def _probe(turn: Turn, task: Task, kind: str, circuit: CircuitBreaker) -> None:
    turn.touch(task)
    task.trail = replace(task.trail or RetryState(), is_probe=True)
    turn.save_breaker(_row(turn, kind, circuit))


def _defer(turn: Turn, task: Task, due: float, kind: str, circuit: CircuitBreaker) -> None:
    turn.touch(task)
    task.because = _explain_hold(kind, circuit)
    turn.delay(task, _instant(due))


def _explain_hold(kind: str, circuit: CircuitBreaker) -> str:
    subject = circuit.subject if kind == JOB else "failures with this signature"
    return f"on hold: the circuit breaker for {subject} is open ({circuit.because})"


def _row(turn: Turn, kind: str, circuit: CircuitBreaker) -> BreakerRow:
    opened, probed = _instant(circuit.opened_at), _instant(circuit.probed_at)
    return BreakerRow(
        shard=turn.memory.shard, kind=kind, subject=circuit.subject, because=circuit.because, opened_at=opened,
        probed_at=probed if probed != opened else None,
    )  # fmt: skip


def _instant(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
