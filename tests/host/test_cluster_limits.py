"""A leader's shares and rate grants of cluster-wide limits (PLC-12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import pytest
import pytest_asyncio

from mainspring.core.fairness.sharing_rules import NO_RULES, SharingRules
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow, lowered
from mainspring.core.limits.rate_grants import RateGrant, RateRequest
from mainspring.core.model.batch import Batch
from mainspring.core.schedules.time_zones import EPOCH
from mainspring.host.config.cluster_limits import ClusterLimits
from mainspring.host.inbox import Inbox
from mainspring.protocol.errors import Fenced, Unavailable
from mainspring.shard.effects import RequestRate, RequestShare
from mainspring.shard.events import Event, RateGranted, ShareGranted, ShareWanted
from mainspring.store.ports.terms import Term
from tests.host.host_harness import HostHarness

LEASE = timedelta(seconds=1_000)
GPU, API = "group:acme/gpu", "group:acme/api"


def rules(gpu: int = 10, api: int = 5) -> SharingRules:
    """A concurrency group and a rate group."""
    kept = {"note": "", "version": 1, "updated_at": EPOCH, "updated_by": "ann"}
    groups = [
        GroupRow(tenant="acme", name="gpu", most=gpu, per_seconds=None, **kept),  # type: ignore[arg-type]
        GroupRow(tenant="acme", name="api", most=api, per_seconds=60.0, **kept),  # type: ignore[arg-type]
    ]
    return SharingRules(version=1, groups={group.limit: group for group in groups})


class CountedLimits:
    """The limits of a store, with counted calls and simulated outages."""

    def __init__(self, harness: HostHarness) -> None:
        self._hall = harness
        self._store = harness.store
        self.calls = 0
        self.seconds = 0.0
        self.is_gone = False

    async def take_share(self, term: Term, limit: str, total: int, wanted: int) -> ShareRow:
        """Take a share."""
        self._count()
        row = await self._store.take_share(term, limit, total, wanted)
        await self._hall.wait(self.seconds)
        return row

    async def shares(self, limits: Sequence[str]) -> list[ShareRow]:
        """Return all shares."""
        self._count()
        return await self._store.shares(limits)

    async def take_rate_grants(self, requests: Sequence[RateRequest]) -> list[RateGrant]:
        """Take rate grants."""
        self._count()
        return await self._store.take_rate_grants(requests)

    def _count(self) -> None:
        self.calls += 1
        if self.is_gone:
            raise Unavailable("the store is gone")


class Pool:
    """The cluster limits of one pool; the test plays its shard."""

    def __init__(self, harness: HostHarness, term: Term) -> None:
        self.term = term
        self.limits = CountedLimits(harness)
        self.inbox = Inbox(1_000)
        self.rules = rules()
        self.cluster_limits = ClusterLimits(self.limits, harness.clock, term, self.inbox)  # type: ignore[arg-type]
        self.running = asyncio.create_task(self.cluster_limits.run(lambda: self.rules))

    async def received(self) -> list[Event]:
        """Return the events since the last call."""
        return await self.inbox.next(wait=0.0, max_events=1_000)


class Pools:
    """Pools that share limits."""

    def __init__(self, harness: HostHarness) -> None:
        self.harness = harness
        self.all: list[Pool] = []

    async def open(self, name: str, nonce: int = 7) -> Pool:
        """Open a pool with a leader."""
        await self.harness.store.ensure_shard(name)
        term = await self.harness.store.campaign(name, "h1", nonce, LEASE)
        assert term is not None
        self.all.append(Pool(self.harness, term))
        return self.all[-1]


@pytest_asyncio.fixture
async def pools(harness: HostHarness) -> AsyncIterator[Pools]:
    """No pools yet."""
    pools = Pools(harness)
    yield pools
    for pool in pools.all:
        pool.running.cancel()


async def test_a_share_is_requested_at_once(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    a.cluster_limits.take(RequestShare(GPU, 4, stamp=3))
    await harness.wait(0.1)
    assert await a.received() == [ShareGranted(limit=GPU, granted=4, stamp=3)]
    assert await harness.store.shares([GPU]) == [ShareRow(limit=GPU, holder="a", granted=4, needed=4)]


async def test_the_store_is_not_asked_without_limits(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    await harness.wait(60.0)
    a.rules = NO_RULES
    a.cluster_limits.take(RequestShare(GPU, 4))
    a.cluster_limits.take(RequestRate(API, 4))
    await harness.wait(60.0)
    assert (a.limits.calls, await a.received()) == (0, [])


async def test_a_partial_grant_is_retried_until_it_is_complete(harness: HostHarness, pools: Pools) -> None:
    """Another pool holds all of it; it is asked to lower its share, and does."""
    a, b = await pools.open("a"), await pools.open("b")
    a.cluster_limits.take(RequestShare(GPU, 10))
    await harness.wait(0.1)
    await a.received()

    b.cluster_limits.take(RequestShare(GPU, 3))
    await harness.wait(2.5)
    assert await b.received() == [ShareGranted(limit=GPU, granted=0)], "the same grant is not reported again"
    assert set(await a.received()) == {ShareWanted(limit=GPU, target=7)}

    await harness.store.commit(a.term, a.term.batch_no + 1, Batch(shares=[lowered(GPU, "a", 7)]))
    await harness.wait(1.5)
    assert (await b.received())[-1] == ShareGranted(limit=GPU, granted=3)
    calls = b.limits.calls
    await harness.wait(1.5)
    assert b.limits.calls <= calls + 2, "only its shares are read"


async def test_a_withdrawn_request_is_no_longer_retried(harness: HostHarness, pools: Pools) -> None:
    a, b = await pools.open("a"), await pools.open("b")
    a.cluster_limits.take(RequestShare(GPU, 10))
    await harness.wait(0.1)
    b.cluster_limits.take(RequestShare(GPU, 3))
    await harness.wait(3.0)
    b.cluster_limits.take(RequestShare(GPU, 0))
    await harness.wait(2.5)
    await a.received()
    await b.received()

    await harness.wait(5.0)
    assert (await a.received(), await b.received()) == ([], [])


async def test_a_repeated_request_is_answered_again(harness: HostHarness, pools: Pools) -> None:
    """The shard may have forgotten its share: the group was created anew."""
    a = await pools.open("a")
    for _ in range(2):
        a.cluster_limits.take(RequestShare(GPU, 4))
        await harness.wait(0.1)
        assert await a.received() == [ShareGranted(limit=GPU, granted=4)]


async def test_an_answer_to_a_forgotten_request_is_dropped(harness: HostHarness, pools: Pools) -> None:
    """The shard was reloaded during the call: its rows are newer than the answer."""
    a = await pools.open("a")
    a.limits.seconds = 0.5
    a.cluster_limits.take(RequestShare(GPU, 4))
    await harness.wait(0.1)
    a.cluster_limits.loaded([])
    await harness.wait(1.0)
    assert await a.received() == []

    a.cluster_limits.take(RequestShare(GPU, 4))
    await harness.wait(1.0)
    assert await a.received() == [ShareGranted(limit=GPU, granted=4)]


async def test_shares_follow_a_lowered_limit(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    a.cluster_limits.take(RequestShare(GPU, 10))
    await harness.wait(0.1)
    await a.received()
    a.rules = rules(gpu=4)
    await harness.wait(1.5)
    assert set(await a.received()) == {ShareWanted(limit=GPU, target=4)}


async def test_loaded_shares_are_checked(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    await harness.store.take_share(a.term, GPU, 10, 10)
    a.cluster_limits.loaded(await harness.store.shares([GPU]))
    a.rules = rules(gpu=4)
    await harness.wait(2.5)
    assert set(await a.received()) == {ShareWanted(limit=GPU, target=4)}


async def test_rate_requests_of_one_turn_are_one_call(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    other = GroupRow(
        tenant="acme", name="mail", most=1, per_seconds=10.0, note="", version=1, updated_at=EPOCH, updated_by="ann"
    )
    a.rules = SharingRules(version=2, groups={**a.rules.groups, other.limit: other})
    a.cluster_limits.take(RequestRate(API, 3))
    a.cluster_limits.take(RequestRate(other.limit, 3))
    await harness.wait(0.1)
    api, mail = await a.received()
    assert api == RateGranted(limit=API, amount=3, more_at=None)
    assert isinstance(mail, RateGranted)
    assert (mail.limit, mail.amount) == (other.limit, 1)
    assert mail.more_at is not None
    assert a.limits.calls == 1


async def test_an_exhausted_rate_grants_nothing_and_says_when_to_retry(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    a.cluster_limits.take(RequestRate(API, 9))
    await harness.wait(0.1)
    a.cluster_limits.take(RequestRate(API, 9))
    await harness.wait(0.1)
    first, second = await a.received()
    assert isinstance(first, RateGranted)
    assert isinstance(second, RateGranted)
    assert (first.amount, second.amount) == (5, 0)
    assert first.more_at == second.more_at is not None


async def test_requests_are_retried_after_a_store_outage(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    a.limits.is_gone = True
    a.cluster_limits.take(RequestShare(GPU, 2))
    a.cluster_limits.take(RequestRate(API, 1))
    await harness.wait(3.5)
    assert await a.received() == []
    a.limits.is_gone = False
    await harness.wait(1.5)
    assert set(await a.received()) == {
        ShareGranted(limit=GPU, granted=2),
        RateGranted(limit=API, amount=1, more_at=None),
    }


async def test_an_ended_term_takes_nothing(harness: HostHarness, pools: Pools) -> None:
    a = await pools.open("a")
    await harness.store.release(a.term)
    await pools.open("a", nonce=8)
    a.cluster_limits.take(RequestShare(GPU, 2))
    with pytest.raises(Fenced):
        await a.running
    assert await a.received() == []
    assert await harness.store.shares([GPU]) == []
