"""Bulk apply with the client: requests, batches and results."""

from __future__ import annotations

import json
from collections.abc import Iterable

import msgspec
import pytest

from mainspring.client.client import Client
from mainspring.protocol.errors import Unavailable
from mainspring.protocol.rest.apply import MAX_ITEMS, ApplyItem, ScheduleItem
from tests.client.scripted_server import HANG_UP, Answer, scripted


def items(count: int, size: int = 0) -> list[ApplyItem]:
    """`count` items, each a job with a description of this length."""
    return [
        ApplyItem(job=msgspec.Raw(msgspec.json.encode({"name": f"j{number}", "description": "x" * size})))
        for number in range(count)
    ]


def lines(names: Iterable[str]) -> Answer:
    """The response for new items."""
    told = [json.dumps({"number": n, "job": name, "change": "created"}) for n, name in enumerate(names)]
    return Answer(body="\n".join(told).encode())


def names_in(body: bytes) -> list[str]:
    """The names of the jobs that were sent."""
    return [item["job"]["name"] for item in json.loads(body)["items"]]


def test_many_items_are_batched_with_continuous_numbers() -> None:
    wanted = [f"j{number}" for number in range(MAX_ITEMS + 1)]
    with (
        scripted(HANG_UP, lines(wanted[:MAX_ITEMS]), lines(wanted[MAX_ITEMS:])) as server,
        Client(server.url, tenant="acme") as client,
    ):
        told = list(client.apply(items(MAX_ITEMS + 1), why="a deployment", dry_run=True))

    assert [(line.number, line.job) for line in told] == list(enumerate(wanted))
    first, again, last = server.received_requests
    assert first.body == again.body
    assert again.path == "/api/v1/apply"
    assert [names_in(again.body), names_in(last.body)] == [wanted[:MAX_ITEMS], wanted[MAX_ITEMS:]]
    said = json.loads(last.body)
    assert (said["why"], said["dry_run"], said["items"][0]["tenant"]) == ("a deployment", True, "acme")


def test_large_items_are_batched_by_size() -> None:
    mebibyte = 1024 * 1024
    with scripted(lines("ab"), lines("c")) as server, Client(server.url) as client:
        told = list(client.apply(items(3, size=mebibyte * 3 // 2)))

    assert [names_in(one.body) for one in server.received_requests] == [["j0", "j1"], ["j2"]]
    assert [line.number for line in told] == [0, 1, 2]


def test_item_options_are_kept_and_no_items_send_no_request() -> None:
    definition = msgspec.Raw(b'{"name": "nightly"}')
    item = ApplyItem(job=msgspec.Raw(b'{"name": "a"}'), schedules=[ScheduleItem(definition=definition)], tenant="own")
    with scripted(lines("a")) as server, Client(server.url, tenant="acme") as client:
        assert list(client.apply([])) == []
        list(client.apply([item]))

    (received_requests,) = server.received_requests
    assert json.loads(received_requests.body)["items"] == [
        {"job": {"name": "a"}, "schedules": [{"definition": {"name": "nightly"}}], "tenant": "own"}
    ]


def test_a_truncated_response_is_an_error() -> None:
    with (
        scripted(lines("a")) as server,
        Client(server.url) as client,
        pytest.raises(Unavailable, match="stopped after 1 of 2 items"),
    ):
        list(client.apply(items(2)))
