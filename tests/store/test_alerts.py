"""Alert episodes (OBS-6): at most one is open per key, and its notices are written with it."""

from __future__ import annotations

from msgspec.structs import replace

from mainspring.core.model.batch import OutboxRow
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, NOW, an_outgoing
from tests.store.conftest import look
from tests.store.schedule_builders import an_alert


async def sent(store: Store) -> list[str]:
    """The ids of the outbox rows, in order."""
    return [id for (id,) in await look(store, "SELECT id FROM outbox ORDER BY seq")]  # noqa: A001


async def test_an_episode_begins_with_what_is_sent_about_it(store: Store) -> None:
    alert, outgoing = an_alert(details='{"task":"t"}'), an_outgoing()

    assert await store.open_alert(alert, [outgoing])

    assert await store.list_alerts(None, None, "", 10) == [alert]
    assert await sent(store) == [outgoing.id]


async def test_an_episode_that_is_open_counts_one_more_and_nothing_is_sent(store: Store) -> None:
    first = an_alert(key="stuck", summary="stuck for 1 h")
    again = an_alert(key="stuck", summary="stuck for 2 h", last_at=NOW + HOUR)
    await store.open_alert(first, [])

    assert not await store.open_alert(again, [an_outgoing()])

    assert await store.list_alerts(None, None, "", 10) == [
        replace(first, count=2, summary="stuck for 2 h", last_at=NOW + HOUR)
    ]
    assert await sent(store) == []


async def test_the_same_call_again_begins_one_episode(store: Store) -> None:
    alert, outgoing = an_alert(), an_outgoing()

    assert await store.open_alert(alert, [outgoing])
    assert await store.open_alert(alert, [outgoing])
    resolved = await store.resolve_alert(alert.key, NOW + HOUR, lambda _: [])
    assert await store.open_alert(alert, [outgoing])

    assert await store.list_alerts(None, None, "", 10) == [resolved]
    assert await sent(store) == [outgoing.id]


async def test_the_open_episode_of_a_key_is_ended_with_what_is_sent_about_it(store: Store) -> None:
    alert, other, outgoing = an_alert(), an_alert(), an_outgoing()
    await store.open_alert(alert, [])
    await store.open_alert(other, [])
    told: list[AlertRow] = []

    def tell(row: AlertRow) -> list[OutboxRow]:
        told.append(row)
        return [outgoing]

    resolved = await store.resolve_alert(alert.key, NOW + HOUR, tell)

    assert resolved == replace(alert, resolved_at=NOW + HOUR)
    assert told == [resolved]
    assert await sent(store) == [outgoing.id]
    assert await store.list_alerts(None, True, "", 10) == [other]


async def test_nothing_happens_if_no_episode_is_open_under_a_key(store: Store) -> None:
    alert = an_alert()
    await store.open_alert(alert, [])
    await store.resolve_alert(alert.key, NOW, lambda _: [])

    for key in (alert.key, "unknown"):
        assert await store.resolve_alert(key, NOW + HOUR, lambda _: [an_outgoing()]) is None

    assert await sent(store) == []


async def test_an_episode_may_follow_one_of_the_same_key_that_is_over(store: Store) -> None:
    first, second = an_alert(key="stuck"), an_alert(key="stuck")
    await store.open_alert(first, [])
    await store.resolve_alert("stuck", NOW, lambda _: [])

    assert await store.open_alert(second, [])

    assert await store.list_alerts(None, True, "", 10) == [second]


async def test_episodes_are_listed_by_id_the_latest_first_as_wanted(store: Store) -> None:
    first, second, third = an_alert(), an_alert(tenant="other"), an_alert()
    for alert in (second, first, third):
        await store.open_alert(alert, [])
    over = await store.resolve_alert(first.key, NOW, lambda _: [])

    assert await store.list_alerts(None, None, "", 10) == [third, second, over]
    assert await store.list_alerts(None, None, "", 2) == [third, second]
    assert await store.list_alerts(None, None, second.id, 10) == [over]
    assert await store.list_alerts("other", None, "", 10) == [second]
    assert await store.list_alerts(None, True, "", 10) == [third, second]
    assert await store.list_alerts(None, False, "", 10) == [over]
