"""The audit log on SQLite, as in `store/postgres/audit.py`. Nobody else writes meanwhile: nothing has to be locked."""

from __future__ import annotations

import json
import sqlite3

import msgspec

from mainspring.core.model.audit_entry import AuditEntry, ChainHead, heads_of
from mainspring.store.ports.admin import Seal
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.unreadable_rows import UNREADABLE
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.queries import GIVEN
from mainspring.store.sqlite.rows import insert_into, instant

_WRITE = insert_into("audit_unsealed", rows.ENTRIES, ending="ON CONFLICT (id) DO NOTHING")
_SEALED_BEFORE = f"SELECT id FROM audit WHERE id {GIVEN}"
_DROP_UNSEALED = f"DELETE FROM audit_unsealed WHERE id {GIVEN}"
_SEALED = insert_into("audit", rows.AUDIT)
_HEADS = f"SELECT {rows.HEADS.select()} FROM audit_heads WHERE tenant {GIVEN}"
_NEW_HEADS = insert_into(
    "audit_heads", rows.HEADS, ending="ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash"
)


def write_audit(db: sqlite3.Connection, now: int, *entries: AuditEntry | None) -> None:
    """Write what there is to tell, in the transaction of the change. An entry that is there already is left."""
    told = [msgspec.structs.replace(entry, at=instant(now)) for entry in entries if entry is not None]
    if told:
        db.executemany(_WRITE, rows.ENTRIES.rows(told))


def seal_audit(db: sqlite3.Connection, limit: int, seal: Seal) -> list[ChainHead]:
    """Seal the oldest entries that are not."""
    entries = rows.ENTRIES.readable_structs(find(db, statements.UNSEALED, [limit]))
    tenants = json.dumps(sorted({entry.tenant for entry in entries}))
    known, faults = rows.HEADS.readable(db.execute(_HEADS, (tenants,)), "tenant")
    UNREADABLE.log("chain_head", faults)
    entries = [entry for entry in entries if entry.tenant not in faults]
    if not entries:
        return []
    ids = json.dumps([entry.id for entry in entries])
    again = set(db.execute(_SEALED_BEFORE, (ids,)))
    new = [entry for entry in entries if (entry.id,) not in again]
    sealed = seal(new, {head.tenant: head for head in known})
    heads = heads_of(sealed)
    db.execute(_DROP_UNSEALED, (ids,))
    if sealed:
        db.executemany(_SEALED, rows.AUDIT.rows(sealed))
        db.executemany(_NEW_HEADS, rows.HEADS.rows(heads))
    return heads
