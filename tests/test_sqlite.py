"""SQLite stores of tests are copies of a migrated one: equal, and independent of each other."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mainspring.protocol.clock import SystemClock
from mainspring.store.migrations import Migration, migrations
from mainspring.store.sqlite import store as sqlite
from mainspring.store.sqlite.store import SqliteStore, inline
from tests.sqlite import really_migrate
from tests.store.builders import JOB, Leader, a_run


def migrated() -> sqlite3.Connection:
    """A database made by the migrations themselves."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    really_migrate(db, migrations("sqlite"))
    return db


def content(db: sqlite3.Connection) -> list[str]:
    """All content, except the time of the migration."""
    return [line for line in db.iterdump() if not line.startswith('INSERT INTO "schema_migrations"')]


async def test_a_copied_store_equals_a_migrated_one(tmp_path: Path) -> None:
    plain = migrated()
    for path in (":memory:", tmp_path / "store.db"):
        store = SqliteStore.open(path, clock=SystemClock(), run=inline)
        for db in (store._writer, store._reader):
            assert content(db) == content(plain)
            for query in ("SELECT version, sha256 FROM schema_migrations ORDER BY 1", "PRAGMA integrity_check"):
                assert db.execute(query).fetchall() == plain.execute(query).fetchall()
            for setting in ("page_size", "encoding", "auto_vacuum", "user_version", "application_id"):
                assert db.execute(f"PRAGMA {setting}").fetchone() == plain.execute(f"PRAGMA {setting}").fetchone()
        await store.close()
    plain.close()


@pytest.mark.parametrize("time", ["first", "second"])
async def test_copies_are_independent(time: str) -> None:
    """Runs twice, and each has two at a time."""
    one, two = (SqliteStore.open(":memory:", clock=SystemClock(), run=inline) for _ in range(2))
    await (await Leader.of(one)).adopt(a_run())

    assert [shard.batch_no for shard in await one.shards()] == [1]
    assert await two.shards() == []
    assert await two.jobs([JOB.id]) == []
    for store in (one, two):
        await store.close()


def test_a_database_with_content_or_for_another_release_is_migrated() -> None:
    assert sqlite._migrate is not really_migrate
    newest = migrations("sqlite")
    added = Migration(version=len(newest) + 1, name="added", sql="CREATE TABLE added (id TEXT);", sha256="digest")
    later = [*newest, added]
    older = sqlite3.connect(":memory:", isolation_level=None)
    empty = sqlite3.connect(":memory:", isolation_level=None)
    sqlite._migrate(older, newest)
    older.execute("INSERT INTO terms VALUES ('main', 1, 1, 0, 0, 'host')")

    for db in (older, empty):
        sqlite._migrate(db, later)

        assert db.execute("SELECT count(*) FROM schema_migrations").fetchone() == (len(later),)
        assert db.execute("SELECT count(*) FROM added").fetchone() == (0,)
    assert older.execute("SELECT holder FROM terms").fetchall() == [("host",)]
    for db in (older, empty):
        db.close()
