"""What PostgreSQL needs of a row, and how columns are declared in a statement that takes rows as JSON.

Two ways lead in, chosen by measurement (docs/adr/0011): new rows by COPY, 26 columns for 3 µs of our time and 4 µs of
the server's; changes as one JSON text that `json_to_recordset` takes apart, because the driver needs half a
microsecond for each element of an array and msgspec none for a whole struct.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import msgspec

from mainspring.core.fairness.freezes import FreezeRow
from mainspring.core.fairness.pools import Policy, PoolRow
from mainspring.core.fairness.quotas import P0Grant, QuotaRow
from mainspring.core.limits.concurrency_groups import GroupRow
from mainspring.core.limits.limit_shares import ShareRow
from mainspring.core.limits.rate_grants import LimitRow
from mainspring.core.model.artifacts import ArtifactRow
from mainspring.core.model.audit_entry import AuditEntry, AuditRow, ChainHead
from mainspring.core.model.batch import (
    BreakerRow,
    BulkOperation,
    Checkpoint,
    DurationRow,
    FailureCountRow,
    LateResult,
    OutboxRow,
    RejectedEvent,
    WorkerRow,
)
from mainspring.core.model.decisions import Decision
from mainspring.core.model.job import JobRow
from mainspring.core.model.run import Run
from mainspring.core.model.schedule_rows import BackfillRow, EndedRun, EventRow, FireRow, ScheduleChange, ScheduleRow
from mainspring.core.model.task import Attempt, RecordedAttempt, Task, Transition
from mainspring.store.ports.admin import DeliveryRow, SettingOverride, TenantRow, WebhookRow
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.ports.store import ShardRow, Term
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.sql.rows import Codec, Kind, documents
from mainspring.store.sql.schedule_statements import NextDue, WaitingAfter

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
BULK_OPERATIONS = _codec(BulkOperation)
OUTBOX = _codec(OutboxRow)
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
SETTING_OVERRIDES = _codec(SettingOverride)
WEBHOOKS = _codec(WebhookRow)
DELIVERIES = _codec(DeliveryRow)
POOLS = _codec(PoolRow)
POLICIES = _codec(Policy)
QUOTAS = _codec(QuotaRow)
GRANTS = _codec(P0Grant)
GROUPS = _codec(GroupRow)
FREEZES = _codec(FreezeRow)
SHARES = _codec(ShareRow)
LIMITS = _codec(LimitRow)
FAILURE_COUNTS = _codec(FailureCountRow)
DECISIONS = _codec(Decision)
JOIN_TOKENS = _codec(JoinTokenRow)
IDENTITIES = _codec(IdentityRow)
ARTIFACTS = _codec(ArtifactRow)

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
    SettingOverride: SETTING_OVERRIDES,
    WebhookRow: WEBHOOKS,
    DeliveryRow: DELIVERIES,
    PoolRow: POOLS,
    Policy: POLICIES,
    QuotaRow: QUOTAS,
    P0Grant: GRANTS,
    GroupRow: GROUPS,
    FreezeRow: FREEZES,
    ShareRow: SHARES,
    Decision: DECISIONS,
    JoinTokenRow: JOIN_TOKENS,
    IdentityRow: IDENTITIES,
    ArtifactRow: ARTIFACTS,
    NextDue: _codec(NextDue),
    WaitingAfter: _codec(WaitingAfter),
    EndedRun: _codec(EndedRun),
}
"""For what both adapters list alike (`schedule_lists.py`, `admin_lists.py`, `sharing_statements.py`)."""

_encoder = msgspec.json.Encoder()


def as_json(values: object) -> str:
    """Structs, or mappings of columns to values, as the text that `from_json` takes apart."""
    return _encoder.encode(values).decode()


def columns_as_json(struct: type[S], names: Sequence[str]) -> Callable[[Iterable[S]], str]:
    """A function that writes some columns of structs as such a text, without those that are NULL.

    Most columns of a row that changes are NULL, and PostgreSQL looks at whatever it is given: a task costs it 16 µs to
    take apart with them and 9 without, a run 8 and 4.
    """
    hints = get_type_hints(struct)
    optional = [name for name in names if NoneType in get_args(hints[name])]
    ordered = [name for name in names if name not in optional] + optional
    fields = [(name, object, None) if name in optional else (name, object) for name in ordered]
    slim = msgspec.defstruct(f"{struct.__name__}Columns", fields, omit_defaults=True, gc=False)
    read = attrgetter(*ordered)
    return lambda structs: as_json([slim(*read(one)) for one in structs])


def from_json(parameter: str, codec: Codec[Any], names: Iterable[str] | None = None) -> str:
    """A call, for a FROM clause, that makes rows of the given columns (all if not said) from a parameter."""
    kinds = dict(zip(codec.names, codec.kinds, strict=True))
    declared = ", ".join(f'"{name}" {_TYPES[kinds[name]]}' for name in names or codec.names)
    return f"json_to_recordset({parameter}::json) AS ({declared})"
