"""Who workers are, on SQLite, as the port has it."""

from __future__ import annotations

import sqlite3

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.sql import worker_statements as statements
from mainspring.store.sql.worker_statements import WorkerLists
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.calls import Calls
from mainspring.store.sqlite.lists import find

_INSERT = statements.insert_join_token(", ".join("?" * len(rows.JOIN_TOKENS.names)))
_PUT = statements.put_identity(", ".join("?" * len(rows.IDENTITIES.names)))


class SqliteWorkers(Calls, WorkerLists):
    """The part of the port that is in `store/ports/workers.py`."""

    async def insert_join_token(self, row: JoinTokenRow, audit: AuditEntry) -> None:
        """Keep a join token."""
        await self._write(_insert, row, audit, self._now())

    async def revoke_join_token(self, id: str, audit: AuditEntry) -> bool:
        """End a join token."""
        return await self._write(_revoke, "join_tokens", "id", id, audit, self._now())

    async def enroll(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the identity of a worker that joined."""
        return await self._write(_enroll, row, audit, self._now())

    async def renew_identity(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the latest certificate of an identity."""
        return await self._write(_renew, row, audit, self._now())

    async def revoke_identity(self, name: str, audit: AuditEntry) -> bool:
        """End an identity."""
        return await self._write(_revoke, "worker_identities", "name", name, audit, self._now())


def _insert(db: sqlite3.Connection, row: JoinTokenRow, audit: AuditEntry, now: int) -> None:
    db.execute(_INSERT, rows.JOIN_TOKENS.rows([row])[0])
    write_audit(db, now, audit)


def _revoke(db: sqlite3.Connection, table: str, key: str, value: str, audit: AuditEntry, now: int) -> bool:
    ended = bool(find(db, statements.revoke(table, key, "$2"), [value, now]).fetchall())
    if ended or find(db, f"SELECT 1 FROM {table} WHERE {key} = $1", [value]).fetchone():
        write_audit(db, now, audit)
    return ended


def _enroll(db: sqlite3.Connection, row: IdentityRow, audit: AuditEntry, now: int) -> bool:
    has_joined = find(db, statements.HAS_JOINED, [row.name, row.key, row.join_token]).fetchone()
    if not has_joined and not find(db, statements.COUNT_USE, [row.join_token, row.enrolled_at]).fetchall():
        return False
    if not db.execute(_PUT, rows.IDENTITIES.rows([row])[0]).fetchall():
        raise Conflict(f"worker {row.name} is another identity's name")
    write_audit(db, now, audit)
    return True


def _renew(db: sqlite3.Connection, row: IdentityRow, audit: AuditEntry, now: int) -> bool:
    renewed = find(db, statements.RENEW, [row.name, row.key, row.serial, row.renewed_at, row.expires_at]).fetchall()
    if renewed:
        write_audit(db, now, audit)
    return bool(renewed)
