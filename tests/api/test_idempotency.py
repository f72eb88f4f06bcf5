"""Idempotency: a repeated request with one key has one effect and the first response."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import Page, RunView, TokenView
from mainspring.protocol.rest.schedules import BackfillSummary
from tests.api.api_harness import ApiHarness, problem, read, submit

HOURLY: dict[str, Any] = {"name": "hourly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 * * * *"}}
URL = "/api/v1/schedules/hourly"
KEY = {"Idempotency-Key": "k1"}
RANGE = {"since": "2026-01-01T00:00:00Z", "before": "2026-01-01T05:00:00Z"}


async def scheduled(harness: ApiHarness) -> httpx2.AsyncClient:
    """Return a client with a schedule."""
    acme = await harness.admin("acme")
    await submit(acme)
    await acme.put(URL, json={"definition": HOURLY})
    return acme


async def runs(caller: httpx2.AsyncClient) -> int:
    """Return the number of runs of the schedule."""
    found = read(await caller.get("/api/v1/runs"), Page[RunView]).items
    return sum(run.schedule_id is not None for run in found)


async def test_a_schedule_is_triggered_once_per_key(harness: ApiHarness) -> None:
    acme = await scheduled(harness)

    first = await acme.post(f"{URL}/trigger", json={"why": "now"}, headers=KEY)
    again = await acme.post(f"{URL}/trigger", json={"why": "now"}, headers=KEY)
    other = await acme.post(f"{URL}/trigger", json={"why": "now"}, headers={"Idempotency-Key": "k2"})

    assert "idempotent-replayed" not in first.headers
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    assert other.json()["run_id"] != first.json()["run_id"]
    assert await runs(acme) == 2
    reported = read(await acme.get("/api/v1/audit", params={"action": "trigger_schedule"}), Page[AuditView]).items
    assert len(reported) == 3


async def test_concurrent_requests_with_one_key_get_one_run(harness: ApiHarness) -> None:
    acme = await scheduled(harness)

    answers = await asyncio.gather(*(acme.post(f"{URL}/trigger", headers=KEY) for _ in range(10)))

    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["run_id"] for answer in answers}) == 1
    assert await runs(acme) == 1


async def test_a_key_of_another_request_is_rejected(harness: ApiHarness) -> None:
    acme = await scheduled(harness)
    read(await acme.post("/api/v1/runs", json={"job": "noop"}, headers={"Idempotency-Key": "k0"}), RunView)
    await acme.post(f"{URL}/trigger", headers=KEY)

    refused = [
        await acme.post(f"{URL}/trigger", headers={"Idempotency-Key": "k0"}),
        await acme.post(f"{URL}/trigger", json={"why": "another"}, headers=KEY),
        await acme.post(f"{URL}/backfill", json=RANGE, headers=KEY),
    ]

    assert [problem(answer, 409)["code"] for answer in refused] == ["key_reused"] * 3
    assert await runs(acme) == 1


async def test_a_key_belongs_to_one_tenant(harness: ApiHarness) -> None:
    acme, globex = await scheduled(harness), await harness.admin("globex")
    await submit(globex)
    await globex.put(URL, json={"definition": HOURLY})

    for caller in (acme, globex):
        assert (await caller.post(f"{URL}/trigger", headers=KEY)).is_success
        assert await runs(caller) == 1


async def test_a_backfill_runs_once_per_key(harness: ApiHarness) -> None:
    acme = await scheduled(harness)

    first = await acme.post(f"{URL}/backfill", json=RANGE, headers=KEY)
    again = await acme.post(f"{URL}/backfill", json=RANGE, headers=KEY)

    assert first.json()["wanted"] == 5
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    assert len(read(await acme.get(f"{URL}/backfills"), Page[BackfillSummary]).items) == 1


async def test_a_token_is_not_shown_twice(harness: ApiHarness) -> None:
    admin = await harness.admin("acme")
    payload = {"name": "bot", "roles": ["viewer"]}

    made = read(await admin.post("/api/v1/tokens", json=payload, headers=KEY), TokenView)
    body = problem(await admin.post("/api/v1/tokens", json=payload, headers=KEY), 409)

    assert body["code"] == "key_reused"
    assert made.id in body["detail"]
    assert len(await harness.store.list_tokens("acme")) == 2
    other = read(await admin.post("/api/v1/tokens", json=payload, headers={"Idempotency-Key": "k2"}), TokenView)
    assert other.id != made.id
    assert (await harness.caller(other.token).get("/api/v1/runs")).is_success
