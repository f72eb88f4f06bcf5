"""Webhooks and their deliveries."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mainspring.protocol.errors import VersionMismatch
from mainspring.store.ports.admin import AuditFilter, DeliveryRow, WebhookRow
from mainspring.store.ports.store import Store
from tests.store.admin_builders import a_delivery, a_webhook, an_entry
from tests.store.builders import DAY, HOUR, an_outgoing
from tests.store.conftest import look
from tests.store.test_audit import told


async def given_webhook(store: Store, **changes: object) -> WebhookRow:
    """A stored webhook."""
    return await store.put_webhook(a_webhook(**changes), None, an_entry(action="put_webhook"))


async def given_deliveries(store: Store, *deliveries: DeliveryRow) -> None:
    """Messages to deliver."""
    await store.add_deliveries(deliveries, [an_outgoing(id=f"out_{delivery.id}") for delivery in deliveries])


async def outgoing(store: Store) -> list[str]:
    """Ids of the messages to deliver."""
    return [row[0] for row in await look(store, "SELECT id FROM outbox ORDER BY seq")]


async def test_a_webhook_is_kept_in_versions(store: Store) -> None:
    request = a_webhook()
    before = await store.time()

    first = await store.put_webhook(request, 0, an_entry())

    assert before <= first.created_at <= await store.time()
    assert first == replace(request, version=1, created_at=first.created_at)
    changed = replace(request, events=(), job="report", enabled=False, created_by="token:bob")
    second = await store.put_webhook(changed, 1, an_entry())
    assert second == replace(changed, version=2, created_at=first.created_at, created_by="token:ann")
    with pytest.raises(VersionMismatch):
        await store.put_webhook(request, 1, an_entry())
    assert await store.find_webhook(request.id) == second
    assert await store.find_webhook("hook_unknown") is None


async def test_webhooks_are_listed_by_id_of_a_tenant_or_of_all_in_pages(store: Store) -> None:
    hooks = [await given_webhook(store, tenant=tenant) for tenant in ("a", "b", "a", "a")]

    assert await store.list_webhooks(None, "", 10) == hooks
    assert await store.list_webhooks("a", "", 2) == [hooks[0], hooks[2]]
    assert await store.list_webhooks("a", hooks[2].id, 2) == [hooks[3]]
    assert await store.list_webhooks("c", "", 2) == []


async def test_messages_are_kept_with_what_sends_them_once(store: Store) -> None:
    hook = await given_webhook(store)
    first, second = a_delivery(hook), a_delivery(hook)
    await given_deliveries(store, first)
    await store.add_deliveries([first, second], [an_outgoing(id="out_again"), an_outgoing(id=f"out_{second.id}")])

    assert await outgoing(store) == [f"out_{first.id}", f"out_{second.id}"]
    assert await store.find_delivery(first.id) == first
    assert await store.find_delivery("msg_unknown") is None
    await store.add_deliveries([], [])


async def test_messages_are_listed_backwards_in_pages(store: Store) -> None:
    hook, other = await given_webhook(store), await given_webhook(store)
    deliveries = [a_delivery(hook) for _ in range(4)]
    await given_deliveries(store, *deliveries, a_delivery(other))

    assert await store.list_deliveries(hook.id, "", 3) == deliveries[:0:-1]
    assert await store.list_deliveries(hook.id, deliveries[1].id, 3) == deliveries[:1]


async def test_each_try_of_a_message_is_noted(store: Store) -> None:
    hook = await given_webhook(store)
    delivery = a_delivery(hook)
    await given_deliveries(store, delivery)
    before = await store.time()

    await store.record_delivery(delivery.id, state="waiting", status=None, fault="no route")
    await store.record_delivery(delivery.id, state="delivered", status=204, fault="")
    await store.record_delivery("msg_unknown", state="delivered", status=204, fault="")

    found = await store.find_delivery(delivery.id)
    assert found is not None
    assert found.last_at is not None
    assert before <= found.last_at <= await store.time()
    assert found == replace(delivery, state="delivered", tries=2, status=204, last_at=found.last_at)


async def test_a_message_can_be_sent_once_more(store: Store) -> None:
    hook = await given_webhook(store)
    delivery = a_delivery(hook)
    await given_deliveries(store, delivery)
    await store.record_delivery(delivery.id, state="failed", status=500, fault="broken")
    entry = an_entry(action="resend")

    assert await store.resend(delivery.id, an_outgoing(id="out_again"), entry)
    assert not await store.resend("msg_unknown", an_outgoing(), an_entry(action="resend"))

    found = await store.find_delivery(delivery.id)
    assert found is not None
    assert (found.state, found.tries, found.status) == ("waiting", 1, 500)
    assert await outgoing(store) == [f"out_{delivery.id}", "out_again"]
    assert await told(store, AuditFilter(action="resend")) == [entry.id]


async def test_a_webhook_that_is_taken_away_takes_its_messages_with_it(store: Store) -> None:
    hook, other = await given_webhook(store), await given_webhook(store)
    mine, theirs = a_delivery(hook), a_delivery(other)
    await given_deliveries(store, mine, theirs)
    entry = an_entry(action="drop_webhook")

    assert await store.drop_webhook(hook.id, entry)
    assert not await store.drop_webhook(hook.id, an_entry(action="drop_webhook"))

    assert await store.find_webhook(hook.id) is None
    assert await store.find_delivery(mine.id) is None
    assert await store.list_deliveries(hook.id, "", 10) == []
    assert not await store.resend(mine.id, an_outgoing(), an_entry(action="drop_webhook"))
    assert await store.find_delivery(theirs.id) == theirs
    assert await told(store, AuditFilter(action="drop_webhook")) == [entry.id]


async def test_old_messages_go_unless_they_wait_for_a_webhook_that_is_there(store: Store) -> None:
    hook, gone = await given_webhook(store), await given_webhook(store)
    old = await store.time() - 40 * DAY
    waits, sent, new, orphan = (
        a_delivery(hook, created_at=old),
        a_delivery(hook, created_at=old),
        a_delivery(hook, created_at=old + 39 * DAY),
        a_delivery(gone, created_at=old),
    )
    await given_deliveries(store, waits, sent, new, orphan)
    for delivery in (sent, new):
        await store.record_delivery(delivery.id, state="delivered", status=200, fault="")
    await store.drop_webhook(gone.id, an_entry())

    assert (await store.prune("webhook_deliveries", 30 * DAY)).rows == 2
    assert await look(store, "SELECT id FROM webhook_deliveries ORDER BY id") == [(waits.id,), (new.id,)]
    assert (await store.prune("webhook_deliveries", HOUR)).rows == 1
