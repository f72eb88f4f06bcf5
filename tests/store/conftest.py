"""The stores that the suite runs on: SQLite in a file with threads, SQLite in memory and inline, a real PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from mainspring.protocol.clock import SystemClock
from mainspring.store.ports.store import Store
from mainspring.store.postgres.store import PostgresStore
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.postgres import PostgresServer
from tests.store.builders import HOUR, JOB, UNHURRIED

STORES = ("sqlite", "memory", "postgres")


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A database with the schema, and the job of all runs."""

    async def connect_once(url: str) -> None:
        store = await PostgresStore.connect(url, limits=UNHURRIED, lease=HOUR)
        await store.insert_job(JOB)
        await store.close()

    def migrate(url: str) -> None:
        # In a thread: the first test with a database may be inside an event loop.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: asyncio.run(connect_once(url))).result()

    return postgres_server.template("migrated", migrate)


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A new store, with the job of all runs."""
    opened: Store
    match request.param:
        case "sqlite":
            opened = SqliteStore.open(tmp_path / "store.db", clock=SystemClock())
        case "memory":
            opened = SqliteStore.open(":memory:", clock=SystemClock(), run=inline)
        case _:
            opened = await PostgresStore.connect(request.getfixturevalue("postgres_url"), limits=UNHURRIED, lease=HOUR)
    await opened.insert_job(JOB)
    yield opened
    await opened.close()


async def look(store: Store, query: str) -> list[tuple[Any, ...]]:
    """Run a query below the port: for data that the port writes and does not read."""
    if isinstance(store, SqliteStore):
        return await store._read(lambda db: db.execute(query).fetchall())
    assert isinstance(store, PostgresStore)
    async with store._pool.connection() as connection:
        return [tuple(row) for row in await connection.fetch(query)]


async def execute(store: Store, statement: str) -> list[tuple[Any, ...]]:
    """Execute a statement below the port, and return its rows: to insert many rows at once."""
    if isinstance(store, SqliteStore):
        return await store._write(lambda db: db.execute(statement).fetchall())
    return await look(store, statement)
