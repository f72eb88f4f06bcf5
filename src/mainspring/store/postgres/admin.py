"""The audit log, tenants, settings and webhooks on PostgreSQL, as the port has them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mainspring.core.model.audit_entry import AuditEntry, ChainHead
from mainspring.core.model.batch import OutboxRow
from mainspring.protocol.errors import VersionMismatch
from mainspring.store.ports.admin import DeliveryRow, Seal, SettingOverride, TenantRow, WebhookRow
from mainspring.store.postgres import audit as audit_log
from mainspring.store.postgres import rows
from mainspring.store.postgres.audit import write_audit
from mainspring.store.postgres.batch import write_outbox
from mainspring.store.postgres.connection.calls import PostgresCalls
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.queries import NOW
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.admin_lists import AdminLists, S
from mainspring.store.sql.rows import Codec


def put(table: str, struct: type[msgspec.Struct], keys: int = 1) -> str:
    """The statement that keeps a row of which versions are counted."""
    return statements.put(
        table,
        struct,
        value=lambda name: f'u."{name}"',
        source=f"FROM ROWS FROM ({from_json('$1', rows.BY_STRUCT[struct])}) AS u",
        expected="$2::bigint",
        now=NOW,
        keys=keys,
    )


_PUT_TENANT = put("tenants", TenantRow)
_PUT_SETTING_OVERRIDE = put("setting_overrides", SettingOverride)
_PUT_WEBHOOK = put("webhooks", WebhookRow)
_NEW_DELIVERIES = f"""
    INSERT INTO webhook_deliveries ({rows.DELIVERIES.select()}) SELECT * FROM {from_json("$1", rows.DELIVERIES)}
    ON CONFLICT (id) DO NOTHING RETURNING id
"""
_RECORD_DELIVERY = statements.record_delivery(NOW)


class PostgresAdmin(PostgresCalls, AdminLists):
    """The parts of the port that are in `store/ports/admin.py`."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries of their own."""
        await self._call(write_audit, *entries)

    async def seal_audit(self, limit: int, seal: Seal) -> list[ChainHead]:
        """Seal entries that are not."""
        return await self._call(audit_log.seal_audit, limit, seal)

    async def put_tenant(self, row: TenantRow, expected: int | None, audit: AuditEntry) -> TenantRow:
        """Describe a tenant."""
        return await self._call(_keep, _PUT_TENANT, rows.TENANTS, row, expected, audit)

    async def put_setting_override(
        self, row: SettingOverride, expected: int | None, audit: AuditEntry
    ) -> SettingOverride:
        """Change a setting."""
        return await self._call(_keep, _PUT_SETTING_OVERRIDE, rows.SETTING_OVERRIDES, row, expected, audit)

    async def drop_setting_override(self, name: str, audit: AuditEntry) -> bool:
        """Let a setting be what it is by default."""
        return await self._call(_change, statements.DROP_SETTING_OVERRIDE, name, audit)

    async def put_webhook(self, row: WebhookRow, expected: int | None, audit: AuditEntry) -> WebhookRow:
        """Keep a webhook."""
        return await self._call(_keep, _PUT_WEBHOOK, rows.WEBHOOKS, row, expected, audit)

    async def drop_webhook(self, id: str, audit: AuditEntry) -> bool:
        """Take a webhook away."""
        return await self._call(_change, statements.DROP_WEBHOOK, id, audit)

    async def add_deliveries(
        self, rows: Sequence[DeliveryRow], outgoing: Sequence[OutboxRow], audit: AuditEntry | None = None
    ) -> None:
        """Keep messages that are to be sent."""
        if rows:
            await self._call(_add_deliveries, rows, outgoing, audit)

    async def record_delivery(self, id: str, *, state: str, status: int | None, fault: str) -> None:
        """What became of a message."""
        await self._call(Connection.execute, _RECORD_DELIVERY, id, state, status, fault)

    async def resend(self, id: str, outgoing: OutboxRow, audit: AuditEntry) -> bool:
        """Let a message be sent once more."""
        return await self._call(_change, statements.RESEND, id, audit, outgoing)


async def _keep(
    connection: Connection, statement: str, codec: Codec[S], row: S, expected: int | None, audit: AuditEntry
) -> S:
    async with transaction(connection):
        return await keep(connection, statement, codec, row, expected, audit)


async def keep(
    connection: Connection, statement: str, codec: Codec[S], row: S, expected: int | None, audit: AuditEntry
) -> S:
    """Keep a row of which versions are counted, in a transaction that the caller began."""
    found = await connection.fetchrow(statement, as_json([row]), expected)
    if found is None:
        raise VersionMismatch(f"it is not version {expected} any more")
    await write_audit(connection, audit)
    return codec.struct(found)


async def _change(connection: Connection, statement: str, key: str, audit: AuditEntry, *outgoing: OutboxRow) -> bool:
    async with transaction(connection):
        is_there = await change(connection, statement, [key], audit)
        if is_there and outgoing:
            await write_outbox(connection, outgoing)
    return is_there


async def change(connection: Connection, statement: str, key: Sequence[str], audit: AuditEntry) -> bool:
    """Change the row with this key, and tell of it; False if there is none. The caller began the transaction."""
    is_there = await connection.fetchval(statement, *key) is not None
    if is_there:
        await write_audit(connection, audit)
    return is_there


async def _add_deliveries(
    connection: Connection, new: Sequence[DeliveryRow], outgoing: Sequence[OutboxRow], audit: AuditEntry | None
) -> None:
    firsts: dict[str, OutboxRow] = {}
    for row, message in zip(new, outgoing, strict=True):
        firsts.setdefault(row.id, message)
    async with transaction(connection):
        kept = {row["id"] for row in await connection.fetch(_NEW_DELIVERIES, as_json(new))}
        sent = [message for key, message in firsts.items() if key in kept]
        if sent:
            await write_outbox(connection, sent)
        await write_audit(connection, audit)
