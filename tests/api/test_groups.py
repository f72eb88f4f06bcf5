"""Concurrency and rate groups are defined by the tenant's own operators (PLC-12)."""

from __future__ import annotations

import httpx2

from mainspring.api.auth.principal import Role
from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import GroupView
from tests.api.api_harness import ApiHarness, pointers, problem, read

URL = "/api/v1/groups/db"


async def groups(caller: httpx2.AsyncClient, **params: str) -> list[tuple[str, str]]:
    """Return tenants and names of the groups."""
    items = read(await caller.get("/api/v1/groups", params=params), Page[GroupView]).items
    return [(one.tenant, one.name) for one in items]


async def test_a_group_belongs_to_its_tenant(harness: ApiHarness) -> None:
    acme, globex, everybody = await harness.admin("acme"), await harness.admin("globex"), await harness.admin()

    made = read(await acme.put(URL, json={"most": 3, "note": "connections"}), GroupView)
    rate = read(await everybody.put(URL, json={"most": 9, "per_seconds": 60}, params={"tenant": "globex"}), GroupView)

    assert (made.tenant, made.most, made.per_seconds, made.note, made.version) == ("acme", 3, None, "connections", 1)
    assert (rate.tenant, rate.most, rate.per_seconds) == ("globex", 9, 60.0)
    assert read(await acme.get(URL), GroupView) == made
    assert read(await globex.get(URL), GroupView) == rate
    assert await groups(acme) == [("acme", "db")]
    assert await groups(everybody) == [("acme", "db"), ("globex", "db")]
    assert await groups(everybody, tenant="globex") == [("globex", "db")]
    problem(await acme.get(URL, params={"tenant": "globex"}), 403)
    problem(await acme.put(URL, json={"most": 1}, params={"tenant": "globex"}), 403)
    problem(await acme.get("/api/v1/groups/never"), 404)


async def test_a_leader_applies_it_immediately(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    async with harness.led() as leader:
        await acme.put(URL, json={"most": 3})

        assert [row.most for row in leader.rules.groups.values()] == [3]


async def test_operators_define_groups_and_submitters_read(harness: ApiHarness) -> None:
    operator = harness.caller(await harness.token(Role.OPERATOR, tenant="acme"))
    submitter = harness.caller(await harness.token(Role.SUBMITTER, tenant="acme"))

    made = read(await operator.put(URL, json={"most": 3}), GroupView)

    assert read(await submitter.get(URL), GroupView) == made
    problem(await submitter.put(URL, json={"most": 4}), 403)
    problem(await submitter.delete(URL), 403)


async def test_a_group_is_deleted_and_audited(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await acme.put(URL, json={"most": 3})
    await acme.put(URL, json={"most": 4})

    assert read(await acme.delete(URL, params={"why": "moved"}), ActionResult).changed

    problem(await acme.delete(URL), 404)
    reported = read(await acme.get("/api/v1/audit", params={"object": "db"}), Page[AuditView]).items
    assert [(one.action, one.why) for one in reported] == [
        ("drop_group", "moved"),
        ("put_group", ""),
        ("put_group", ""),
    ]
    assert bytes(reported[1].before) == b'{"most":3}'


async def test_an_invalid_group_is_rejected_with_its_faults(harness: ApiHarness) -> None:
    payload = {"most": 0, "per_seconds": 0.5, "note": "x" * 4_001}

    body = problem(
        await (await harness.admin()).put("/api/v1/groups/No%20Name", json=payload, params={"tenant": "No Tenant"}), 422
    )

    assert list(pointers(body)) == ["query:tenant", "path:name", "/most", "/per_seconds", "/note"]
