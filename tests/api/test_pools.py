"""Pools and policies: changes require access to all tenants, all callers may read (ADM-8)."""

from __future__ import annotations

import httpx2

from mainspring.api.auth.principal import Role
from mainspring.app.build import POOL
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import PolicyView, PoolView
from tests.api.api_harness import ApiHarness, all_pages, pointers, problem, read

EU = {"labels": {"region": "eu"}, "zones": ["eu-1", "eu-2"], "max_resources": {"cpu": 1.5}, "note": "the old racks"}
POLICY = {"label": "eu_data", "requires": {"region": "eu"}}


async def policies(caller: httpx2.AsyncClient) -> list[PolicyView]:
    """Return the policies."""
    return read(await caller.get("/api/v1/policies"), Page[PolicyView]).items


async def test_a_configured_pool_is_visible_to_all(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")

    made = read(await everybody.put("/api/v1/pools/eu", json=EU), PoolView)

    assert read(await acme.get("/api/v1/pools/eu"), PoolView) == made
    assert (made.labels, made.zones, made.version) == ({"region": "eu"}, ["eu-1", "eu-2"], 1)
    assert made.max_resources is not None
    assert (made.max_resources.cpu, made.max_resources.memory) == (1.5, None)
    assert made.updated_by == "token:a-test"
    (reported,) = read(await everybody.get("/api/v1/audit", params={"object": "eu"}), Page[AuditView]).items
    assert (reported.action, reported.tenant, bytes(reported.before)) == ("put_pool", INSTALLATION, b"null")
    assert b"the old racks" in bytes(reported.after)


async def test_an_unconfigured_pool_is_listed_with_its_leader(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led():
        pool = read(await acme.get(f"/api/v1/pools/{POOL}"), PoolView)
    await harness.store.ensure_shard("other")

    names = [pool.name async for page in all_pages(acme, "/api/v1/pools", PoolView, limit=1) for pool in page]

    assert (pool.version, pool.labels, pool.leader) == (0, {}, harness.services.server.name)
    assert names == sorted([POOL, "other"])
    problem(await acme.get("/api/v1/pools/never"), 404)


async def test_a_configured_pool_has_a_shard(harness: ApiHarness) -> None:
    everybody = await harness.admin()

    await everybody.put("/api/v1/pools/eu", json=EU)

    assert "eu" in {row.id for row in await harness.store.shards()}


async def test_callers_of_one_tenant_change_neither(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    operator = harness.caller(await harness.token(Role.OPERATOR))

    for caller in (acme, operator):
        problem(await caller.put("/api/v1/pools/eu", json=EU), 403)
        problem(await caller.put("/api/v1/policies/eu", json=POLICY), 403)
        problem(await caller.delete("/api/v1/policies/eu"), 403)


async def test_an_invalid_pool_is_rejected_with_its_faults(harness: ApiHarness) -> None:
    payload = {
        "labels": {"a b": "c"}, "zones": ["eu", "No Zone"], "max_resources": {"cpu": -1, "gpu": 10**9},
        "note": "x" * 4_001,
    }  # fmt: skip

    body = problem(await (await harness.admin()).put("/api/v1/pools/No%20Name", json=payload), 422)

    assert list(pointers(body)) == [
        "path:name", "/labels/a b", "/zones/1", "/max_resources/cpu", "/max_resources/gpu", "/note",
    ]  # fmt: skip


async def test_a_policy_lists_the_qualifying_pools(harness: ApiHarness) -> None:
    everybody, acme = await harness.admin(), await harness.admin("acme")
    made = read(await everybody.put("/api/v1/policies/eu", json=POLICY), PolicyView)

    await everybody.put("/api/v1/pools/eu", json=EU)
    await everybody.put("/api/v1/pools/us", json={"labels": {"region": "us"}})

    assert (made.label, made.value, made.requires, made.pools) == ("eu_data", "", {"region": "eu"}, [])
    assert [policy.pools for policy in await policies(acme)] == [["eu"]]


async def test_a_policy_is_deleted_and_audited(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    await everybody.put("/api/v1/policies/eu", json=POLICY)
    problem(await everybody.delete("/api/v1/policies/eu", headers={"If-Match": '"9"'}), 412)

    assert read(await everybody.delete("/api/v1/policies/eu", params={"why": "sold"}), ActionResult).changed

    assert await policies(everybody) == []
    problem(await everybody.delete("/api/v1/policies/eu"), 404)
    reported = read(await everybody.get("/api/v1/audit", params={"object": "eu"}), Page[AuditView]).items
    assert [(one.action, one.why) for one in reported] == [("drop_policy", "sold"), ("put_policy", "")]
    assert b"eu_data" in bytes(reported[0].before)


async def test_an_invalid_policy_is_rejected_with_its_faults(harness: ApiHarness) -> None:
    payload = {"label": "eu data", "value": "x" * 64, "requires": {}, "note": "x" * 4_001}

    body = problem(await (await harness.admin()).put("/api/v1/policies/No%20Name", json=payload), 422)

    assert list(pointers(body)) == ["path:name", "/label", "/value", "/requires", "/note"]
