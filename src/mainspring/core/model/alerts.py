"""Alerts: one struct for every source, and its row in the outbox (OBS-6).

An alert has a key. While an episode is open under that key, no further notification is sent. When the cause ends, the
alert is resolved under the same key and the same recipients are notified. `host/outbox/alert_episodes.py` keeps the
episodes and sends the notifications.

To add a kind: AlertKind, docs/reference/alerts.md, and the place where it is resolved.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.batch import OutboxRow

OUTBOX_KIND = "alert"


class Severity(StrEnum):
    """Severity of an alert."""

    INFO = "info"
    WARNING = "warning"
    HIGH = "high"


class AlertKind(StrEnum):
    """Condition that raised the alert."""

    SCHEDULE_FAILING = "schedule_failing"
    """Three runs of a schedule in a row have failed (TRG-10)."""
    SCHEDULE_DISABLED = "schedule_disabled"
    """A schedule was disabled after too many consecutive failed runs (TRG-10)."""
    FAN_OUT_LIMIT = "fan_out_limit"
    """A task would create more tasks than its job allows: the run is paused (DAG-2)."""
    RUNNING_LONG = "running_long"
    """A task exceeded its soft time limit (LIV-4)."""
    STALLED = "stalled"
    """A task sent heartbeats but made no progress, and was stopped (LIV-2)."""
    QUARANTINED = "quarantined"
    """A task is quarantined until a person clears it (RTY-5)."""
    CIRCUIT_OPEN = "circuit_open"
    """A circuit breaker opened: many failures share a signature, or a job fails too often (RTY-4)."""
    RUN_STUCK = "run_stuck"
    """A run has not changed for a long time, and none of its tasks is running (DAG-8)."""
    RUN_AT_RISK = "run_at_risk"
    """A run will miss its deadline if its tasks take their usual time (PLC-11)."""
    RUN_LATE = "run_late"
    """A run missed its deadline (PLC-11)."""
    EVENT_MISSING = "event_missing"
    """An expected event did not arrive in time; the schedule ran without it (TRG-7)."""
    EVENT_REJECTED = "event_rejected"
    """The shard rejected an event; the run or task concerned is held."""
    UNEXPLAINED = "unexplained"
    """A task was found in a state that no rule explains, and was evaluated again (STA-7)."""


class Alert(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """A condition that needs attention, or its resolution."""

    kind: AlertKind
    key: str
    """Key of the episode: kind and subject, such as `quarantined:task_..`."""
    severity: Severity
    tenant: str
    """Owner; empty for the installation."""
    summary: str
    """One sentence."""
    details: dict[str, str | int | float | bool | None] = {}
    """Machine-readable ids and counts."""
    resolved: bool = False
    """The condition has ended. Ignored if no episode is open."""
    at: datetime


def alert_row(alert: Alert, id: str) -> OutboxRow:
    """Return the outbox row of an alert. `id` identifies this occurrence: writing it twice has no effect."""
    return OutboxRow(
        id=f"alert:{id}:{'over' if alert.resolved else 'on'}",
        key=f"alert:{alert.key}",
        kind=OUTBOX_KIND,
        payload=msgspec.json.encode(alert).decode(),
        created_at=alert.at,
    )
