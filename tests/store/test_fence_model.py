"""The fence as a model, small enough to explore every order of steps, with pauses anywhere.

Two schedulers, two rows, a few elections and writes. A lease can end at any moment, because a scheduler can be paused
at any moment. Each reads a row, decides, and writes; the protocol is the condition under which a write is accepted.

Three things must never happen:

    stale   a write of a term that has ended
    lost    a write that was decided on an outdated row
    hole    a write that follows another one, which the store has forgotten

The store may also be restored to an earlier state (a failover that lost its last commits, a backup), which is why a
term needs a nonce and batches need numbers. `test_fence.py` tests the SQL; this is the concept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

ROWS = 2


class Row(NamedTuple):
    """A row: the latest write, and its epoch."""

    write: int = 0
    token: int = 0


class Disk(NamedTuple):
    """The stored state, which a restore resets."""

    epoch: int = 0
    nonce: int = 0
    batch: int = 0
    rows: tuple[Row, ...] = (Row(),) * ROWS


class Scheduler(NamedTuple):
    """The state of one scheduler."""

    epoch: int = 0
    nonce: int = 0
    batch: int = 0
    seen: tuple[int, Row] | None = None
    """The row that it has read, and its content then."""
    checked: bool = False


class World(NamedTuple):
    """The state of the model."""

    disk: Disk = Disk()
    schedulers: tuple[Scheduler, ...] = (Scheduler(), Scheduler())
    elections: int = 0
    writes: int = 0
    backup: Disk | None = None
    restored: bool = False


Protocol = Callable[[Scheduler, Disk], bool]


def _row(scheduler: Scheduler, disk: Disk) -> Row:
    assert scheduler.seen is not None
    return disk.rows[scheduler.seen[0]]


def no_check(_scheduler: Scheduler, _disk: Disk) -> bool:
    """Write unconditionally."""
    return True


def check_then_write(scheduler: Scheduler, _disk: Disk) -> bool:
    """The lease was checked in an earlier step."""
    return scheduler.checked


def token_of_the_row(scheduler: Scheduler, disk: Disk) -> bool:
    """The row refuses tokens older than its newest one."""
    return _row(scheduler, disk).token <= scheduler.epoch


def token_and_value_of_the_row(scheduler: Scheduler, disk: Disk) -> bool:
    """The same, and the row must be unchanged."""
    return (
        token_of_the_row(scheduler, disk) and scheduler.seen is not None and scheduler.seen[1] == _row(scheduler, disk)
    )


def epoch_in_the_transaction(scheduler: Scheduler, disk: Disk) -> bool:
    """The lease is checked in the transaction that writes."""
    return disk.epoch == scheduler.epoch


def epoch_and_nonce_in_the_transaction(scheduler: Scheduler, disk: Disk) -> bool:
    """The same, with a unique nonce."""
    return (disk.epoch, disk.nonce) == (scheduler.epoch, scheduler.nonce)


def epoch_nonce_and_number_in_the_transaction(scheduler: Scheduler, disk: Disk) -> bool:
    """The same, and the number of the batch must follow."""
    return epoch_and_nonce_in_the_transaction(scheduler, disk) and disk.batch == scheduler.batch


def ours(scheduler: Scheduler, disk: Disk) -> bool:
    """The same, and the row must be unchanged: compare-and-swap."""
    assert scheduler.seen is not None
    return epoch_nonce_and_number_in_the_transaction(scheduler, disk) and scheduler.seen[1] == _row(scheduler, disk)


class Bounds(NamedTuple):
    """Limits of the exploration."""

    elections: int
    writes: int
    store_goes_back: bool


FORGETS_NOTHING = Bounds(elections=3, writes=3, store_goes_back=False)
GOES_BACK = Bounds(elections=2, writes=2, store_goes_back=True)


def what_goes_wrong(protocol: Protocol, bounds: Bounds) -> dict[str, list[str]]:
    """Explore all states, and return the shortest path to each violation."""
    found: dict[str, list[str]] = {}
    start = World()
    came_from: dict[World, tuple[World, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        world = queue.popleft()
        for step, following, faults in steps(world, protocol, bounds):
            for fault in faults:
                found.setdefault(fault, [*_way(world, came_from), step])
            if following not in came_from:
                came_from[following] = (world, step)
                queue.append(following)
    return found


def steps(world: World, protocol: Protocol, bounds: Bounds) -> Iterator[tuple[str, World, list[str]]]:
    """All next states, with their violations."""
    disk = world.disk
    for index, scheduler in enumerate(world.schedulers):
        name = f"s{index}"
        if world.elections < bounds.elections:
            new = disk._replace(epoch=disk.epoch + 1, nonce=world.elections + 1)
            leader = Scheduler(epoch=new.epoch, nonce=new.nonce, batch=disk.batch)
            yield f"{name} is elected", _with(world, index, leader, disk=new, elections=world.elections + 1), []
        if scheduler.epoch and scheduler.seen is None:
            for row in range(ROWS):
                yield (
                    f"{name} looks at row {row}",
                    _with(world, index, scheduler._replace(seen=(row, disk.rows[row]))),
                    [],
                )
        if scheduler.seen and not scheduler.checked and disk.epoch == scheduler.epoch:
            yield f"{name} checks its lease", _with(world, index, scheduler._replace(checked=True)), []
        if scheduler.seen and world.writes < bounds.writes:
            yield from _write(world, index, protocol)
    if bounds.store_goes_back and world.backup is None:
        yield "a backup is made", world._replace(backup=disk), []
    if world.backup is not None and not world.restored:
        yield "the store goes back", world._replace(disk=world.backup, restored=True), []


def _write(world: World, index: int, protocol: Protocol) -> Iterator[tuple[str, World, list[str]]]:
    disk, scheduler = world.disk, world.schedulers[index]
    assert scheduler.seen is not None
    at, seen = scheduler.seen
    if not protocol(scheduler, disk):
        yield f"s{index} is refused", _with(world, index, Scheduler()), []
        return
    # The nonce is what distinguishes terms, whether or not a protocol checks it.
    faults = ["stale"] if disk.nonce != scheduler.nonce else []
    faults += ["lost"] if disk.rows[at] != seen else []
    faults += ["hole"] if not faults and disk.batch < scheduler.batch else []
    rows = list(disk.rows)
    rows[at] = Row(write=world.writes + 1, token=scheduler.epoch)
    new = disk._replace(rows=tuple(rows), batch=disk.batch + 1)
    after = scheduler._replace(seen=None, checked=False, batch=scheduler.batch + 1)
    yield f"s{index} writes row {at}", _with(world, index, after, disk=new, writes=world.writes + 1), faults


def _with(world: World, index: int, scheduler: Scheduler, **changes: object) -> World:
    schedulers = list(world.schedulers)
    schedulers[index] = scheduler
    return world._replace(schedulers=tuple(schedulers), **changes)  # type: ignore[arg-type]


def _way(world: World, came_from: dict[World, tuple[World, str] | None]) -> list[str]:
    mode: list[str] = []
    while (origin := came_from[world]) is not None:
        world, step = origin
        mode.insert(0, step)
    return mode


@pytest.mark.parametrize(
    ("protocol", "faults"),
    [
        (no_check, {"stale", "lost"}),
        (check_then_write, {"stale", "lost"}),
        (token_of_the_row, {"stale", "lost"}),
        (token_and_value_of_the_row, {"stale"}),
        (epoch_in_the_transaction, set()),
        (epoch_and_nonce_in_the_transaction, set()),
        (ours, set()),
    ],
)
def test_what_can_go_wrong_while_the_store_forgets_nothing(protocol: Protocol, faults: set[str]) -> None:
    assert set(what_goes_wrong(protocol, FORGETS_NOTHING)) == faults


def test_the_shortest_way_around_a_check_before_the_write() -> None:
    mode = what_goes_wrong(check_then_write, FORGETS_NOTHING)["stale"]

    assert mode == ["s0 is elected", "s0 looks at row 0", "s0 checks its lease", "s1 is elected", "s0 writes row 0"]


@pytest.mark.parametrize(
    ("protocol", "faults"),
    [
        (epoch_in_the_transaction, {"stale", "lost", "hole"}),  # the same epoch is assigned twice
        (epoch_and_nonce_in_the_transaction, {"lost", "hole"}),  # a leader knows a write that the store has lost
        (epoch_nonce_and_number_in_the_transaction, {"lost"}),  # a replaced leader read at a later time
        (ours, set()),
    ],
)
def test_what_can_go_wrong_when_the_store_goes_back_to_an_earlier_moment(protocol: Protocol, faults: set[str]) -> None:
    assert set(what_goes_wrong(protocol, GOES_BACK)) == faults
