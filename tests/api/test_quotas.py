"""Quotas are set, raised and deleted over the API; zero needs confirmation (ADM-5, OPS-2)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import httpx2
import pytest

from mainspring.app.build import POOL
from mainspring.core.fairness.sharing_rules import rules_for
from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import Amounts, QuotaTerms, QuotaView
from tests.api.api_harness import ApiHarness, all_pages, pointers, problem, read

URL = "/api/v1/tenants/acme/quota"
TERMS: dict[str, Any] = {
    "weight": 2.5, "max_tasks": 100, "guaranteed": {"cpu": 8, "memory": 2**35}, "burst": {"cpu": 0.5},
    "max_fan_out": 1_000, "failures_per_hour": 50,
}  # fmt: skip


async def quota(caller: httpx2.AsyncClient, **params: str) -> QuotaView:
    """Return the quota of acme."""
    found: QuotaView = read(await caller.get(URL, params=params), QuotaView)
    return found


async def test_a_quota_is_set_and_its_tenant_sees_it(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")

    made = read(await everybody.put(URL, json={**TERMS, "why": "as agreed"}), QuotaView)

    assert await quota(acme) == made
    assert (made.tenant, made.pool, made.version, made.raised) == ("acme", "", 1, None)
    assert made.quota == QuotaTerms(
        weight=2.5, max_tasks=100, guaranteed=Amounts(cpu=8.0, memory=2**35), burst=Amounts(cpu=0.5),
        max_fan_out=1_000, failures_per_hour=50,
    )  # fmt: skip
    (reported,) = read(await acme.get("/api/v1/audit"), Page[AuditView]).items
    assert (reported.action, reported.object, reported.why, bytes(reported.before)) == (
        "put_quota",
        "acme",
        "as agreed",
        b"null",
    )
    assert b'"max_tasks":100' in bytes(reported.after)


async def test_the_default_quota_is_shown_if_none_is_set(harness: ApiHarness) -> None:
    usual = await quota(await harness.admin("acme"), pool="gpu")

    assert (usual.version, usual.pool, usual.quota, usual.updated_at) == (0, "gpu", QuotaTerms(), None)


async def test_a_quota_applies_to_one_pool(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put(URL, json={"max_tasks": 1})
    await everybody.put(URL, json={"max_tasks": 2}, params={"pool": "gpu"})

    rules = await harness.services.rules.refresh()

    now = await harness.store.time()
    assert [rules_for(pool, rules).quota("acme", now).max_tasks for pool in (POOL, "gpu")] == [1, 2]
    assert (await quota(everybody, pool="gpu")).quota.max_tasks == 2


async def test_a_leader_applies_it_immediately(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    async with harness.led() as leader:
        await everybody.put(URL, json={"max_tasks": 7})

        assert leader.rules.quota("acme", await harness.store.time()).max_tasks == 7


async def test_changing_a_quota_requires_access_to_all_tenants(harness: ApiHarness) -> None:
    acme, globex = await harness.admin("acme"), await harness.admin("globex")

    problem(await acme.put(URL, json=TERMS), 403)
    problem(await acme.delete(URL), 403)
    problem(await acme.post(f"{URL}/raise", json={"seconds": 60}), 403)
    problem(await acme.delete(f"{URL}/raise"), 403)
    problem(await globex.get(URL), 404)
    problem(await globex.get("/api/v1/quotas", params={"tenant": "acme"}), 403)


async def test_visible_quotas_are_listed(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")
    for tenant, pool in (("globex", ""), ("acme", "gpu"), ("acme", "")):
        await everybody.put(f"/api/v1/tenants/{tenant}/quota", json=TERMS, params={"pool": pool})

    async def listed(caller: httpx2.AsyncClient, **params: str | int) -> list[tuple[str, str]]:
        pages = all_pages(caller, "/api/v1/quotas", QuotaView, **params)
        return [(one.tenant, one.pool) async for page in pages for one in page]

    every = [("acme", ""), ("acme", "gpu"), ("globex", "")]
    assert await listed(everybody, limit=1) == every
    assert await listed(everybody, tenant="globex") == every[2:]
    assert await listed(acme) == every[:2]


@pytest.mark.parametrize(
    "zero",
    [
        {"max_tasks": 0},
        {"burst": {"cpu": 0}},
        {"burst": {"memory": 0}, "guaranteed": {"cpu": 4}},
    ],
)
async def test_a_quota_that_blocks_everything_needs_confirmation(harness: ApiHarness, zero: dict[str, Any]) -> None:
    everybody = await harness.admin()

    body = problem(await everybody.put(URL, json=zero), 422)
    raising = problem(await everybody.post(f"{URL}/raise", json={**zero, "seconds": 60}), 422)
    assert list(pointers(body)) == list(pointers(raising)) == ["/confirm"]
    assert "acme" in body["errors"][0]["detail"]
    assert (await quota(everybody)).version == 0

    assert read(await everybody.put(URL, json={**zero, "confirm": True}), QuotaView).version == 1


@pytest.mark.parametrize(
    "enough", [{"burst": {"gpu": 0}}, {"burst": {"cpu": 0}, "guaranteed": {"cpu": 1}}, {"max_tasks": 1}]
)
async def test_a_quota_that_allows_something_needs_no_confirmation(harness: ApiHarness, enough: dict[str, Any]) -> None:
    everybody = await harness.admin()

    assert read(await everybody.put(URL, json=enough), QuotaView).version == 1


async def test_an_invalid_quota_is_rejected_with_its_faults(harness: ApiHarness) -> None:
    payload = {
        "weight": 0, "max_tasks": -1, "max_fan_out": 10**10, "failures_per_hour": -1, "guaranteed": {"cpu": -1},
        "burst": {"memory": 2**62}, "why": "x" * 1_001, "seconds": 367 * 86_400,
    }  # fmt: skip

    body = problem(
        await (await harness.admin()).post(
            "/api/v1/tenants/No%20Name/quota/raise", json=payload, params={"pool": "No Pool"}
        ),
        422,
    )

    assert list(pointers(body)) == [
        "path:name", "query:pool", "/weight", "/max_tasks", "/max_fan_out", "/failures_per_hour", "/guaranteed/cpu",
        "/burst/memory", "/why", "/seconds",
    ]  # fmt: skip


async def test_a_quota_is_raised_temporarily(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")
    await everybody.put(URL, json={"max_tasks": 5})

    payload = {"max_tasks": 50, "seconds": 3_600, "why": "the year is closed"}
    made = read(await everybody.post(f"{URL}/raise", json=payload), QuotaView)

    assert (made.quota.max_tasks, made.version) == (5, 2)
    assert made.raised is not None
    assert (made.raised.quota.max_tasks, made.raised.why, made.raised.by) == (50, "the year is closed", "token:a-test")
    rules = rules_for(POOL, await harness.services.rules.refresh())
    assert rules.quota("acme", made.raised.until - timedelta(seconds=1)).max_tasks == 50
    assert rules.quota("acme", made.raised.until).max_tasks == 5
    changed = read(await everybody.put(URL, json={"max_tasks": 6}), QuotaView)
    assert changed.raised == made.raised

    harness.clock.ahead = 3_700
    assert (await quota(acme)).raised is None
    assert [one.raised for one in read(await acme.get("/api/v1/quotas"), Page[QuotaView]).items] == [None]


async def test_a_raise_is_ended_early(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put(URL, json={"max_tasks": 5})
    await everybody.post(f"{URL}/raise", json={"max_tasks": 50, "seconds": 60})

    assert read(await everybody.delete(f"{URL}/raise", params={"why": "done"}), ActionResult).changed
    assert not read(await everybody.delete(f"{URL}/raise"), ActionResult).changed

    found = await quota(everybody)
    assert (found.quota.max_tasks, found.raised) == (5, None)
    reported = read(await everybody.get("/api/v1/audit", params={"object": "acme"}), Page[AuditView]).items
    assert [(one.action, one.why) for one in reported] == [
        ("end_raise", ""), ("end_raise", "done"), ("raise_quota", ""), ("put_quota", ""),
    ]  # fmt: skip


async def test_the_previous_quota_applies_again_after_a_raise(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put(URL, json={"max_tasks": 5})

    made = read(
        await everybody.post(f"{URL}/raise", json={"max_tasks": 50, "seconds": 60}, params={"pool": "gpu"}), QuotaView
    )

    assert (made.pool, made.quota.max_tasks) == ("gpu", 5)
    assert (await quota(everybody)).raised is None


async def test_a_quota_is_deleted(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put(URL, json=TERMS, params={"pool": "gpu"})

    assert read(await everybody.delete(URL, params={"pool": "gpu", "why": "over"}), ActionResult).changed
    assert not read(await everybody.delete(URL, params={"pool": "gpu"}), ActionResult).changed

    assert (await quota(everybody, pool="gpu")).version == 0
    reported = read(await everybody.get("/api/v1/audit", params={"object": "acme/gpu"}), Page[AuditView]).items
    assert [(one.action, one.why, one.tenant) for one in reported[:2]] == [
        ("drop_quota", "", "acme"), ("drop_quota", "over", "acme"),
    ]  # fmt: skip


async def test_a_lone_surrogate_in_place_of_a_number_is_a_fault(harness: ApiHarness) -> None:
    asked = await (await harness.admin()).put(
        URL, content=rb'{"weight": "\ud800"}', headers={"content-type": "application/json"}
    )

    assert list(pointers(problem(asked, 422))) == ["/weight"]
