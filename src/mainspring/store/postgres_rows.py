"""What PostgreSQL needs of a row, and how columns are declared in a statement that takes rows as JSON.

Two ways lead in, chosen by measurement (docs/adr/0011): new rows by COPY, 26 columns for 3 µs of our time and 4 µs of
the server's; changes as one JSON text that `json_to_recordset` takes apart, because the driver needs half a
microsecond for each element of an array and msgspec none for a whole struct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from mainspring.core.audit_trail import AuditEntry, AuditRow, ChainHead
from mainspring.core.batch import (
    BreakerRow,
    Checkpoint,
    DurationRow,
    LateResult,
    Outgoing,
    RejectedEvent,
    Spread,
    WorkerRow,
)
from mainspring.core.jobs import JobRow
from mainspring.core.runs import Run
from mainspring.core.schedule_rows import BackfillRow, EndedRun, EventRow, FireRow, ScheduleChange, ScheduleRow
from mainspring.core.tasks import Attempt, RecordedAttempt, Task, Transition
from mainspring.store.port import ShardRow, Term
from mainspring.store.port_admin import DeliveryRow, MeasureRow, TenantRow, WebhookRow
from mainspring.store.port_front import ServerRow, TokenRow
from mainspring.store.port_schedules import AlertRow
from mainspring.store.rows import Codec, Kind, documents
from mainspring.store.schedule_statements import NextDue, WaitingAfter

S = TypeVar("S", bound=msgspec.Struct)

_TYPES = {
    Kind.TEXT: "text",
    Kind.ENUM: "text",
    Kind.NUMBER: "bigint",
    Kind.DOCUMENT: "text",
    Kind.INTEGER: "bigint",
    Kind.FLOAT: "double precision",
    Kind.FLAG: "boolean",
    Kind.INSTANT: "timestamptz",
}


def _codec(struct: type[S]) -> Codec[S]:
    return Codec(struct, encode={Kind.DOCUMENT: documents}, decode={})


TERMS = _codec(Term)
SHARDS = _codec(ShardRow)
JOBS = _codec(JobRow)
RUNS = _codec(Run)
TASKS = _codec(Task)
TRANSITIONS = _codec(Transition)
ATTEMPTS = _codec(Attempt)
RECORDED = _codec(RecordedAttempt)
LATE = _codec(LateResult)
SPREADS = _codec(Spread)
OUTBOX = _codec(Outgoing)
REJECTED = _codec(RejectedEvent)
WORKERS = _codec(WorkerRow)
CHECKPOINTS = _codec(Checkpoint)
TOKENS = _codec(TokenRow)
SERVERS = _codec(ServerRow)
BREAKERS = _codec(BreakerRow)
DURATIONS = _codec(DurationRow)
SCHEDULES = _codec(ScheduleRow)
CHANGES = _codec(ScheduleChange)
FIRES = _codec(FireRow)
BACKFILLS = _codec(BackfillRow)
EVENTS = _codec(EventRow)
ALERTS = _codec(AlertRow)
ENTRIES = _codec(AuditEntry)
AUDIT = _codec(AuditRow)
HEADS = _codec(ChainHead)
TENANTS = _codec(TenantRow)
MEASURES = _codec(MeasureRow)
WEBHOOKS = _codec(WebhookRow)
DELIVERIES = _codec(DeliveryRow)

BY_STRUCT: Mapping[type[msgspec.Struct], Codec[Any]] = {
    Task: TASKS,
    BreakerRow: BREAKERS,
    DurationRow: DURATIONS,
    ScheduleRow: SCHEDULES,
    ScheduleChange: CHANGES,
    FireRow: FIRES,
    BackfillRow: BACKFILLS,
    EventRow: EVENTS,
    AlertRow: ALERTS,
    AuditRow: AUDIT,
    ChainHead: HEADS,
    TenantRow: TENANTS,
    MeasureRow: MEASURES,
    WebhookRow: WEBHOOKS,
    DeliveryRow: DELIVERIES,
    NextDue: _codec(NextDue),
    WaitingAfter: _codec(WaitingAfter),
    EndedRun: _codec(EndedRun),
}
"""For what both adapters list alike (`schedule_lists.py`, `admin_lists.py`)."""

_encoder = msgspec.json.Encoder()


def as_json(values: object) -> str:
    """Structs, or mappings of columns to values, as the text that `from_json` takes apart."""
    return _encoder.encode(values).decode()


def from_json(parameter: str, codec: Codec[Any], names: Iterable[str] | None = None) -> str:
    """A call, for a FROM clause, that makes rows of the given columns (all if not said) from a parameter."""
    kinds = dict(zip(codec.names, codec.kinds, strict=True))
    declared = ", ".join(f'"{name}" {_TYPES[kinds[name]]}' for name in names or codec.names)
    return f"json_to_recordset({parameter}::json) AS ({declared})"
