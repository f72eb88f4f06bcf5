"""What SQLite needs of a row: instants are microseconds since 1970, flags are 0 and 1, enums are their texts.

SQLite itself would take a NUL in a text, PostgreSQL does not; here it is refused, so that both behave alike. A lone
surrogate can't be written as UTF-8, which the driver notices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any, TypeVar, cast

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
from mainspring.protocol.errors import Rejected
from mainspring.store.ports.admin import DeliveryRow, SettingOverride, TenantRow, WebhookRow
from mainspring.store.ports.front import ServerRow, TokenRow
from mainspring.store.ports.schedules import AlertRow
from mainspring.store.ports.store import ShardRow, Term
from mainspring.store.ports.workers import IdentityRow, JoinTokenRow
from mainspring.store.sql.rows import Codec, Column, Kind, documents
from mainspring.store.sql.schedule_statements import NextDue, WaitingAfter

S = TypeVar("S", bound=msgspec.Struct)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=4096)  # most instants of a batch are the same one: 0.05 µs instead of 0.7
def micros(instant: datetime | None) -> int | None:
    """An instant as SQLite keeps it."""
    return None if instant is None else (instant - _EPOCH) // _MICROSECOND


def instant(micros: object) -> datetime:
    """The other way round."""
    assert isinstance(micros, int)
    return _EPOCH + timedelta(microseconds=micros)


def refuse_nul(column: Column) -> Column:
    """The same column, unless a text in it has a NUL: then Rejected."""
    # One join and one search for the whole column: 0.03 µs a text.
    if "\0" in "".join(filter(None, cast("Sequence[str | None]", column))):
        raise Rejected("a text has a NUL, which no store of ours takes")
    return column


def _instants(column: Column) -> Column:
    try:
        return list(map(micros, cast("Sequence[datetime | None]", column)))
    except TypeError as error:
        raise Rejected(f"an instant without a time zone: {error}") from error


def _enums(column: Column) -> Column:
    # The driver takes an exact str or int twice as fast as a subclass of it.
    return [None if value is None else value._value_ for value in cast("Sequence[Enum | None]", column)]


def _flags(column: Column) -> Column:
    return list(map(int, cast("Sequence[bool]", column)))


def _floats(column: Column) -> Column:
    # JSON, in which PostgreSQL is given them, has neither.
    if not all(map(math.isfinite, filter(None, cast("Sequence[float | None]", column)))):
        raise Rejected("a number is infinite, or none at all")
    return column


def _codec(struct: type[S]) -> Codec[S]:
    return Codec(
        struct,
        encode={
            Kind.TEXT: refuse_nul,
            Kind.ENUM: _enums,
            Kind.NUMBER: _enums,
            Kind.FLOAT: _floats,
            Kind.FLAG: _flags,
            Kind.INSTANT: _instants,
            Kind.DOCUMENT: documents,
        },
        decode={Kind.INSTANT: instant, Kind.FLAG: bool},
    )


def insert_into(table: str, codec: Codec[Any], more: Sequence[str] = (), ending: str = "") -> str:
    """A statement that puts structs into a table, with the names of what is added to them."""
    names = ", ".join([codec.select(), *more])
    marks = ", ".join("?" * (len(codec.names) + len(more)))
    return f"INSERT INTO {table} ({names}) VALUES ({marks}) {ending}"


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
