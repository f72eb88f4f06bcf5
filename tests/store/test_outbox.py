"""The outbox: at-least-once delivery, in order, one at a time per key."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, Leader, an_outgoing
from tests.store.conftest import look

OVER = timedelta(0)


async def ids(store: Store, holder: str = "h1", limit: int = 100, lease: timedelta = HOUR) -> list[str]:
    """The ids of the rows that a holder gets."""
    return [outgoing.id for outgoing in await store.claim_outbox(holder, limit, lease)]


async def test_take_outgoing_gives_undelivered_rows(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing(payload='{"run": "ü"}')
    await leader.commit(outbox=[outgoing])

    assert await store.claim_outbox("h1", 10, HOUR) == [outgoing]


async def test_take_outgoing_gives_nothing_that_was_delivered(store: Store) -> None:
    leader = await Leader.of(store)
    first, second = an_outgoing(), an_outgoing()
    await leader.commit(outbox=[first, second])

    await store.delivered([first.id, "unknown"])
    await store.delivered([first.id])

    assert await ids(store) == [second.id]


async def test_take_outgoing_gives_nothing_that_is_not_due(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(outbox=[an_outgoing(created_at=await store.time() + HOUR)])

    assert await ids(store) == []


async def test_take_outgoing_gives_the_oldest_of_each_key(store: Store) -> None:
    leader = await Leader.of(store)
    a1, a2, b1, b2 = (an_outgoing(key=key) for key in ("a", "a", "b", "b"))
    await leader.commit(outbox=[a1, b1, a2])
    await leader.commit(outbox=[b2])

    assert await ids(store) == [a1.id, b1.id]
    await store.delivered([b1.id])
    assert await ids(store, "h2") == [b2.id]


async def test_rows_of_one_batch_keep_their_order(store: Store) -> None:
    leader = await Leader.of(store)
    rows = [an_outgoing(key="k", id=f"o{9 - n}") for n in range(9)]
    await leader.commit(outbox=rows)

    for row in rows:
        assert await ids(store) == [row.id]
        await store.delivered([row.id])


async def test_take_outgoing_gives_at_most_so_many(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(outbox=[an_outgoing() for _ in range(5)])

    assert len(await ids(store, "h1", limit=3)) == 3
    assert len(await ids(store, "h2", limit=3)) == 2


async def test_a_key_that_is_held_by_another_server_is_left_alone(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(outbox=[an_outgoing(key="a"), an_outgoing(key="a")])
    await ids(store, "h1")

    assert await ids(store, "h2") == []


async def test_the_holder_gets_its_rows_again_if_it_asks_again(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing()
    await leader.commit(outbox=[outgoing])

    assert await ids(store, "h1") == await ids(store, "h1") == [outgoing.id]


async def test_after_the_lease_anybody_may_take_them_again(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing()
    await leader.commit(outbox=[outgoing])
    await ids(store, "h1", lease=OVER)

    assert await ids(store, "h2") == [outgoing.id]


async def test_many_that_take_at_once_get_different_rows(store: Store) -> None:
    leader = await Leader.of(store)
    await leader.commit(outbox=[an_outgoing() for _ in range(40)])

    taken = await asyncio.gather(*(ids(store, f"h{n}", limit=10) for n in range(4)))

    together = [outgoing for some in taken for outgoing in some]
    assert len(together) == len(set(together))
    rest = await ids(store, "h9")
    assert len(together) + len(rest) == 40


async def test_what_is_postponed_comes_again_after_the_delay(store: Store) -> None:
    leader = await Leader.of(store)
    now, later = an_outgoing(), an_outgoing()
    await leader.commit(outbox=[now, later])
    await ids(store, "h1")

    await store.postpone(now.id, OVER, "connection refused")
    await store.postpone(later.id, HOUR, "no such host")

    assert await ids(store, "h2") == [now.id]
    assert await look(store, "SELECT id, tries, fault FROM outbox ORDER BY seq") == [
        (now.id, 1, "connection refused"),
        (later.id, 1, "no such host"),
    ]


async def test_what_is_behind_a_postponed_row_waits_with_it(store: Store) -> None:
    leader = await Leader.of(store)
    head, behind = an_outgoing(key="k"), an_outgoing(key="k")
    await leader.commit(outbox=[head, behind])
    await store.postpone(head.id, HOUR, "down")

    assert await ids(store) == []


async def test_postponing_what_was_delivered_does_nothing(store: Store) -> None:
    leader = await Leader.of(store)
    outgoing = an_outgoing()
    await leader.commit(outbox=[outgoing])
    await store.delivered([outgoing.id])

    await store.postpone(outgoing.id, OVER, "too late")

    assert await ids(store) == []
