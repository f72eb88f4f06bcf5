"""The intake reader alone: which tenants it lists and which runs it hands over, for a given fill of the memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from mainspring.core.admission.intake import Waiting
from mainspring.core.model.job import Job
from mainspring.core.model.task import Priority
from mainspring.host import intake
from mainspring.host.inbox import Inbox
from mainspring.host.job_cache import JobCache
from mainspring.shard.events import RunArrived
from mainspring.shard.state.memory import ShardMemory
from tests.host.host_harness import SHARD, HostHarness
from tests.shard.jobs import job, task, wide

P0, P1, P2 = Priority


Look = tuple[int, int]
"""The number of tenants requested, and of events queued at that time."""


class Reader:
    """An intake reader with a fake memory, and an inbox that is not drained."""

    def __init__(self, harness: HostHarness) -> None:
        self.memory = ShardMemory(SHARD)
        self.inbox = Inbox(100_000)
        self.hold: Priority | None = None
        self.intake = intake.IntakeReader(
            harness.store, JobCache(harness.store), self.inbox, SHARD, harness.clock.wall,
            memory=lambda: self.memory, hold=lambda: self.hold,
        )  # fmt: skip
        self.running = asyncio.create_task(self.intake.run())

    async def events(self) -> list[RunArrived]:
        """Return the events handed over."""
        events = await self.inbox.next(wait=0, max_events=100_000)
        return [event for event in events if isinstance(event, RunArrived)]


@pytest_asyncio.fixture
async def reader(harness: HostHarness) -> AsyncIterator[Reader]:
    """A reader of the shard's intake."""
    await harness.store.ensure_shard(SHARD)
    reader = Reader(harness)
    yield reader
    reader.running.cancel()


@pytest.fixture
def looks(harness: HostHarness, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> list[Look]:
    """The recorded queries for waiting tenants."""
    found: list[Look] = []
    waiting = harness.store.waiting

    async def look(shard: str, limit: int, after: str = "") -> list[Waiting]:
        found.append((limit, len(reader.inbox)))
        return await waiting(shard, limit, after)

    monkeypatch.setattr(harness.store, "waiting", look)
    return found


async def test_a_flood_waits_in_the_store_while_the_memory_is_full(harness: HostHarness, reader: Reader) -> None:
    """HA-3: at the high-water mark nothing more is read; ended runs free capacity."""
    reader.memory.runs.unstarted.count(P2, "acme", intake.HIGH_WATER_TASKS)
    await harness.submit(job(task("a")), runs=100, priority=P2)
    await harness.wait(5.0)
    assert len(reader.inbox) == 0

    reader.memory.runs.unstarted.count(P2, "acme", -7)
    await harness.wait(5.0)
    assert len(reader.inbox) == 7


async def test_a_tenant_beyond_one_page_gets_its_turn(harness: HostHarness, reader: Reader) -> None:
    """A thousand tenants before it, by name, have an endless intake."""
    for number in range(intake.MAX_TENANTS):
        await harness.submit(job(task("a")), tenant=f"a{number:04}", priority=P2)
    await harness.submit(job(task("a")), tenant="zebra", priority=P2)
    seen: set[str] = set()

    async with asyncio.timeout(30.0):
        while "zebra" not in seen:
            runs = [event.run for event in await reader.events()]
            seen.update(run.tenant for run in runs)
            reader.intake.mark_committed(runs)
            await harness.wait(0.1)
    assert len(seen) > intake.MAX_TENANTS // 2


async def test_only_the_first_page_is_read_while_only_p0_may_be_read(
    harness: HostHarness, reader: Reader, looks: list[Look]
) -> None:
    """With many runs in transit, a long list of tenants would cost each commit."""
    for number in range(2 * intake.FIRST_PAGE_TENANTS):
        await harness.submit(job(task("a")), tenant=f"a{number:04}", runs=intake.CHUNK_TASKS // 10, priority=P2)
    await harness.until(lambda: len(reader.inbox) >= intake.MAX_IN_TRANSIT)
    await harness.wait(0.5)
    looks.clear()

    (urgent,) = await harness.submit(job(task("a")), priority=P0)
    reader.intake.wake()
    await harness.wait(5.0)

    assert {max_events for max_events, _ in looks} == {intake.FIRST_PAGE_TENANTS}
    assert urgent in {event.run.id for event in await reader.events()}


async def test_a_p0_is_handed_over_before_the_long_list_is_read(
    harness: HostHarness, reader: Reader, looks: list[Look]
) -> None:
    """It does not wait for the list of all others."""
    reader.hold = P0
    for number in range(2 * intake.FIRST_PAGE_TENANTS):
        await harness.submit(job(task("a")), tenant=f"a{number:04}", priority=P2)
    await harness.submit(job(task("a")), tenant="zebra", priority=P0)
    looks.clear()
    reader.hold = None
    reader.intake.wake()
    await harness.wait(0.5)

    assert looks[:2] == [(intake.FIRST_PAGE_TENANTS, 0), (intake.MAX_TENANTS, 1)]
    assert len(reader.inbox) == 2 * intake.FIRST_PAGE_TENANTS + 1


async def test_the_next_round_over_many_tenants_starts_at_once(
    harness: HostHarness, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There are exactly as many tenants as fit one read, and each read has one run of each."""
    monkeypatch.setattr(intake, "MAX_TENANTS", 20)
    monkeypatch.setattr(intake, "CHUNK_TASKS", 20)
    reader.hold = P0
    for number in range(20):
        await harness.submit(job(task("a")), tenant=f"a{number:04}", runs=5, priority=P2)
    reader.hold = None
    reader.intake.wake()

    assert await harness.until(lambda: len(reader.inbox) == 100) < 0.5


async def test_a_p0_is_read_however_full_the_memory_is(harness: HostHarness, reader: Reader) -> None:
    """Whatever waits at P0 is wanted."""
    reader.memory.runs.unstarted.count(P0, "acme", 10 * intake.HIGH_WATER_TASKS)
    await harness.submit(job(task("a")), runs=100, priority=P0)
    await harness.wait(5.0)

    assert len(reader.inbox) == 100


async def test_a_late_tenant_gets_its_share(harness: HostHarness, reader: Reader) -> None:
    """The flood of one tenant does not crowd out others."""
    reader.memory.runs.unstarted.count(P2, "flood", intake.HIGH_WATER_TASKS)
    await harness.submit(job(task("a")), runs=100, tenant="flood", priority=P2)
    await harness.submit(job(task("a")), runs=100, tenant="late", priority=P2)
    await harness.wait(5.0)

    assert {event.run.tenant for event in await reader.events()} == {"late"}


async def test_a_run_larger_than_the_capacity_is_taken_whole(harness: HostHarness, reader: Reader) -> None:
    """A run is adopted as a whole, and the next one waits."""
    reader.memory.runs.unstarted.count(P2, "acme", intake.HIGH_WATER_TASKS - 10)
    await harness.submit(wide(50), runs=3, priority=P2)
    await harness.wait(5.0)

    assert len(reader.inbox) == 1


@pytest.mark.parametrize(("hold", "read"), [(P2, {P0, P1}), (P1, {P0}), (None, {P0, P1, P2})])
async def test_held_priorities_are_not_read(
    harness: HostHarness, reader: Reader, hold: Priority | None, read: set[Priority]
) -> None:
    """HA-4: a slow store is not asked for work that may not be placed."""
    reader.hold = hold
    for priority in Priority:
        await harness.submit(job(task("a")), priority=priority)
    await harness.wait(5.0)

    assert {event.run.priority for event in await reader.events()} == read


async def test_a_run_that_changes_during_the_read_is_not_handed_over_in_its_old_state(
    harness: HostHarness, reader: Reader
) -> None:
    """The commit of an action fell between read and handover."""
    (run,) = await harness.submit(job(task("a")))
    row = await harness.run(run)
    jobs = reader.intake._jobs.get

    async def slowly(ids: Iterable[str]) -> tuple[dict[str, Job], dict[str, str]]:
        reader.intake.mark_committed([row])
        return await jobs(ids)

    reader.intake._jobs.get = slowly  # type: ignore[method-assign]
    await harness.wait(0.5)
    assert len(reader.inbox) == 0

    reader.intake._jobs.get = jobs  # type: ignore[method-assign]
    await harness.wait(2.0)
    assert len(reader.inbox) == 1


async def test_a_failed_read_is_retried(harness: HostHarness, reader: Reader) -> None:
    """HA-4."""
    harness.store.reads_that_fail = 3
    await harness.submit(job(task("a")))
    await harness.wait(10.0)

    assert harness.store.reads_that_fail == 0
    assert len(reader.inbox) == 1
