"""Terms: the leader of a shard, and the end of its lease."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from mainspring.core.model.batch import Batch
from mainspring.protocol.errors import Fenced
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, Leader, a_run, new_number
from tests.store.conftest import look

OVER = timedelta(0)
"""A lease of this duration expires immediately."""


async def test_ensure_shard_makes_a_shard_known_led_by_nobody(store: Store) -> None:
    await store.ensure_shard("main")

    (shard,) = await store.shards()

    assert (shard.id, shard.leader, shard.epoch, shard.batch_no) == ("main", "", 0, 0)
    assert shard.lease_until < await store.time()


async def test_ensure_shard_does_nothing_if_it_is_known(store: Store) -> None:
    await Leader.of(store)
    before = await store.shards()

    await store.ensure_shard("main")

    assert await store.shards() == before


async def test_shards_are_listed_by_id(store: Store) -> None:
    for shard in ("b", "a-", "a", "B", "é"):
        await store.ensure_shard(shard)

    assert [shard.id for shard in await store.shards()] == ["B", "a", "a-", "b", "é"]


async def test_campaign_takes_the_lead_of_a_free_shard(store: Store) -> None:
    await store.ensure_shard("main")
    before = await store.time()

    term = await store.campaign("main", "host-1", 7, HOUR)

    assert term is not None
    assert (term.shard, term.epoch, term.nonce, term.batch_no) == ("main", 1, 7, 0)
    assert before <= term.granted_at <= await store.time()
    (shard,) = await store.shards()
    assert (shard.leader, shard.epoch) == ("host-1", 1)
    assert before + HOUR <= shard.lease_until <= await store.time() + HOUR


async def test_campaign_gives_none_if_the_lease_is_not_over(store: Store) -> None:
    await Leader.of(store)

    assert await store.campaign("main", "host-2", new_number(), HOUR) is None


async def test_campaign_gives_none_for_a_shard_that_is_not_known(store: Store) -> None:
    assert await store.campaign("nowhere", "host-1", new_number(), HOUR) is None


async def test_campaign_takes_the_lead_when_the_lease_is_over_by_the_stores_clock(store: Store) -> None:
    await Leader.of(store, ttl=OVER)

    term = await store.campaign("main", "host-2", new_number(), HOUR)

    assert term is not None
    assert term.epoch == 2


async def test_campaign_takes_the_lead_when_the_lease_was_released(store: Store) -> None:
    leader = await Leader.of(store)
    await store.release(leader.term)

    term = await store.campaign("main", "host-2", new_number(), HOUR)

    assert term is not None
    assert term.epoch == 2


async def test_campaign_appends_the_term_to_terms(store: Store) -> None:
    first = await Leader.of(store, ttl=OVER)
    second = await Leader.of(store)

    terms = await look(store, "SELECT shard, epoch, nonce, batch_no, holder FROM terms ORDER BY epoch")

    assert terms == [("main", 1, first.term.nonce, 0, "host-1"), ("main", 2, second.term.nonce, 0, "host-1")]


async def test_campaign_repeated_with_the_nonce_of_the_current_term_returns_that_term_as_it_is_now(
    store: Store,
) -> None:
    leader = await Leader.of(store)
    await leader.commit()

    again = await store.campaign("main", "host-1", leader.term.nonce, HOUR)

    assert again is not None
    assert (again.epoch, again.granted_at, again.batch_no) == (1, leader.term.granted_at, 1)
    assert len(await look(store, "SELECT * FROM terms")) == 1


async def test_a_nonce_serves_one_term_only(store: Store) -> None:
    first = await Leader.of(store, ttl=OVER)
    await Leader.of(store, ttl=OVER)

    assert await store.campaign("main", "host-1", first.term.nonce, HOUR) is None


async def test_the_number_of_batches_never_restarts(store: Store) -> None:
    first = await Leader.of(store, ttl=OVER)
    await first.commit()
    await first.commit()
    await store.release(first.term)

    second = await Leader.of(store)

    assert second.term.batch_no == 2
    await second.commit()


async def test_of_many_that_campaign_at_once_one_leads(store: Store) -> None:
    await store.ensure_shard("main")

    terms = await asyncio.gather(*(store.campaign("main", f"host-{n}", 100 + n, HOUR) for n in range(8)))

    (winner,) = [term for term in terms if term]
    assert winner.epoch == 1
    (shard,) = await store.shards()
    assert shard.leader == f"host-{winner.nonce - 100}"


async def test_release_ends_the_lease_at_once(store: Store) -> None:
    leader = await Leader.of(store)

    await store.release(leader.term)

    (shard,) = await store.shards()
    assert shard.leader == ""
    assert shard.lease_until <= await store.time()


async def test_release_ends_the_term(store: Store) -> None:
    leader = await Leader.of(store)
    await store.release(leader.term)

    with pytest.raises(Fenced):
        await leader.commit()


async def test_release_does_nothing_if_the_term_is_over(store: Store) -> None:
    first = await Leader.of(store, ttl=OVER)
    second = await Leader.of(store)

    await store.release(first.term)
    await store.release(first.term)

    await second.commit()


async def test_commit_renews_the_lease_for_the_length_that_it_was_given_with(store: Store) -> None:
    leader = await Leader.of(store)

    at = await leader.commit()

    (shard,) = await store.shards()
    assert at + HOUR - timedelta(seconds=1) < shard.lease_until <= await store.time() + HOUR


async def test_commit_returns_the_stores_time(store: Store) -> None:
    leader = await Leader.of(store)
    before = await store.time()

    at = await leader.commit(runs=[])

    assert before <= at <= await store.time()


async def test_commit_is_fenced_when_another_server_leads(store: Store) -> None:
    first = await Leader.of(store, ttl=OVER)
    run = a_run()
    (task,) = await first.adopt(run)
    second = await Leader.of(store)

    with pytest.raises(Fenced):
        await first.commit(archived=[], tasks=[], runs=[a_run()])

    assert (await store.load("main")).tasks == [task]
    await second.commit()


async def test_commit_is_fenced_when_the_same_epoch_was_handed_out_twice(store: Store) -> None:
    """A store that lost its last commits has lost the second epoch, and assigns it again to another leader."""
    leader = await Leader.of(store)
    forged = type(leader.term)(
        shard="main", epoch=leader.term.epoch, nonce=new_number(), batch_no=0, granted_at=leader.term.granted_at
    )

    with pytest.raises(Fenced):
        await store.commit(forged, 1, Batch())


async def test_commit_is_fenced_if_its_number_does_not_follow(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit()
    await leader.commit()

    for number in (0, 1, 4, 5):
        with pytest.raises(Fenced):
            await store.commit(leader.term, number, Batch())

    await leader.commit()


async def test_time_goes_forward(store: Store) -> None:
    first = await store.time()

    assert first <= await store.time()
    assert first.utcoffset() == timedelta(0)
