"""Entries of the audit log are sealed within a second, and the heads of the chains are logged (SEC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from structlog.testing import capture_logs

from mainspring.core.model.audit_entry import AuditEntry, ChainCheck, ChainHead
from mainspring.host.maintenance.audit_sealer import LOG_HEADS_SECONDS, MAX_ENTRIES_PER_BATCH, AuditSealer
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.admin import Seal
from tests.host.host_harness import HostHarness


def entry(number: int, tenant: str = "acme") -> AuditEntry:
    """An audit entry."""
    return AuditEntry(
        id=f"req_{tenant}{number}",
        tenant=tenant,
        actor="token:ann",
        source="127.0.0.1",
        action="cancel_run",
        object="run",
    )


@pytest_asyncio.fixture
async def sealing(harness: HostHarness) -> AsyncIterator[None]:
    """Two servers that seal."""
    running = [asyncio.create_task(AuditSealer(harness.store, harness.clock).run()) for _ in range(2)]
    yield
    for one in running:
        one.cancel()


async def test_an_entry_is_sealed_within_a_second_and_once(harness: HostHarness, sealing: None) -> None:
    for number in range(5):
        await harness.store.record([entry(number), entry(number, "globex")])
        await harness.wait(1.0)
        assert len(await harness.store.audit_chain("acme", 0, 100)) == number + 1

    for tenant in ("acme", "globex"):
        rows = await harness.store.audit_chain(tenant, 0, 100)
        assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
        assert list(ChainCheck(tenant).faults_in(rows)) == []


async def test_many_entries_are_sealed_in_several_batches(harness: HostHarness) -> None:
    many = 2 * MAX_ENTRIES_PER_BATCH + 1
    await harness.store.record([entry(number) for number in range(many)])

    await AuditSealer(harness.store, harness.clock).seal_all()

    assert [head.seq for head in await harness.store.audit_heads("", 10)] == [many]


async def test_sealing_continues_after_a_store_outage(harness: HostHarness, sealing: None) -> None:
    real, failed = harness.store.seal_audit, 0

    async def sometimes(limit: int, seal: Seal) -> list[ChainHead]:
        nonlocal failed
        failed += 1
        if failed < 5:
            raise Unavailable("the store is gone")
        return await real(limit, seal)

    harness.store.seal_audit = sometimes  # type: ignore[method-assign]
    await harness.store.record([entry(1)])
    await harness.wait(5.0)

    assert [row.seq for row in await harness.store.audit_chain("acme", 0, 100)] == [1]


async def test_heads_of_changed_chains_are_logged_once_a_minute_and_at_the_end(harness: HostHarness) -> None:
    sealer = AuditSealer(harness.store, harness.clock)
    with capture_logs() as logs:
        running = asyncio.create_task(sealer.run())
        await harness.store.record([entry(1), entry(2), entry(1, "globex")])
        await harness.wait(LOG_HEADS_SECONDS + 5.0)
        await harness.store.record([entry(3)])
        await harness.wait(3 * LOG_HEADS_SECONDS)
        await harness.store.record([entry(2, "globex")])
        await harness.wait(2.0)
        running.cancel()
        await asyncio.wait([running])

    heads = {head.tenant: f"{head.seq}:{head.hash}" for head in await harness.store.audit_heads("", 10)}
    reported = [line["heads"] for line in logs if line["event"] == "audit.heads"]
    assert [set(one) for one in reported] == [{"acme", "globex"}, {"acme"}, {"globex"}]
    assert reported[0]["acme"].startswith("2:")
    assert reported[1]["acme"] == heads["acme"]
    assert reported[0]["globex"] != reported[2]["globex"] == heads["globex"]
