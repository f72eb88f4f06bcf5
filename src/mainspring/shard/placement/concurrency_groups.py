"""Work waits for the limits of its groups (PLC-12): what is free of them, who is let in, what is asked for.

    concurrency   the shard may use up to its share; the store divides the limit among the pools
    (`core/limits/limit_shares.py`)
    rate          each start spends one of what was taken from the store (`core/limits/rate_grants.py`)

A shape whose group is full is parked, and a run that can't get in is set aside. Both come back when something of the
limit becomes free: with the end of a lease or a run, with a grant, or with other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import lowered
from mainspring.core.limits.rate_grants import KEPT_PART
from mainspring.core.model.task import Priority, Task
from mainspring.core.placement.task_shapes import Shape
from mainspring.shard.effects import TakeAllowance, TakeShare
from mainspring.shard.events import AllowanceGranted, ShareGranted, ShareWanted, TimerDue, TimerKind
from mainspring.shard.placement.limit_ledger import Purse, limits_of
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.turn import Turn

_GIVES_WAY_SECONDS = 3.0
"""Who has lowered its share for others asks for more only after this, so that they get what was lowered."""
_ASKS_AGAIN_SECONDS = 1.0


def admits_shape(turn: Turn, tenant: str, shape: Shape) -> bool:
    """Whether the groups of a shape let one more task start; if not, the shape is parked, and more is asked for."""
    memory = turn.memory
    group = _full(memory, shape.groups, turn.now)
    if group is None:
        return True
    memory.queues.park(shape, say(group))
    memory.groups.parked.setdefault(group.limit, set()).add(shape)
    _ask(turn, group, memory.queues.length(tenant, shape), memory.places(shape))
    return False


def admits_run(turn: Turn, run: RunMemory, shape: Shape) -> GroupRow | None:
    """The group of its job that does not let a run start, if one doesn't; more is asked for then. None: it is in."""
    book = turn.memory.groups
    if run.run.id in book.runs:
        return None
    limits = limits_of(run)
    group = _full(turn.memory, limits, turn.now)
    if group is not None:
        _ask(turn, group, turn.memory.asides.count_runs(group.limit) + 1, turn.memory.places(shape))
        return group
    book.enter(run)
    spend(turn.memory, limits)
    return None


def has_slot(turn: Turn, task: Task, shape: Shape) -> bool:
    """Whether its groups would let a task start that finds no room; if not, more is asked for.

    Of a rate only for P0, for which room is made: what is taken and not used is lost.
    """
    memory, run = turn.memory, turn.memory.runs[task.run_id]
    group = _full(memory, _limits(memory, run, shape), turn.now)
    if group is not None and (group.per_seconds is None or task.priority is Priority.P0):
        _ask(turn, group, 1, 1)
    return group is None


def held_by(memory: ShardMemory, task: Task, shape: Shape, now: datetime) -> GroupRow | None:
    """The group that keeps a queued task from starting, for those who ask why it waits.

    That nothing is left of what this pool was granted is not enough: more is asked for only once there is room.
    """
    book = memory.groups
    for limit in _limits(memory, memory.runs[task.run_id], shape):
        group = memory.rules.groups.get(limit)
        if group is None or left(memory, group, now) > 0:
            continue
        is_used = group.per_seconds is None and book.use.get(limit, 0) >= group.most
        is_waited_for = shape in book.parked.get(limit, ()) or memory.asides.waits_for(task) == limit
        if is_used or is_waited_for or book.not_before.get(limit, now) > now:
            return group
    return None


def spend(memory: ShardMemory, limits: Iterable[str]) -> None:
    """Something starts that counts by these limits: those that are rates have one less left."""
    for limit in limits:
        purse = memory.groups.purses.get(limit)
        if purse is not None:
            purse.left = max(0, purse.left - 1)


def set_aside(turn: Turn, group: GroupRow, task: Task, shape: Shape) -> None:
    """A task waits until its run is let in."""
    turn.set_aside(group.limit, say(group), task, shape)


def share_granted(turn: Turn, event: ShareGranted) -> None:
    """The shard has another part of a limit."""
    book = turn.memory.groups
    if event.stamp != book.stamps.get(event.limit, 0):
        return
    book.shares[event.limit] = event.granted
    if event.granted >= book.asked.get(event.limit, 0):
        book.asked.pop(event.limit, None)
    book.freed.add(event.limit)


def share_wanted(turn: Turn, event: ShareWanted) -> None:
    """Others need more of a limit: come down as far as use allows it now, and further as it falls."""
    book = turn.memory.groups
    share = book.shares.get(event.limit, 0)
    if event.target < share:
        book.targets[event.limit] = event.target
        _lower(turn, event.limit)
    else:  # its row may say more, from a grant that came too late to be taken
        book.targets.pop(event.limit, None)
        _put_down(turn, event.limit, share)


def allowance_granted(turn: Turn, event: AllowanceGranted) -> None:
    """So many more may start under a rate."""
    book, group = turn.memory.groups, turn.memory.rules.groups.get(event.limit)
    book.asked.pop(event.limit, None)
    if group is None or group.per_seconds is None:
        return
    if event.amount:
        until = turn.now + timedelta(seconds=KEPT_PART * group.per_seconds)
        book.purses[event.limit] = Purse(left=_purse(turn.memory, event.limit, turn.now) + event.amount, until=until)
        book.freed.add(event.limit)
    more_at = event.more_at
    if not event.amount and (more_at is None or more_at <= turn.now):  # the answer may have been long on its way
        more_at = turn.now + timedelta(seconds=_ASKS_AGAIN_SECONDS)
    if more_at is not None and more_at > turn.now:
        _wait(turn.memory, event.limit, more_at)


def limit_due(turn: Turn, timer: TimerDue) -> None:
    """More of a limit can be asked for."""
    due = turn.memory.groups.not_before.get(timer.subject)
    if due is not None and due <= turn.now:
        del turn.memory.groups.not_before[timer.subject]
        turn.memory.groups.freed.add(timer.subject)


def settle(turn: Turn) -> None:
    """Let those try again who wait for limits of which something may be free, and come down where that was wanted."""
    memory = turn.memory
    freed, memory.groups.freed = memory.groups.freed, set()
    for limit in sorted(freed):
        if limit in memory.groups.targets:
            _lower(turn, limit)
        memory.queues.unpark(memory.groups.parked.pop(limit, ()))
        _call_back(turn, limit)


def _call_back(turn: Turn, limit: str) -> None:
    """Let as many runs come back as can be let in, or ask for more.

    Of a rate one run more: it asks as soon as there is room for it, since what is taken and not used is lost.
    """
    memory, group = turn.memory, turn.memory.rules.groups.get(limit)
    runs = memory.asides.count_runs(limit)
    if not runs:
        return
    many = runs if group is None else left(memory, group, turn.now)
    if group is not None and group.per_seconds is not None:
        memory.asides.call_back(limit, many + 1)
    elif many > 0:
        memory.asides.call_back(limit, many)
    elif group is not None:
        _ask(turn, group, runs, 0)


def rule(memory: ShardMemory, groups: Mapping[str, GroupRow]) -> None:
    """Groups are others than `groups` were: what was known of those that changed is asked for anew."""
    book, now = memory.groups, memory.rules.groups
    for limit in {*groups, *now, *book.parked}:
        was, row = groups.get(limit), now.get(limit)
        if was == row:
            continue
        if row is None or (was is not None and row.version <= was.version):
            book.shares.pop(limit, None)
            book.purses.pop(limit, None)
            book.targets.pop(limit, None)
        book.asked.pop(limit, None)
        book.not_before.pop(limit, None)
        book.freed.add(limit)


def say(group: GroupRow) -> str:
    """What work waits for that a group does not let start, in words."""
    if group.per_seconds is None:
        return f"group {group.name} lets {group.most} run at a time"
    return f"group {group.name} lets {group.most} start every {group.per_seconds:g} s"


def _limits(memory: ShardMemory, run: RunMemory, shape: Shape) -> tuple[str, ...]:
    """The limits that a task of a shape is counted by if it starts; those of its run only if that is not in."""
    if not run.job.spec.groups or run.run.id in memory.groups.runs:
        return shape.groups
    return (*shape.groups, *limits_of(run))


def _full(memory: ShardMemory, limits: Iterable[str], now: datetime) -> GroupRow | None:
    """The first of these limits of which nothing is left."""
    for limit in limits:
        group = memory.rules.groups.get(limit)
        if group is not None and left(memory, group, now) <= 0:
            return group
    return None


def left(memory: ShardMemory, group: GroupRow, now: datetime) -> int:
    """How many more may start by a limit, as far as this shard was granted it."""
    if group.per_seconds is not None:
        return _purse(memory, group.limit, now)
    book = memory.groups
    return min(book.shares.get(group.limit, 0), group.most) - book.use.get(group.limit, 0)


def _purse(memory: ShardMemory, limit: str, now: datetime) -> int:
    purse = memory.groups.purses.get(limit)
    return purse.left if purse is not None and purse.until > now else 0


def _ask(turn: Turn, group: GroupRow, waiting: int, places: int) -> None:
    """Ask the store for what is waited for, unless it was asked for, or there is nothing to be had yet.

    Of a rate no more than there are places for.
    """
    book, limit = turn.memory.groups, group.limit
    if book.not_before.get(limit, turn.now) > turn.now:
        return
    if group.per_seconds is not None:
        if limit not in book.asked:
            book.asked[limit] = min(group.most, waiting, places)
            turn.batch.effects.append(TakeAllowance(limit, book.asked[limit]))
        return
    wanted = min(group.most, book.use.get(limit, 0) + waiting)
    if wanted > max(book.shares.get(limit, 0), book.asked.get(limit, 0)):
        _want(turn, limit, wanted)


def _want(turn: Turn, limit: str, wanted: int) -> None:
    book = turn.memory.groups
    book.asked[limit] = wanted
    turn.batch.effects.append(TakeShare(limit, wanted, book.stamps.get(limit, 0)))


def _lower(turn: Turn, limit: str) -> None:
    """Give up what is not used of a share that is to come down, in this batch; nothing is asked for until others had
    time to take it."""
    book = turn.memory.groups
    share, used = book.shares.get(limit, 0), book.use.get(limit, 0)
    lower = max(book.targets[limit], used)
    if lower <= book.targets[limit]:
        del book.targets[limit]
    if lower >= share:
        return
    if limit in book.asked:
        book.asked[limit] = lower
    _put_down(turn, limit, lower)
    book.asked.pop(limit, None)
    _wait(turn.memory, limit, turn.now + timedelta(seconds=_GIVES_WAY_SECONDS))


def _put_down(turn: Turn, limit: str, granted: int) -> None:
    """Say in the rows that the shard's part is no larger than this. A grant that is on its way will not be taken, and
    what is wanted is wanted anew."""
    memory = turn.memory
    book = memory.groups
    book.shares[limit] = granted
    book.stamps[limit] = book.stamps.get(limit, 0) + 1
    turn.save_share(lowered(limit, memory.shard, granted))
    if limit in book.asked:
        _want(turn, limit, book.asked[limit])


def _wait(memory: ShardMemory, limit: str, until: datetime) -> None:
    memory.groups.not_before[limit] = until
    memory.set_instant(until, TimerDue(kind=TimerKind.LIMIT, subject=limit))
