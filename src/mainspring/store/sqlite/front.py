"""What the SQLite adapter keeps that no shard decides: what was heard of workers, servers, settings, tokens.

As in `queries.py`, each function is one call of the port, inside a transaction that the caller began.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import WorkerRow
from mainspring.protocol.errors import Conflict
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.sql import lists as listing
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.audit import write_audit
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.queries import GIVEN
from mainspring.store.sqlite.rows import instant, refuse_nul

_MICROSECOND = timedelta(microseconds=1)

# liveness


def record_heartbeats(db: sqlite3.Connection, shard: str, workers: Sequence[str], now: int) -> datetime:
    """Note that workers were heard of."""
    db.execute(
        f"UPDATE workers SET last_heartbeat_at = ?2 WHERE id {GIVEN} AND shard = ?3", (json.dumps(workers), now, shard)
    )
    return instant(now)


def silent_workers(
    db: sqlite3.Connection, shard: str, age: timedelta, limit: int, claimant_age: timedelta, now: int
) -> list[WorkerRow]:
    """Workers that were not heard of for some time."""
    record_heartbeats, claimed = now - age // _MICROSECOND, now - claimant_age // _MICROSECOND
    return rows.WORKERS.readable_structs(find(db, listing.SILENT_WORKERS, [shard, record_heartbeats, limit, claimed]))


# cluster

_RECORD_SERVER_HEARTBEAT = """
    INSERT INTO servers (name, address, version, started_at, last_heartbeat_at) VALUES (?, ?, ?, ?, ?)
    ON CONFLICT (name) DO UPDATE SET
        address = excluded.address, version = excluded.version, started_at = excluded.started_at,
        last_heartbeat_at = excluded.last_heartbeat_at
"""


def record_server_heartbeat(db: sqlite3.Connection, server: ServerRow, now: int) -> None:
    """Write a server's row."""
    (row,) = rows.SERVERS.rows([msgspec.structs.replace(server, last_heartbeat_at=instant(now))])
    db.execute(_RECORD_SERVER_HEARTBEAT, row)


def delete_server(db: sqlite3.Connection, name: str) -> None:
    """Take a server's row away."""
    find(db, "DELETE FROM servers WHERE name = $1", [name])


def servers(db: sqlite3.Connection, age: timedelta, now: int) -> list[ServerRow]:
    """Servers that were heard of of late."""
    return rows.SERVERS.readable_structs(find(db, listing.SERVERS, [now - age // _MICROSECOND]))


def setting(db: sqlite3.Connection, name: str, default: str) -> str:
    """The value of a setting, which gets one if it has none."""
    refuse_nul([name, default])
    db.execute("INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT DO NOTHING", (name, default))
    value: str
    (value,) = db.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
    return value


# tokens

_INSERT_TOKEN = f"""
    INSERT INTO tokens ({rows.TOKENS.select()}) VALUES ({", ".join("?" * len(rows.TOKENS.names))})
    ON CONFLICT (id) DO NOTHING
"""


def insert_token(db: sqlite3.Connection, token: TokenRow, audit: AuditEntry | None, now: int) -> None:
    """Keep a token."""
    if db.execute(_INSERT_TOKEN, rows.TOKENS.rows([token])[0]).rowcount == 0:
        known = find_token(db, token.id)
        if known is None or known.hash != token.hash:
            raise Conflict(f"there is another token {token.id}")
    write_audit(db, now, audit)


def find_token(db: sqlite3.Connection, id: str) -> TokenRow | None:
    """A token by its public part."""
    found = find(db, listing.FIND_TOKEN, [id]).fetchone()
    return found and rows.TOKENS.struct(found)


def list_tokens(db: sqlite3.Connection, tenant: str | None) -> list[TokenRow]:
    """All tokens of a tenant, or of everybody."""
    wanted = listing.tokens(tenant)
    return rows.TOKENS.structs(find(db, wanted.sql, wanted.parameters))


def revoke_token(db: sqlite3.Connection, id: str, audit: AuditEntry | None, now: int) -> bool:
    """End a token."""
    ended = find(db, "UPDATE tokens SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL", [id, now]).rowcount
    if ended or find_token(db, id) is not None:
        write_audit(db, now, audit)
    return ended == 1


def token_used(db: sqlite3.Connection, ids: Sequence[str], now: int) -> None:
    """Note that tokens were used."""
    db.execute(f"UPDATE tokens SET last_used_at = ?2 WHERE id {GIVEN}", (json.dumps(ids), now))
