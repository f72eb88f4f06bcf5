"""Migrated SQLite stores at a tenth of the cost: the migrations run once per process, new stores are copies."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from threading import Lock

import pytest

from mainspring.store.migrations import Migration, migrations
from mainspring.store.sqlite import store as sqlite

really_migrate = sqlite._migrate


@contextmanager
def copied_stores() -> Iterator[None]:
    """Make every empty SQLite database a copy of a migrated one. Any other one is migrated as usual."""
    newest = migrations("sqlite")
    one_at_a_time = Lock()  # stores are opened in several threads

    def migrate(db: sqlite3.Connection, known: Sequence[Migration]) -> None:
        (objects,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if objects or list(known) != newest:
            really_migrate(db, known)
        else:
            with one_at_a_time:
                template.backup(db)

    with closing(sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)) as template:
        really_migrate(template, newest)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sqlite, "_migrate", migrate)
            yield
