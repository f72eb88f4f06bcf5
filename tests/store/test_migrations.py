"""The schema: it matches the structs, is created once, and an unknown one is not changed."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import sys
from pathlib import Path

import asyncpg
import msgspec
import pytest

from mainspring.core.model.audit_entry import AuditEntry, AuditRow, ChainHead
from mainspring.core.model.batch import (
    BreakerRow,
    BulkOperation,
    Checkpoint,
    DurationRow,
    LateResult,
    OutboxRow,
    RejectedEvent,
    WorkerRow,
)
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import BackfillRow, EventRow, FireRow, ScheduleChange, ScheduleRow
from mainspring.core.model.task import Attempt, Task, Transition
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import StoreUnusable
from mainspring.store.migrations import Migration, migrations, outstanding
from mainspring.store.ports.admin import DeliveryRow, SettingOverride, TenantRow, WebhookRow
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.ports.store import ShardRow, Store
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite import store as sqlite
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.postgres import PostgresServer
from tests.sqlite import really_migrate
from tests.store.conftest import look

TABLES: dict[str, tuple[type[msgspec.Struct], list[str]]] = {
    "shards": (ShardRow, ["nonce", "ttl"]),
    "jobs": (JobRow, []),
    "runs": (Run, []),
    "runs_history": (Run, []),
    "tasks": (Task, []),
    "tasks_history": (Task, ["run_ended_at"]),
    "attempts": (Attempt, []),
    "late_results": (LateResult, []),
    "transitions": (Transition, ["shard", "batch_no", "ordinal"]),
    "bulk_operations": (BulkOperation, []),
    "outbox": (OutboxRow, ["seq", "due_at", "holder", "held_until", "delivered_at", "tries", "fault"]),
    "rejected_events": (RejectedEvent, []),
    "workers": (WorkerRow, []),
    "checkpoints": (Checkpoint, []),
    "breakers": (BreakerRow, []),
    "durations": (DurationRow, []),
    "tokens": (TokenRow, []),
    "servers": (ServerRow, []),
    "schedules": (ScheduleRow, []),
    "schedule_changes": (ScheduleChange, ["seq"]),
    "fires": (FireRow, []),
    "backfills": (BackfillRow, []),
    "events": (EventRow, []),
    "alerts": (AlertRow, []),
    "audit_unsealed": (AuditEntry, []),
    "audit": (AuditRow, []),
    "audit_heads": (ChainHead, []),
    "tenants": (TenantRow, []),
    "setting_overrides": (SettingOverride, []),
    "webhooks": (WebhookRow, []),
    "webhook_deliveries": (DeliveryRow, []),
    "join_tokens": (JoinTokenRow, []),
    "worker_identities": (IdentityRow, []),
}
"""The struct of each table, and the additional columns of the store."""


@pytest.mark.parametrize("table", TABLES)
async def test_the_columns_of_a_table_are_the_fields_of_its_struct_in_the_same_order(store: Store, table: str) -> None:
    struct, added = TABLES[table]
    if isinstance(store, SqliteStore):
        found = await look(store, f"SELECT name FROM pragma_table_info('{table}')")
    else:
        found = await look(
            store,
            f"""SELECT column_name::text FROM information_schema.columns
                WHERE table_name = '{table}' ORDER BY ordinal_position""",
        )

    names = [name for (name,) in found]
    assert [name for name in names if name not in added] == list(struct.__struct_fields__)
    assert set(added) <= set(names)


def test_both_databases_have_the_same_migrations() -> None:
    assert [step.name for step in migrations("sqlite")] == [step.name for step in migrations("postgres")]


def test_migrations_are_numbered_without_gaps() -> None:
    known = migrations("postgres")

    assert [step.version for step in known] == list(range(1, len(known) + 1))


STEPS = [Migration(version=n, name=f"{n:04d}_step", sql="", sha256=f"digest-{n}") for n in (1, 2, 3)]


def test_what_is_outstanding_is_what_a_store_has_not_seen() -> None:
    assert outstanding(STEPS, {}) == STEPS
    assert outstanding(STEPS, {1: "digest-1"}) == STEPS[1:]
    assert outstanding(STEPS, {1: "digest-1", 2: "digest-2", 3: "digest-3"}) == []


def test_a_migration_that_was_changed_is_refused() -> None:
    with pytest.raises(StoreUnusable, match="0001_step") as unfit:
        outstanding(STEPS, {1: "digest-other", 2: "digest-2"})
    assert unfit.value.reason == "other_migration"


def test_a_schema_from_the_future_is_refused() -> None:
    with pytest.raises(StoreUnusable) as unfit:
        outstanding(STEPS, {1: "digest-1", 2: "digest-2", 3: "digest-3", 4: "digest-4"})
    assert unfit.value.reason == "later_release"


@pytest.mark.parametrize(
    "change",
    ["UPDATE schema_migrations SET sha256 = 'x'", "INSERT INTO schema_migrations (version, sha256) VALUES (99, 'x')"],
)
def test_a_sqlite_store_with_another_schema_is_refused_and_can_be_opened_by_others(tmp_path: Path, change: str) -> None:
    path = tmp_path / "store.db"
    asyncio.run(SqliteStore.open(path, clock=SystemClock(), run=inline).close())
    with sqlite3.connect(path) as db:
        db.execute(change)
    db.close()

    for _ in range(2):
        with pytest.raises(StoreUnusable):
            SqliteStore.open(path, clock=SystemClock(), run=inline)


@pytest.mark.parametrize(
    "change",
    ["UPDATE schema_migrations SET sha256 = 'x'", "INSERT INTO schema_migrations (version, sha256) VALUES (99, 'x')"],
)
async def test_a_postgres_store_with_another_schema_is_refused(postgres_url: str, change: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    await connection.execute(change)
    await connection.close()

    with pytest.raises(StoreUnusable):
        await PostgresStore.connect(postgres_url)


async def test_many_servers_that_start_at_once_migrate_once(postgres_server: PostgresServer) -> None:
    url = postgres_server.url(postgres_server.create_database())

    stores = await asyncio.gather(*(PostgresStore.connect(url) for _ in range(5)))

    assert await look(stores[0], "SELECT version FROM schema_migrations ORDER BY version") == [
        (step.version,) for step in migrations("postgres")
    ]
    for store in stores:
        await store.close()


_MIGRATE_POSTGRES = """
import asyncio, sys
from mainspring.store.postgres.store import PostgresStore
asyncio.run(PostgresStore.connect(sys.argv[1]))
"""


@pytest.mark.processes
async def test_a_migration_of_postgres_that_is_killed_in_the_middle_can_be_done_again(
    postgres_server: PostgresServer,
) -> None:
    """The migration waits in the middle: another transaction is creating a table of the same name."""
    url = postgres_server.url(postgres_server.create_database())
    connection = await asyncpg.connect(url)
    block = connection.transaction()
    await block.start()
    await connection.execute("CREATE TABLE workers (id text)")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _MIGRATE_POSTGRES, url)
    watcher = await asyncpg.connect(url)
    async with asyncio.timeout(30):
        while not await watcher.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
            assert process.returncode is None

    process.send_signal(signal.SIGKILL)
    await process.wait()
    await block.rollback()

    store = await PostgresStore.connect(url)
    assert await look(store, "SELECT count(*) FROM schema_migrations") == [(len(migrations("postgres")),)]
    await store.close()
    await watcher.close()
    await connection.close()


_MIGRATE_SQLITE = """
import os, sqlite3, sys
from mainspring.store.migrations import migrations
sql = migrations("sqlite")[0].sql
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA journal_mode = WAL")
db.execute("PRAGMA cache_spill = 1")
db.execute("PRAGMA cache_size = 5")  # so that half of it is on the disk
db.executescript("BEGIN IMMEDIATE;" + sql[: sql.index("CREATE TABLE workers")])
print("half way", flush=True)
sys.stdin.read()
"""


@pytest.mark.processes
async def test_a_migration_of_sqlite_that_is_killed_in_the_middle_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_migrate", really_migrate)
    path = tmp_path / "store.db"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MIGRATE_SQLITE, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"half way\n"

    os.kill(process.pid, signal.SIGKILL)
    await process.wait()

    store = SqliteStore.open(path, clock=SystemClock(), run=inline)
    assert await look(store, "SELECT count(*) FROM workers") == [(0,)]
    await store.close()
