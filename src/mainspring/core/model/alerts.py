"""What people are told of by themselves: one struct, whoever raises it, and how it becomes a row of the outbox (OBS-6).

An alert has a key. While it is open under that key nobody is told again; when what led to it is over, it is resolved
under the same key, and whoever was told hears of that too: an episode. `host/outbox/alert_episodes.py` keeps the
episodes and sends them on.

If you add a kind: AlertKind, docs/reference/alerts.md, and where it is resolved.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

import msgspec

from mainspring.core.model.batch import Outgoing

OUTBOX_KIND = "alert"


class Severity(StrEnum):
    """How much it matters."""

    INFO = "info"
    WARNING = "warning"
    HIGH = "high"


class AlertKind(StrEnum):
    """What is wrong."""

    SCHEDULE_FAILING = "schedule_failing"
    """Three runs of a schedule in a row have failed (TRG-10)."""
    SCHEDULE_DISABLED = "schedule_disabled"
    """So many runs of a schedule in a row have failed that it was disabled (TRG-10)."""
    FAN_OUT_LIMIT = "fan_out_limit"
    """A task would make more tasks than its job may: the run is paused (DAG-2)."""
    RUNNING_LONG = "running_long"
    """A task runs longer than its soft limit (LIV-4)."""
    STALLED = "stalled"
    """A task lived and made no progress: it was stopped (LIV-2)."""
    QUARANTINED = "quarantined"
    """A task is held: it looks poisonous, and a person must clear it (RTY-5)."""
    CIRCUIT_OPEN = "circuit_open"
    """So many failures are alike, or so many of a job fail, that they are held back (RTY-4)."""
    RUN_STUCK = "run_stuck"
    """Nothing of a run has changed for long, and nothing of it runs (DAG-8)."""
    RUN_AT_RISK = "run_at_risk"
    """A run may not be over by when it is to be, as long as its tasks usually take (PLC-11)."""
    RUN_LATE = "run_late"
    """A run is not over, and was to be (PLC-11)."""
    EVENT_MISSING = "event_missing"
    """An event that a schedule waits for did not come in time: it ran without (TRG-7)."""
    EVENT_REJECTED = "event_rejected"
    """Something that happened could not be taken in, and its owner is held."""
    UNEXPLAINED = "unexplained"
    """A task was found in a state that nothing explains, and was decided again (STA-7)."""


class Alert(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """Something that somebody should know, or that it is over."""

    kind: AlertKind
    key: str
    """Of the episode: the kind and what it is about, such as `quarantined:task_..`."""
    severity: Severity
    tenant: str
    """Whose it is; empty if it is nobody's, but the installation's."""
    summary: str
    """One sentence for people."""
    details: dict[str, str | int | float | bool | None] = {}
    """For programs: ids, counts."""
    resolved: bool = False
    """It is over. Nothing happens if it had not begun."""
    at: datetime


def alert_row(alert: Alert, id: str) -> Outgoing:
    """The alert as a row of the outbox. `id` names this one occurrence: the same one written twice is one."""
    return Outgoing(
        id=f"alert:{id}:{'over' if alert.resolved else 'on'}",
        key=f"alert:{alert.key}",
        kind=OUTBOX_KIND,
        payload=msgspec.json.encode(alert).decode(),
        created_at=alert.at,
    )
