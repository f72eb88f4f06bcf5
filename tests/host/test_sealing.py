"""Entries of the audit log are sealed within a second, and the heads of the chains are logged (SEC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from structlog.testing import capture_logs

from mainspring.core.model.audit_entry import AuditEntry, ChainCheck, ChainHead
from mainspring.host.maintenance.audit_sealer import SEALED_AT_ONCE, TELL_SECONDS, Sealer
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.admin import Seal
from tests.host.hall import Hall


def entry(number: int, tenant: str = "acme") -> AuditEntry:
    """An audit entry."""
    return AuditEntry(
        id=f"req_{tenant}{number}", tenant=tenant, actor="token:ann", source="127.0.0.1", act="cancel_run", object="run"
    )


@pytest_asyncio.fixture
async def sealing(hall: Hall) -> AsyncIterator[None]:
    """Two servers that seal."""
    running = [asyncio.create_task(Sealer(hall.store, hall.clock).run()) for _ in range(2)]
    yield
    for one in running:
        one.cancel()


async def test_an_entry_is_sealed_within_a_second_and_once(hall: Hall, sealing: None) -> None:
    for number in range(5):
        await hall.store.record([entry(number), entry(number, "globex")])
        await hall.wait(1.0)
        assert len(await hall.store.audit_chain("acme", 0, 100)) == number + 1

    for tenant in ("acme", "globex"):
        rows = await hall.store.audit_chain(tenant, 0, 100)
        assert [row.seq for row in rows] == [1, 2, 3, 4, 5]
        assert list(ChainCheck(tenant).faults_in(rows)) == []


async def test_many_entries_are_sealed_in_several_batches(hall: Hall) -> None:
    many = 2 * SEALED_AT_ONCE + 1
    await hall.store.record([entry(number) for number in range(many)])

    await Sealer(hall.store, hall.clock).seal_all()

    assert [head.seq for head in await hall.store.audit_heads("", 10)] == [many]


async def test_sealing_continues_after_a_store_outage(hall: Hall, sealing: None) -> None:
    real, failed = hall.store.seal_audit, 0

    async def sometimes(limit: int, seal: Seal) -> list[ChainHead]:
        nonlocal failed
        failed += 1
        if failed < 5:
            raise Unavailable("the store is gone")
        return await real(limit, seal)

    hall.store.seal_audit = sometimes  # type: ignore[method-assign]
    await hall.store.record([entry(1)])
    await hall.wait(5.0)

    assert [row.seq for row in await hall.store.audit_chain("acme", 0, 100)] == [1]


async def test_heads_of_changed_chains_are_logged_once_a_minute_and_at_the_end(hall: Hall) -> None:
    sealer = Sealer(hall.store, hall.clock)
    with capture_logs() as logs:
        running = asyncio.create_task(sealer.run())
        await hall.store.record([entry(1), entry(2), entry(1, "globex")])
        await hall.wait(TELL_SECONDS + 5.0)
        await hall.store.record([entry(3)])
        await hall.wait(3 * TELL_SECONDS)
        await hall.store.record([entry(2, "globex")])
        await hall.wait(2.0)
        running.cancel()
        await asyncio.wait([running])

    heads = {head.tenant: f"{head.seq}:{head.hash}" for head in await hall.store.audit_heads("", 10)}
    told = [line["heads"] for line in logs if line["event"] == "audit.heads"]
    assert [set(one) for one in told] == [{"acme", "globex"}, {"acme"}, {"globex"}]
    assert told[0]["acme"].startswith("2:")
    assert told[1]["acme"] == heads["acme"]
    assert told[0]["globex"] != told[2]["globex"] == heads["globex"]
