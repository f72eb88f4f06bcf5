"""Query plans of the audit log, tenants and webhooks: only the requested rows are read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from mainspring.core.model.audit_entry import seal
from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.admin import AuditFilter
from mainspring.store.postgres import audit as postgres_audit
from mainspring.store.postgres.connection.connection_pool import Connection, Limits, open_connection
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.lists import Listing
from mainspring.store.sqlite import lists as sqlite_lists
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.store.admin_builders import a_delivery, a_webhook, an_entry
from tests.store.builders import HOUR, NOW, UNHURRIED, a_job, an_outgoing
from tests.store.test_plans import multiply, pages_of, pages_of_list
from tests.store.test_tokens import a_token


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """A store on a separate database."""
    opened = await PostgresStore.connect(postgres_url, limits=UNHURRIED, lease=HOUR)
    yield opened
    await opened.close()


@pytest.fixture
async def other(postgres_url: str) -> AsyncIterator[Connection]:
    """A separate connection to the store's database."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close(timeout=5)


@pytest.fixture
async def reader(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection with the settings of the store's readers."""
    connection = await open_connection(postgres_url, Limits())
    yield connection
    await connection.close(timeout=5)


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_long_audit_log_costs_those_nothing_who_write_seal_and_look_at_it(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    """50,000 entries of one tenant and as many chains; another tenant has three entries."""
    await store.prepare_days(2)
    flood = an_entry(tenant="flood", object="run_flood")
    await store.record([flood, an_entry(), an_entry(), an_entry()])
    await store.seal_audit(10, seal)
    await multiply(
        other, "audit", flood.id, id="id || '-' || n", seq="n + 1", at="at + n * interval '1 us'",
    )  # fmt: skip
    await multiply(other, "audit_heads", "flood", key="tenant", tenant="'t' || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    now = await store.time()
    for query, args, most in (
        (statements.UNSEALED, "100", 20),
        (postgres_audit._SEALED_BEFORE, f"'{{{flood.id},req_x,req_y}}', '{now - timedelta(days=1)}', '{now}'", 60),
        (postgres_audit._HEADS, "'{acme,t7,unknown}'", 20),
    ):
        assert await pages_of(reader, query, args) < most, query
    for wanted in (
        statements.audit(AuditFilter(), None, 20),
        statements.audit(AuditFilter(), (now, "req_1"), 20),
        statements.audit(AuditFilter(tenant="acme"), None, 20),
        statements.audit(AuditFilter(object="run_1"), None, 20),
        statements.audit(AuditFilter(tenant="flood", since=now - HOUR, before=now + HOUR), (now, "req_1"), 20),
        statements.audit_chain("acme", 1, 20),
        statements.audit_chain("flood", 40_000, 20),
        statements.audit_heads("t3", 20),
    ):
        assert await pages_of_list(reader, wanted) < 120, wanted


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_a_page_of_tenants_costs_the_same_however_much_each_of_them_has(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    for tenant in ("a", "m", "z"):
        await store.insert_job(a_job(tenant=tenant))
    job = await store.insert_job(a_job(tenant="flood"))
    token = a_token(tenant="flood")
    await store.insert_token(token)
    await multiply(other, "jobs", job.id, id="id || n", version="n + 1")
    await multiply(other, "tokens", token.id, id="id || n", tenant="CASE WHEN n % 2 = 0 THEN '*' ELSE tenant END")
    if statistics == "new":
        await other.execute("ANALYZE")

    assert [row.name for row in await store.list_tenants("", 10)] == ["a", "builders", "flood", "m", "z"]
    assert await pages_of_list(reader, statements.tenants("", 10)) < 150
    assert await pages_of_list(reader, statements.tenants("b", 2)) < 90
    for name in ("a", "flood", "unknown"):
        assert await pages_of_list(reader, statements.tenant(name)) < 30, name


@pytest.mark.parametrize("statistics", ["old", "new"])
async def test_messages_of_a_webhook_are_found_among_many_of_another(
    store: PostgresStore, other: Connection, reader: Connection, statistics: str
) -> None:
    busy, quiet = a_webhook(), a_webhook()
    for hook in (busy, quiet):
        await store.put_webhook(hook, None, an_entry())
    deliveries = [a_delivery(busy), a_delivery(quiet)]
    await store.add_deliveries(deliveries, [an_outgoing(), an_outgoing()])
    await multiply(other, "webhook_deliveries", deliveries[0].id, id="id || '-' || n")
    if statistics == "new":
        await other.execute("ANALYZE")

    for wanted in (
        statements.deliveries(quiet.id, "", 20),
        statements.deliveries(busy.id, f"{deliveries[0].id}-7", 20),
        statements.delivery(deliveries[1].id),
        statements.webhooks("acme", "", 20),
    ):
        assert await pages_of_list(reader, wanted) < 60, wanted


LISTS: dict[str, Listing] = {
    "audit USING INDEX audit_by_time": statements.audit(AuditFilter(), (NOW, "req_1"), 20),
    "audit_unsealed USING INDEX audit_unsealed_by_time": statements.audit(AuditFilter(), (NOW, "req_1"), 20),
    "audit_of_tenant (tenant=? AND at<?)": statements.audit(AuditFilter(tenant="a"), (NOW, "req_1"), 20),
    "audit_of_object (object=?)": statements.audit(AuditFilter(object="run_1"), None, 20),
    "audit_chain (tenant=? AND seq>? AND seq<?)": statements.audit_chain("a", 1, 20),
    "audit_heads_1 (tenant>?)": statements.audit_heads("a", 20),
    "tokens_of_tenant (tenant>?)": statements.tenants("", 20),
    "jobs_2 (tenant>?)": statements.tenants("", 20),
    "schedules_job (tenant>?)": statements.tenants("", 20),
    "tokens_of_tenant (tenant=?)": statements.tenant("a"),
    "webhooks_of_tenant (tenant=? AND id>?)": statements.webhooks("a", "hook_1", 20),
    "webhook_deliveries_of (webhook_id=? AND id<?)": statements.deliveries("hook_1", "msg_1", 20),
    "USING INDEX audit_unsealed_by_time": Listing(statements.UNSEALED, [20]),
}


@pytest.mark.parametrize("mode", LISTS)
async def test_sqlite_lists_along_an_index(mode: str) -> None:
    store = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)

    sql, parameters = LISTS[mode]
    plan = await store._read(lambda db: sqlite_lists.find(db, f"EXPLAIN QUERY PLAN {sql}", parameters).fetchall())

    steps = "\n".join(step for *_, step in plan)
    assert mode in steps, steps
    await store.close()
