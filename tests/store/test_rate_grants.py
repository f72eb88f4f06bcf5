"""Cluster-wide rates: allowances are taken durably, one at a time, by the store's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from itertools import permutations
from typing import NamedTuple

import pytest

from mainspring.core.limits.rate_grants import MAX_TAKES, RateRequest
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Rejected
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql.sharing_statements import FORGOTTEN_AT_ONCE
from mainspring.store.sqlite.store import SqliteStore
from tests.store.builders import HOUR, UNHURRIED, Leader
from tests.store.conftest import look
from tests.store.sharing_builders import a_request
from tests.store.test_rules import write


async def granted(store: Store, *requests: RateRequest) -> list[int]:
    """The granted allowance of each request."""
    return [answer.granted for answer in await store.take_rate_grants(requests)]


async def test_a_request_is_granted_up_to_the_limit_and_then_per_period(store: Store) -> None:
    before = await store.time()

    (first,) = await store.take_rate_grants([a_request(wanted=3)])
    (second,) = await store.take_rate_grants([a_request(wanted=3)])
    (third,) = await store.take_rate_grants([a_request()])

    assert (first.granted, first.more_at) == (3, None)
    assert (second.granted, third.granted) == (2, 0)
    assert second.more_at == third.more_at
    assert second.more_at is not None
    hour = timedelta(hours=1)
    assert before + hour <= second.more_at <= await store.time() + hour


async def test_each_request_is_answered_in_order(store: Store) -> None:
    requests = [a_request(limit=limit, wanted=wanted) for limit, wanted in (("z", 2), ("a", 9), ("z", 4), ("m", 1))]

    answers = await store.take_rate_grants(requests)

    assert [(answer.limit, answer.granted) for answer in answers] == [("z", 2), ("a", 5), ("z", 3), ("m", 1)]
    assert await store.take_rate_grants([]) == []


async def test_what_was_taken_counts_for_a_period_by_the_stores_time(store: Store) -> None:
    """The period is so short that an allowance no longer counts at the next call."""
    for _ in range(3):
        assert await granted(store, a_request(wanted=5, per_seconds=1e-9)) == [5]


async def test_a_limit_that_is_changed_counts_what_was_taken_before(store: Store) -> None:
    await granted(store, a_request(wanted=5), a_request(wanted=5, limit="raised"))

    assert await granted(store, a_request(wanted=5, most=7, limit="raised")) == [2]
    assert await granted(store, a_request(wanted=5, most=3)) == [0]
    assert await granted(store, a_request(wanted=5, per_seconds=1e-9)) == [5]


async def test_one_refused_request_fails_the_others_too(store: Store) -> None:
    for bad in ("a\0b", "\udc80"):
        with pytest.raises(Rejected):
            await store.take_rate_grants([a_request(), a_request(limit=bad)])

    assert await granted(store, a_request(wanted=9)) == [5]


async def test_takes_that_count_no_more_are_deleted_with_the_next(store: Store) -> None:
    for _ in range(10):
        await granted(store, a_request(per_seconds=1e-9))

    ((takes,),) = await look(store, "SELECT takes FROM rate_usage")
    assert takes.count("[") == 2  # the list and one allowance


async def test_of_a_limit_that_many_take_from_only_so_much_is_kept(store: Store) -> None:
    for _ in range(2 * MAX_TAKES):
        assert await granted(store, a_request(most=1000)) == [1]

    ((takes,),) = await look(store, "SELECT takes FROM rate_usage")
    assert takes.count("[") <= MAX_TAKES + 1
    assert await granted(store, a_request(most=1000, wanted=1000)) == [1000 - 2 * MAX_TAKES]


async def test_limits_that_nobody_uses_any_more_are_forgotten_when_a_new_one_is_used(store: Store) -> None:
    leader = await Leader.of(store)
    names = [f"user:{number:02}" for number in range(FORGOTTEN_AT_ONCE + 2)]
    await granted(store, *(a_request(limit=name) for name in names), a_request(limit="counts"))
    await store.take_share(leader.term, "held", 5, 1)
    past = "0" if isinstance(store, SqliteStore) else "'epoch'"
    await write(store, f"""UPDATE rate_usage SET counts_until = {past} WHERE "limit" <> 'counts'""")

    await granted(store, a_request(limit="new"))
    left = {name for (name,) in await look(store, 'SELECT "limit" FROM rate_usage')}
    assert {"counts", "new"} < left
    assert len(left.intersection(names)) == 2

    await granted(store, a_request(limit="newer"))
    left = {name for (name,) in await look(store, 'SELECT "limit" FROM rate_usage')}
    assert left - {"held"} == {"counts", "new", "newer"}
    assert [share.granted for share in await store.shares(["held"])] == [1]


# several servers at once


class Taken(NamedTuple):
    """A grant, and the times of the store around it."""

    after: datetime
    before: datetime
    amount: int


@pytest.fixture(params=["sqlite", "postgres"])
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[list[Store]]:
    """Eight clients of the same store: on PostgreSQL, four connections of each of two servers."""
    opened: list[Store]
    if request.param == "sqlite":
        opened = [SqliteStore.open(":memory:", clock=SystemClock())]
    else:
        url = request.getfixturevalue("postgres_url")
        opened = [await PostgresStore.connect(url, connections=4, limits=UNHURRIED, lease=HOUR) for _ in range(2)]
    yield [opened[number % len(opened)] for number in range(8)]
    for store in opened:
        await store.close()


async def test_eight_who_take_at_once_get_as_much_as_there_is_together(servers: list[Store]) -> None:
    """They name the limits in any order, and create them."""

    async def take(store: Store, limits: Sequence[str]) -> list[int]:
        requests = [a_request(limit=limit, most=50, wanted=2) for limit in limits]
        return [amount for _ in range(4) for amount in await granted(store, *requests)]

    orders = list(permutations("abc"))
    amounts = await asyncio.gather(*(take(store, orders[number % 6]) for number, store in enumerate(servers)))

    assert sum(sum(some) for some in amounts) == 3 * 50
    assert await granted(servers[0], *(a_request(limit=limit, most=50) for limit in "abc")) == [0, 0, 0]


async def test_no_period_has_more_than_the_limit_for_all_servers(servers: list[Store]) -> None:
    """Eight clients take as fast as they can, until they have taken five times the limit."""
    most, period = 7, timedelta(seconds=0.1)
    taken: list[Taken] = []

    async def hammer(store: Store) -> None:
        while sum(one.amount for one in taken) < 5 * most:
            after = await store.time()
            (amount,) = await granted(store, a_request(most=most, per_seconds=0.1, wanted=2))
            taken.append(Taken(after, await store.time(), amount))

    await asyncio.gather(*(hammer(store) for store in servers))

    for first in taken:
        # An allowance was taken between the two times. These were certainly within one period:
        surely = [one.amount for one in taken if first.after <= one.after and one.before < first.after + period]
        assert sum(surely) <= most
