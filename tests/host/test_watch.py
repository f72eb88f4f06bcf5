"""The second watch over workers: heartbeats are recorded, and silent workers are reported (LIV-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import pytest_asyncio

from mainspring.core.model.settings import USUAL
from mainspring.core.model.task import TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.host.maintenance.worker_watch import NOTE_SECONDS, unheard_after
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import Assign, Checkpoint, Goodbye
from mainspring.shard.effects import Reply
from mainspring.shard.events import CordonWorker, UncordonWorker
from tests.host.hall import Hall, Hand
from tests.shard.jobs import job, task

LONG = unheard_after(USUAL).total_seconds() + 20.0


@pytest_asyncio.fixture
async def sweeping(hall: Hall) -> AsyncIterator[None]:
    """A running sweeper."""
    sweeper = Sweeper(
        hall.store, hall.clock, lambda: [one for host in hall.hosts.values() for one in host.leaders.values()]
    )
    running = asyncio.create_task(sweeper.run())
    yield
    running.cancel()


def heard_at(hall: Hall) -> int:
    """Return the last heartbeat of w1, from its row."""
    ((at,),) = hall.rows("SELECT last_heard_at FROM workers WHERE id = 'w1'")
    assert isinstance(at, int)
    return at


def status(hall: Hall) -> object:
    """Return the status of w1, from its row."""
    ((found,),) = hall.rows("SELECT status FROM workers WHERE id = 'w1'")
    return found


async def test_heartbeats_are_recorded_every_few_seconds(hall: Hall) -> None:
    """Outside of batches: the shard does not write its row."""
    hand = await Hand("w1", await hall.lead(), "s1").welcome()
    first = heard_at(hall)

    beating = asyncio.create_task(hand.beat())
    await hall.wait(3 * NOTE_SECONDS + 1.0)
    beating.cancel()

    assert heard_at(hall) >= first + 2 * NOTE_SECONDS * 1_000_000
    assert all(not call.batch.workers for call in hall.store.calls[-10:])


async def test_a_failed_write_of_heartbeats_loses_no_worker(hall: Hall) -> None:
    """No worker is declared lost because of it."""
    hand = await Hand("w1", await hall.lead(), "s1").welcome()
    first = heard_at(hall)
    real, failed = hall.store.heard, 0

    async def sometimes(shard: str, workers: Sequence[str]) -> datetime:
        nonlocal failed
        failed += 1
        if failed < 3:
            raise Unavailable("the store is gone")
        return await real(shard, workers)

    hall.store.heard = sometimes  # type: ignore[method-assign]
    beating = asyncio.create_task(hand.beat())
    await hall.wait(4 * NOTE_SECONDS)
    beating.cancel()

    assert failed >= 3
    assert heard_at(hall) > first


async def test_a_silent_worker_without_a_timer_is_found_by_its_row(hall: Hall, sweeping: None) -> None:
    """Each watch alone is enough."""
    leader = await hall.lead()
    hand = await Hand("w1", leader, "s1").welcome()
    (run,) = await hall.submit(job(task("a")))
    await hand.next_task()
    await hall.wait(1.0)
    leader.shard.memory.lengths.pop_due(float("inf"), 1_000)

    await hall.wait(LONG)

    assert status(hall) == WorkerStatus.LOST
    assert [one.state for one in await hall.tasks(run)] == [TaskState.QUEUED]


async def test_a_worker_with_heartbeats_is_never_reported(hall: Hall, sweeping: None) -> None:
    hand = await Hand("w1", await hall.lead(), "s1").welcome()
    beating = asyncio.create_task(hand.beat())

    await hall.wait(2 * LONG)
    beating.cancel()

    assert status(hall) == WorkerStatus.READY


async def test_a_worker_that_never_came_to_the_next_leader_is_marked_lost(hall: Hall, sweeping: None) -> None:
    """It held nothing, so the new leader did not expect it."""
    await Hand("w1", await hall.lead("h1"), "s1").welcome()
    await hall.stop("h1")
    await hall.lead("h2")

    await hall.wait(LONG)

    assert status(hall) == WorkerStatus.LOST


async def test_a_worker_that_said_goodbye_stays_gone(hall: Hall, sweeping: None) -> None:
    hand = await Hand("w1", await hall.lead(), "s1").welcome()

    hand.say(Goodbye())
    await hall.wait(LONG)

    assert status(hall) == WorkerStatus.GONE
    assert hand.link.closed


async def test_the_next_leader_knows_cordons_and_checkpoints(hall: Hall) -> None:
    """WRK-7, WRK-9: through the store."""
    first = await hall.lead("h1")
    hand = await Hand("w1", first, "s1").welcome()
    await hall.submit(job(task("a")))
    one = await hand.next_task()
    hand.say(Checkpoint(one.attempt, '{"n": 1}'))
    answer = await first.ask(CordonWorker(worker="w1", by="ann", why="new kernel"))
    assert answer.reply is Reply.DONE
    await hall.stop("h1")

    second = await hall.lead("h2")
    again = await Hand("w1", second, "s2").welcome()
    await hall.wait(2.0)
    assert not [message for message in again.received if isinstance(message, Assign)]
    await second.ask(UncordonWorker(worker="w1", by="ann"))
    two = (await again.hear(Assign)).group[0]

    assert (two.task, two.checkpoint) == (one.task, '{"n": 1}')
    assert two.attempt != one.attempt
