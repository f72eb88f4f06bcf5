"""Two pools share the limits of groups and stay within them together (PLC-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry
from mainspring.core.model.job import JobSpec, TaskSpec
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.errors import Fenced, NotLeading
from mainspring.protocol.wire import Assignment, Offer
from mainspring.simulation.virtual_worker import Ending, VirtualWorker
from tests.host.host_harness import SHARD, HostHarness

OTHER = "other"
TASK_SECONDS = 2.0
MEMBER = JobSpec(name="member", tasks=(TaskSpec(name="only", groups=("gpu",)),))


class Pair:
    """Two pools, led by one host, each with a worker that has capacity for everything."""

    def __init__(self, harness: HostHarness) -> None:
        self.harness = harness
        self.rules = SharingRulesCache(harness.store, harness.clock)
        self.started: list[tuple[float, str]] = []
        """Starts: time, task and pool."""
        self._running: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start everything."""
        await self.harness.store.ensure_shard(OTHER)
        host = await self.harness.start()
        self.rules.on_change = host.set_rules
        self._running.append(asyncio.create_task(self.rules.run()))
        for pool in (SHARD, OTHER):
            self._running.append(asyncio.create_task(self._serve(pool)))

    async def close(self) -> None:
        """Stop everything."""
        for task in self._running:
            task.cancel()

    async def limit(self, most: int, per_seconds: float | None = None) -> None:
        """Define the group."""
        row = GroupRow(
            tenant="acme", name="gpu", most=most, per_seconds=per_seconds, note="", version=0, updated_at=EPOCH,
            updated_by="ann",
        )  # fmt: skip
        audit = AuditEntry(
            id="req_1", tenant=INSTALLATION, actor="token:ann", source="", action="put_group", object="x"
        )
        await self.harness.store.put_group(row, None, audit)
        await self.rules.refresh()

    def ended(self) -> int:
        """Return the number of ended runs."""
        (count,) = self.harness.rows("SELECT count(*) FROM runs WHERE ended_at IS NOT NULL")[0]
        assert isinstance(count, int)
        return count

    def max_concurrent(self) -> int:
        """Return the maximum number of concurrent tasks."""
        starts = [at for at, _ in self.started]
        return max(sum(at <= start < at + TASK_SECONDS for at in starts) for start in starts)

    async def _serve(self, pool: str) -> None:
        def begin(_assignment: Assignment) -> Ending:
            self.started.append((self.harness.clock.monotonic(), pool))
            return Ending(TASK_SECONDS)

        worker = VirtualWorker(f"w-{pool}", Offer(100_000, 100 << 30), self.harness.clock, ending_of=begin)
        while True:
            try:
                await worker.serve(self.harness.hosts["h1"].leader(pool))
            except (NotLeading, Fenced):
                await self.harness.wait(0.1)


@pytest_asyncio.fixture
async def pair(harness: HostHarness) -> AsyncIterator[Pair]:
    """Two pools."""
    pair = Pair(harness)
    await pair.open()
    yield pair
    await pair.close()


async def test_a_concurrency_group_limits_both_pools_together(harness: HostHarness, pair: Pair) -> None:
    """The first has all of it when the second comes, and then half each."""
    await pair.limit(4)
    await harness.submit(MEMBER, runs=40)
    await harness.until(lambda: len(pair.started) >= 4)
    await harness.submit(MEMBER, runs=20, shard=OTHER)
    await harness.until(lambda: pair.ended() == 60, within=120.0)

    assert len(pair.started) == 60
    assert pair.max_concurrent() == 4
    both = [pool for at, pool in pair.started if 15.0 < at - pair.started[0][0] < 30.0]
    assert both.count(SHARD) > 5
    assert both.count(OTHER) > 5


async def test_a_group_of_one_alternates(harness: HostHarness, pair: Pair) -> None:
    await pair.limit(1)
    await harness.submit(MEMBER, runs=8)
    await harness.submit(MEMBER, runs=8, shard=OTHER)
    await harness.until(lambda: pair.ended() == 16, within=300.0)
    assert pair.max_concurrent() == 1
    first = [pool for _, pool in pair.started[:8]]
    assert {first.count(SHARD), first.count(OTHER)} <= {3, 4, 5}


async def test_a_lowered_group_limit_is_soon_met(harness: HostHarness, pair: Pair) -> None:
    await pair.limit(6)
    for pool in (SHARD, OTHER):
        await harness.submit(MEMBER, runs=30, shard=pool)
    await harness.until(lambda: len(pair.started) >= 6)
    await pair.limit(2)
    await harness.wait(10.0)
    pair.started.clear()
    await harness.until(lambda: pair.ended() == 60, within=300.0)
    assert pair.max_concurrent() == 2


async def test_a_rate_group_limits_both_pools_together(harness: HostHarness, pair: Pair) -> None:
    await pair.limit(5, per_seconds=10.0)
    for pool in (SHARD, OTHER):
        await harness.submit(MEMBER, runs=12, shard=pool)
    await harness.until(lambda: pair.ended() == 24, within=120.0)
    starts = sorted(at for at, _ in pair.started)
    assert max(sum(start <= at < start + 9.0 for at in starts) for start in starts) == 5
    assert starts[-1] - starts[0] < 60.0
