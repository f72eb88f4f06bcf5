"""Received events: CloudEvents in all modes, stored once, with limits (TRG-7)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mainspring.api.submission.cloud_events import BATCH, MAX_EVENT_BYTES, MAX_EVENTS, STRUCTURED
from mainspring.protocol.rest.runs import Page
from mainspring.protocol.rest.schedules import EventView, FireView, ReceivedView
from tests.api.api_harness import NOOP, ApiHarness, all_pages, pointers, problem, read

PATH = "/api/v1/events"


def event(id: str = "e1", **fields: object) -> dict[str, Any]:
    """Return an event."""
    return {"specversion": "1.0", "id": id, "source": "/shop", "type": "orders.ready", **fields}


async def test_a_repeated_event_is_stored_once(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    body = event(data={"rows": 5}, tracestate="x")

    first = read(await caller.post(PATH, json=body, headers={"content-type": STRUCTURED}), Page[ReceivedView]).items
    again = read(await caller.post(PATH, json=body), Page[ReceivedView]).items

    assert [(one.id, one.source, one.is_new) for one in first] == [("e1", "/shop", True)]
    assert [one.is_new for one in again] == [False]
    (kept,) = read(await caller.get(f"{PATH}/received"), Page[EventView]).items
    assert (kept.type, kept.tenant, kept.fires) == ("orders.ready", "acme", 0)
    assert json.loads(bytes(kept.document)) == body


async def test_a_batch_is_answered_in_order(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    answer = await caller.post(
        PATH, json=[event("a"), event("b"), event("a")], headers={"content-type": f"{BATCH}; charset=utf-8"}
    )

    received = read(answer, Page[ReceivedView]).items
    assert [(one.id, one.is_new) for one in received] == [("a", True), ("b", True), ("a", False)]


@pytest.mark.parametrize(
    ("content_type", "body", "said"),
    [
        ("application/json", b'{"rows": 5}', {"data": {"rows": 5}, "datacontenttype": "application/json"}),
        ("text/plain", b"five", {"data": "five", "datacontenttype": "text/plain"}),
        ("image/png", b"\x89", {"data_base64": base64.b64encode(b"\x89").decode(), "datacontenttype": "image/png"}),
    ],
)
async def test_an_event_in_binary_mode_is_converted(
    harness: ApiHarness, content_type: str, body: bytes, said: dict[str, Any]
) -> None:
    caller = await harness.admin("acme")
    headers = {f"ce-{name}": value for name, value in event(subject="100%25").items()}

    answer = await caller.post(PATH, content=body, headers={**headers, "content-type": content_type})

    assert answer.status_code == 200, answer.text
    (kept,) = read(await caller.get(f"{PATH}/received"), Page[EventView]).items
    assert json.loads(bytes(kept.document)) == {**event(subject="100%"), **said}


async def test_headers_are_validated_like_the_body(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    headers = {f"ce-{name}": value for name, value in event().items()}

    nul = await caller.post(PATH, headers={**headers, "ce-id": "a%00b"})
    half = await caller.post(PATH, content=b"{", headers={**headers, "content-type": "application/json"})
    bare = await caller.post(PATH, headers={"ce-specversion": "1.0"})

    assert pointers(problem(nul, 422)) == ["/id"]
    assert "not JSON" in problem(half, 422)["detail"]
    assert pointers(problem(bare, 422)) == ["/id", "/source", "/type"]


async def test_an_event_fires_the_schedule_that_waits_for_it(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")
    await caller.post("/api/v1/jobs", json=NOOP)
    trigger = {"kind": "event", "type": "orders.ready", "filter": "event.data.rows > 3"}
    definition = {"name": "on-orders", "job": "noop", "trigger": trigger}
    assert (await caller.post("/api/v1/schedules", json={"definition": definition})).status_code == 201

    await caller.post(PATH, json=[event("few", data={"rows": 1}), event("many", data={"rows": 5})])

    fires = read(await caller.get("/api/v1/schedules/on-orders/fires"), Page[FireView]).items
    assert len([fire for fire in fires if fire.run_id is not None]) == 1
    kept = read(await caller.get(f"{PATH}/received"), Page[EventView]).items
    assert {one.id: one.fires for one in kept} == {"few": 0, "many": 1}


@pytest.mark.parametrize(
    ("body", "where", "why"),
    [
        (event(specversion="0.3"), "/specversion", 'must be "1.0"'),
        ({"specversion": "1.0", "id": "x", "source": "/s"}, "/type", "is missing"),
        (event(""), "/id", "must have 1 to"),
        (event(source=5), "/source", "must be a string"),
        (event(time="yesterday"), "/time", "must be an RFC 3339 time"),
        (event(time="2026-11-15T05:30:00"), "/time", "must have a time zone"),
        (event(data=1, data_base64="YQ=="), "/data_base64", "excludes data"),
        (event(Upper=1), "/Upper", "is not a valid attribute name"),
        ([event("a"), event("b", specversion="2")], "/1/specversion", 'must be "1.0"'),
    ],
)
async def test_an_invalid_event_is_rejected_with_its_faults(
    harness: ApiHarness, body: Any, where: str, why: str
) -> None:
    caller = await harness.admin("acme")

    said = problem(await caller.post(PATH, json=body), 422)

    assert pointers(said) == [where]
    assert why in said["errors"][0]["detail"]
    assert read(await caller.get(f"{PATH}/received"), Page[EventView]).items == []


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[{}", b"5", b'{"a": "\xff"}', b'{"id": "a", "id": "b"}', b"[" * 100_000, b'{"a":' * 20_000,
        b'[{"a":' + b"[" * 70 + b"]" * 70 + b"}]",
    ],
    ids=["empty", "open", "cut", "number", "latin", "twice", "lists", "objects", "deep"],
)  # fmt: skip
async def test_a_body_that_is_not_an_event_is_rejected(harness: ApiHarness, body: bytes) -> None:
    caller = await harness.admin("acme")

    for content_type in ("application/json", STRUCTURED, BATCH, "text/xml"):
        problem(await caller.post(PATH, content=body, headers={"content-type": content_type}), 422)


async def test_an_event_and_a_request_have_limits(harness: ApiHarness) -> None:
    caller = await harness.admin("acme")

    whale = await caller.post(PATH, json=event(data="x" * 10_000_000))
    large = await caller.post(PATH, json=[event("a"), event("b", data="x" * MAX_EVENT_BYTES)])
    set_spool_full = await caller.post(PATH, json=[event(str(number)) for number in range(MAX_EVENTS + 1)])

    assert problem(whale, 413)["code"] == "too_large"
    assert "event 1 has" in problem(large, 413)["detail"]
    assert f"{MAX_EVENTS} are allowed" in problem(set_spool_full, 413)["detail"]
    assert read(await caller.get(f"{PATH}/received"), Page[EventView]).items == []


async def test_events_of_one_request_are_paged(harness: ApiHarness) -> None:
    """All events of one request have the same time."""
    caller, other = await harness.admin("acme"), await harness.admin("globex")
    for group in ("a", "b"):
        await caller.post(PATH, json=[event(f"{group}{number}") for number in range(5)])
    await other.post(PATH, json=event("theirs"))

    pages = [page async for page in all_pages(caller, f"{PATH}/received", EventView, limit=3)]

    ids = [one.id for page in pages for one in page]
    assert len(ids) == 10
    assert set(ids[:5]) == {"b0", "b1", "b2", "b3", "b4"}
    assert set(ids[5:]) == {"a0", "a1", "a2", "a3", "a4"}
