"""Numbered migrations, forward only.

A migration is a file `NNNN_what.sql` in the directory of its database, beside this one; both have the same numbers. It
begins with three lines that say what it does, what that means for older servers that go on running, and what it locks.
A database remembers in `schema_migrations` which it has seen, with a digest, so that

1. each is carried out once, in one transaction with its entry: killed in the middle, it is as if it had never begun;
2. one that was changed after it was carried out is noticed (StoreUnusable);
3. a database that has been migrated by a later release is not touched by an older one (StoreUnusable).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Literal

import msgspec

from mainspring.protocol.errors import StoreUnusable


class Migration(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the schema."""

    version: int
    name: str
    sql: str
    sha256: str


def migrations(database: Literal["postgres", "sqlite"]) -> list[Migration]:
    """All migrations of this release, in order."""
    directory = files("mainspring.store.migrations") / database
    found = []
    for file in sorted(directory.iterdir(), key=lambda file: file.name):
        name = file.name.removesuffix(".sql")
        sql = file.read_text(encoding="utf-8")
        digest = hashlib.sha256(sql.encode()).hexdigest()
        found.append(Migration(version=int(name.partition("_")[0]), name=name, sql=sql, sha256=digest))
    return found


def outstanding(known: Sequence[Migration], done: Mapping[int, str]) -> Sequence[Migration]:
    """What is left to do, given what a database remembers (version to digest).

    Raises StoreUnusable if the database has seen something else than what this release knows.
    """
    for version, digest in sorted(done.items()):
        if version > len(known):
            raise StoreUnusable(
                f"the store has schema {version}, and this release knows schemas up to {len(known)}: "
                "it has been used by a later release; use that one, or restore a backup",
                reason="later_release",
            )
        if known[version - 1].sha256 != digest:
            message = f"migration {known[version - 1].name} is not the one that this store was made with"
            raise StoreUnusable(message, reason="other_migration")
    return known[len(done) :]
