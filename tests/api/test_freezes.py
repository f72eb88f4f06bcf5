"""Freezes over the API: permissions, effects and validation (OPS-3)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mainspring.api.auth.principal import Role
from mainspring.app.build import POOL
from mainspring.core.model.audit_entry import INSTALLATION
from mainspring.protocol.rest.admin import AuditView
from mainspring.protocol.rest.runs import ActionResult, Page
from mainspring.protocol.rest.sharing import FreezeView
from tests.api.api_harness import NOOP, ApiHarness, pointers, problem, read

URL = "/api/v1/freezes"


@pytest.fixture
async def acme(harness: ApiHarness) -> httpx2.AsyncClient:
    """Return an operator of a tenant that has a job."""
    await (await harness.admin("acme")).post("/api/v1/jobs", json=NOOP)
    await harness.store.ensure_shard(POOL)
    return harness.caller(await harness.token(Role.OPERATOR, tenant="acme"))


async def frozen(caller: httpx2.AsyncClient) -> list[tuple[str, str]]:
    """Return the active freezes."""
    items = read(await caller.get(URL), Page[FreezeView]).items
    return [(one.kind, one.subject) for one in items]


async def test_everything_is_frozen_and_unfrozen(harness: ApiHarness, acme: httpx2.AsyncClient) -> None:
    everybody = harness.caller(await harness.token(Role.OPERATOR))

    made = read(await everybody.post(URL, json={"kind": "all", "why": "the disk is full"}), FreezeView)

    assert (made.kind, made.subject, made.by, made.why) == ("all", "", "token:a-test", "the disk is full")
    assert made.until is None
    assert await frozen(acme) == [("all", "")]
    assert read(await everybody.delete(URL, params={"kind": "all", "why": "it is not"}), ActionResult).changed
    assert not read(await everybody.delete(URL, params={"kind": "all"}), ActionResult).changed
    assert await frozen(everybody) == []
    reported = read(await (await harness.admin()).get("/api/v1/audit", params={"object": "all"}), Page[AuditView]).items
    assert [(one.action, one.why, one.tenant) for one in reported] == [
        ("unfreeze", "", INSTALLATION), ("unfreeze", "it is not", INSTALLATION),
        ("freeze", "the disk is full", INSTALLATION),
    ]  # fmt: skip
    assert b"the disk is full" in bytes(reported[1].before)


async def test_a_leader_applies_it_immediately(harness: ApiHarness) -> None:
    everybody = await harness.admin()
    async with harness.led() as leader:
        await everybody.post(URL, json={"kind": "pool", "subject": POOL})

        assert leader.rules.freeze_of_all(await harness.store.time()) is not None


async def test_a_tenant_freezes_its_own_work(harness: ApiHarness, acme: httpx2.AsyncClient) -> None:
    globex, everybody = await harness.admin("globex"), await harness.admin()

    read(await acme.post(URL, json={"kind": "tenant", "subject": "acme"}), FreezeView)
    read(await acme.post(URL, json={"kind": "job", "subject": "noop"}), FreezeView)

    own = [("job", "acme/noop"), ("tenant", "acme")]
    assert await frozen(acme) == await frozen(everybody) == own
    assert await frozen(globex) == []
    reported = read(await (await harness.admin("acme")).get("/api/v1/audit"), Page[AuditView]).items
    assert [one.object for one in reported[:2]] == ["job:acme/noop", "tenant:acme"]
    assert read(await everybody.delete(URL, params={"kind": "job", "subject": "acme/noop"}), ActionResult).changed


@pytest.mark.parametrize(
    "payload",
    [
        {"kind": "all"},
        {"kind": "pool", "subject": POOL},
        {"kind": "tenant", "subject": "globex"},
        {"kind": "job", "subject": "globex/noop"},
    ],
)
async def test_a_tenant_can_not_freeze_other_work(acme: httpx2.AsyncClient, payload: dict[str, str]) -> None:
    problem(await acme.post(URL, json=payload), 403)
    problem(await acme.delete(URL, params=payload), 403)


async def test_a_freeze_expires(harness: ApiHarness, acme: httpx2.AsyncClient) -> None:
    made = read(await acme.post(URL, json={"kind": "tenant", "subject": "acme", "seconds": 60}), FreezeView)
    assert made.until is not None

    harness.clock.ahead = 61

    assert await frozen(acme) == []


@pytest.mark.parametrize(
    ("payload", "where"),
    [
        ({"kind": "all", "subject": "acme"}, ["/subject"]),
        ({"kind": "pool"}, ["/subject"]),
        ({"kind": "pool", "subject": "never"}, ["/subject"]),
        ({"kind": "tenant", "subject": "nobody"}, ["/subject"]),
        ({"kind": "job", "subject": "acme/never"}, ["/subject"]),
        ({"kind": "job", "subject": "a/b/c"}, ["/subject"]),
        ({"kind": "tenant", "subject": "No Name", "seconds": -1, "why": "x" * 1_001}, ["/why", "/seconds", "/subject"]),
        ({"kind": "some"}, ["/kind"]),
    ],
)
async def test_an_invalid_request_is_rejected_with_its_faults(
    harness: ApiHarness, payload: dict[str, Any], where: list[str]
) -> None:
    body = problem(await (await harness.admin()).post(URL, json=payload), 422)

    assert list(pointers(body)) == where
