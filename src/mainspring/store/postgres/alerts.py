"""Episodes on PostgreSQL: at most one is open under a key, which an index sees to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from mainspring.core.model.batch import OutboxRow
from mainspring.protocol.errors import Unavailable
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.postgres import rows
from mainspring.store.postgres.batch import write_outbox
from mainspring.store.postgres.connection.connection_pool import Connection, transaction
from mainspring.store.postgres.rows import as_json, from_json

_OPEN = f"""
    INSERT INTO alerts ({rows.ALERTS.select()}) SELECT * FROM {from_json("$1", rows.ALERTS)}
    ON CONFLICT DO NOTHING RETURNING id
"""
_REPEAT = """
    UPDATE alerts SET count = count + 1, last_at = $2, summary = $3 WHERE key = $1 AND resolved_at IS NULL RETURNING id
"""
_RESOLVE = f"""
    UPDATE alerts SET resolved_at = $2 WHERE key = $1 AND resolved_at IS NULL RETURNING {rows.ALERTS.select()}
"""


async def open_alert(connection: Connection, row: AlertRow, outgoing: Sequence[OutboxRow]) -> bool:
    """Begin an episode, or count one more. The same one again changes nothing."""
    async with transaction(connection):
        if await connection.fetchval(_OPEN, as_json([row])):
            if outgoing:
                await write_outbox(connection, outgoing)
            return True
        if await connection.fetchval("SELECT 1 FROM alerts WHERE id = $1", row.id):
            return True
        if not await connection.fetchval(_REPEAT, row.key, row.last_at, row.summary):
            raise Unavailable(f"an episode of {row.key} ended while another one was to begin")
    return False


async def resolve_alert(
    connection: Connection, key: str, at: datetime, outgoing: Callable[[AlertRow], Sequence[OutboxRow]]
) -> AlertRow | None:
    """End an episode."""
    async with transaction(connection):
        found = await connection.fetchrow(_RESOLVE, key, at)
        if found is None:
            return None
        row = rows.ALERTS.struct(found)
        sent = outgoing(row)
        if sent:
            await write_outbox(connection, sent)
    return row
