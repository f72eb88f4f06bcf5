"""The audit log on PostgreSQL: entries are written with what they tell of, and sealed a moment later.

1. Whoever writes an entry only adds a row to `audit_unsealed`. Its key keeps an entry that comes twice from being there
   twice.
2. One transaction at a time seals, under a lock: it moves entries to `audit`, with their numbers and hashes, and moves
   the heads of their chains on. What is not committed when it looks is sealed the next time: the order of a chain is
   that in which entries were sealed, and no number is ever left out.
"""

from __future__ import annotations

from datetime import timedelta

from mainspring.core.model.audit_entry import AuditEntry, ChainHead, heads_of
from mainspring.store.ports.admin import Seal
from mainspring.store.postgres import rows
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.rows import as_json, from_json
from mainspring.store.sql import admin_statements as statements
from mainspring.store.sql.unreadable_rows import UNREADABLE

_LOCK = 0x6D61696E_7365616C
"""The advisory lock of whoever seals ("mainseal")."""

REPEATED_WITHIN = timedelta(days=1)
"""Whoever repeats a call does so before this. Older entries are not looked at, so that few days have to be."""


def new_entries(parameter: str) -> str:
    """A statement that writes the entries of a parameter; more conditions can follow it, and `ON CONFLICT`."""
    values = ", ".join("clock_timestamp()" if name == "at" else f'u."{name}"' for name in rows.ENTRIES.names)
    return f"""
        INSERT INTO audit_unsealed ({rows.ENTRIES.select()})
        SELECT {values} FROM ROWS FROM ({from_json(parameter, rows.ENTRIES)}) AS u
    """


_WRITE = f"{new_entries('$1')} ON CONFLICT (id) DO NOTHING"
_SEALED_BEFORE = """
    SELECT found.id FROM unnest($1::text[]) AS given (id)
    CROSS JOIN LATERAL (SELECT id FROM audit WHERE audit.id = given.id AND at >= $2 AND at <= $3 LIMIT 1) AS found
"""
_SEALED = f"INSERT INTO audit ({rows.AUDIT.select()}) SELECT * FROM {from_json('$1', rows.AUDIT)}"
_HEADS = f"SELECT {rows.HEADS.select()} FROM audit_heads WHERE tenant = ANY($1::text[])"
_NEW_HEADS = f"""
    INSERT INTO audit_heads ({rows.HEADS.select()}) SELECT * FROM {from_json("$1", rows.HEADS)}
    ON CONFLICT (tenant) DO UPDATE SET seq = excluded.seq, hash = excluded.hash
"""


async def write_audit(connection: Connection, *entries: AuditEntry | None) -> None:
    """Write what there is to tell, in the transaction of the change. An entry that is there already is left."""
    told = [entry for entry in entries if entry is not None]
    if told:
        await connection.execute(_WRITE, as_json(told))


async def seal_audit(connection: Connection, limit: int, seal: Seal) -> list[ChainHead]:
    """Seal the oldest entries that are not."""
    async with transaction(connection):
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        entries = rows.ENTRIES.readable_structs(await connection.fetch(statements.UNSEALED, limit))
        found = await connection.fetch(_HEADS, sorted({entry.tenant for entry in entries}))
        known, faults = rows.HEADS.readable(found, "tenant")
        UNREADABLE.log("chain_head", faults)
        entries = [entry for entry in entries if entry.tenant not in faults]
        if not entries:
            return []
        ids = [entry.id for entry in entries]
        before = await connection.fetch(_SEALED_BEFORE, ids, entries[0].at - REPEATED_WITHIN, entries[-1].at)
        again = {row["id"] for row in before}
        new = [entry for entry in entries if entry.id not in again]
        sealed = seal(new, {head.tenant: head for head in known})
        heads = heads_of(sealed)
        await connection.execute("DELETE FROM audit_unsealed WHERE id = ANY($1::text[])", ids)
        await connection.execute(_SEALED, as_json(sealed))
        await connection.execute(_NEW_HEADS, as_json(heads))
    return heads
