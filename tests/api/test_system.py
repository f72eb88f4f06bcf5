"""The server itself: health, metrics and the OpenAPI document."""

from __future__ import annotations

import asyncio
import json

from openapi_spec_validator import OpenAPIV31SpecValidator

from mainspring.api.app import endpoints
from mainspring.api.auth.principal import Role
from mainspring.api.server import listen
from mainspring.protocol.rest.runs import Page, RunView, ServerView
from tests.api.api_harness import NOOP, ApiHarness, problem, read, running_task, submit


async def test_the_document_is_valid_and_has_every_route(harness: ApiHarness) -> None:
    caller = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))

    document = (await caller.get("/openapi.json")).json()

    OpenAPIV31SpecValidator(document).validate()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(endpoint.method, endpoint.path) for endpoint in endpoints()}


async def test_every_operation_documents_its_request_and_responses(harness: ApiHarness) -> None:
    caller = await harness.admin()
    document = (await caller.get("/openapi.json")).json()
    operations = {
        operation["operationId"]: operation for methods in document["paths"].values() for operation in methods.values()
    }

    assert len(operations) == len(endpoints())
    for endpoint in endpoints():
        operation = operations[endpoint.operation]
        assert operation["summary"].endswith(".") or ":" in operation["summary"]
        assert str(endpoint.status) in operation["responses"]
        problems = [one for status, one in operation["responses"].items() if not status.startswith(("2", "3"))]
        assert all("application/problem+json" in one["content"] for one in problems)
        assert ("401" in operation["responses"]) is bool(operation["security"]) is (endpoint.role is not None)
        assert ("requestBody" in operation) is (endpoint.body is not None)
        assert [one["name"] for one in operation["parameters"]] == [one.wire_name for one in endpoint.parameters]
    assert operations["create_run"]["requestBody"]["required"] is True
    assert operations["cancel_run"]["requestBody"]["required"] is False
    assert {
        key: value
        for one in operations["list_runs"]["parameters"]
        if one["name"] == "limit"
        for key, value in one.items()
        if key != "schema"
    } == {"name": "limit", "in": "query", "required": False}


async def test_a_response_conforms_to_the_document(harness: ApiHarness) -> None:
    caller = await harness.admin()
    schemas = (await caller.get("/openapi.json")).json()["components"]["schemas"]
    await submit(caller)

    (run,) = (await caller.get("/api/v1/runs")).json()["items"]

    assert set(schemas["RunView"]["required"]) <= set(run) <= set(schemas["RunView"]["properties"])


async def test_a_server_is_ready_when_every_shard_has_a_leader(harness: ApiHarness) -> None:
    caller = harness.caller(address="10.0.0.7")
    await harness.store.ensure_shard("default")

    before = await caller.get("/readyz")
    async with harness.led():
        during = await caller.get("/readyz")
        server = read(await (await harness.admin()).get("/api/v1/server"), ServerView)
    after = await caller.get("/readyz")

    assert problem(before, 503)["code"] == problem(after, 503)["code"] == "not_leading"
    assert during.json() == {"status": "ok"}
    assert (await caller.get("/healthz")).json() == {"status": "ok"}
    assert server.leads == ["default"]


async def test_metrics_are_counted(harness: ApiHarness) -> None:
    caller = await harness.admin()
    async with harness.led() as leader:
        hand, task = await running_task(harness, caller, leader)
        assert task.attempt_id is not None
        await hand.finish(task.attempt_id)
        await caller.get("/api/v1/runs/none")
        await caller.get("/nowhere/at/all")
        numbers = dict(line.rsplit(" ", 1) for line in (await caller.get("/metrics")).text.splitlines())

    assert numbers['mainspring_http_requests_total{operation="create_run",status="201"}'] == "1.0"
    assert numbers['mainspring_http_requests_total{operation="get_run",status="404"}'] == "1.0"
    assert numbers['mainspring_http_requests_total{operation="none",status="404"}'] == "1.0"
    assert numbers['mainspring_transitions_total{state="SUCCEEDED"}'] == "1.0"
    assert numbers['mainspring_workers{shard="default",status="ready"}'] == "1.0"
    assert numbers["mainspring_shards_led"] == "1.0"
    assert float(numbers["mainspring_commit_seconds_count"]) > 0
    assert 'mainspring_inbox_events{shard="default"}' in numbers


async def test_a_bulk_request_is_answered_while_it_is_still_arriving(harness: ApiHarness) -> None:
    """A thousand lines are sent and their responses read before the last line is sent."""
    token = await harness.token(Role.ADMIN, tenant="acme")
    await harness.caller(token).post("/api/v1/jobs", json=NOOP)
    listener = listen("127.0.0.1", 0)
    line = b'{"job": "noop"}\n'
    async with harness.front.running(listener):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(
            b"POST /api/v1/runs/bulk HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n"
            b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
        )
        writer.write(_chunk(line * 1_000))
        async with asyncio.timeout(10):
            head = await reader.readuntil(b'"index":999,')
            writer.write(_chunk(line) + _chunk(b""))
            rest = await reader.read()
        writer.close()
        await writer.wait_closed()

    assert head.startswith(b"HTTP/1.1 200")
    assert b'"index":1000,' not in head
    assert b'"index":1000,' in rest
    runs = read(await harness.caller(token).get("/api/v1/runs", params={"limit": 1000}), Page[RunView])
    assert len(runs.items) == 1_000
    assert runs.next_cursor is not None


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def test_metrics_have_no_labels_chosen_by_clients(harness: ApiHarness) -> None:
    caller = await harness.admin()
    await caller.get("/api/v1/runs/some-secret-name")
    await caller.get("/some-secret-name")

    assert "some-secret-name" not in (await caller.get("/metrics")).text
    assert json.loads((await caller.get("/api/v1/runs")).text)["items"] == []
