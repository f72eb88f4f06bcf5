"""Pacing: large work of one run is rate limited while other runs wait, and unlimited otherwise (DAG-2, DAG-9).

A bulk operation or propagation without tokens leaves its queue, and a timer returns it. Nothing of this is stored: a
new leader finds bulk operations in their rows, derives propagations from the states, and begins with full buckets.

Other runs count if their priority is the same or higher: runs of a lower priority do not slow this one down.
"""

from __future__ import annotations

from mainspring.core.limits.token_bucket import LEAST_PART, Bucket, Paced
from mainspring.core.model.batch import SpreadKind
from mainspring.core.model.task import TaskState
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.memory import PutOff, ShardMemory
from mainspring.shard.state.run_state import RunMemory

PACES = {
    SpreadKind.FAN_OUT: Paced.GROWTH,
    SpreadKind.GROW: Paced.GROWTH,
    SpreadKind.ADOPT: Paced.READINESS,
    SpreadKind.RESUME: Paced.READINESS,
    SpreadKind.REOPEN: Paced.READINESS,
}
"""Bulk operations that create work. Those that end work are not paced."""
_SHORTEST_SECONDS = 0.02


def allowance(memory: ShardMemory, run: RunMemory, work: Paced, wanted: int) -> int | None:
    """Number of tasks that may be created or become ready now; None: all, as no other run waits."""
    if wanted <= LEAST_PART or not others_wait(memory, run):
        return None
    return _bucket(memory, run, work).left(memory.life)


def charge(memory: ShardMemory, run: RunMemory, work: Paced, many: int) -> None:
    """Charge tasks to the pace."""
    _bucket(memory, run, work).take(many)


def others_wait(memory: ShardMemory, run: RunMemory) -> bool:
    """Whether a run of the same or a higher priority has work that waits for workers or to be created."""
    row = run.run
    queued = sum(depth for (priority, _), depth in memory.queues.depth.items() if priority <= row.priority)
    if queued > run.counts.get(TaskState.QUEUED, 0):
        return True
    lines = (*(key[0] for key in memory.spreads), *memory.put_off)
    return any(other != row.id and _is_as_important(memory, other, run) for other in lines)


def put_off_spread(memory: ShardMemory, run: RunMemory, kind: SpreadKind, parent: str) -> None:
    """Defer a bulk operation until there are tokens."""
    _put_off(memory, run, PACES[kind]).spreads.append((run.run.id, kind, parent))


def put_off_ripple(memory: ShardMemory, run: RunMemory, position: int) -> None:
    """Defer a propagation until there are tokens."""
    _put_off(memory, run, Paced.READINESS).ripples.append((run.run.id, position))


def due(memory: ShardMemory, timer: TimerDue) -> None:
    """Continue deferred work."""
    waiting = memory.put_off.pop(timer.subject, None)
    if waiting is not None:
        memory.spreads.extend(waiting.spreads)
        memory.ripples.extend(waiting.ripples)


def _put_off(memory: ShardMemory, run: RunMemory, work: Paced) -> PutOff:
    waiting = memory.put_off.get(run.run.id)
    if waiting is None:
        waiting = memory.put_off[run.run.id] = PutOff()
        seconds = max(_SHORTEST_SECONDS, _bucket(memory, run, work).seconds_to(2 * LEAST_PART))
        memory.set_length(seconds, TimerDue(kind=TimerKind.PACE, subject=run.run.id))
    return waiting


def _bucket(memory: ShardMemory, run: RunMemory, work: Paced) -> Bucket:
    found = run.buckets.get(work)
    if found is None:
        found = run.buckets[work] = Bucket(memory.tuning.pace(work), memory.life)
    return found


def _is_as_important(memory: ShardMemory, other: str, run: RunMemory) -> bool:
    found = memory.runs.get(other)
    return found is not None and found.run.priority <= run.run.priority
