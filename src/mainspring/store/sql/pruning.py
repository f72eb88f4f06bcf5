"""What can be pruned, and what protects a row from it, the same for both databases.

Nothing that belongs to a run that is not final ever goes: it may be asked for, or be needed again. Nor does the last
entry of a chain of the audit log, which the next one follows: a chain that is there always ends in its head.
"""

from __future__ import annotations

from typing import NamedTuple

from mainspring.store.sql.admin_statements import IS_OF_A_WEBHOOK, WAITING
from mainspring.store.sql.schedule_statements import FIRE_KEY, IS_OPEN
from mainspring.store.sql.statements import FINAL_STATES, WORKER_IS_AWAY

CHUNK = 1000
"""How many rows a call deletes at most, where it can't drop whole days."""


class Prunable(NamedTuple):
    """A table with rows that grow old."""

    table: str
    key: str
    """What names a row."""
    at: str
    """What tells its age, and where tables are by day, its day."""
    unless: str = ""
    """If this is true of a row `x`, it stays."""
    by_day: bool = False


def _is_not_final(run: str) -> str:
    return f"EXISTS (SELECT 1 FROM runs r WHERE r.id = {run} AND r.state NOT IN ({FINAL_STATES}))"


_SUBJECT_IS_NOT_FINAL = f"""({_is_not_final("x.subject")} OR EXISTS (
    SELECT 1 FROM tasks t JOIN runs r ON r.id = t.run_id WHERE t.id = x.subject AND r.state NOT IN ({FINAL_STATES})))"""
_IS_THE_END_OF_A_CHAIN = "EXISTS (SELECT 1 FROM audit_heads h WHERE h.tenant = x.tenant AND h.seq = x.seq)"
_IS_TO_BE_SENT = f"(x.state = '{WAITING}' AND {IS_OF_A_WEBHOOK})"
_RUN_IS_KEPT = """(EXISTS (SELECT 1 FROM runs r WHERE r.id = x.run_id)
    OR EXISTS (SELECT 1 FROM runs_history h WHERE h.id = x.run_id))"""
_ATTEMPT_IS_KEPT = "EXISTS (SELECT 1 FROM attempts a WHERE a.id = x.attempt_id)"


def prunable(run_ids: str) -> dict[str, tuple[Prunable, ...]]:
    """By the names of `port.PRUNABLE`. `run_ids` is how a database lists the runs of an idempotency key `x`."""
    a_run_is_not_final = f"""EXISTS (
        SELECT 1 FROM {run_ids} AS given JOIN runs r ON r.id = given.id WHERE r.state NOT IN ({FINAL_STATES}))"""
    return {
        "transitions": (
            Prunable("transitions", "shard, batch_no, ordinal", "at", _is_not_final("x.run_id"), by_day=True),
        ),
        "decisions": (Prunable("decisions", "id, at", "at", _is_not_final("x.run_id"), by_day=True),),
        "attempts": (
            Prunable("attempts", "id", "ended_at", _is_not_final("x.run_id"), by_day=True),
            Prunable("late_results", "rowid", "at", _ATTEMPT_IS_KEPT, by_day=True),
        ),
        "history": (
            Prunable("tasks_history", "id", "run_ended_at", by_day=True),
            Prunable("runs_history", "id", "ended_at", by_day=True),
            Prunable("artifacts", "run_id, task_id, attempt_id, path", "stored_at", _RUN_IS_KEPT),
        ),
        "idempotency": (Prunable("idempotency", "tenant, key", "at", a_run_is_not_final),),
        "outbox": (Prunable("outbox", "seq", "delivered_at"),),
        "rejected_events": (Prunable("rejected_events", "id", "at", _SUBJECT_IS_NOT_FINAL),),
        "workers": (Prunable("workers", "id", "since", f"x.status NOT IN ({WORKER_IS_AWAY})"),),
        "fires": (Prunable("fires", ", ".join(FIRE_KEY), "decided_at", f"({IS_OPEN} OR {_is_not_final('x.run_id')})"),),
        "events": (Prunable("events", "tenant, source, id", "received_at"),),
        "alerts": (Prunable("alerts", "id", "resolved_at"),),
        "schedule_changes": (Prunable("schedule_changes", "seq", "at"),),
        "audit": (Prunable("audit", "id, at", "at", _IS_THE_END_OF_A_CHAIN, by_day=True),),
        "webhook_deliveries": (Prunable("webhook_deliveries", "id", "created_at", _IS_TO_BE_SENT),),
    }
