"""Taking away what is old, a chunk at a time: on SQLite no table is by day."""

from __future__ import annotations

import sqlite3
from datetime import timedelta

from mainspring.store.ports.store import Pruned
from mainspring.store.sql.pruning import CHUNK, prunable

_MICROSECOND = timedelta(microseconds=1)
_PRUNABLE = prunable(run_ids="(SELECT value AS id FROM json_each(x.run_ids))")


def prune(db: sqlite3.Connection, what: str, age: timedelta, now: int) -> Pruned:
    """Delete at most a chunk of what is older than `age`."""
    before = now - age // _MICROSECOND
    gone = 0
    for table, key, at, unless, _ in _PRUNABLE[what]:
        old = f"x.{at} < ?" + (f" AND NOT {unless}" if unless else "")
        chunk = f"SELECT {key} FROM {table} x WHERE {old} ORDER BY x.{at} LIMIT ?"
        gone += db.execute(f"DELETE FROM {table} WHERE ({key}) IN ({chunk})", (before, CHUNK - gone)).rowcount
    return Pruned(what=what, rows=gone, more=gone == CHUNK)
