"""Taking away what is old, a chunk at a time: on SQLite no table is by day."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from typing import NamedTuple

from mainspring.store.port import Pruned
from mainspring.store.statements import FINAL_STATES

CHUNK = 1000
_MICROSECOND = timedelta(microseconds=1)


class _Old(NamedTuple):
    """Where old rows are, how they are named, what tells their age, and what else must be true of them."""

    table: str
    key: str
    at: str
    unless: str = ""


def _belongs_to(run: str) -> str:
    """True of a row whose run is not final."""
    return f"EXISTS (SELECT 1 FROM runs r WHERE r.id = {run} AND r.state NOT IN ({FINAL_STATES}))"


_OF_SUBJECT = f"""{_belongs_to("x.subject")} OR EXISTS (
    SELECT 1 FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.id = x.subject AND r.state NOT IN ({FINAL_STATES}))"""
_OF_KEY = f"""EXISTS (
    SELECT 1 FROM json_each(x.run_ids) given JOIN runs r ON r.id = given.value
    WHERE r.state NOT IN ({FINAL_STATES}))"""
_OF_ATTEMPT = "EXISTS (SELECT 1 FROM attempts a WHERE a.id = x.attempt_id)"

_PRUNABLE = {
    "transitions": [_Old("transitions", "shard, batch_no, ordinal", "at", _belongs_to("x.run_id"))],
    "attempts": [
        _Old("attempts", "id", "ended_at", _belongs_to("x.run_id")),
        _Old("late_results", "rowid", "at", _OF_ATTEMPT),
    ],
    "history": [_Old("tasks_history", "id", "run_ended_at"), _Old("runs_history", "id", "ended_at")],
    "idempotency": [_Old("idempotency", "tenant, key", "at", _OF_KEY)],
    "outbox": [_Old("outbox", "seq", "delivered_at")],
    "rejected_events": [_Old("rejected_events", "id", "at", _OF_SUBJECT)],
}


def prune(db: sqlite3.Connection, what: str, age: timedelta, now: int) -> Pruned:
    """Delete at most a chunk of what is older than `age`."""
    before = now - age // _MICROSECOND
    gone = 0
    for old in _PRUNABLE[what]:
        unless = f"AND NOT ({old.unless})" if old.unless else ""
        gone += db.execute(
            f"""DELETE FROM {old.table} WHERE ({old.key}) IN
                (SELECT {old.key} FROM {old.table} x WHERE x.{old.at} < ? {unless} ORDER BY x.{old.at} LIMIT ?)""",
            (before, CHUNK - gone),
        ).rowcount
    return Pruned(what=what, rows=gone, more=gone == CHUNK)
