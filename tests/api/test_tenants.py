"""Resources of other tenants answer like missing ones, except for the id (I-75)."""

from __future__ import annotations

import pytest

from mainspring.api.auth.principal import Role
from mainspring.protocol.rest.admin import AuditView, TenantView
from mainspring.protocol.rest.runs import JobView, Page, RunView, TaskView, TokenView
from tests.api.api_harness import NOOP, ApiHarness, problem, read, running_task, submit


async def test_lists_contain_the_callers_tenant_only(harness: ApiHarness) -> None:
    acme, globex, everybody = await harness.admin("acme"), await harness.admin("globex"), await harness.admin()
    await submit(acme)
    await submit(globex)
    await globex.post("/api/v1/jobs", json={**NOOP, "name": "theirs"})

    async def tenants(caller: object, path: str, kind: object, **params: str) -> set[str]:
        page = read(await caller.get(f"/api/v1/{path}", params=params), Page[kind])  # type: ignore[attr-defined, valid-type]
        return {item.tenant for item in page.items}

    for path, kind in (("jobs", JobView), ("runs", RunView)):
        assert await tenants(acme, path, kind) == {"acme"}
        assert await tenants(everybody, path, kind) == {"acme", "globex"}
        assert await tenants(everybody, path, kind, tenant="globex") == {"globex"}


@pytest.mark.parametrize(
    "path",
    [
        "jobs", "runs", "tasks", "tokens", "schedules", "upcoming", "events/received", "alerts", "dead-letters",
        "quotas", "groups", "p0-grants",
    ],
)  # fmt: skip
async def test_another_tenant_can_not_be_requested(harness: ApiHarness, path: str) -> None:
    acme = await harness.admin("acme")

    bodies = [
        problem(await acme.get(f"/api/v1/{path}", params={"tenant": tenant}), 403) for tenant in ("globex", "never")
    ]

    assert bodies[0] == bodies[1]


async def test_a_tenant_sees_only_its_own_tasks_on_workers(harness: ApiHarness) -> None:
    acme, globex, everybody = await harness.admin("acme"), await harness.admin("globex"), await harness.admin()
    async with harness.led() as leader:
        await running_task(harness, acme, leader)
        await everybody.post("/api/v1/workers/w1/cordon", json={"why": "ann checks it"})

        views = [(await caller.get("/api/v1/workers/w1")).json() for caller in (acme, globex, everybody)]

    assert [view["running"] for view in views] == [1, 0, 1]
    assert ["ann" in view["hold_why"] for view in views] == [False, False, True]
    assert {view["hold"] for view in views} == {"cordoned"}


# their descriptions


async def test_a_tenant_exists_once_it_owns_something(harness: ApiHarness) -> None:
    acme, everybody = await harness.admin("acme"), await harness.admin()
    await everybody.post("/api/v1/jobs", json=NOOP, params={"tenant": "globex"})

    own = read(await acme.get("/api/v1/tenants"), Page[TenantView]).items
    every = read(await everybody.get("/api/v1/tenants"), Page[TenantView]).items

    assert [(one.name, one.version, one.created_at) for one in own] == [("acme", 0, None)]
    assert {"acme", "globex"} <= {one.name for one in every}
    bodies = [problem(await acme.get(f"/api/v1/tenants/{name}"), 404) for name in ("globex", "nobody")]
    assert bodies[0]["detail"].replace("globex", "nobody") == bodies[1]["detail"]


async def test_describing_tenants_requires_access_to_all_tenants(harness: ApiHarness) -> None:
    acme, everybody = await harness.admin("acme"), await harness.admin()
    payload = {"title": "Acme", "contact": "ann@example.com", "note": "since 2026"}

    made = read(await everybody.put("/api/v1/tenants/acme", json=payload), TenantView)
    problem(await acme.put("/api/v1/tenants/acme", json={}), 403)

    assert read(await acme.get("/api/v1/tenants/acme"), TenantView) == made
    assert (made.title, made.version, made.created_by) == ("Acme", 1, "token:a-test")
    reported = read(await acme.get("/api/v1/audit"), Page[AuditView]).items
    assert [(one.action, one.object) for one in reported] == [("put_tenant", "acme")]
    assert b"since 2026" in bytes(reported[0].after)


async def test_an_invalid_description_is_rejected_with_its_faults(harness: ApiHarness) -> None:
    everybody = await harness.admin()

    body = problem(await everybody.put("/api/v1/tenants/No%20Name", json={"title": "x" * 201}), 422)

    assert [fault["pointer"] for fault in body["errors"]] == ["path:name", "/title"]


# tokens


async def test_a_tenants_administrator_creates_tokens_of_its_tenant_only(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")

    own = await acme.post("/api/v1/tokens", json={"name": "own", "roles": ["admin"]})
    for tenant in ("*", "globex"):
        problem(await acme.post("/api/v1/tokens", json={"name": "x", "roles": ["viewer"], "tenant": tenant}), 403)
    worker = problem(await acme.post("/api/v1/tokens", json={"name": "x", "roles": ["worker"]}), 422)

    assert read(own, TokenView).tenant == "acme"
    assert [fault["pointer"] for fault in worker["errors"]] == ["/roles/0"]
    assert {row.tenant for row in await harness.store.list_tokens(None)} == {"acme"}


async def test_a_token_is_shown_once_and_works(harness: ApiHarness) -> None:
    everybody = await harness.admin()

    made = read(
        await everybody.post("/api/v1/tokens", json={"name": "bot", "roles": ["submitter"], "tenant": "acme"}),
        TokenView,
    )
    listed = read(await everybody.get("/api/v1/tokens"), Page[TokenView]).items

    assert made.token is not None
    run = await submit(harness.caller(made.token))
    assert (run.tenant, run.submitted_by) == ("acme", "token:bot")
    assert [token.token for token in listed] == [None, None]
    assert made.token not in (await everybody.get("/api/v1/tokens")).text


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"roles": []}, "/roles"),
        ({"roles": ["viewer", "attempt"]}, "/roles/1"),
        ({"roles": ["king"]}, "/roles/0"),
        ({"name": ""}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"tenant": "No Name"}, "/tenant"),
        ({"expires_in_seconds": 366 * 86_400}, "/expires_in_seconds"),
        ({"expires_in_seconds": 0}, "/expires_in_seconds"),
    ],
)
async def test_an_invalid_token_request_is_rejected_with_its_faults(
    harness: ApiHarness, fields: dict[str, object], pointer: str
) -> None:
    everybody = await harness.admin()

    body = problem(await everybody.post("/api/v1/tokens", json={"name": "x", "roles": ["viewer"], **fields}), 422)

    assert [fault["pointer"] for fault in body["errors"]] == [pointer]


async def test_a_task_of_the_callers_tenant_is_found(harness: ApiHarness) -> None:
    """Guards against tests above that pass because nothing is found."""
    viewer = harness.caller(await harness.token(Role.VIEWER, tenant="acme"))
    async with harness.led() as leader:
        _, task = await running_task(harness, await harness.admin("acme"), leader)

        found = read(await viewer.get(f"/api/v1/tasks/{task.id}"), TaskView)

    assert found.tenant == "acme"
