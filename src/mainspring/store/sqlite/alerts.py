"""Episodes on SQLite. As in `queries.py`, each function is one call of the port."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from datetime import datetime

from mainspring.core.model.batch import OutboxRow
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.sqlite import rows
from mainspring.store.sqlite.batch import write_outbox
from mainspring.store.sqlite.lists import find
from mainspring.store.sqlite.rows import insert_into

_OPEN = insert_into("alerts", rows.ALERTS, ending="ON CONFLICT DO NOTHING")
_REPEAT = "UPDATE alerts SET count = count + 1, last_at = $2, summary = $3 WHERE key = $1 AND resolved_at IS NULL"
_RESOLVE = f"""
    UPDATE alerts SET resolved_at = $2 WHERE key = $1 AND resolved_at IS NULL RETURNING {rows.ALERTS.select()}
"""


def open_alert(db: sqlite3.Connection, row: AlertRow, outgoing: Sequence[OutboxRow]) -> bool:
    """Begin an episode, or count one more. The same one again changes nothing."""
    if db.execute(_OPEN, rows.ALERTS.rows([row])[0]).rowcount == 1:
        if outgoing:
            write_outbox(db, outgoing)
        return True
    if find(db, "SELECT 1 FROM alerts WHERE id = $1", [row.id]).fetchone():
        return True
    find(db, _REPEAT, [row.key, row.last_at, row.summary])
    return False


def resolve_alert(
    db: sqlite3.Connection, key: str, at: datetime, outgoing: Callable[[AlertRow], Sequence[OutboxRow]]
) -> AlertRow | None:
    """End an episode."""
    found = find(db, _RESOLVE, [key, at]).fetchone()
    if found is None:
        return None
    row = rows.ALERTS.struct(found)
    sent = outgoing(row)
    if sent:
        write_outbox(db, sent)
    return row
