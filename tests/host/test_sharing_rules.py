"""Sharing rules reach the API and every leader, on this server at once and on others within seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio

from mainspring.core.fairness.freezes import FreezeKind, FreezeRow
from mainspring.core.fairness.quotas import Quota, QuotaRow
from mainspring.core.fairness.sharing_rules import AllRules
from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.sharing_rules import SharingRulesCache
from mainspring.protocol.errors import Unavailable
from tests.host.host_harness import SHARD, HostHarness


def entry(action: str) -> AuditEntry:
    """The audit entry of a change."""
    return AuditEntry(id="req_1", tenant=INSTALLATION, actor="token:ann", source="", action=action, object="x")


async def set_quota(harness: HostHarness, weight: float, tenant: str = "acme") -> None:
    """Set a quota, on any server."""
    row = QuotaRow(
        tenant=tenant, pool="", quota=Quota(weight=weight), raised=None, version=0, updated_at=EPOCH, updated_by="ann"
    )
    await harness.store.put_quota(row, None, entry("put_quota"))


async def freeze(harness: HostHarness) -> None:
    """Freeze everything, on any server."""
    row = FreezeRow(kind=FreezeKind.ALL, subject="", why="a change", by="ann", since=EPOCH, until=None)
    await harness.store.freeze(row, entry("freeze"))


class CountedRules:
    """The rules of a store, with counted reads and simulated outages."""

    def __init__(self, harness: HostHarness) -> None:
        self._hall = harness
        self._store = harness.store
        self.reads = 0
        self.reported: list[int] = []
        """Versions passed to `on_change`."""
        self.seconds = 0.0
        self.is_gone = False

    async def rules_version(self) -> int:
        """Return the version."""
        if self.is_gone:
            raise Unavailable("the store is gone")
        return await self._store.rules_version()

    async def rules(self) -> AllRules:
        """Return all rules."""
        self.reads += 1
        rules = await self._store.rules()
        await self._hall.wait(self.seconds)
        return rules


@pytest_asyncio.fixture
async def counted(harness: HostHarness) -> CountedRules:
    """The rules of the store."""
    return CountedRules(harness)


@pytest_asyncio.fixture
async def followed(harness: HostHarness, counted: CountedRules) -> AsyncIterator[SharingRulesCache]:
    """A server that follows the rules."""

    def on_change(rules: AllRules) -> None:
        counted.reported.append(rules.version)
        for host in harness.hosts.values():
            host.set_rules(rules)

    followed = SharingRulesCache(counted, harness.clock, on_change)  # type: ignore[arg-type]
    running = asyncio.create_task(followed.run())
    yield followed
    running.cancel()


async def test_a_change_on_another_server_is_known_a_second_later(
    harness: HostHarness, followed: SharingRulesCache, counted: CountedRules
) -> None:
    await harness.wait(5.0)
    assert (followed.now.version, followed.now.quotas) == (0, [])

    await set_quota(harness, 3.0)
    await harness.wait(1.1)
    assert [row.quota.weight for row in followed.now.quotas] == [3.0]
    await harness.wait(5.0)
    assert (counted.reported[-1:], counted.reads) == ([1], 2), "it is read only if the version changed"


async def test_a_change_on_this_server_is_known_at_once(harness: HostHarness, followed: SharingRulesCache) -> None:
    await harness.wait(0.1)
    await set_quota(harness, 3.0)
    assert (await followed.refresh()).version == followed.now.version == 1


async def test_known_reads_the_rules_if_they_were_never_read(harness: HostHarness) -> None:
    await set_quota(harness, 3.0)
    followed = SharingRulesCache(harness.store, harness.clock)
    assert followed.now.quotas == ()
    assert [row.tenant for row in (await followed.known()).quotas] == ["acme"]


async def test_of_two_concurrent_reads_the_later_one_counts(
    harness: HostHarness, followed: SharingRulesCache, counted: CountedRules
) -> None:
    """A slow read is in progress while a change is made here and read."""
    await harness.wait(0.1)
    counted.seconds = 0.5
    counted.reported.clear()
    await set_quota(harness, 3.0)
    await harness.wait(1.0)
    await set_quota(harness, 4.0)
    counted.seconds = 0.0
    await followed.refresh()
    await harness.wait(2.0)
    assert (counted.reported, followed.now.version) == ([1, 2], 2)


async def test_a_store_outage_keeps_the_rules(
    harness: HostHarness, followed: SharingRulesCache, counted: CountedRules
) -> None:
    await set_quota(harness, 3.0)
    await harness.wait(1.1)
    counted.is_gone = True
    await harness.wait(5.0)
    await set_quota(harness, 4.0)
    assert [row.quota.weight for row in followed.now.quotas] == [3.0]
    counted.is_gone = False
    await harness.wait(1.1)
    assert [row.quota.weight for row in followed.now.quotas] == [4.0]


async def test_a_new_leader_has_the_rules_before_its_first_turn(harness: HostHarness) -> None:
    await set_quota(harness, 3.0)
    leader = await harness.lead()
    await harness.until(lambda: bool(harness.store.calls))
    assert leader.shard.memory.rules.quotas["acme"].quota.weight == 3.0


async def test_changes_apply_from_the_next_turn_on(harness: HostHarness, followed: SharingRulesCache) -> None:
    leader = await harness.lead()
    await set_quota(harness, 3.0)
    await freeze(harness)
    await harness.until(lambda: leader.shard.memory.rules.version == 2, within=2.5)
    assert leader.rules is leader.shard.memory.rules
    assert leader.shard.memory.rules.freezes


async def test_a_leader_that_loads_again_keeps_the_newest_rules(
    harness: HostHarness, followed: SharingRulesCache
) -> None:
    """A slow read of the rules does not undo a change that arrived meanwhile."""
    leader = await harness.lead()
    await set_quota(harness, 3.0)
    harness.hosts["h1"].set_rules(await followed.refresh())
    harness.store.trouble = lambda term, number, batch: None
    await leader._load()
    assert leader.shard.memory.rules.version == leader.rules.version == 1
    assert SHARD in harness.hosts["h1"].leaders
