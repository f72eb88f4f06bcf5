"""Degradation levels as a server sees them, and their effect on submissions (HA-5, ADM-6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from datetime import datetime, timedelta

import pytest
import pytest_asyncio

from mainspring.core.admission.backpressure import VerdictKind
from mainspring.core.admission.degradation import DegradationLevel
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.model.settings import SchedulerSettings
from mainspring.core.model.task import Priority
from mainspring.host.degradation import DegradationMonitor
from mainspring.protocol.errors import Unavailable
from mainspring.simulation.inprocess.virtual_time import VirtualClock
from mainspring.store.ports.store import ShardRow
from tests.host.host_harness import SHARD, HostHarness

P0, P1, P2 = Priority.P0, Priority.P1, Priority.P2
ONE = JobSpec(name="one", tasks=(TaskSpec(name="only"),))


class SeenStore:
    """The monitored part of a store, which can be slow or unavailable."""

    def __init__(self, harness: HostHarness) -> None:
        self._hall = harness
        self._store = harness.store
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

    def __init__(self, harness: HostHarness) -> None:
        self.harness = harness
        self.store = SeenStore(harness)
        self.scheduler_settings = SchedulerSettings()
        self.degradation = DegradationMonitor(
            self.store,  # type: ignore[arg-type]
            harness.clock,
            lambda: harness.hosts["h1"].leaders if harness.hosts else {},
            lambda: self.scheduler_settings,
        )

    def degree(self, pool: str = SHARD) -> DegradationLevel:
        """Return the level of a pool."""
        return self.degradation.of(pool).degree

    def fates(self, priority: Priority, number: int = 1) -> list[VerdictKind]:
        """Return the verdicts of consecutive submissions."""
        return [self.degradation.verdict(SHARD, priority).kind for _ in range(number)]


@pytest_asyncio.fixture
async def watch(harness: HostHarness) -> AsyncIterator[Watch]:
    """A monitor of a pool without a leader."""
    await harness.store.ensure_shard(SHARD)
    watch = Watch(harness)
    running = asyncio.create_task(watch.degradation.run())
    yield watch
    running.cancel()


async def test_the_level_is_normal(harness: HostHarness, watch: Watch) -> None:
    await harness.lead()
    await harness.wait(60.0)
    level = watch.degradation.now()
    assert (level.degree, level.why, level.accepts) == (DegradationLevel.NORMAL, "", 1.0)
    assert [watch.fates(priority) for priority in Priority] == [[VerdictKind.ACCEPTED]] * 3


async def test_a_pool_without_a_leader_for_ten_seconds_is_closed(harness: HostHarness, watch: Watch) -> None:
    """Other pools are not affected. When it is led again, it accepts gradually more."""
    await harness.store.ensure_shard("other")
    await harness.store.campaign("other", "h9", 5, timedelta(days=1))
    await harness.wait(9.0)
    assert watch.degree() is DegradationLevel.NORMAL
    await harness.wait(3.0)
    assert (watch.degree(), watch.degree("other")) == (DegradationLevel.PARTIAL, DegradationLevel.NORMAL)
    assert (watch.degradation.now().degree, bool(watch.degradation.now().why)) == (DegradationLevel.PARTIAL, True)
    verdict = watch.degradation.verdict(SHARD, P0)
    assert (verdict.kind, verdict.retry_after_seconds > 0) == (VerdictKind.CLOSED, True)
    assert watch.degradation.verdict("other", P2).kind is VerdictKind.ACCEPTED

    await harness.lead()
    await harness.until(lambda: watch.degree() is DegradationLevel.RECOVERY)
    assert watch.fates(P2) == [VerdictKind.ACCEPTED]
    assert watch.degradation.part(SHARD, P2) == pytest.approx(0.1)
    await harness.wait(15.0)
    assert 0.4 < watch.degradation.part(SHARD, P2) < 0.7
    assert watch.degradation.part(SHARD, P0) == 1.0
    await harness.until(lambda: watch.degree() is DegradationLevel.NORMAL, within=20.0)
    assert watch.degradation.part(SHARD, P2) == 1.0


async def test_a_fast_takeover_does_not_change_the_level(harness: HostHarness, watch: Watch) -> None:
    await harness.lead()
    await harness.wait(5.0)
    harness.kill("h1")
    await harness.start("h2")
    await harness.leader("h2")
    for _ in range(30):
        assert watch.degree() is DegradationLevel.NORMAL
        await harness.wait(1.0)


@pytest.mark.parametrize("is_hanging", [False, True], ids=["it says so", "it says nothing"])
async def test_an_unreachable_store_is_a_major_outage(harness: HostHarness, watch: Watch, is_hanging: bool) -> None:
    await harness.lead()
    await harness.wait(5.0)
    watch.store.is_gone, watch.store.seconds = not is_hanging, 100.0 if is_hanging else 0.0
    await harness.wait(2.0)
    assert watch.degree() is DegradationLevel.NORMAL
    await harness.until(lambda: watch.degree() is DegradationLevel.MAJOR)
    assert watch.fates(P0) == [VerdictKind.CLOSED]
    assert watch.degree("an unknown pool") is DegradationLevel.MAJOR

    watch.store.is_gone, watch.store.seconds = False, 0.0
    await harness.until(lambda: watch.degree() is DegradationLevel.RECOVERY)
    await harness.until(lambda: watch.degree() is DegradationLevel.NORMAL, within=35.0)


async def test_a_single_failed_check_is_no_outage(harness: HostHarness, watch: Watch) -> None:
    await harness.lead()
    await harness.wait(5.0)
    for _ in range(5):
        watch.store.is_gone = True
        await harness.wait(2.0)
        watch.store.is_gone = False
        await harness.wait(3.0)
        assert watch.degree() is DegradationLevel.NORMAL


async def test_a_suspended_process_reports_no_outage(harness: HostHarness) -> None:
    """It was stopped for a minute between two checks of a pool without a leader."""
    await harness.store.ensure_shard(SHARD)
    clock, seen = StoppedClock(), SeenStore(harness)
    degradation = DegradationMonitor(seen, clock)  # type: ignore[arg-type]
    await degradation.check_store()
    for is_gone in (False, True):
        clock.behind += 60.0
        seen.is_gone = is_gone
        await degradation.check_store()
        assert degradation.now().degree is DegradationLevel.NORMAL


async def test_half_is_accepted_while_a_leader_holds_work_back(harness: HostHarness, watch: Watch) -> None:
    leader = await harness.lead()
    harness.store.commit_seconds = 0.9
    await harness.until(lambda: leader.batch_sizer.hold is P2, within=60.0)
    await harness.wait(2.0)
    assert (watch.degree(), watch.degradation.part(SHARD, P1), watch.degradation.part(SHARD, P0)) == (
        DegradationLevel.DEGRADED,
        0.5,
        1.0,
    )
    assert "P2" in watch.degradation.of(SHARD).why
    assert watch.fates(P2) == [VerdictKind.ACCEPTED]

    harness.store.commit_seconds = 0.0
    await harness.until(lambda: leader.batch_sizer.hold is None, within=60.0)
    eased = await harness.until(lambda: watch.degree() is DegradationLevel.NORMAL, within=15.0)
    assert eased > 8.0


async def test_a_slow_store_is_noticed_without_a_local_leader(harness: HostHarness, watch: Watch) -> None:
    await harness.store.campaign(SHARD, "h9", 5, timedelta(days=1))
    watch.store.seconds = 0.7
    await harness.wait(5.0)
    assert (watch.degree(), bool(watch.degradation.of(SHARD).why)) == (DegradationLevel.DEGRADED, True)


async def test_a_longer_backlog_sheds_more(harness: HostHarness, watch: Watch) -> None:
    """Without a leader, submissions stay in intake."""
    watch.scheduler_settings = SchedulerSettings(shed_half_p2_at=3, shed_p2_at=5, slow_p1_at=7)
    taken, slowed, shed = VerdictKind.ACCEPTED, VerdictKind.SLOWED, VerdictKind.SHED
    steps = [(taken, [taken] * 4), (taken, [taken, shed] * 2), (taken, [shed] * 4), (slowed, [shed] * 4)]
    for p1, p2 in steps:
        await harness.submit(ONE, runs=2, priority=P2)
        await harness.wait(2.1)
        assert (watch.fates(P0), watch.fates(P1), watch.fates(P2, 4)) == ([taken], [p1], p2)
    assert watch.degradation.waiting(SHARD) == 7, "the count stops at the highest threshold"
    assert watch.degree() is DegradationLevel.DEGRADED


async def test_adopted_runs_count_as_waiting(harness: HostHarness, watch: Watch) -> None:
    """There is no worker."""
    await harness.lead()
    await harness.submit(ONE, runs=9, priority=P2)
    await harness.wait(5.0)
    assert watch.degradation.waiting(SHARD) == 9


async def test_counting_takes_a_small_part_of_the_time(harness: HostHarness, watch: Watch) -> None:
    await harness.lead()
    await harness.wait(20.0)
    assert 9 <= watch.store.counts <= 11
    watch.store.count_seconds = 1.0
    await harness.wait(3.0)
    before = watch.store.counts
    await harness.wait(63.0)
    assert watch.store.counts - before == 3


async def test_a_failed_count_is_retried(harness: HostHarness, watch: Watch) -> None:
    await harness.submit(ONE, runs=2, priority=P2)
    watch.store.is_gone = True
    await harness.wait(5.0)
    watch.store.is_gone = False
    await harness.wait(3.5)
    assert watch.degradation.waiting(SHARD) == 2
