"""Servers that share a store: their registrations, and the values that all of them agree on."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import msgspec

from mainspring.store.ports.front import ServerRow
from mainspring.store.ports.store import Store
from tests.store.builders import HOUR, NOW


def a_server(name: str, **changes: Any) -> ServerRow:
    """The registration of a server."""
    values: dict[str, Any] = {
        "name": name, "address": f"http://{name}:8484", "version": "1.0", "started_at": NOW, "last_heartbeat_at": NOW,
    }  # fmt: skip
    return ServerRow(**(values | changes))


async def test_a_servers_row_has_the_stores_time(store: Store) -> None:
    before = await store.time()

    await store.record_server_heartbeat(a_server("b"))

    (found,) = await store.servers(HOUR)
    assert before <= found.last_heartbeat_at <= await store.time()
    assert msgspec.structs.replace(found, last_heartbeat_at=NOW) == a_server("b")


async def test_a_server_that_is_heard_of_again_has_one_row_as_it_is_now(store: Store) -> None:
    await store.record_server_heartbeat(a_server("b"))
    (first,) = await store.servers(HOUR)

    await store.record_server_heartbeat(
        a_server("b", address="http://elsewhere:1", version="2.0", started_at=NOW + HOUR)
    )

    (found,) = await store.servers(HOUR)
    assert (found.address, found.version, found.started_at) == ("http://elsewhere:1", "2.0", NOW + HOUR)
    assert found.last_heartbeat_at >= first.last_heartbeat_at


async def test_a_server_that_ends_takes_its_row_away_and_no_other(store: Store) -> None:
    for name in ("a", "b"):
        await store.record_server_heartbeat(a_server(name))

    await store.delete_server("a")
    await store.delete_server("never there")

    assert [server.name for server in await store.servers(HOUR)] == ["b"]


async def test_servers_are_those_that_were_heard_of_within_the_age_by_name(store: Store) -> None:
    for name in ("c", "a", "b"):
        await store.record_server_heartbeat(a_server(name))

    assert [server.name for server in await store.servers(HOUR)] == ["a", "b", "c"]
    assert await store.servers(timedelta(seconds=-1)) == []


async def test_a_setting_keeps_what_the_first_caller_said(store: Store) -> None:
    assert await store.setting("secret", "one") == "one"
    assert await store.setting("secret", "two") == "one"
    assert await store.setting("other", "two") == "two"


async def test_callers_at_the_same_time_are_told_the_same(store: Store) -> None:
    told = await asyncio.gather(*(store.setting("secret", f"value {number}") for number in range(8)))

    assert len(set(told)) == 1
    assert await store.setting("secret", "later") == told[0]
