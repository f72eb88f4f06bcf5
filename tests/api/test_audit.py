"""The audit log: every change has one entry, and tampering is detected (SEC-4, I-73)."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import httpx2
import msgspec
import pytest

from mainspring.api.auth.principal import Role
from mainspring.app.build import create_token, open_store
from mainspring.core.model.audit_entry import INSTALLATION, AuditEntry, AuditRow, ChainCheck, seal
from mainspring.host.maintenance.audit_sealer import AuditSealer
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.admin import AuditView, HeadView, VerificationView
from mainspring.protocol.rest.runs import Page, RunView, TokenView
from mainspring.protocol.rest.schedules import ScheduleView
from mainspring.store.ports.admin import AuditFilter
from tests.api.api_harness import NOOP, ApiHarness, all_pages, problem, read, submit
from tests.api.permission_matrix import OWN, scene_of, ways

DRY = {"backfill_schedule", "act_on_runs", "apply"}
"""Routes that are called as a dry run."""
HOURLY = {"name": "hourly", "job": "noop", "trigger": {"kind": "cron", "cron": "0 * * * *"}}


async def entries(caller: httpx2.AsyncClient, **params: str) -> list[AuditView]:
    """Return entries, latest first."""
    found: list[AuditView] = read(await caller.get("/api/v1/audit", params=params), Page[AuditView]).items
    return found


async def verification(caller: httpx2.AsyncClient, **params: str) -> VerificationView:
    """Return the result of verifying a chain."""
    found: VerificationView = read(await caller.get("/api/v1/audit/verification", params=params), VerificationView)
    return found


async def grow(harness: ApiHarness, acme: httpx2.AsyncClient, times: int = 5) -> None:
    """Create a chain with some entries."""
    for number in range(times):
        await acme.post("/api/v1/jobs", json={**NOOP, "name": f"job{number}"})
    await AuditSealer(harness.store, harness.clock).seal_all()


async def test_every_change_has_one_entry_under_its_request_id(harness: ApiHarness) -> None:
    async with scene_of(harness) as scene:
        await scene.renew()
        caller = await scene.caller("admin.every")
        expected = {}
        for way in ways(harness):
            if way.endpoint is None or not way.endpoint.audited or way.endpoint.operation in DRY:
                continue
            url, query = way.url(scene.things), way.query(with_tenant=True)
            answer = await caller.request(way.method, url, params=query, **way.body())  # type: ignore[arg-type]
            if answer.is_success:
                expected[answer.headers["x-request-id"]] = way.endpoint.operation
        rows = await harness.store.list_audit(AuditFilter(actor="token:a-test"), None, 1_000)

    reported = [row for row in rows if row.id.partition(".")[0] in expected]
    assert {row.id.partition(".")[0]: row.action for row in reported} == expected
    assert len(reported) == len(expected) > 30
    assert {row.tenant for row in reported} <= {OWN, "default", INSTALLATION}


async def test_an_entry_records_actor_action_object_source_and_reason(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await submit(acme)
    made = read(await acme.post("/api/v1/schedules", json={"definition": HOURLY, "why": "for ann"}), ScheduleView)
    changed = {"definition": {**HOURLY, "priority": "P0"}}
    answer = await acme.put(f"/api/v1/schedules/{made.id}", json=changed)

    put, created = await entries(acme, object=made.id)

    assert (created.action, created.why, created.source) == ("create_schedule", "for ann", "127.0.0.1")
    assert (put.id, put.actor, put.tenant) == (answer.headers["x-request-id"], "token:a-test", "acme")
    assert b'"P0"' in bytes(put.after)
    assert b'"P0"' not in bytes(put.before)
    assert (bytes(created.before), bytes(created.after)) == (b"null", bytes(put.before))


async def test_no_token_is_in_the_log(harness: ApiHarness) -> None:
    admin = await harness.admin()

    made = read(await admin.post("/api/v1/tokens", json={"name": "bot", "roles": ["viewer"]}), TokenView)
    await admin.delete(f"/api/v1/tokens/{made.id}")
    answer = await admin.get("/api/v1/audit", params={"object": made.id})

    assert [entry.action for entry in read(answer, Page[AuditView]).items] == ["revoke_token", "create_token"]
    assert made.token is not None
    assert made.token not in answer.text
    row = await harness.store.find_token(made.id)
    assert row is not None
    assert row.hash not in answer.text


def test_the_bootstrap_token_is_audited_too(tmp_path: Path) -> None:
    """It is created directly in the store."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    token = create_token(url, "ops", ["admin"])

    async def look() -> list[AuditRow]:
        store = await open_store(url, SystemClock())
        try:
            return await store.list_audit(AuditFilter(), None, 10)
        finally:
            await store.close()

    (reported,) = asyncio.run(look())
    assert (reported.actor, reported.action, reported.tenant) == ("store", "create_token", INSTALLATION)
    assert reported.object in token
    assert token.rpartition("_")[2] not in str(reported)


async def test_rejected_requests_are_not_audited(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")

    problem(await acme.post("/api/v1/runs", json={"job": "never"}), 422)
    problem(await acme.post("/api/v1/workers/w1/cordon"), 403)

    assert await entries(acme) == []


async def test_entries_are_filtered_by_actor_action_and_time(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await submit(acme)
    run = read(await acme.post("/api/v1/runs", json={"job": "noop"}), RunView)

    assert [entry.action for entry in await entries(acme)] == ["create_run", "create_run", "create_job"]
    assert [entry.object for entry in await entries(acme, action="create_run", object=run.id)] == [run.id]
    assert await entries(acme, actor="token:other") == []
    latest = (await entries(acme))[0].at.isoformat()
    assert [entry.object for entry in await entries(acme, since=latest)] == [run.id]
    assert len(await entries(acme, before=latest)) == 2


async def test_the_log_is_paged_without_gaps(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await grow(harness, acme, times=3)
    await acme.post("/api/v1/jobs", json={**NOOP, "name": "unsealed"})

    pages = [page async for page in all_pages(acme, "/api/v1/audit", AuditView, limit=2)]

    assert [len(page) for page in pages] == [2, 2, 0]
    seqs = [entry.seq for page in pages for entry in page]
    assert seqs == [0, 3, 2, 1]


async def test_a_tenant_sees_its_own_entries_and_chain_only(harness: ApiHarness) -> None:
    acme, globex, everybody = await harness.admin("acme"), await harness.admin("globex"), await harness.admin()
    await grow(harness, acme)
    await grow(harness, globex, times=2)

    assert {entry.tenant for entry in await entries(acme)} == {"acme"}
    assert {entry.tenant for entry in await entries(everybody)} == {"acme", "globex"}
    heads = read(await globex.get("/api/v1/audit/heads"), Page[HeadView]).items
    assert [(head.tenant, head.seq) for head in heads] == [("globex", 2)]
    all_heads = read(await everybody.get("/api/v1/audit/heads"), Page[HeadView]).items
    assert [(head.tenant, head.seq) for head in all_heads] == [("acme", 5), ("globex", 2)]
    problem(await globex.get("/api/v1/audit/chain", params={"tenant": "acme"}), 403)


async def test_an_untouched_chain_verifies(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await grow(harness, acme)

    found = await verification(acme)

    assert (found.tenant, found.entries, found.first_seq, found.faults) == ("acme", 5, 1, [])
    assert found.head is not None
    assert found.head.seq == 5
    assert (await verification(await harness.admin())).entries == 0


async def test_clients_can_recompute_the_hashes(harness: ApiHarness) -> None:
    acme = await harness.admin("acme")
    await submit(acme)
    await acme.post("/api/v1/schedules", json={"definition": HOURLY})
    await AuditSealer(harness.store, harness.clock).seal_all()

    rows = []
    for after in ("0", "2"):
        page = read(await acme.get("/api/v1/audit/chain", params={"after": after, "limit": 2}), Page[AuditView])
        rows += [_row(view) for view in page.items]

    assert [row.seq for row in rows] == [1, 2, 3]
    assert list(ChainCheck("acme").faults_in(rows)) == []
    assert (
        seal([AuditEntry(**{name: getattr(row, name) for name in AuditEntry.__struct_fields__}) for row in rows], {})
        == rows
    )


@pytest.mark.parametrize(
    ("tampering", "seq", "why"),
    [
        ("UPDATE audit SET actor = 'token:bob' WHERE seq = 3", 3, "differs from what was sealed"),
        ("UPDATE audit SET after = NULL WHERE seq = 1", 1, "differs from what was sealed"),
        ("DELETE FROM audit WHERE seq = 3", 4, "missing before it"),
        ("DELETE FROM audit WHERE seq = 5", 5, "end of the chain is missing"),
        ("UPDATE audit_heads SET hash = 'x'", 5, "the chain was rewritten"),
        ("DELETE FROM audit_heads", 1, "head of the chain is missing"),
    ],
)
async def test_tampering_is_detected_and_located(
    harness: ApiHarness, tmp_path: Path, tampering: str, seq: int, why: str
) -> None:
    acme = await harness.admin("acme")
    await grow(harness, acme)
    with sqlite3.connect(tmp_path / "store.db") as db:
        db.execute(tampering)

    faults = (await verification(acme)).faults

    assert faults[0].seq == seq
    assert any(why in fault.why for fault in faults)


async def test_only_administrators_read_the_log(harness: ApiHarness) -> None:
    operator = harness.caller(await harness.token(Role.OPERATOR, tenant="acme"))

    problem(await operator.get("/api/v1/audit"), 403)


def _row(view: AuditView) -> AuditRow:
    return AuditRow(
        id=view.id, at=view.at, tenant=view.tenant, actor=view.actor, source=view.source, action=view.action,
        object=view.object, why=view.why, before=_side(view.before), after=_side(view.after), seq=view.seq,
        hash=view.hash,
    )  # fmt: skip


def _side(raw: msgspec.Raw) -> str | None:
    return None if bytes(raw) == b"null" else bytes(raw).decode()
