"""Who workers are, on PostgreSQL, as the port has it."""

from __future__ import annotations

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.connection.calls import PostgresCalls
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW
from mainspring.store.sql import worker_statements as statements
from mainspring.store.sql.worker_statements import WorkerLists


def _marks(many: int) -> str:
    return ", ".join(f"${number}" for number in range(1, many + 1))


_INSERT = statements.insert_join_token(_marks(len(rows.JOIN_TOKENS.names)))
_PUT = statements.put_identity(_marks(len(rows.IDENTITIES.names)))


class PostgresWorkers(PostgresCalls, WorkerLists):
    """The part of the port that is in `store/ports/workers.py`."""

    async def insert_join_token(self, row: JoinTokenRow, audit: AuditEntry) -> None:
        """Keep a join token."""
        await self._call(_insert, row, audit)

    async def revoke_join_token(self, id: str, audit: AuditEntry) -> bool:
        """End a join token."""
        return await self._call(_revoke, "join_tokens", "id", id, audit)

    async def enroll(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the identity of a worker that joined."""
        return await self._call(_enroll, row, audit)

    async def renew_identity(self, row: IdentityRow, audit: AuditEntry) -> bool:
        """Keep the latest certificate of an identity."""
        return await self._call(_renew, row, audit)

    async def revoke_identity(self, name: str, audit: AuditEntry) -> bool:
        """End an identity."""
        return await self._call(_revoke, "worker_identities", "name", name, audit)


async def _insert(connection: Connection, row: JoinTokenRow, audit: AuditEntry) -> None:
    async with transaction(connection):
        await connection.execute(_INSERT, *rows.JOIN_TOKENS.rows([row])[0])
        await write_audit(connection, audit)


async def _revoke(connection: Connection, table: str, key: str, value: str, audit: AuditEntry) -> bool:
    async with transaction(connection):
        ended = await connection.fetchval(statements.revoke(table, key, NOW), value) is not None
        if ended or await connection.fetchval(f"SELECT 1 FROM {table} WHERE {key} = $1", value):
            await write_audit(connection, audit)
    return ended


async def _enroll(connection: Connection, row: IdentityRow, audit: AuditEntry) -> bool:
    async with transaction(connection):
        has_joined = await connection.fetchval(statements.HAS_JOINED, row.name, row.key, row.join_token)
        if not has_joined and not await connection.fetchval(statements.COUNT_USE, row.join_token, row.enrolled_at):
            return False
        if not await connection.fetchval(_PUT, *rows.IDENTITIES.rows([row])[0]):
            raise Conflict(f"worker {row.name} is another identity's name")
        await write_audit(connection, audit)
    return True


async def _renew(connection: Connection, row: IdentityRow, audit: AuditEntry) -> bool:
    values = (row.name, row.key, row.serial, row.renewed_at, row.expires_at)
    async with transaction(connection):
        renewed = await connection.fetchval(statements.RENEW, *values) is not None
        if renewed:
            await write_audit(connection, audit)
    return renewed
