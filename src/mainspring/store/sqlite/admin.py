"""The audit log, tenants, settings and webhooks on SQLite, as the port has them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from mainspring.core.model.audit_entry import AuditEntry, ChainHead
from mainspring.core.model.batch import OutboxRow
from mainspring.protocol.errors import VersionMismatch
from mainspring.store.ports.admin import DeliveryRow, Seal, SettingOverride, TenantRow, WebhookRow
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.admin_lists import AdminLists, S
from mainspring.store.sql.rows import Codec
from mainspring.store.sqlite import audit as audit_log
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.batch import write_outbox
from mainspring.store.sqlite.calls import Calls
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.queries import sqlite
from mainspring.store.sqlite.rows import insert_into, refuse_nul


def put(table: str, struct: type[msgspec.Struct], keys: int = 1) -> str:
    """The statement that keeps a row of which versions are counted."""
    names = struct.__struct_fields__
    many = len(names)
    return statements.put(
        table,
        struct,
        value=lambda name: f"?{names.index(name) + 1}",
        expected=f"?{many + 1}",
        now=f"?{many + 2}",
        keys=keys,
    )


_PUT_TENANT = put("tenants", TenantRow)
_PUT_SETTING_OVERRIDE = put("setting_overrides", SettingOverride)
_PUT_WEBHOOK = put("webhooks", WebhookRow)
_NEW_DELIVERY = insert_into("webhook_deliveries", rows.DELIVERIES, ending="ON CONFLICT (id) DO NOTHING")
_RECORD_DELIVERY = sqlite(statements.record_delivery("$5"))


class SqliteAdmin(Calls, AdminLists):
    """The parts of the port that are in `store/ports/admin.py`."""

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries of their own."""
        await self._write(write_audit, self._now(), *entries)

    async def seal_audit(self, limit: int, seal: Seal) -> list[ChainHead]:
        """Seal entries that are not."""
        return await self._write(audit_log.seal_audit, limit, seal)

    async def put_tenant(self, row: TenantRow, expected: int | None, audit: AuditEntry) -> TenantRow:
        """Describe a tenant."""
        return await self._write(keep, _PUT_TENANT, rows.TENANTS, row, expected, audit, self._now())

    async def put_setting_override(
        self, row: SettingOverride, expected: int | None, audit: AuditEntry
    ) -> SettingOverride:
        """Change a setting."""
        return await self._write(keep, _PUT_SETTING_OVERRIDE, rows.SETTING_OVERRIDES, row, expected, audit, self._now())

    async def drop_setting_override(self, name: str, audit: AuditEntry) -> bool:
        """Let a setting be what it is by default."""
        return await self._write(change, statements.DROP_SETTING_OVERRIDE, [name], self._now(), audit)

    async def put_webhook(self, row: WebhookRow, expected: int | None, audit: AuditEntry) -> WebhookRow:
        """Keep a webhook."""
        return await self._write(keep, _PUT_WEBHOOK, rows.WEBHOOKS, row, expected, audit, self._now())

    async def drop_webhook(self, id: str, audit: AuditEntry) -> bool:
        """Take a webhook away."""
        return await self._write(change, statements.DROP_WEBHOOK, [id], self._now(), audit)

    async def add_deliveries(
        self, rows: Sequence[DeliveryRow], outgoing: Sequence[OutboxRow], audit: AuditEntry | None = None
    ) -> None:
        """Keep messages that are to be sent."""
        if rows:
            await self._write(_add_deliveries, rows, outgoing, self._now(), audit)

    async def record_delivery(self, id: str, *, state: str, status: int | None, fault: str) -> None:
        """What became of a message."""
        await self._write(_record_delivery, id, state, status, fault, self._now())

    async def resend(self, id: str, outgoing: OutboxRow, audit: AuditEntry) -> bool:
        """Let a message be sent once more."""
        return await self._write(change, statements.RESEND, [id], self._now(), audit, outgoing)


def keep(
    db: sqlite3.Connection,
    statement: str,
    codec: Codec[S],
    row: S,
    expected: int | None,
    audit: AuditEntry,
    now: int,
) -> S:
    """Keep a row of which versions are counted."""
    found = db.execute(statement, (*codec.rows([row])[0], expected, now)).fetchall()
    if not found:
        raise VersionMismatch(f"it is not version {expected} any more")
    write_audit(db, now, audit)
    return codec.struct(found[0])


def change(
    db: sqlite3.Connection, statement: str, key: Sequence[str], now: int, audit: AuditEntry, *outgoing: OutboxRow
) -> bool:
    """Change the row with this key, and tell of it; False if there is none."""
    is_there = bool(find(db, statement, key).fetchall())
    if is_there:
        write_audit(db, now, audit)
        if outgoing:
            write_outbox(db, outgoing)
    return is_there


def _record_delivery(db: sqlite3.Connection, id: str, state: str, status: int | None, fault: str, now: int) -> None:
    refuse_nul([id, state, fault])
    db.execute(_RECORD_DELIVERY, (id, state, status, fault, now))


def _add_deliveries(
    db: sqlite3.Connection,
    new: Sequence[DeliveryRow],
    outgoing: Sequence[OutboxRow],
    now: int,
    audit: AuditEntry | None,
) -> None:
    sent = []
    for values, message in zip(rows.DELIVERIES.rows(new), outgoing, strict=True):
        if db.execute(_NEW_DELIVERY, values).rowcount == 1:
            sent.append(message)
    if sent:
        write_outbox(db, sent)
    write_audit(db, now, audit)
