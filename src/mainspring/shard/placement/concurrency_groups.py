"""Concurrency and rate groups (PLC-12): what is free, which runs are admitted, what is requested from the store.

    concurrency   the shard may use up to its share; the store divides the limit among the pools
    (`core/limits/limit_shares.py`)
    rate          each start spends one of what was taken from the store (`core/limits/rate_grants.py`)

A shape whose group is full is parked, and a run that is not admitted is blocked. Both are released when a part of the
limit becomes free: when a lease or a run ends, with a grant, or with changed rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import lowered
from mainspring.core.limits.rate_grants import USABLE_FRACTION
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.effects import RequestRate, RequestShare
from mainspring.shard.events import RateGranted, ShareGranted, ShareWanted, TimerDue, TimerKind
from mainspring.shard.state.limit_ledger import RateBudget, limits_of
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

_YIELD_SECONDS = 3.0
"""After lowering its share for others a pool requests more only after this time, so that they get it."""
_RETRY_SECONDS = 1.0


def admits_shape(turn: Turn, tenant: str, shape: Shape) -> bool:
    """Whether the groups of a shape let another task start; if not, the shape is parked, and more is requested."""
    memory = turn.memory
    group = _full(memory, shape.groups, turn.now)
    if group is None:
        return True
    memory.queues.park(shape, describe(group))
    memory.limits.ledger.park(group.limit, shape)
    _request(turn, group, memory.queues.length(tenant, shape), memory.free_slots(shape))
    return False


def admits_run(turn: Turn, run: RunMemory, shape: Shape) -> GroupRow | None:
    """The group of its job that keeps a run out, after requesting more; None: the run is admitted."""
    ledger = turn.memory.limits.ledger
    if run.run.id in ledger.runs:
        return None
    limits = limits_of(run)
    group = _full(turn.memory, limits, turn.now)
    if group is not None:
        _request(turn, group, turn.memory.queues.blocked.count_runs(group.limit) + 1, turn.memory.free_slots(shape))
        return group
    ledger.enter(run)
    ledger.spend(limits)
    return None


def has_slot(turn: Turn, task: Task, shape: Shape) -> bool:
    """Whether its groups would let a task without capacity start; if not, more is requested.

    Of a rate only for P0, which preempts: unused grants are lost.
    """
    memory, run = turn.memory, turn.memory.runs[task.run_id]
    group = _full(memory, _limits(memory, run, shape), turn.now)
    if group is not None and (group.per_seconds is None or task.priority is Priority.P0):
        _request(turn, group, 1, 1)
    return group is None


def held_by(memory: ShardMemory, task: Task, shape: Shape, now: datetime) -> GroupRow | None:
    """The group that keeps a queued task from starting, for diagnosis.

    An exhausted grant of this pool is not enough: more is requested only once there is capacity.
    """
    ledger = memory.limits.ledger
    for limit in _limits(memory, memory.runs[task.run_id], shape):
        group = memory.rules.groups.get(limit)
        if group is None or left(memory, group, now) > 0:
            continue
        is_used = group.per_seconds is None and ledger.use.get(limit, 0) >= group.most
        is_waited_for = shape in ledger.parked.get(limit, ()) or memory.queues.blocked.waits_for(task) == limit
        if is_used or is_waited_for or ledger.not_before.get(limit, now) > now:
            return group
    return None


def share_granted(turn: Turn, event: ShareGranted) -> None:
    """The shard's share of a limit has changed."""
    ledger = turn.memory.limits.ledger
    if event.stamp != ledger.stamps.get(event.limit, 0):
        return
    ledger.shares[event.limit] = event.granted
    if event.granted >= ledger.requested.get(event.limit, 0):
        ledger.requested.pop(event.limit, None)
    ledger.freed.add(event.limit)


def share_wanted(turn: Turn, event: ShareWanted) -> None:
    """Other pools need more of a limit: lower the share as far as usage allows now, and further as it falls."""
    ledger = turn.memory.limits.ledger
    share = ledger.shares.get(event.limit, 0)
    if event.target < share:
        ledger.targets[event.limit] = event.target
        _lower(turn, event.limit)
    else:  # its row may have more, from a grant that came too late to be applied
        ledger.targets.pop(event.limit, None)
        _write_share(turn, event.limit, share)


def rate_granted(turn: Turn, event: RateGranted) -> None:
    """Starts were granted under a rate limit."""
    ledger, group = turn.memory.limits.ledger, turn.memory.rules.groups.get(event.limit)
    ledger.requested.pop(event.limit, None)
    if group is None or group.per_seconds is None:
        return
    more_at = event.more_at
    if event.amount:
        until = turn.now + timedelta(seconds=USABLE_FRACTION * group.per_seconds)
        budget = RateBudget(left=ledger.rate_left(event.limit, turn.now) + event.amount, until=until)
        ledger.rate_budgets[event.limit] = budget
        ledger.freed.add(event.limit)
    elif more_at is None or more_at <= turn.now:  # the reply may have been delayed
        more_at = turn.now + timedelta(seconds=_RETRY_SECONDS)
    if more_at is not None and more_at > turn.now:
        _wait(turn.memory, event.limit, more_at)


def limit_due(turn: Turn, timer: TimerDue) -> None:
    """More of a limit can be requested."""
    ledger = turn.memory.limits.ledger
    due = ledger.not_before.get(timer.subject)
    if due is not None and due <= turn.now:
        del ledger.not_before[timer.subject]
        ledger.freed.add(timer.subject)


def apply_freed(turn: Turn) -> None:
    """Retry what waits for limits that may have been freed, and lower shares that others need."""
    ledger = turn.memory.limits.ledger
    for limit in ledger.take_freed():
        if limit in ledger.targets:
            _lower(turn, limit)
        turn.memory.queues.unpark(ledger.parked.pop(limit, ()))
        _release(turn, limit)


def _release(turn: Turn, limit: str) -> None:
    """Release as many runs as can be admitted, or request more.

    Of a rate one run more: it requests starts once there is capacity, since unused grants are lost.
    """
    memory, group = turn.memory, turn.memory.rules.groups.get(limit)
    blocked = memory.queues.blocked
    runs = blocked.count_runs(limit)
    if not runs:
        return
    count = runs if group is None else left(memory, group, turn.now)
    if group is not None and group.per_seconds is not None:
        blocked.release(limit, count + 1)
    elif count > 0:
        blocked.release(limit, count)
    elif group is not None:
        _request(turn, group, runs, 0)


def apply_rules(memory: ShardMemory, before: Mapping[str, GroupRow]) -> None:
    """Apply changed groups: what was known of a changed group is requested again."""
    ledger, groups = memory.limits.ledger, memory.rules.groups
    for limit in {*before, *groups, *ledger.parked}:
        was, row = before.get(limit), groups.get(limit)
        if was == row:
            continue
        if row is None or (was is not None and row.version <= was.version):
            ledger.shares.pop(limit, None)
            ledger.rate_budgets.pop(limit, None)
            ledger.targets.pop(limit, None)
        ledger.requested.pop(limit, None)
        ledger.not_before.pop(limit, None)
        ledger.freed.add(limit)


def describe(group: GroupRow) -> str:
    """Describe the limit of a group that work waits for."""
    if group.per_seconds is None:
        return f"group {group.name} is at its limit of {group.most} at a time"
    return f"group {group.name} is at its limit of {group.most} starts per {group.per_seconds:g} s"


def _limits(memory: ShardMemory, run: RunMemory, shape: Shape) -> tuple[str, ...]:
    """The limits that count a task of a shape when it starts; those of its run only if the run is not admitted yet."""
    if not run.job.spec.groups or run.run.id in memory.limits.ledger.runs:
        return shape.groups
    return (*shape.groups, *limits_of(run))


def _full(memory: ShardMemory, limits: Iterable[str], now: datetime) -> GroupRow | None:
    """The first of these limits that is exhausted."""
    for limit in limits:
        group = memory.rules.groups.get(limit)
        if group is not None and left(memory, group, now) <= 0:
            return group
    return None


def left(memory: ShardMemory, group: GroupRow, now: datetime) -> int:
    """Number of starts left under a limit, as granted to this shard."""
    if group.per_seconds is not None:
        return memory.limits.ledger.rate_left(group.limit, now)
    ledger = memory.limits.ledger
    return min(ledger.shares.get(group.limit, 0), group.most) - ledger.use.get(group.limit, 0)


def _request(turn: Turn, group: GroupRow, waiting: int, free_slots: int) -> None:
    """Request more of a limit, unless requested already or not available yet.

    Of a rate no more than there are free slots.
    """
    ledger, limit = turn.memory.limits.ledger, group.limit
    if ledger.not_before.get(limit, turn.now) > turn.now:
        return
    if group.per_seconds is not None:
        if limit not in ledger.requested:
            ledger.requested[limit] = min(group.most, waiting, free_slots)
            turn.batch.effects.append(RequestRate(limit, ledger.requested[limit]))
        return
    wanted = min(group.most, ledger.use.get(limit, 0) + waiting)
    if wanted > max(ledger.shares.get(limit, 0), ledger.requested.get(limit, 0)):
        _request_share(turn, limit, wanted)


def _request_share(turn: Turn, limit: str, wanted: int) -> None:
    ledger = turn.memory.limits.ledger
    ledger.requested[limit] = wanted
    turn.batch.effects.append(RequestShare(limit, wanted, ledger.stamps.get(limit, 0)))


def _lower(turn: Turn, limit: str) -> None:
    """Give up the unused part of a share in this batch; request nothing until others had time to take it."""
    ledger = turn.memory.limits.ledger
    share, used = ledger.shares.get(limit, 0), ledger.use.get(limit, 0)
    lower = max(ledger.targets[limit], used)
    if lower <= ledger.targets[limit]:
        del ledger.targets[limit]
    if lower >= share:
        return
    if limit in ledger.requested:
        ledger.requested[limit] = lower
    _write_share(turn, limit, lower)
    ledger.requested.pop(limit, None)
    _wait(turn.memory, limit, turn.now + timedelta(seconds=_YIELD_SECONDS))


def _write_share(turn: Turn, limit: str, granted: int) -> None:
    """Write the share to the rows. A grant on its way will not be applied, and pending requests are repeated."""
    memory = turn.memory
    ledger = memory.limits.ledger
    ledger.shares[limit] = granted
    ledger.stamps[limit] = ledger.stamps.get(limit, 0) + 1
    turn.save_share(lowered(limit, memory.shard, granted))
    if limit in ledger.requested:
        _request_share(turn, limit, ledger.requested[limit])


def _wait(memory: ShardMemory, limit: str, until: datetime) -> None:
    memory.limits.ledger.not_before[limit] = until
    memory.timers.set_at(until, TimerKind.LIMIT, limit)
