"""Chains of the audit log: sealed in order by any sealer, verified completely, pruned from the beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime

import pytest

from mainspring.core.model.audit_entry import (
    GENESIS_HASH,
    AuditEntry,
    AuditFault,
    AuditRow,
    ChainCheck,
    ChainHead,
    chain_hash,
    seal,
)
from mainspring.protocol.errors import Conflict, Rejected
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore
from tests.store.admin_builders import an_entry
from tests.store.builders import DAY, HOUR, UNHURRIED
from tests.store.conftest import look
from tests.store.test_audit import EVERYTHING, seal_all, told


async def faults(store: Store, tenant: str = "acme", page: int = 2) -> list[AuditFault]:
    """The faults of a chain, read in small parts."""
    check, found, after = ChainCheck(tenant), list[AuditFault](), 0
    while rows := await store.audit_chain(tenant, after, page):
        found.extend(check.faults_in(rows))
        after = rows[-1].seq
    (head,) = [head for head in await store.audit_heads("", 1000) if head.tenant == tenant]
    at_end = check.fault_at_end(head)
    return found + ([at_end] if at_end else [])


async def tamper(store: Store, statement: str) -> None:
    """Change a row below the port."""
    if isinstance(store, SqliteStore):
        await store._write(lambda db: db.execute(statement))
    else:
        assert isinstance(store, PostgresStore)
        async with store._pool.connection() as connection:
            await connection.execute(statement)


# sealing


async def test_sealed_entries_are_a_chain_for_each_tenant(store: Store) -> None:
    entries = [an_entry(tenant=tenant) for tenant in ("a", "b", "a", "*", "b", "a")]
    for entry in entries:
        await store.record([entry])

    grown = await store.seal_audit(100, seal)

    assert [(head.tenant, head.seq) for head in grown] == [("*", 1), ("a", 3), ("b", 2)]
    chain = await store.audit_chain("a", 0, 10)
    assert [(row.id, row.seq) for row in chain] == [(entries[0].id, 1), (entries[2].id, 2), (entries[5].id, 3)]
    assert chain[0].hash == chain_hash(GENESIS_HASH, 1, chain[0])
    assert chain[1].hash == chain_hash(chain[0].hash, 2, chain[1])
    assert chain[-1].hash == grown[1].hash
    assert await store.audit_heads("", 100) == grown
    assert await store.audit_heads("*", 1) == grown[1:2]
    assert await store.seal_audit(100, seal) == []


async def test_the_oldest_are_sealed_first_a_few_at_a_time(store: Store) -> None:
    entries = [an_entry() for _ in range(5)]
    for entry in entries:
        await store.record([entry])

    assert [head.seq for _ in range(4) for head in await store.seal_audit(2, seal)] == [2, 4, 5]
    assert [row.id for row in await store.audit_chain("acme", 0, 10)] == [entry.id for entry in entries]
    assert [row.seq for row in await store.audit_chain("acme", 2, 2)] == [3, 4]
    assert await faults(store) == []


async def test_only_the_heads_of_the_chains_that_grow_are_read(store: Store) -> None:
    await store.record([an_entry(tenant=f"t{number}") for number in range(20)])
    await seal_all(store)
    given: list[Mapping[str, ChainHead]] = []

    def look_at(entries: Sequence[AuditEntry], heads: Mapping[str, ChainHead]) -> list[AuditRow]:
        given.append(heads)
        return seal(entries, heads)

    await store.record([an_entry(tenant="t7"), an_entry(tenant="new")])
    await store.seal_audit(100, look_at)

    assert [sorted(heads) for heads in given] == [["t7"]]


async def test_a_sealing_that_fails_leaves_everything_as_it_was(store: Store) -> None:
    await store.record([an_entry(), an_entry()])

    def fail(entries: Sequence[AuditEntry], heads: Mapping[str, ChainHead]) -> list[AuditRow]:
        raise Conflict("not now")

    with pytest.raises(Conflict):
        await store.seal_audit(100, fail)

    assert [row.seq for row in await store.list_audit(EVERYTHING, None, 10)] == [0, 0]
    await seal_all(store)
    assert await faults(store) == []


async def test_several_servers_that_seal_at_once_make_one_chain(store: Store) -> None:
    async def write(place: int) -> None:
        for _ in range(10):
            await store.record([an_entry(tenant=f"t{place % 2}")])

    async def seal_some() -> None:
        for _ in range(10):
            await store.seal_audit(3, seal)

    await asyncio.gather(*(write(place) for place in range(4)), *(seal_some() for _ in range(3)))
    await seal_all(store)

    for tenant in ("t0", "t1"):
        assert [row.seq for row in await store.audit_chain(tenant, 0, 100)] == list(range(1, 21))
        assert await faults(store, tenant) == []


async def test_an_entry_whose_transaction_ends_late_is_sealed_late(postgres_url: str) -> None:
    """An entry is not committed yet when newer ones are sealed."""
    store = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    early, late = an_entry(id="req_early"), an_entry(id="req_late")
    async with store._pool.connection() as connection:
        slow = connection.transaction()
        await slow.start()
        await connection.execute(
            """INSERT INTO audit_unsealed VALUES
               ('req_early', clock_timestamp(), 'acme', 'ann', '', 'action', 'run_1', '', NULL, NULL)"""
        )
        await store.record([late])
        await seal_all(store)
        await slow.commit()
    await seal_all(store)

    assert [row.id for row in await store.audit_chain("acme", 0, 10)] == [late.id, early.id]
    assert await told(store) == [early.id, late.id]
    assert await faults(store) == []
    await store.close()


# tampering


async def a_chain(store: Store) -> list[AuditEntry]:
    """Five sealed entries, between those of another tenant."""
    entries = [an_entry() for _ in range(5)]
    for entry in entries:
        await store.record([entry])
        await store.record([an_entry(tenant="other")])
    await seal_all(store)
    assert await faults(store) == await faults(store, "other") == []
    return entries


@pytest.mark.parametrize(
    "change",
    ["actor = 'token:bob'", "why = ''", "after = NULL", "object = 'run_2'", "hash = 'ab'"],
)
@pytest.mark.parametrize("place", [1, 3, 5])
async def test_an_entry_that_was_changed_is_found_and_named(store: Store, change: str, place: int) -> None:
    entries = await a_chain(store)

    await tamper(store, f"UPDATE audit SET {change} WHERE tenant = 'acme' AND seq = {place}")

    first = (await faults(store))[0]
    assert (first.tenant, first.seq, first.id) == ("acme", place, entries[place - 1].id)
    assert await faults(store, "other") == []


async def test_an_entry_that_was_moved_in_time_is_found(store: Store) -> None:
    entries = await a_chain(store)
    second = "1" if isinstance(store, SqliteStore) else "interval '1 ms'"

    await tamper(store, f"UPDATE audit SET at = at - {second} WHERE tenant = 'acme' AND seq = 2")

    assert [fault.id for fault in await faults(store)] == [entries[1].id]


@pytest.mark.parametrize("place", [2, 4])
async def test_an_entry_that_was_taken_away_is_found(store: Store, place: int) -> None:
    entries = await a_chain(store)

    await tamper(store, f"DELETE FROM audit WHERE tenant = 'acme' AND seq = {place}")

    first = (await faults(store))[0]
    assert (first.seq, first.id) == (place + 1, entries[place].id)


async def test_an_end_that_was_cut_off_is_found(store: Store) -> None:
    await a_chain(store)

    await tamper(store, "DELETE FROM audit WHERE tenant = 'acme' AND seq > 3")

    assert [(fault.seq, fault.id) for fault in await faults(store)] == [(5, "")]


@pytest.mark.parametrize("place", [2, 3, 5, 6])
async def test_an_entry_that_was_slipped_in_is_found_wherever_parts_end(store: Store, place: int) -> None:
    await a_chain(store)

    await tamper(
        store,
        f"""INSERT INTO audit
            SELECT 'req_zzz', at, tenant, actor, source, action, object, why, before, after, {place}, hash FROM audit
            WHERE tenant = 'acme' AND seq = 5""",
    )

    assert ("req_zzz", place) in {(fault.id, fault.seq) for fault in await faults(store)}


async def test_an_entry_whose_number_says_that_it_is_not_sealed_is_refused_by_the_table(store: Store) -> None:
    await a_chain(store)

    with pytest.raises(Rejected):
        await tamper(store, "UPDATE audit SET seq = 0 WHERE tenant = 'acme' AND seq = 5")


# pruning


async def age(store: Store, to: datetime, where: str) -> None:
    """Set the age of sealed entries."""
    at = f"'{to.isoformat()}'"
    if isinstance(store, SqliteStore):
        at = str(int(to.timestamp()) * 1_000_000)
    await tamper(store, f"UPDATE audit SET at = {at} WHERE {where}")


async def test_old_entries_go_but_the_last_of_a_chain_and_those_that_are_not_sealed(store: Store) -> None:
    for _ in range(3):
        await store.record([an_entry(), an_entry(tenant="silent")])
    await seal_all(store)
    old = await store.time() - 40 * DAY
    await age(store, old, "tenant = 'silent' OR seq < 3")
    await store.record([an_entry(tenant="new")])

    assert (await store.prune("audit", 30 * DAY)).rows == 4
    assert (await store.prune("audit", -HOUR)).rows == 0

    assert [row.seq for row in await store.audit_chain("acme", 0, 10)] == [3]
    assert [row.seq for row in await store.audit_chain("silent", 0, 10)] == [3]
    assert await told(store, AuditFilter(tenant="new"))
    assert await look(store, "SELECT count(*) FROM audit_heads") == [(2,)]
    await store.record([an_entry(tenant="silent")])
    await seal_all(store)
    assert (await store.prune("audit", 30 * DAY)).rows == 1


async def test_a_day_that_is_dropped_leaves_the_last_entry_of_a_chain(postgres_url: str) -> None:
    store = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    await store.prepare_days(1)
    await store.record([an_entry(), an_entry()])
    await seal_all(store)
    assert await look(store, "SELECT count(*) FROM audit_default") == [(0,)]

    pruned = await store.prune("audit", -3 * DAY)

    assert (pruned.days, await faults(store)) == (2, [])
    assert await look(store, "SELECT seq FROM audit_default") == [(2,)]
    await store.close()
