"""Degradation levels as a server sees them, and their effect on submissions (HA-5, ADM-6)."""

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
    """The monitored part of a store, which can be slow or unavailable."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._store = hall.store
        self.is_gone = False
        self.seconds = 0.0
        self.count_seconds = 0.0
        self.counts = 0

    async def shards(self) -> list[ShardRow]:
        """Return the shards."""
        await self._hall.wait(self.seconds)
        if self.is_gone:
            raise Unavailable("the store is gone")
        return await self._store.shards()

    async def time(self) -> datetime:
        """Return the store's time."""
        return await self._store.time()

    async def count_intake(self, shard: str, most: int) -> Mapping[Priority, int]:
        """Count the intake."""
        self.counts += 1
        await self._hall.wait(self.count_seconds)
        if self.is_gone:
            raise Unavailable("the store is gone")
        return await self._store.count_intake(shard, most)


class StoppedClock(VirtualClock):
    """The clock of a process that can be suspended."""

    behind = 0.0

    def monotonic(self) -> float:
        """Return the time in seconds."""
        return super().monotonic() + self.behind


class Watch:
    """A degradation monitor beside the hosts."""

    def __init__(self, hall: Hall) -> None:
        self.hall = hall
        self.store = SeenStore(hall)
        self.tuning = Tuning()
        self.levels = Levels(
            self.store, hall.clock, lambda: hall.hosts["h1"].leaders if hall.hosts else {}, lambda: self.tuning  # type: ignore[arg-type]
        )  # fmt: skip

    def degree(self, pool: str = SHARD) -> Degree:
        """Return the level of a pool."""
        return self.levels.of(pool).degree

    def fates(self, priority: Priority, number: int = 1) -> list[Fate]:
        """Return the verdicts of consecutive submissions."""
        return [self.levels.verdict(SHARD, priority).fate for _ in range(number)]


@pytest_asyncio.fixture
async def watch(hall: Hall) -> AsyncIterator[Watch]:
    """A monitor of a pool without a leader."""
    await hall.store.ensure_shard(SHARD)
    watch = Watch(hall)
    running = asyncio.create_task(watch.levels.run())
    yield watch
    running.cancel()


async def test_the_level_is_normal(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(60.0)
    level = watch.levels.now()
    assert (level.degree, level.why, level.accepts) == (Degree.NORMAL, "", 1.0)
    assert [watch.fates(priority) for priority in Priority] == [[Fate.ACCEPTED]] * 3


async def test_a_pool_without_a_leader_for_ten_seconds_is_closed(hall: Hall, watch: Watch) -> None:
    """Other pools are not affected. When it is led again, it accepts gradually more."""
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


async def test_a_fast_takeover_does_not_change_the_level(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(5.0)
    hall.kill("h1")
    await hall.start("h2")
    await hall.leader("h2")
    for _ in range(30):
        assert watch.degree() is Degree.NORMAL
        await hall.wait(1.0)


@pytest.mark.parametrize("is_hanging", [False, True], ids=["it says so", "it says nothing"])
async def test_an_unreachable_store_is_a_major_outage(hall: Hall, watch: Watch, is_hanging: bool) -> None:
    await hall.lead()
    await hall.wait(5.0)
    watch.store.is_gone, watch.store.seconds = not is_hanging, 100.0 if is_hanging else 0.0
    await hall.wait(2.0)
    assert watch.degree() is Degree.NORMAL
    await hall.until(lambda: watch.degree() is Degree.MAJOR)
    assert watch.fates(P0) == [Fate.CLOSED]
    assert watch.degree("an unknown pool") is Degree.MAJOR

    watch.store.is_gone, watch.store.seconds = False, 0.0
    await hall.until(lambda: watch.degree() is Degree.RECOVERY)
    await hall.until(lambda: watch.degree() is Degree.NORMAL, within=35.0)


async def test_a_single_failed_check_is_no_outage(hall: Hall, watch: Watch) -> None:
    await hall.lead()
    await hall.wait(5.0)
    for _ in range(5):
        watch.store.is_gone = True
        await hall.wait(2.0)
        watch.store.is_gone = False
        await hall.wait(3.0)
        assert watch.degree() is Degree.NORMAL


async def test_a_suspended_process_reports_no_outage(hall: Hall) -> None:
    """It was stopped for a minute between two checks of a pool without a leader."""
    await hall.store.ensure_shard(SHARD)
    clock, seen = StoppedClock(), SeenStore(hall)
    levels = Levels(seen, clock)  # type: ignore[arg-type]
    await levels.look()
    for is_gone in (False, True):
        clock.behind += 60.0
        seen.is_gone = is_gone
        await levels.look()
        assert levels.now().degree is Degree.NORMAL


async def test_half_is_accepted_while_a_leader_holds_work_back(hall: Hall, watch: Watch) -> None:
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


async def test_a_slow_store_is_noticed_without_a_local_leader(hall: Hall, watch: Watch) -> None:
    await hall.store.campaign(SHARD, "h9", 5, timedelta(days=1))
    watch.store.seconds = 0.7
    await hall.wait(5.0)
    assert (watch.degree(), bool(watch.levels.of(SHARD).why)) == (Degree.DEGRADED, True)


async def test_a_longer_backlog_sheds_more(hall: Hall, watch: Watch) -> None:
    """Without a leader, submissions stay in intake."""
    watch.tuning = Tuning(shed_half_p2_at=3, shed_p2_at=5, slow_p1_at=7)
    taken, slowed, shed = Fate.ACCEPTED, Fate.SLOWED, Fate.SHED
    steps = [(taken, [taken] * 4), (taken, [taken, shed] * 2), (taken, [shed] * 4), (slowed, [shed] * 4)]
    for p1, p2 in steps:
        await hall.submit(ONE, runs=2, priority=P2)
        await hall.wait(2.1)
        assert (watch.fates(P0), watch.fates(P1), watch.fates(P2, 4)) == ([taken], [p1], p2)
    assert watch.levels.waiting(SHARD) == 7, "the count stops at the highest threshold"
    assert watch.degree() is Degree.DEGRADED


async def test_adopted_runs_count_as_waiting(hall: Hall, watch: Watch) -> None:
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


async def test_a_failed_count_is_retried(hall: Hall, watch: Watch) -> None:
    await hall.submit(ONE, runs=2, priority=P2)
    watch.store.is_gone = True
    await hall.wait(5.0)
    watch.store.is_gone = False
    await hall.wait(3.5)
    assert watch.levels.waiting(SHARD) == 2
