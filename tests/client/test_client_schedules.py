"""Schedules and events with the client: requests and retries."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from mainspring.client.client import Client
from mainspring.protocol.errors import Conflict
from tests.client.scripted_server import HANG_UP, problem, says, scripted

FIRE = {
    "schedule_id": "sched_1", "window_at": "2026-11-15T12:00:00Z", "last_window_at": "2026-11-15T12:00:00Z", "count": 1,
    "generation": 1, "outcome": "ran", "because": "", "is_catch_up": False, "flagged": False, "start_at": None,
    "run_id": "run_1", "run_state": None, "run_ended_at": None, "backfill_id": None, "by": "me",
    "decided_at": "2026-11-15T12:00:00Z",
}  # fmt: skip


def received(*ids: str) -> dict[str, object]:
    """The response for events."""
    return {"items": [{"id": one, "source": "/s", "is_new": True} for one in ids]}


def test_many_events_are_batched_and_retried() -> None:
    ids = [f"e{number}" for number in range(1_500)]
    with (
        scripted(HANG_UP, says(received(*ids[:1_000])), says(received(*ids[1_000:]))) as server,
        Client(server.url, tenant="acme") as client,
    ):
        answers = client.send_events([client.event("a.b", id=one, source="/s", data={"n": 1}) for one in ids])

    assert [answer.id for answer in answers] == ids
    first, again, last = server.received_requests
    assert first.body == again.body
    assert again.headers["Content-Type"] == "application/cloudevents-batch+json"
    assert again.path.endswith("/events?tenant=acme")
    assert [len(json.loads(one.body)) for one in (again, last)] == [1_000, 500]
    (event, *_) = json.loads(again.body)
    assert (event["specversion"], event["type"], event["data"]) == ("1.0", "a.b", {"n": 1})


def test_trigger_and_rerun_are_retried_with_their_keys() -> None:
    answers = (problem(503, "unavailable"), says(FIRE), HANG_UP, says({"run_id": "run_2", "is_new_run": True}))
    with scripted(*answers) as server, Client(server.url) as client:
        assert client.trigger("nightly").run_id == "run_1"
        assert client.rerun("run_1").run_id == "run_2"

    fired, fired_again, ran, ran_again = (one.headers["Idempotency-Key"] for one in server.received_requests)
    assert fired == fired_again != ran == ran_again


def test_fires_are_listed_with_filters() -> None:
    with scripted(says({"items": [FIRE]})) as server, Client(server.url) as client:
        (fire,) = client.fires("nightly", outcomes=["ran", "late"], limit=5)

    assert fire.run_id == "run_1"
    assert server.received_requests[0].path.endswith("/schedules/nightly/fires?outcome=ran&outcome=late&limit=5")


def test_since_is_sent_with_a_new_schedule() -> None:
    since = datetime(2026, 11, 15, tzinfo=UTC)
    with scripted(problem(409, "conflict")) as server, Client(server.url) as client, pytest.raises(Conflict):
        client.create_schedule({"name": "nightly"}, since=since)

    assert json.loads(server.received_requests[0].body) == {
        "definition": {"name": "nightly"},
        "since": "2026-11-15T00:00:00Z",
    }
