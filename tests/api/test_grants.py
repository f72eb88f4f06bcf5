"""Approvers grant tenants P0, temporarily or until revoked (ADM-3)."""

from __future__ import annotations

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import GrantView
from tests.api.api_harness import ApiHarness, pointers, problem, read

URL = "/api/v1/tenants/acme/p0-grant"


@pytest.fixture
async def approver(harness: ApiHarness) -> httpx2.AsyncClient:
    """Return an approver of all tenants."""
    return harness.caller(await harness.token(Role.APPROVER))


async def grants(caller: httpx2.AsyncClient, **params: str) -> list[GrantView]:
    """Return the active grants."""
    return read(await caller.get("/api/v1/p0-grants", params=params), Page[GrantView]).items


async def test_an_approver_grants_and_revokes(harness: ApiHarness, approver: httpx2.AsyncClient) -> None:
    acme, globex = await harness.admin("acme"), await harness.admin("globex")

    made = read(await approver.put(URL, json={"why": "on call"}), GrantView)

    assert (made.tenant, made.by, made.why, made.until) == ("acme", "token:a-test", "on call", None)
    assert await grants(acme) == await grants(approver) == [made]
    assert await grants(globex) == []
    rules = await harness.services.rules.refresh()
    assert rules.granted_p0("acme", await harness.store.time())
    assert read(await approver.delete(URL, params={"why": "no more"}), ActionResult).changed
    assert not read(await approver.delete(URL), ActionResult).changed
    assert await grants(approver) == []
    reported = read(await acme.get("/api/v1/audit"), Page[AuditView]).items
    assert [(one.action, one.why) for one in reported] == [
        ("revoke_p0", ""),
        ("revoke_p0", "no more"),
        ("grant_p0", "on call"),
    ]


async def test_a_grant_expires(harness: ApiHarness, approver: httpx2.AsyncClient) -> None:
    made = read(await approver.put(URL, json={"seconds": 60}), GrantView)
    assert made.until is not None

    harness.clock.ahead = 61

    assert await grants(approver) == []
    assert not (await harness.services.rules.refresh()).granted_p0("acme", await harness.store.time())


async def test_approvers_of_one_tenant_can_not_grant(harness: ApiHarness) -> None:
    operator = harness.caller(await harness.token(Role.OPERATOR))
    own = harness.caller(await harness.token(Role.APPROVER, tenant="acme"))

    for caller in (operator, own, await harness.admin("acme")):
        problem(await caller.put(URL, json={}), 403)
        problem(await caller.delete(URL), 403)
    problem(await own.get("/api/v1/p0-grants", params={"tenant": "globex"}), 403)


async def test_an_invalid_grant_is_rejected_with_its_faults(approver: httpx2.AsyncClient) -> None:
    payload = {"seconds": 0, "why": "x" * 1_001}

    body = problem(await approver.put("/api/v1/tenants/No%20Name/p0-grant", json=payload), 422)

    assert list(pointers(body)) == ["path:name", "/why", "/seconds"]
