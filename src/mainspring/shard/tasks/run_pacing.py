"""Pacing: large work of one run is rate limited while other runs wait, and unlimited otherwise (DAG-2, DAG-9).

A bulk operation or propagation without tokens leaves its queue, and a timer returns it. Nothing of this is stored: a
new leader finds bulk operations in their rows, derives propagations from the states, and begins with full buckets.

Other runs count if their priority is the same or higher: runs of a lower priority do not slow this one down.
"""

from __future__ import annotations

from mainspring.core.limits.token_bucket import MIN_PART, PacedOperation, TokenBucket
from mainspring.core.model.batch import BulkOperationKind
from mainspring.core.model.task import TaskState
from mainspring.shard.events import BulkOperationStep, PropagationStep, TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

PACES = {
    BulkOperationKind.FAN_OUT: PacedOperation.GROWTH,
    BulkOperationKind.GROW: PacedOperation.GROWTH,
    BulkOperationKind.ADOPT: PacedOperation.READINESS,
    BulkOperationKind.RESUME: PacedOperation.READINESS,
    BulkOperationKind.REOPEN: PacedOperation.READINESS,
}
"""Bulk operations that create work. Those that end work are not paced."""
_MIN_DELAY_SECONDS = 0.02


def allowance(memory: ShardMemory, run: RunMemory, work: PacedOperation, wanted: int) -> int | None:
    """Number of tasks that may be created or become ready now; None: all, as no other run waits."""
    if wanted <= MIN_PART or not others_wait(memory, run):
        return None
    return _bucket(memory, run, work).left(memory.shard_time)


def charge(memory: ShardMemory, run: RunMemory, work: PacedOperation, many: int) -> None:
    """Charge tasks to the pace."""
    _bucket(memory, run, work).take(many)


def others_wait(memory: ShardMemory, run: RunMemory) -> bool:
    """Whether a run of the same or a higher priority has work that waits for workers or to be created."""
    row = run.run
    queued = sum(depth for (priority, _), depth in memory.queues.depth.items() if priority <= row.priority)
    if queued > run.counts.get(TaskState.QUEUED, 0):
        return True
    waiting_runs = (*(step.run_id for step in memory.backlog.bulk_operations), *memory.backlog.deferred)
    return any(other != row.id and _is_as_important(memory, other, run) for other in waiting_runs)


def defer(memory: ShardMemory, run: RunMemory, work: PacedOperation, step: PropagationStep | BulkOperationStep) -> None:
    """Defer a step until there are tokens."""
    if memory.backlog.defer(step):
        seconds = max(_MIN_DELAY_SECONDS, _bucket(memory, run, work).seconds_to(2 * MIN_PART))
        memory.timers.set_after(seconds, TimerKind.PACE, run.run.id)


def due(turn: Turn, timer: TimerDue) -> None:
    """Continue deferred work."""
    turn.memory.backlog.resume(timer.subject)


def _bucket(memory: ShardMemory, run: RunMemory, work: PacedOperation) -> TokenBucket:
    found = run.buckets.get(work)
    if found is None:
        found = run.buckets[work] = TokenBucket(memory.scheduler_settings.pace(work), memory.shard_time)
    return found


def _is_as_important(memory: ShardMemory, other: str, run: RunMemory) -> bool:
    found = memory.runs.get(other)
    return found is not None and found.run.priority <= run.run.priority
