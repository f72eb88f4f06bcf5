"""Outbox delivery: at least once, in order per key; a failing row delays its own key only."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from mainspring.core.model.batch import Batch, OutboxRow
from mainspring.host.outbox.delivery import (
    INITIAL_BACKOFF,
    LEASE,
    MAX_BACKOFF,
    MAX_CONCURRENT_SECONDS,
    MAX_ROWS_PER_PASS,
    OutboxDelivery,
)
from mainspring.store.ports.store import Term
from tests.host.host_harness import SHARD, HostHarness
from tests.shard.jobs import job, task


class Receiver:
    """Records rows, and can be made to fail."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.times: list[float] = []
        self.failing: dict[str, int] = {}

    async def __call__(self, row: OutboxRow) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if self.failing.get(row.id, 0) > 0:
            self.failing[row.id] -= 1
            raise ConnectionError("not reachable")
        self.got.append(row.id)


async def send(harness: HostHarness, *rows: tuple[str, str], kind: str = "news") -> None:
    """Write rows (id, key) to the outbox, like a batch."""
    await harness.store.ensure_shard(SHARD)
    now = harness.clock.wall()
    outgoing = [OutboxRow(id=name, key=key, kind=kind, payload="{}", created_at=now) for name, key in rows]
    term: Term | None = await harness.store.campaign(SHARD, "writer", 77, timedelta(days=1))
    assert term is not None
    await harness.store.commit(term, term.batch_no + 1, Batch(outbox=outgoing))


@pytest.fixture
def receiver() -> Receiver:
    """A receiver."""
    return Receiver()


@pytest.fixture
def delivery(harness: HostHarness, receiver: Receiver) -> OutboxDelivery:
    """The delivery of one host."""
    return OutboxDelivery(harness.store, harness.clock, "h1", {"news": receiver})


async def deliver_all(harness: HostHarness, delivery: OutboxDelivery, seconds: float) -> None:
    """Run the delivery for a while."""
    running = asyncio.create_task(delivery.run())
    await harness.wait(seconds)
    running.cancel()


async def test_rows_of_one_key_are_delivered_in_order(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """One at a time."""
    await send(harness, *((f"n{n}", "key") for n in range(10)))
    await deliver_all(harness, delivery, 5.0)

    assert receiver.got == [f"n{n}" for n in range(10)]


async def test_a_row_is_delivered_once_without_failures(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """And marked."""
    await send(harness, ("n1", "a"), ("n2", "b"))
    assert await delivery.deliver() == 2
    assert await delivery.deliver() == 0

    assert sorted(receiver.got) == ["n1", "n2"]


async def test_a_failed_row_is_retried_with_exponential_backoff(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """Until it is delivered."""
    receiver.failing = {"n1": 4}
    await send(harness, ("n1", "a"))
    await deliver_all(harness, delivery, 60.0)

    pauses = [later - earlier for earlier, later in zip(receiver.times, receiver.times[1:], strict=False)]
    assert receiver.got == ["n1"]
    assert len(pauses) == 4
    assert pauses == sorted(pauses)
    assert pauses[0] >= INITIAL_BACKOFF.total_seconds()


async def test_the_backoff_is_capped(harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver) -> None:
    """A receiver that was down for five hours gets the row soon after."""
    receiver.failing = {"n1": 40}
    await send(harness, ("n1", "a"))
    await deliver_all(harness, delivery, 20_000.0)

    pauses = [later - earlier for earlier, later in zip(receiver.times, receiver.times[1:], strict=False)]
    assert max(pauses) <= MAX_BACKOFF.total_seconds() + 2
    assert receiver.got == ["n1"]


async def test_a_failed_row_delays_its_own_key_only(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """What comes behind it waits, others don't."""
    receiver.failing = {"bad": 3}
    await send(harness, ("bad", "a"), ("behind", "a"), ("free", "b"))
    await delivery.deliver()
    assert receiver.got == ["free"]

    await deliver_all(harness, delivery, 60.0)
    assert receiver.got == ["free", "bad", "behind"]


async def test_rows_without_a_receiver_are_kept(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """A host with the receiver may come."""
    await send(harness, ("n1", "a"), kind="other")
    await deliver_all(harness, delivery, 10.0)

    ((delivered_at, fault),) = harness.rows("SELECT delivered_at, fault FROM outbox")
    assert delivered_at is None
    assert "other" in str(fault)


async def test_a_row_leased_by_another_host_is_left_to_it(
    harness: HostHarness, delivery: OutboxDelivery, receiver: Receiver
) -> None:
    """Until the lease expires."""
    await send(harness, ("n1", "a"))
    await harness.store.claim_outbox("h2", 10, LEASE)
    await deliver_all(harness, delivery, LEASE.total_seconds() - 2)
    assert receiver.got == []

    await deliver_all(harness, delivery, 5.0)
    assert receiver.got == ["n1"]


class Waiter:
    """Records rows, and returns when the test requests it."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.may_end = asyncio.Event()

    async def __call__(self, row: OutboxRow) -> None:
        self.got.append(row.id)
        await self.may_end.wait()


async def test_a_slow_concurrent_receiver_delays_no_other(harness: HostHarness, receiver: Receiver) -> None:
    """It gets each row once, however many passes there are meanwhile; rows of one key stay in order."""
    waiter = Waiter()
    delivery = OutboxDelivery(
        harness.store, harness.clock, "h1", {"news": receiver, "slow": waiter}, concurrent_kinds={"slow"}
    )
    await send(
        harness, *((f"s{number}", f"k{number}") for number in range(MAX_ROWS_PER_PASS)), ("behind", "k0"), kind="slow"
    )
    running = asyncio.create_task(delivery.run())
    await harness.wait(5.0)
    await send(harness, ("n1", "a"))
    await harness.wait(5.0)
    assert receiver.got == ["n1"]
    assert sorted(waiter.got) == sorted(f"s{number}" for number in range(MAX_ROWS_PER_PASS))

    waiter.may_end.set()
    await harness.wait(5.0)
    running.cancel()
    assert waiter.got[MAX_ROWS_PER_PASS:] == ["behind"]
    assert harness.rows("SELECT count(*) FROM outbox WHERE delivered_at IS NULL") == [(0,)]


async def test_a_hanging_concurrent_receiver_times_out_before_the_lease(harness: HostHarness) -> None:
    """Then it is a failure like any other."""
    waiter = Waiter()
    delivery = OutboxDelivery(harness.store, harness.clock, "h1", {"news": waiter}, concurrent_kinds={"news"})
    await send(harness, ("n1", "a"))
    await deliver_all(harness, delivery, MAX_CONCURRENT_SECONDS + 0.5)

    assert timedelta(seconds=MAX_CONCURRENT_SECONDS) < LEASE
    assert waiter.got == ["n1"]
    ((tries, fault),) = harness.rows("SELECT tries, fault FROM outbox")
    assert tries == 1
    assert f"{MAX_CONCURRENT_SECONDS:g} s" in str(fault)


async def test_the_end_of_a_watched_run_reaches_its_receiver(harness: HostHarness) -> None:
    """From the shard's batch to the receiver."""
    got = Receiver()
    delivery = OutboxDelivery(harness.store, harness.clock, "h1", {"run.ended": got})
    await harness.lead()
    harness.play()
    (run,) = await harness.submit(job(task("a")), watched=True)
    await harness.ended(run)
    await delivery.deliver()

    assert got.got == [f"{run}:1:ended"]


class GroupReceiver:
    """Records rows in groups; fails if a bad row is among them."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.bad = ""

    async def __call__(self, rows: Sequence[OutboxRow]) -> None:
        ids = sorted(row.id for row in rows)
        if self.bad in ids:
            raise ConnectionError("one of them can't be taken")
        self.groups.append(ids)


async def test_rows_of_a_kind_are_delivered_together(harness: HostHarness) -> None:
    """With distinct keys, in one call."""
    group_receivers = GroupReceiver()
    delivery = OutboxDelivery(harness.store, harness.clock, "h1", {}, group_receivers={"news": group_receivers})
    await send(harness, ("n1", "a"), ("n2", "b"), ("n3", "a"))

    assert await delivery.deliver() == 2
    assert await delivery.deliver() == 1
    assert group_receivers.groups == [["n1", "n2"], ["n3"]]


async def test_a_bad_row_of_a_group_delays_only_itself(harness: HostHarness) -> None:
    """Then each row is delivered separately."""
    group_receivers = GroupReceiver()
    group_receivers.bad = "n2"
    delivery = OutboxDelivery(harness.store, harness.clock, "h1", {}, group_receivers={"news": group_receivers})
    await send(harness, ("n1", "a"), ("n2", "b"), ("n3", "c"))

    assert await delivery.deliver() == 2
    assert sorted(group_receivers.groups) == [["n1"], ["n3"]]
