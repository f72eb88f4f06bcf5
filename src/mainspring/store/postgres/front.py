"""What the PostgreSQL adapter keeps that no shard decides: what was heard of workers, servers, settings, tokens.

Many servers write these rows at once, and a batch writes workers too. Whoever writes several of them leaves out those
that somebody else is just writing, who writes the same or something newer: so nobody waits in a circle.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import WorkerRow
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW
from mainspring.store.sql import lists as listing

# liveness

_RECORD_HEARTBEATS = f"""
    WITH free AS (
        SELECT id FROM workers WHERE id = ANY($2::text[]) AND shard = $1 FOR UPDATE SKIP LOCKED
    ), heard AS (
        UPDATE workers SET last_heartbeat_at = {NOW} FROM free WHERE workers.id = free.id
    )
    SELECT {NOW}
"""
_SILENT_WORKERS = listing.SILENT_WORKERS.replace("$2", f"{NOW} - $2::interval").replace("$4", f"{NOW} - $4::interval")


async def record_heartbeats(connection: Connection, shard: str, workers: Sequence[str]) -> datetime:
    """Note that workers were heard of."""
    at: datetime = await connection.fetchval(_RECORD_HEARTBEATS, shard, workers)
    return at


async def silent_workers(
    connection: Connection, shard: str, age: timedelta, limit: int, claimant_age: timedelta
) -> list[WorkerRow]:
    """Workers that were not heard of for some time."""
    return rows.WORKERS.readable_structs(await connection.fetch(_SILENT_WORKERS, shard, age, limit, claimant_age))


# cluster

_RECORD_SERVER_HEARTBEAT = f"""
    INSERT INTO servers (name, address, version, started_at, last_heartbeat_at) VALUES ($1, $2, $3, $4, {NOW})
    ON CONFLICT (name) DO UPDATE SET
        address = excluded.address, version = excluded.version, started_at = excluded.started_at,
        last_heartbeat_at = excluded.last_heartbeat_at
"""
_SERVERS = listing.SERVERS.replace("$1", f"{NOW} - $1::interval")


async def record_server_heartbeat(connection: Connection, server: ServerRow) -> None:
    """Write a server's row."""
    await connection.execute(_RECORD_SERVER_HEARTBEAT, server.name, server.address, server.version, server.started_at)


async def delete_server(connection: Connection, name: str) -> None:
    """Take a server's row away."""
    await connection.execute("DELETE FROM servers WHERE name = $1", name)


async def servers(connection: Connection, age: timedelta) -> list[ServerRow]:
    """Servers that were heard of of late."""
    return rows.SERVERS.readable_structs(await connection.fetch(_SERVERS, age))


async def setting(connection: Connection, name: str, default: str) -> str:
    """The value of a setting, which gets one if it has none."""
    async with transaction(connection):
        await connection.execute(
            "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING", name, default
        )
        value: str = await connection.fetchval("SELECT value FROM settings WHERE name = $1", name)
    return value


# tokens

_INSERT_TOKEN = f"""
    INSERT INTO tokens ({rows.TOKENS.select()})
    VALUES ({", ".join(f"${place}" for place in range(1, len(rows.TOKENS.names) + 1))})
    ON CONFLICT (id) DO NOTHING RETURNING id
"""
_REVOKE = f"UPDATE tokens SET revoked_at = {NOW} WHERE id = $1 AND revoked_at IS NULL RETURNING id"
_USED = f"""
    UPDATE tokens SET last_used_at = {NOW}
    FROM (SELECT id FROM tokens WHERE id = ANY($1::text[]) FOR UPDATE SKIP LOCKED) AS free WHERE tokens.id = free.id
"""


async def insert_token(connection: Connection, token: TokenRow, audit: AuditEntry | None) -> None:
    """Keep a token."""
    async with transaction(connection):
        if not await connection.fetchval(_INSERT_TOKEN, *rows.TOKENS.rows([token])[0]):
            known = await find_token(connection, token.id)
            if known is None or known.hash != token.hash:
                raise Conflict(f"there is another token {token.id}")
        await write_audit(connection, audit)


async def find_token(connection: Connection, id: str) -> TokenRow | None:
    """A token by its public part."""
    found = await connection.fetchrow(listing.FIND_TOKEN, id)
    return rows.TOKENS.struct(found) if found else None


async def list_tokens(connection: Connection, tenant: str | None) -> list[TokenRow]:
    """All tokens of a tenant, or of everybody."""
    wanted = listing.tokens(tenant)
    return rows.TOKENS.structs(await connection.fetch(wanted.sql, *wanted.parameters))


async def revoke_token(connection: Connection, id: str, audit: AuditEntry | None) -> bool:
    """End a token."""
    async with transaction(connection):
        is_ended = await connection.fetchval(_REVOKE, id) is not None
        if is_ended or await find_token(connection, id) is not None:
            await write_audit(connection, audit)
    return is_ended


async def token_used(connection: Connection, ids: Sequence[str]) -> None:
    """Note that tokens were used."""
    await connection.execute(_USED, ids)
