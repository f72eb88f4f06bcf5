"""How well each pool can be served, as a server sees it, and what that means for what is submitted (HA-5, ADM-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta

import pytest
import pytest_asyncio

from mainspring.core.admission.backpressure import Fate
from mainspring.core.admission.degradation import Degree
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.settings import Tuning
from mainspring.core.model.task import Priority
from mainspring.host.degradation import Levels
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.store import ShardRow
from tests.host.hall import SHARD, Hall
from tests.host.virtual import VirtualClock

P0, P1, P2 = Priority.P0, Priority.P1, Priority.P2
ONE = JobSpec(name="one", tasks=(TaskSpec(name="only"),))


class SeenStore:
    """What is looked at of a store that is not always there, or not quick."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._store = hall.store
        self.is_gone = False
        self.seconds = 0.0
        self.count_seconds = 0.0
        self.counts = 0

    async def shards(self) -> list[ShardRow]:
        """All shards."""
        await self._hall.wait(self.seconds)
        if self.is_gone:
            raise Unavailable("the store is gone")
        return await self._store.shards()

    async def time(self) -> datetime:
        """The store's time."""
        return await self._store.time()

    async def count_intake(self, shard: str, most: int) -> Mapping[Priority, int]:
        """What waits."""
        self.counts += 1
        await self._hall.wait(self.count_seconds)
        if self.is_gone:
            raise Unavailable("the store is gone")
        return await self._store.count_intake(shard, most)


class StoppedClock(VirtualClock):
    """The clock of a process that can be stopped for a while."""

    behind = 0.0

    def monotonic(self) -> float:
        """Seconds."""
        return super().monotonic() + self.behind


class Watch:
    """A server that watches, beside the hosts of a hall."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.store = SeenStore(hall)
        self.tuning = Tuning()
        self.levels = Levels(
            self.store, hall.clock, lambda: hall.hosts["h1"].leaders if hall.hosts else {}, lambda: self.tuning  # type: ignore[arg-type]
        )  # fmt: skip

    def degree(self, pool: str = SHARD) -> Degree:
        """The level of a pool."""
        return self.levels.of(pool).degree

    def fates(self, priority: Priority, number: int = 1) -> list[Fate]:
        """What becomes of so many submissions, one after the other."""
        return [self.levels.verdict(SHARD, priority).fate for _ in range(number)]


@pytest_asyncio.fixture
async def watch(hall: Hall) -> AsyncIterator[Watch]:
    """Somebody who watches over a pool that nobody leads yet."""
    await hall.store.ensure_shard(SHARD)
    watch = Watch(hall)
    running = asyncio.create_task(watch.levels.run())
    yield watch
    running.cancel()


async def test_all_is_normal(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(60.0)
    level = watch.levels.now()
    assert (level.degree, level.why, level.accepts) == (Degree.NORMAL, "", 1.0)
    assert [watch.fates(priority) for priority in Priority] == [[Fate.ACCEPTED]] * 3


async def test_a_pool_that_nobody_leads_for_ten_seconds_takes_nothing_new(hall: Hall, watch: Watch) -> None:
    """Another one goes on. When it is led again, it takes more and more."""
    await hall.store.ensure_shard("other")
    await hall.store.campaign("other", "h9", 5, timedelta(days=1))
    await hall.wait(9.0)
    assert watch.degree() is Degree.NORMAL
    await hall.wait(3.0)
    assert (watch.degree(), watch.degree("other")) == (Degree.PARTIAL, Degree.NORMAL)
    assert (watch.levels.now().degree, bool(watch.levels.now().why)) == (Degree.PARTIAL, True)
    verdict = watch.levels.verdict(SHARD, P0)
    assert (verdict.fate, verdict.retry_after_seconds > 0) == (Fate.CLOSED, True)
    assert watch.levels.verdict("other", P2).fate is Fate.ACCEPTED

    await hall.lead()
    await hall.until(lambda: watch.degree() is Degree.RECOVERY)
    assert watch.fates(P2) == [Fate.ACCEPTED]
    assert watch.levels.part(SHARD, P2) == pytest.approx(0.1)
    await hall.wait(15.0)
    assert 0.4 < watch.levels.part(SHARD, P2) < 0.7
    assert watch.levels.part(SHARD, P0) == 1.0
    await hall.until(lambda: watch.degree() is Degree.NORMAL, within=20.0)
    assert watch.levels.part(SHARD, P2) == 1.0


async def test_a_leader_that_is_replaced_in_time_is_not_missed(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(5.0)
    hall.kill("h1")
    await hall.start("h2")
    await hall.leader("h2")
    for _ in range(30):
        assert watch.degree() is Degree.NORMAL
        await hall.wait(1.0)


@pytest.mark.parametrize("is_hanging", [False, True], ids=["it says so", "it says nothing"])
async def test_a_store_that_can_not_be_reached_is_a_major_outage(hall: Hall, watch: Watch, is_hanging: bool) -> None:
    await hall.lead()
    await hall.wait(5.0)
    watch.store.is_gone, watch.store.seconds = not is_hanging, 100.0 if is_hanging else 0.0
    await hall.wait(2.0)
    assert watch.degree() is Degree.NORMAL
    await hall.until(lambda: watch.degree() is Degree.MAJOR)
    assert watch.fates(P0) == [Fate.CLOSED]
    assert watch.degree("a pool that nobody has seen") is Degree.MAJOR

    watch.store.is_gone, watch.store.seconds = False, 0.0
    await hall.until(lambda: watch.degree() is Degree.RECOVERY)
    await hall.until(lambda: watch.degree() is Degree.NORMAL, within=35.0)


async def test_one_answer_that_is_missing_is_no_outage(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(5.0)
    for _ in range(5):
        watch.store.is_gone = True
        await hall.wait(2.0)
        watch.store.is_gone = False
        await hall.wait(3.0)
        assert watch.degree() is Degree.NORMAL


async def test_a_process_that_stood_still_has_missed_nothing(hall: Hall) -> None:
    """It was stopped for a minute, between a look at a pool that nobody led yet and the next."""
    await hall.store.ensure_shard(SHARD)
    clock, seen = StoppedClock(), SeenStore(hall)
    levels = Levels(seen, clock)  # type: ignore[arg-type]
    await levels.look()
    for is_gone in (False, True):
        clock.behind += 60.0
        seen.is_gone = is_gone
        await levels.look()
        assert levels.now().degree is Degree.NORMAL


async def test_while_a_leader_holds_work_back_half_is_taken(hall: Hall, watch: Watch) -> None:
    leader = await hall.lead()
    hall.store.commit_seconds = 0.9
    await hall.until(lambda: leader.pace.hold is P2, within=60.0)
    await hall.wait(2.0)
    assert (watch.degree(), watch.levels.part(SHARD, P1), watch.levels.part(SHARD, P0)) == (Degree.DEGRADED, 0.5, 1.0)
    assert "P2" in watch.levels.of(SHARD).why
    assert watch.fates(P2) == [Fate.ACCEPTED]

    hall.store.commit_seconds = 0.0
    await hall.until(lambda: leader.pace.hold is None, within=60.0)
    eased = await hall.until(lambda: watch.degree() is Degree.NORMAL, within=15.0)
    assert eased > 8.0


async def test_a_store_that_answers_slowly_is_seen_by_who_leads_nothing(hall: Hall, watch: Watch) -> None:
    await hall.store.campaign(SHARD, "h9", 5, timedelta(days=1))
    watch.store.seconds = 0.7
    await hall.wait(5.0)
    assert (watch.degree(), bool(watch.levels.of(SHARD).why)) == (Degree.DEGRADED, True)


async def test_the_more_wait_the_less_is_taken(hall: Hall, watch: Watch) -> None:
    """Nobody leads yet: what is submitted stays in intake."""
    watch.tuning = Tuning(shed_half_p2_at=3, shed_p2_at=5, slow_p1_at=7)
    taken, slowed, shed = Fate.ACCEPTED, Fate.SLOWED, Fate.SHED
    steps = [(taken, [taken] * 4), (taken, [taken, shed] * 2), (taken, [shed] * 4), (slowed, [shed] * 4)]
    for p1, p2 in steps:
        await hall.submit(ONE, runs=2, priority=P2)
        await hall.wait(2.1)
        assert (watch.fates(P0), watch.fates(P1), watch.fates(P2, 4)) == ([taken], [p1], p2)
    assert watch.levels.waiting(SHARD) == 7, "it is counted no further than it matters"
    assert watch.degree() is Degree.DEGRADED


async def test_what_a_leader_has_taken_from_intake_waits_as_well(hall: Hall, watch: Watch) -> None:
    """There is no worker."""
    await hall.lead()
    await hall.submit(ONE, runs=9, priority=P2)
    await hall.wait(5.0)
    assert watch.levels.waiting(SHARD) == 9


async def test_counting_takes_a_small_part_of_the_time(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(20.0)
    assert 9 <= watch.store.counts <= 11
    watch.store.count_seconds = 1.0
    await hall.wait(3.0)
    before = watch.store.counts
    await hall.wait(63.0)
    assert watch.store.counts - before == 3


async def test_a_count_that_fails_is_made_again(hall: Hall, watch: Watch) -> None:
    await hall.submit(ONE, runs=2, priority=P2)
    watch.store.is_gone = True
    await hall.wait(5.0)
    watch.store.is_gone = False
    await hall.wait(3.5)
    assert watch.levels.waiting(SHARD) == 2
