"""Deadlines of runs, and capacity bookings, over the API."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from mainspring.app.build import POOL
from mainspring.core.fairness.sharing_rules import rules_for
from mainspring.core.model.batch import Batch, DurationRow
from mainspring.protocol.rest.overviews import DeadlineView
from mainspring.protocol.rest.runs import ActionResult, RunView
from mainspring.protocol.rest.sharing import Amounts, QuotaView
from tests.api.api_harness import ApiHarness, pointers, problem, read, submit

QUOTA = "/api/v1/tenants/acme/quota"
NIGHTLY: dict[str, Any] = {
    "cron": "0 2 * * *", "zone": "UTC", "seconds": 7200, "lead_seconds": 600, "guaranteed": {"cpu": 16},
    "why": "the nightly close",
}  # fmt: skip
CHAIN: dict[str, object] = {
    "name": "chain",
    "tasks": [
        {"name": "a", "expected_seconds": 60},
        {"name": "b", "expected_seconds": 1, "needs": [{"task": "a"}]},
        {"name": "c", "needs": [{"task": "b"}]},
    ],
}


async def ahead(harness: ApiHarness, seconds: float) -> str:
    """Return a time this far from now."""
    return (await harness.store.time() + timedelta(seconds=seconds)).isoformat()


async def test_a_run_shows_its_deadline(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    run = await submit(acme, finish_by=await ahead(harness, 600))
    assert run.finish_by is not None
    assert read(await acme.get(f"/api/v1/runs/{run.id}"), RunView).finish_by == run.finish_by


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"finish_by": "2020-01-01T00:00:00Z"}, "must be later than the run starts"),
        ({"finish_by": "2026-01-01T00:00:00"}, "must have a time zone"),
        ({"finish_by": "9000-01-01T00:00:00Z"}, "must be within 366 days of its start"),
    ],
)
async def test_an_invalid_deadline_is_rejected(harness: ApiHarness, fields: dict[str, Any], why: str) -> None:
    acme = await harness.admin("acme")
    await acme.post("/api/v1/jobs", json=CHAIN)
    body = problem(await acme.post("/api/v1/runs", json={"job": "chain", **fields}), 422)
    assert [(fault["pointer"], fault["detail"]) for fault in body["errors"]] == [("/finish_by", why)]


async def test_an_expected_duration_of_zero_is_rejected(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    body = problem(await acme.post("/api/v1/jobs", json={**CHAIN, "finish_within_seconds": 0}), 422)
    assert list(pointers(body)) == ["/finish_within_seconds"]


async def test_the_slack_and_critical_path_of_a_run_are_shown(harness: ApiHarness) -> None:
    """Measured durations of `b` take precedence over its definition; `c` has neither."""
    acme, now = await harness.admin("acme"), await harness.store.time()
    usual = DurationRow(
        shard=POOL, tenant="acme", job="chain", task="b", count=3, p50_seconds=20.0, p90_seconds=30.0,
        p99_seconds=40.0, samples=(20.0, 30.0), updated_at=now,
    )  # fmt: skip
    await harness.store.ensure_shard(POOL)
    term = await harness.store.campaign(POOL, "a test", 7, timedelta(seconds=60))
    assert term is not None
    await harness.store.commit(term, 1, Batch(durations=[usual]))
    run = await submit(acme, CHAIN, finish_by=(now + timedelta(seconds=600)).isoformat())

    found = read(await acme.get(f"/api/v1/runs/{run.id}/deadline"), DeadlineView)

    assert (found.left_seconds, found.unknown, found.is_late, found.at_risk_at) == (90.0, 1, False, None)
    assert found.slack_seconds is not None
    assert 0 < found.slack_seconds <= 510
    assert found.latest_start_at == found.finish_by - timedelta(seconds=90)
    assert [(task.name, task.usual_seconds) for task in found.path] == [("a", 60.0), ("b", 30.0), ("c", None)]
    starts = [(found.finish_by - task.latest_start_at).total_seconds() for task in found.path]
    assert starts == [90.0, 30.0, 0.0]


async def test_a_run_without_durations_has_no_estimate(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    run = await submit(acme, finish_by=await ahead(harness, 600))
    found = read(await acme.get(f"/api/v1/runs/{run.id}/deadline"), DeadlineView)
    assert (found.left_seconds, found.slack_seconds, found.latest_start_at, found.path) == (None, None, None, [])


async def test_a_run_without_a_deadline_has_no_deadline_view(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    run = await submit(acme)
    problem(await acme.get(f"/api/v1/runs/{run.id}/deadline"), 404)


async def test_a_booking_guarantees_capacity_at_recurring_times(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")
    await everybody.put(QUOTA, json={"max_tasks": 5, "guaranteed": {"cpu": 2}})

    made = read(await everybody.put(f"{QUOTA}/bookings/nightly", json=NIGHTLY), QuotaView)

    (booking,) = made.bookings
    assert (booking.name, booking.cron, booking.guaranteed, booking.by) == (
        "nightly", "0 2 * * *", Amounts(cpu=16.0), "token:a-test",
    )  # fmt: skip
    assert booking.next_at is not None
    assert (made.quota.max_tasks, made.version) == (5, 2)
    rules = rules_for(POOL, await harness.services.rules.refresh())
    assert cores(rules.quota("acme", booking.next_at - timedelta(seconds=601)).guaranteed.cpu_millis) == 2
    assert cores(rules.quota("acme", booking.next_at - timedelta(seconds=600)).guaranteed.cpu_millis) == 16
    assert read(await acme.get(QUOTA), QuotaView).bookings[0].name == "nightly"
    kept = read(await everybody.put(QUOTA, json={"max_tasks": 6}), QuotaView)
    assert [one.name for one in kept.bookings] == ["nightly"]
    assert b"nightly" in (await acme.get("/api/v1/audit")).content


def cores(millis: int) -> float:
    """Convert thousandths of cores to cores."""
    return millis / 1_000


async def test_a_booking_is_replaced_by_name_and_deleted(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put(f"{QUOTA}/bookings/nightly", json=NIGHTLY)
    await everybody.put(f"{QUOTA}/bookings/close", json={**NIGHTLY, "cron": "0 20 L * *"})
    changed = read(await everybody.put(f"{QUOTA}/bookings/nightly", json={**NIGHTLY, "seconds": 60}), QuotaView)
    assert [(one.name, one.seconds) for one in changed.bookings] == [("close", 7200), ("nightly", 60)]

    assert read(await everybody.delete(f"{QUOTA}/bookings/nightly"), ActionResult).changed
    assert not read(await everybody.delete(f"{QUOTA}/bookings/nightly"), ActionResult).changed
    assert [one.name for one in read(await everybody.get(QUOTA), QuotaView).bookings] == ["close"]


async def test_an_invalid_booking_is_rejected_with_all_faults(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    bad = {"cron": "0 25 * * *", "zone": "Mars", "seconds": 0, "lead_seconds": -1, "guaranteed": {"cpu": -1}}
    body = problem(await everybody.put(f"{QUOTA}/bookings/No%20Name", json=bad), 422)
    assert list(pointers(body)) == [
        "/guaranteed/cpu", "/name", "/seconds", "/lead_seconds", "/guaranteed", "/zone", "/cron",
    ]  # fmt: skip


async def test_the_number_of_bookings_is_limited(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    for number in range(20):
        assert (await everybody.put(f"{QUOTA}/bookings/b{number}", json=NIGHTLY)).is_success
    body = problem(await everybody.put(f"{QUOTA}/bookings/more", json=NIGHTLY), 422)
    assert "20 are allowed" in str(body)
    assert (await everybody.put(f"{QUOTA}/bookings/b3", json=NIGHTLY)).is_success
