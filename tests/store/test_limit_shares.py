"""Shares of limits and failure counts of shards: taken behind the fence, lowered by batches, loaded."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.model.batch import Batch
from mainspring.core.model.task import Priority
from mainspring.protocol.errors import Fenced, Rejected
from mainspring.store.ports.store import Store
from mainspring.store.sql.sharing_statements import KEPT_FAILURE_COUNTS
from tests.store.builders import HOUR, Leader, a_run, adopted
from tests.store.conftest import look
from tests.store.sharing_builders import LIMIT, a_share, a_tally

MINUTE = timedelta(minutes=1)


# taking


async def test_a_shard_gets_of_a_limit_what_is_free_and_its_need_is_noted(store: Store) -> None:
    first, second = await Leader.of(store, "a"), await Leader.of(store, "b")

    assert await store.take_share(first.term, LIMIT, 10, 7) == a_share(holder="a", granted=7, needed=7)
    assert await store.take_share(second.term, LIMIT, 10, 7) == a_share(holder="b", granted=3, needed=7)
    assert await store.take_share(first.term, LIMIT, 10, 2) == a_share(holder="a", granted=7, needed=2)
    assert await store.take_share(second.term, "other", 1, 7) == a_share(limit="other", holder="b", needed=7)


async def test_shares_are_listed_by_limit_and_holder(store: Store) -> None:
    leaders = [await Leader.of(store, shard) for shard in ("b", "a")]
    for leader in leaders:
        for limit in ("y", "z", "x"):
            await store.take_share(leader.term, limit, 4, 2)

    assert [(share.limit, share.holder) for share in await store.shares(["z", "x", "unknown"])] == [
        ("x", "a"), ("x", "b"), ("z", "a"), ("z", "b"),
    ]  # fmt: skip
    assert await store.shares([]) == []


async def test_a_share_that_is_asked_for_again_is_the_same(store: Store) -> None:
    """The response was lost."""
    leader = await Leader.of(store)

    answers = [await store.take_share(leader.term, LIMIT, 5, 3) for _ in range(2)]

    assert answers[0] == answers[1] == a_share(granted=3, needed=3)


async def test_who_does_not_lead_any_more_takes_nothing(store: Store) -> None:
    leader = await Leader.of(store)
    await store.release(leader.term)
    with pytest.raises(Fenced):
        await store.take_share(leader.term, LIMIT, 5, 3)

    await Leader.of(store)
    with pytest.raises(Fenced):
        await store.take_share(leader.term, LIMIT, 5, 3)

    assert await store.shares([LIMIT]) == []


async def test_taking_neither_renews_the_lease_nor_counts_as_a_batch(store: Store) -> None:
    leader = await Leader.of(store)
    before = await store.shards()

    await store.take_share(leader.term, LIMIT, 5, 3)

    assert await store.shards() == before
    await leader.commit()


async def test_several_who_take_at_once_never_have_more_than_the_limit(store: Store) -> None:
    leaders = [await Leader.of(store, f"shard-{number}") for number in range(8)]

    shares = await asyncio.gather(*(store.take_share(leader.term, LIMIT, 10, 3) for leader in leaders))

    assert sum(share.granted for share in shares) == 10
    assert sorted(await store.shares([LIMIT]), key=lambda share: share.holder) == sorted(
        shares, key=lambda share: share.holder
    )


async def test_a_limit_or_a_shard_that_the_store_refuses_is_rejected(store: Store) -> None:
    leader = await Leader.of(store)
    for limit in ("a\0b", "\udc80"):
        with pytest.raises(Rejected):
            await store.take_share(leader.term, limit, 5, 3)


# lowering


async def test_a_batch_lowers_a_share_and_never_raises_it(store: Store) -> None:
    leader = await Leader.of(store)
    await store.take_share(leader.term, LIMIT, 10, 7)

    await leader.commit(shares=[a_share(granted=4, needed=6)])
    assert await store.shares([LIMIT]) == [a_share(granted=4, needed=6)]

    await leader.commit(shares=[a_share(granted=9, needed=9)])
    assert await store.shares([LIMIT]) == [a_share(granted=4, needed=9)]


async def test_a_share_of_nothing_goes_if_nothing_is_needed(store: Store) -> None:
    leader = await Leader.of(store)
    for limit in ("waits", "gone", "kept"):
        await store.take_share(leader.term, limit, 10, 7)

    await leader.commit(
        shares=[a_share(limit="waits", granted=0, needed=1), a_share(limit="gone", granted=0, needed=0)]
    )

    assert [(share.limit, share.granted) for share in await store.shares(["gone", "kept", "waits"])] == [
        ("kept", 7), ("waits", 0),
    ]  # fmt: skip


async def test_a_share_that_a_batch_names_twice_is_as_it_was_last(store: Store) -> None:
    leader = await Leader.of(store)
    await store.take_share(leader.term, LIMIT, 10, 7)

    await leader.commit(shares=[a_share(granted=5, needed=5), a_share(granted=4, needed=6)])

    assert await store.shares([LIMIT]) == [a_share(granted=4, needed=6)]


async def test_a_batch_changes_no_share_of_another_shard_and_makes_none(store: Store) -> None:
    first, second = await Leader.of(store, "a"), await Leader.of(store, "b")
    share = await store.take_share(first.term, LIMIT, 10, 7)

    await second.commit(shares=[a_share(holder="a", granted=0, needed=0), a_share(holder="b", limit="new")])

    assert await store.shares([LIMIT, "new"]) == [share]


async def test_a_batch_that_was_written_before_lowers_nothing_again(store: Store) -> None:
    leader = await Leader.of(store)
    await store.take_share(leader.term, LIMIT, 10, 7)
    await leader.commit(shares=[a_share(granted=2, needed=2)])
    share = await store.take_share(leader.term, LIMIT, 10, 7)

    await store.commit(leader.term, leader.number, Batch(shares=[a_share(granted=2, needed=2)]))

    assert await store.shares([LIMIT]) == [share]


# loading


async def test_a_new_leader_has_the_shares_of_its_shard_by_limit(store: Store) -> None:
    main, other = await Leader.of(store), await Leader.of(store, "other")
    for limit in ("b", "a"):
        await store.take_share(main.term, limit, 10, 7)
        await store.take_share(other.term, limit, 10, 1)
    run = a_run()
    await main.adopt(run)

    assert [(share.limit, share.holder) for share in (await store.load("main")).shares] == [
        ("a", "main"),
        ("b", "main"),
    ]
    assert (await store.load_run(run.id)).shares == []


async def test_a_new_leader_has_the_tallies_of_the_latest_hour(store: Store) -> None:
    leader, other = await Leader.of(store), await Leader.of(store, "other")
    now = await store.time()
    latest = [
        a_tally(since=now - 61 * MINUTE, failures=4),
        a_tally(since=now - 5 * MINUTE, tenant="a"),
        a_tally(since=now - 5 * MINUTE, tenant="b"),
        a_tally(since=now),
    ]
    await leader.commit(failure_counts=[*reversed(latest), a_tally(since=now - KEPT_FAILURE_COUNTS - MINUTE)])
    await other.commit(failure_counts=[a_tally(since=now, shard="other")])
    run = a_run()
    await leader.adopt(run)

    assert (await store.load("main")).failure_counts == latest
    assert (await store.load_run(run.id)).failure_counts == []


async def test_a_tally_replaces_what_was_counted_before(store: Store) -> None:
    leader = await Leader.of(store)
    since = await store.time()

    await leader.commit(failure_counts=[a_tally(since=since, failures=3)])
    await leader.commit(failure_counts=[a_tally(since=since, failures=5), a_tally(since=since, failures=7)])

    assert (await store.load("main")).failure_counts == [a_tally(since=since, failures=7)]


async def test_old_tallies_go_with_the_next_one_of_their_shard(store: Store) -> None:
    leader, other = await Leader.of(store), await Leader.of(store, "other")
    await other.commit(failure_counts=[a_tally(shard="other", since=await store.time())])
    await leader.commit(failure_counts=[a_tally(since=await store.time() - 2 * HOUR)])

    await leader.commit(failure_counts=[a_tally(since=await store.time(), tenant="new")])

    assert await look(store, "SELECT shard, tenant FROM failure_counts ORDER BY shard, tenant") == [
        ("main", "new"), ("other", "acme"),
    ]  # fmt: skip


# intake


async def test_runs_in_intake_are_counted_by_priority_up_to_a_number(store: Store) -> None:
    leader = await Leader.of(store)
    tenants = ("a", "b", "c")
    await store.insert_runs([
        *(a_run(tenant=tenant, priority=Priority.P2) for tenant in tenants for _ in range(2)),
        a_run(priority=Priority.P0),
        a_run(priority=Priority.P1, held="by hand"),
        a_run(priority=Priority.P1, start_at=await store.time() + HOUR),
        a_run(priority=Priority.P1, shard="other"),
    ])  # fmt: skip
    adopted_run = a_run(priority=Priority.P1)
    await store.insert_runs([adopted_run])
    await leader.commit(runs=[adopted(adopted_run)])

    assert await store.count_intake("main", 100) == {Priority.P0: 1, Priority.P1: 0, Priority.P2: 6}
    assert await store.count_intake("main", 4) == {Priority.P0: 1, Priority.P1: 0, Priority.P2: 4}
    assert await store.count_intake("unknown", 4) == dict.fromkeys(Priority, 0)
