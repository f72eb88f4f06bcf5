"""The second watch over workers: heartbeats are recorded, and silent workers are reported (LIV-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime

import pytest_asyncio

from mainspring.core.model.settings import DEFAULTS
from mainspring.core.model.task import TaskState
from mainspring.core.model.worker import WorkerStatus
from mainspring.host.maintenance.sweeper import Sweeper
from mainspring.host.maintenance.worker_watch import HEARTBEAT_WRITE_SECONDS, silent_after
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.wire import Assign, Checkpoint, Goodbye
from mainspring.shard.effects import ActionStatus
from mainspring.shard.events import CordonWorker, UncordonWorker
from tests.host.host_harness import HostHarness, ScriptedWorker
from tests.shard.jobs import job, task

LONG = silent_after(DEFAULTS).total_seconds() + 20.0


@pytest_asyncio.fixture
async def sweeping(harness: HostHarness) -> AsyncIterator[None]:
    """A running sweeper."""
    sweeper = Sweeper(
        harness.store, harness.clock, lambda: [one for host in harness.hosts.values() for one in host.leaders.values()]
    )
    running = asyncio.create_task(sweeper.run())
    yield
    running.cancel()


def heard_at(harness: HostHarness) -> int:
    """Return the last heartbeat of w1, from its row."""
    ((at,),) = harness.rows("SELECT last_heartbeat_at FROM workers WHERE id = 'w1'")
    assert isinstance(at, int)
    return at


def status(harness: HostHarness) -> object:
    """Return the status of w1, from its row."""
    ((found,),) = harness.rows("SELECT status FROM workers WHERE id = 'w1'")
    return found


async def test_heartbeats_are_recorded_every_few_seconds(harness: HostHarness) -> None:
    """Outside of batches: the shard does not write its row."""
    scripted_worker = await ScriptedWorker("w1", await harness.lead(), "s1").welcome()
    first = heard_at(harness)

    beating = asyncio.create_task(scripted_worker.beat())
    await harness.wait(3 * HEARTBEAT_WRITE_SECONDS + 1.0)
    beating.cancel()

    assert heard_at(harness) >= first + 2 * HEARTBEAT_WRITE_SECONDS * 1_000_000
    assert all(not call.batch.workers for call in harness.store.calls[-10:])


async def test_a_failed_write_of_heartbeats_loses_no_worker(harness: HostHarness) -> None:
    """No worker is declared lost because of it."""
    scripted_worker = await ScriptedWorker("w1", await harness.lead(), "s1").welcome()
    first = heard_at(harness)
    real, failed = harness.store.record_heartbeats, 0

    async def sometimes(shard: str, workers: Sequence[str]) -> datetime:
        nonlocal failed
        failed += 1
        if failed < 3:
            raise Unavailable("the store is gone")
        return await real(shard, workers)

    harness.store.record_heartbeats = sometimes  # type: ignore[method-assign]
    beating = asyncio.create_task(scripted_worker.beat())
    await harness.wait(4 * HEARTBEAT_WRITE_SECONDS)
    beating.cancel()

    assert failed >= 3
    assert heard_at(harness) > first


async def test_a_silent_worker_without_a_timer_is_found_by_its_row(harness: HostHarness, sweeping: None) -> None:
    """Each watch alone is enough."""
    leader = await harness.lead()
    scripted_worker = await ScriptedWorker("w1", leader, "s1").welcome()
    (run,) = await harness.submit(job(task("a")))
    await scripted_worker.next_task()
    await harness.wait(1.0)
    leader.shard.memory.timers.after.pop_due(float("inf"), 1_000)

    await harness.wait(LONG)

    assert status(harness) == WorkerStatus.LOST
    assert [one.state for one in await harness.tasks(run)] == [TaskState.QUEUED]


async def test_a_worker_with_heartbeats_is_never_reported(harness: HostHarness, sweeping: None) -> None:
    scripted_worker = await ScriptedWorker("w1", await harness.lead(), "s1").welcome()
    beating = asyncio.create_task(scripted_worker.beat())

    await harness.wait(2 * LONG)
    beating.cancel()

    assert status(harness) == WorkerStatus.READY


async def test_a_worker_that_never_came_to_the_next_leader_is_marked_lost(harness: HostHarness, sweeping: None) -> None:
    """It held nothing, so the new leader did not expect it."""
    await ScriptedWorker("w1", await harness.lead("h1"), "s1").welcome()
    await harness.stop("h1")
    await harness.lead("h2")

    await harness.wait(LONG)

    assert status(harness) == WorkerStatus.LOST


async def test_a_worker_that_said_goodbye_stays_gone(harness: HostHarness, sweeping: None) -> None:
    scripted_worker = await ScriptedWorker("w1", await harness.lead(), "s1").welcome()

    scripted_worker.send(Goodbye())
    await harness.wait(LONG)

    assert status(harness) == WorkerStatus.GONE
    assert scripted_worker.link.closed


async def test_the_next_leader_knows_cordons_and_checkpoints(harness: HostHarness) -> None:
    """WRK-7, WRK-9: through the store."""
    first = await harness.lead("h1")
    scripted_worker = await ScriptedWorker("w1", first, "s1").welcome()
    await harness.submit(job(task("a")))
    one = await scripted_worker.next_task()
    scripted_worker.send(Checkpoint(one.attempt, '{"n": 1}'))
    answer = await first.ask(CordonWorker(worker="w1", by="ann", why="new kernel"))
    assert answer.reply is ActionStatus.DONE
    await harness.stop("h1")

    second = await harness.lead("h2")
    again = await ScriptedWorker("w1", second, "s2").welcome()
    await harness.wait(2.0)
    assert not [message for message in again.received if isinstance(message, Assign)]
    await second.ask(UncordonWorker(worker="w1", by="ann"))
    two = (await again.expect(Assign)).group[0]

    assert (two.task, two.checkpoint) == (one.task, '{"n": 1}')
    assert two.attempt != one.attempt
