"""What waits for a shard's next turn: two lanes, bounded for callers, beats merged."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import Overloaded
from mainspring.protocol.wire import Progress
from mainspring.shard.events import AttemptStarted, CancelRun, Event, WorkerBeat
from tests.host.virtual import VirtualClock


def ordinary(n: int) -> Event:
    """Something a worker said."""
    return AttemptStarted(worker="w1", session="s", attempt=f"att_{n}")


def act(n: int) -> CancelRun:
    """Something a person wants."""
    return CancelRun(run_id=f"run_{n}", by="ann")


async def test_the_urgent_lane_is_emptied_first() -> None:
    """Nothing important waits behind a backlog."""
    inbox = Inbox(100)
    for n in range(5):
        inbox.put(ordinary(n))
    inbox.put(act(1), urgent=True)
    inbox.offer(act(2))

    assert await inbox.next(wait=0, max_events=4) == [act(1), act(2), ordinary(0), ordinary(1)]
    assert await inbox.next(wait=0, max_events=4) == [ordinary(2), ordinary(3), ordinary(4)]


async def test_what_is_in_a_lane_keeps_its_order() -> None:
    """A worker's reports are taken as they came."""
    inbox = Inbox(100)
    for n in range(50):
        inbox.put(ordinary(n))

    taken = [*await inbox.next(wait=0, max_events=20), *await inbox.next(wait=0, max_events=100)]

    assert taken == [ordinary(n) for n in range(50)]


async def test_beats_of_one_worker_that_wait_together_are_one() -> None:
    """They can't pile up."""
    inbox = Inbox(100)
    for n in range(10):
        inbox.put(WorkerBeat(worker=f"w{n % 2}", session="s"))

    assert len(inbox) == 2
    assert len(await inbox.next(wait=0, max_events=1)) == 2


async def test_what_beats_tell_is_not_lost_when_they_become_one() -> None:
    """LIV-2: a beat tells only of what has moved since the one before; that of an older session tells nothing."""
    inbox = Inbox(100)
    for session, progress in (
        ("old", (Progress("c", 9.0),)),
        ("s", (Progress("a", 1.0), Progress("b", 1.0))),
        ("s", (Progress("a", 2.0),)),
        ("s", ()),
    ):
        inbox.put(WorkerBeat(worker="w1", session=session, progress=progress))

    (beat,) = await inbox.next(wait=0, max_events=1)

    assert beat == WorkerBeat(worker="w1", session="s", progress=(Progress("a", 2.0), Progress("b", 1.0)))


async def test_a_caller_is_pushed_back_when_too_much_waits() -> None:
    """HA-3: and nothing of the request was taken."""
    inbox = Inbox(3)
    for n in range(3):
        inbox.put(ordinary(n))
    assert inbox.is_full()

    with pytest.raises(Overloaded):
        inbox.offer(act(1))
    assert len(inbox) == 3


async def test_what_workers_say_is_taken_although_it_is_full() -> None:
    """Beats, returns and results that had credit always flow."""
    inbox = Inbox(1)
    inbox.put(ordinary(0))
    inbox.put(ordinary(1))
    inbox.put(WorkerBeat(worker="w1", session="s"))

    assert len(inbox) == 3


async def test_a_caller_is_let_in_again_once_there_is_room() -> None:
    """Pushing back ends by itself."""
    inbox = Inbox(1)
    inbox.put(ordinary(0))
    await inbox.next(wait=0, max_events=10)

    inbox.offer(act(1))

    assert await inbox.next(wait=0, max_events=10) == [act(1)]


async def test_a_wait_ends_when_something_comes() -> None:
    """And not later."""
    inbox, clock = Inbox(10), VirtualClock()
    asyncio.get_running_loop().call_later(0.3, inbox.put, ordinary(0))

    assert await inbox.next(wait=5, max_events=10) == [ordinary(0)]
    assert clock.monotonic() == pytest.approx(0.3, abs=0.001)


async def test_a_wait_ends_with_nothing_when_its_time_is_up() -> None:
    """The lease has to be renewed."""
    inbox, clock = Inbox(10), VirtualClock()

    assert await inbox.next(wait=1, max_events=10) == []
    assert clock.monotonic() == pytest.approx(1.0, abs=0.001)


async def test_a_wait_can_be_ended_from_outside() -> None:
    """`wake` is for a stop."""
    inbox, clock = Inbox(10), VirtualClock()
    asyncio.get_running_loop().call_later(0.2, inbox.wake)

    assert await inbox.next(wait=5, max_events=10) == []
    assert clock.monotonic() == pytest.approx(0.2, abs=0.001)
