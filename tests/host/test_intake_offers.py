"""Runs submitted to this process reach the shard without a read, unless that would be unfair to others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
import pytest_asyncio
from msgspec.structs import replace

from mainspring.core.admission.intake import Waiting
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority
from mainspring.host import intake
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import IntakeRequest
from tests.host.host_harness import SHARD, HostHarness
from tests.host.test_intake_reader import Reader as Plain
from tests.shard.jobs import job, task

P0, P1, P2 = Priority


class Reader(Plain):
    """An idle reader that knows the job; the test offers it runs."""

    def __init__(self, harness: HostHarness) -> None:
        super().__init__(harness)
        self._hall = harness
        self._like: Run | None = None

    async def learn(self) -> None:
        """Read a first run, which is adopted."""
        (first,) = await self._hall.submit(job(task("a")))
        await self._hall.wait(2.0)
        assert await self.handed() == [first]
        self._like = await self._hall.run(first)
        self.adopt(self._like)
        await self._hall.wait(2.0)

    def adopt(self, run: Run) -> None:
        """Commit the adoption of a run."""
        self._hall.store._writer.execute("UPDATE runs SET adopted_at = 1 WHERE id = ?", (run.id,))
        self.intake.mark_committed([run])

    def make(self, name: str, **changes: object) -> Run:
        """Create a run like the first one, which is not in the store."""
        assert self._like is not None
        now = self._hall.clock.wall()
        return replace(self._like, **{"id": f"run_{name}", "created_at": now, "start_at": now, **changes})

    async def handed(self) -> list[str]:
        """Return the runs handed over since the last call."""
        return [event.run.id for event in await self.events()]


@pytest_asyncio.fixture
async def reader(harness: HostHarness) -> AsyncIterator[Reader]:
    """An idle reader."""
    await harness.store.ensure_shard(SHARD)
    reader = Reader(harness)
    await reader.learn()
    yield reader
    reader.running.cancel()


async def test_offered_runs_are_handed_over_at_once(reader: Reader) -> None:
    assert reader.intake.offer([reader.make("a"), reader.make("b")])
    assert await reader.handed() == ["run_a", "run_b"]


async def test_an_offered_p0_is_urgent(reader: Reader) -> None:
    assert reader.intake.offer([reader.make("a", priority=P0)])
    await reader.inbox.next(wait=0, max_events=1)
    assert reader.inbox.last_had_urgent


async def test_offers_that_need_a_read_are_declined(harness: HostHarness, reader: Reader) -> None:
    """A delayed run, a run of an unknown job, too many at once, and none."""
    later = harness.clock.wall() + timedelta(seconds=30)
    assert not reader.intake.offer([reader.make("a"), reader.make("b", start_at=later)])
    assert not reader.intake.offer([reader.make("c"), reader.make("d", job_id="job_unknown")])
    assert not reader.intake.offer([reader.make(f"{number}") for number in range(intake.MAX_OFFERED + 1)])
    assert not reader.intake.offer([])
    assert await reader.handed() == []


async def test_offers_of_held_priorities_are_declined(reader: Reader) -> None:
    reader.hold = P2
    assert not reader.intake.offer([reader.make("a", priority=P2)])
    assert reader.intake.offer([reader.make("b", priority=P1)])
    assert await reader.handed() == ["run_b"]


async def test_offers_do_not_overtake_runs_in_the_store(harness: HostHarness, reader: Reader) -> None:
    """Those wait for capacity; when all were read, offers are taken again."""
    reader.memory.runs.unstarted.count(P1, "acme", intake.HIGH_WATER_TASKS)
    (before,) = await harness.submit(job(task("a")))
    reader.intake.wake()
    assert not reader.intake.offer([reader.make("a")]), "a read is about to start"
    await harness.wait(0.5)
    assert not reader.intake.offer([reader.make("a", tenant="other")])

    reader.memory.runs.unstarted.count(P1, "acme", -intake.HIGH_WATER_TASKS)
    await harness.wait(2.0)
    assert await reader.handed() == [before]
    reader.adopt(await harness.run(before))
    await harness.wait(2.0)
    assert reader.intake.offer([reader.make("b", tenant="other")])


async def test_an_offer_above_the_priorities_in_the_store_overtakes_them(harness: HostHarness, reader: Reader) -> None:
    reader.memory.runs.unstarted.count(P1, "acme", intake.HIGH_WATER_TASKS)
    await harness.submit(job(task("a")))
    reader.intake.wake()
    await harness.wait(0.5)

    assert not reader.intake.offer([reader.make("a", priority=P2)])
    assert not reader.intake.offer([reader.make("b", priority=P1), reader.make("c", priority=P0)])
    assert reader.intake.offer([reader.make("d", priority=P0)])
    reader.hold = P1
    assert reader.intake.offer([reader.make("e", priority=P0)])
    assert await reader.handed() == ["run_d", "run_e"]


async def test_an_offer_during_a_read_waits_for_its_end(
    harness: HostHarness, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, run = harness.store.waiting, reader.make("a")

    async def slowly(shard: str, limit: int, after: str = "") -> list[Waiting]:
        assert reader.intake.offer([run])
        assert await reader.handed() == []
        found = await look(shard, limit, after)
        assert not reader.intake.offer([reader.make(f"{number}") for number in range(intake.MAX_OFFERED)])
        return found

    monkeypatch.setattr(harness.store, "waiting", slowly)
    reader.intake.wake()
    await harness.wait(0.5)
    assert await reader.handed() == ["run_a"]


async def test_runs_found_by_a_read_precede_offers_during_it(
    harness: HostHarness, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no capacity for the found runs: the offer has to be read after them."""
    reader.memory.runs.unstarted.count(P1, "acme", intake.HIGH_WATER_TASKS)
    looks = 0
    look = harness.store.waiting

    async def count(shard: str, limit: int, after: str = "") -> list[Waiting]:
        nonlocal looks
        looks += 1
        if looks == 1:
            assert reader.intake.offer([reader.make("a")])
        return await look(shard, limit, after)

    monkeypatch.setattr(harness.store, "waiting", count)
    await harness.submit(job(task("a")))
    reader.intake.wake()
    await harness.wait(0.5)
    assert await reader.handed() == []
    assert looks == 2, "a read starts at once"


async def test_offers_are_declined_after_a_failed_read(
    harness: HostHarness, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unread runs may have a higher priority."""

    async def fail(*_: object) -> list[Waiting]:
        raise Unavailable("not now")

    monkeypatch.setattr(harness.store, "waiting", fail)
    reader.intake.wake()
    await harness.wait(0.2)
    assert not reader.intake.offer([reader.make("a")])


async def test_a_tenant_fills_no_more_than_its_share(reader: Reader) -> None:
    """Two tenants have half each, whatever the priorities of their work."""
    half = intake.HIGH_WATER_TASKS // 2
    reader.memory.runs.unstarted.count(P1, "acme", half - 2)
    assert reader.intake.offer([reader.make("a", task_count=2)])
    assert not reader.intake.offer([reader.make("b")])
    assert reader.intake.offer([reader.make("c", tenant="other", priority=P2, task_count=3)])
    assert await reader.handed() == ["run_a", "run_c"]


async def test_an_offer_that_a_read_found_before_is_not_handed_over_again(harness: HostHarness, reader: Reader) -> None:
    """It may be in transit, adopted, or ended by now."""
    (found,) = await harness.submit(job(task("a")))
    run = await harness.run(found)
    await harness.wait(2.0)
    assert await reader.handed() == [found]

    reader.intake.offer([run])
    reader.adopt(run)
    reader.intake.offer([run])
    await harness.wait(2.0)
    reader.intake.offer([run])
    assert await reader.handed() == []


async def test_an_offered_run_is_not_read_as_well(harness: HostHarness, reader: Reader) -> None:
    """Until its adoption is committed a read still finds it."""
    made: list[Run] = []

    def expect(_: str, runs: Sequence[Run]) -> None:
        made.extend(replace(run, job_id=reader.make("x").job_id) for run in runs)
        assert reader.intake.offer(made)

    harness.store.on_work(expect)
    (run,) = await harness.submit(job(task("a")))
    reader.intake.wake()
    await harness.wait(2.0)
    assert await reader.handed() == [run]


async def test_a_leader_adopts_runs_of_its_own_process_without_a_read(
    harness: HostHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await harness.lead()
    (first,) = await harness.submit(job(task("a")))
    await harness.wait(2.3)
    read: list[Sequence[IntakeRequest]] = []
    find = harness.store.intake

    async def watch(shard: str, wants: Sequence[IntakeRequest]) -> list[Run]:
        read.append(wants)
        return await find(shard, wants)

    monkeypatch.setattr(harness.store, "intake", watch)
    now = harness.clock.wall()
    run = replace(await harness.run(first), id="run_second", adopted_at=None, created_at=now, start_at=now, because="")
    await harness.store.insert_runs([run])

    assert await harness.until(lambda: harness.rows("SELECT count(*) FROM tasks") == [(2,)]) < 0.1
    assert read == []
