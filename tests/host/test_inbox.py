"""The inbox of a shard: two lanes, bounded for callers, heartbeats merged."""

from __future__ import annotations

import asyncio

import pytest

from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import Overloaded
from mainspring.protocol.wire import Progress
from mainspring.shard.events import AttemptStarted, CancelRun, Event, WorkerHeartbeat
from mainspring.simulation.inprocess.virtual_time import VirtualClock


def ordinary(n: int) -> Event:
    """A message of a worker."""
    return AttemptStarted(worker="w1", session="s", attempt=f"att_{n}")


def action(n: int) -> CancelRun:
    """An action of a person."""
    return CancelRun(run_id=f"run_{n}", by="ann")


async def test_the_urgent_lane_is_emptied_first() -> None:
    """Nothing important waits behind a backlog."""
    inbox = Inbox(100)
    for n in range(5):
        inbox.put(ordinary(n))
    inbox.put(action(1), urgent=True)
    inbox.offer(action(2))

    assert await inbox.next(wait=0, max_events=4) == [action(1), action(2), ordinary(0), ordinary(1)]
    assert await inbox.next(wait=0, max_events=4) == [ordinary(2), ordinary(3), ordinary(4)]


async def test_a_lane_keeps_its_order() -> None:
    """Reports of a worker are taken in order."""
    inbox = Inbox(100)
    for n in range(50):
        inbox.put(ordinary(n))

    taken = [*await inbox.next(wait=0, max_events=20), *await inbox.next(wait=0, max_events=100)]

    assert taken == [ordinary(n) for n in range(50)]


async def test_queued_heartbeats_of_one_worker_are_merged() -> None:
    """They don't pile up."""
    inbox = Inbox(100)
    for n in range(10):
        inbox.put(WorkerHeartbeat(worker=f"w{n % 2}", session="s"))

    assert len(inbox) == 2
    assert len(await inbox.next(wait=0, max_events=1)) == 2


async def test_merged_heartbeats_keep_the_progress() -> None:
    """LIV-2: a heartbeat has only the progress since the previous one; those of an older session don't count."""
    inbox = Inbox(100)
    for session, progress in (
        ("old", (Progress("c", 9.0),)),
        ("s", (Progress("a", 1.0), Progress("b", 1.0))),
        ("s", (Progress("a", 2.0),)),
        ("s", ()),
    ):
        inbox.put(WorkerHeartbeat(worker="w1", session=session, progress=progress))

    (beat,) = await inbox.next(wait=0, max_events=1)

    assert beat == WorkerHeartbeat(worker="w1", session="s", progress=(Progress("a", 2.0), Progress("b", 1.0)))


async def test_a_caller_is_rejected_when_the_inbox_is_full() -> None:
    """HA-3: and nothing of the request is queued."""
    inbox = Inbox(3)
    for n in range(3):
        inbox.put(ordinary(n))
    assert inbox.is_full()

    with pytest.raises(Overloaded):
        inbox.offer(action(1))
    assert len(inbox) == 3


async def test_messages_of_workers_are_taken_when_it_is_full() -> None:
    """Heartbeats, returned attempts and results with credit are always taken."""
    inbox = Inbox(1)
    inbox.put(ordinary(0))
    inbox.put(ordinary(1))
    inbox.put(WorkerHeartbeat(worker="w1", session="s"))

    assert len(inbox) == 3


async def test_a_caller_is_admitted_again_when_there_is_capacity() -> None:
    """The rejection ends with the backlog."""
    inbox = Inbox(1)
    inbox.put(ordinary(0))
    await inbox.next(wait=0, max_events=10)

    inbox.offer(action(1))

    assert await inbox.next(wait=0, max_events=10) == [action(1)]


async def test_a_wait_ends_with_the_next_event() -> None:
    """And not later."""
    inbox, clock = Inbox(10), VirtualClock()
    asyncio.get_running_loop().call_later(0.3, inbox.put, ordinary(0))

    assert await inbox.next(wait=5, max_events=10) == [ordinary(0)]
    assert clock.monotonic() == pytest.approx(0.3, abs=0.001)


async def test_a_wait_without_events_times_out() -> None:
    """The lease has to be renewed."""
    inbox, clock = Inbox(10), VirtualClock()

    assert await inbox.next(wait=1, max_events=10) == []
    assert clock.monotonic() == pytest.approx(1.0, abs=0.001)


async def test_wake_ends_a_wait() -> None:
    """For a stop."""
    inbox, clock = Inbox(10), VirtualClock()
    asyncio.get_running_loop().call_later(0.2, inbox.wake)

    assert await inbox.next(wait=5, max_events=10) == []
    assert clock.monotonic() == pytest.approx(0.2, abs=0.001)
