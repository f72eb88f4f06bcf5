"""Examples for the OpenAPI document: a value for every type in requests and responses.

Request examples are written out, so that each makes sense as a whole. Response examples are built from field names: a
field of the same name has the same value everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.inspect import (
    BoolType,
    CustomType,
    DateTimeType,
    DictType,
    EnumType,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    RawType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from mainspring.api.http.job_schema import JobDefinition
from mainspring.protocol.rest import admin as rest_admin
from mainspring.protocol.rest import apply as rest_apply
from mainspring.protocol.rest import claims as rest_claims
from mainspring.protocol.rest import diagnosis as rest_diagnosis
from mainspring.protocol.rest import runs as rest
from mainspring.protocol.rest import schedules as rest_schedules
from mainspring.protocol.rest import sharing as rest_sharing

RUN = "run_018f3c2e9a41-9d2c44e1f0a7b35c"
TASK = "task_018f3c2e9a41-9d2c44e1f0a7b35c.2"
_AT = "2026-11-16T05:30:00Z"
_LATER = "2026-11-16T05:42:07Z"
_SCHEDULE = {
    "name": "nightly",
    "job": "etl",
    "priority": "P1",
    "params": {"region": "eu"},
    "trigger": {"kind": "cron", "cron": "30 5 * * mon-fri", "timezone": "Europe/Paris"},
}
JOB = {
    "name": "etl",
    "labels": {"team": "data"},
    "tasks": [
        {"name": "extract", "work": {"run": ["python", "extract.py", "--day", "{{ params.day }}"]}},
        {"name": "load", "needs": [{"task": "extract"}], "work": {"run": ["python", "load.py"]}, "max_attempts": 5},
    ],
}
EVENT = {"specversion": "1.0", "id": "order-4711", "source": "/shop", "type": "orders.ready", "data": {"orders": 12}}

_EXPECTED = {"kind": "range", "basis": "its tasks usually take 4m 10s", "earliest": _AT, "latest": _LATER}
_DIAGNOSIS = {
    "subject": TASK,
    "name": "acme/etl/load",
    "tenant": "acme",
    "state": "QUEUED",
    "since": _AT,
    "reason": "TENANT_OVER_QUOTA",
    "verdict": "acme uses 8 of its 8 cores, and this task needs 1 more",
    "is_problem": False,
    "expected": _EXPECTED,
    "gates": [{"name": "tenant quota", "passed": "holding", "says": "8 of 8 cores"}],
    "blockers": [{"kind": "task", "id": TASK, "says": "train-42, for 4m", "tenant": "acme", "priority": "P2"}],
    "more_blockers": 2,
    "ruled_out": ["not your code: it has not started"],
    "suggestions": [
        {
            "kind": "ask",
            "says": "raise the quota",
            "command": "mainspring quota set acme --burst-cpu 12",
            "effect": "it would start now on w-07",
        }
    ],
    "at": _AT,
    "by": "leader",
    "age_seconds": 0.8,
    "is_stale": False,
    "batch": 48211,
    "run_id": RUN,
    "task_id": TASK,
    "pool": "default",
    "priority": "P1",
    "numbers": {"ahead": 2.0},
}

_PEM = "-----BEGIN {0}-----\nMIHzMIGbAgEAMDkxFTATBgNVBAMM..\n-----END {0}-----\n"
_AMOUNTS = {"cpu": 8, "memory": 34359738368}
_QUOTA = {"weight": 2, "max_tasks": 200, "guaranteed": _AMOUNTS, "burst": _AMOUNTS}

BODY_EXAMPLES: Mapping[object, object] = {
    JobDefinition: JOB,
    rest.RunRequest: {"job": "etl", "params": {"day": "2026-11-15"}, "priority": "P1"},
    rest.ActionRequest: {"why": "the source sent a wrong file"},
    rest.ExtendRequest: {"seconds": 1800, "why": "the disk is slow today"},
    rest.KillRequest: {"grace_seconds": 10, "again": True, "why": "it hangs"},
    rest.PriorityRequest: {"priority": "P1", "why": "the board meets at nine"},
    rest.BulkActionRequest: {"action": "cancel", "q": "state:running job:etl-*", "dry_run": True},
    rest.TokenRequest: {"name": "etl-bot", "roles": ["submitter"], "expires_in_seconds": 2592000},
    rest_schedules.CloudEvent: EVENT,
    rest_admin.TenantRequest: {"title": "Acme Ltd", "contact": "ops@acme.example"},
    rest_admin.SettingRequest: {"value": 500, "why": "the new workers start slowly"},
    rest_admin.WebhookRequest: {
        "url": "https://hooks.example.com/mainspring",
        "events": ["run.failed", "run.timed_out"],
    },
    rest_admin.JoinTokenRequest: {"name": "rack-7", "pools": ["gpu"], "uses": 20, "expires_in_seconds": 3600},
    rest_admin.EnrollRequest: {"name": "gpu-3", "request": _PEM.format("CERTIFICATE REQUEST")},
    rest_admin.RenewRequest: {"request": _PEM.format("CERTIFICATE REQUEST")},
    rest_claims.ClaimRequest: {
        "worker_id": "worker-pod-abc123",
        "max_claims": 10,
        "claim_duration_seconds": 300,
        "wait_seconds": 20,
    },
    rest_claims.StartRequest: {"worker_id": "worker-pod-abc123", "execution_context": {"region": "us-central1"}},
    rest_claims.HeartbeatRequest: {
        "current_stage": "transforming",
        "progress_percentage": 45.5,
        "records_processed": 1250000,
        "estimated_completion_time": _LATER,
    },
    rest_claims.CompleteRequest: {"status": "SUCCESS", "result_summary": {"records_loaded": 1999500}},
    rest_claims.FailRequest: {
        "error_type": "SERVICE_UNAVAILABLE",
        "error_details": {"message": "the billing export is not there yet", "provider_error_code": "503"},
        "should_retry": True,
    },
    rest_schedules.TriggerRequest: {"params": {"region": "us"}, "why": "the source was late"},
    rest_schedules.BackfillRequest: {
        "since": "2026-11-01T00:00:00Z",
        "before": "2026-11-08T00:00:00Z",
        "max_parallel": 2,
        "dry_run": True,
    },
    rest_schedules.ScheduleRequest: {"definition": _SCHEDULE, "why": "loads yesterday's orders"},
    rest_apply.ApplyRequest: {"items": [{"job": JOB, "schedules": [{"definition": _SCHEDULE}]}], "dry_run": True},
    rest_apply.AppliedSchedule: {"name": "nightly", "id": "sched_018f3c2e7f00-0e1b2c3d4a5f6978", "change": "created"},
    rest_diagnosis.WhatIfRequest: {"changes": ["cpu 2", "burst 8"]},
    rest_diagnosis.DiagnosisView: _DIAGNOSIS,
    rest_diagnosis.ExpectedView: _EXPECTED,
    rest_diagnosis.WaitingSumView: {
        "reason": "TENANT_OVER_QUOTA",
        "tasks": 41,
        "oldest": _AT,
        "example": TASK,
        "says": "acme uses 8 of its 8 cores, and this task needs 1 more",
    },
    rest_sharing.Amounts: _AMOUNTS,
    rest_sharing.PoolRequest: {"labels": {"region": "eu"}, "zones": ["eu-west-1a", "eu-west-1b"]},
    rest_sharing.PolicyRequest: {"label": "eu_data", "requires": {"region": "eu"}},
    rest_sharing.QuotaTerms: _QUOTA,
    rest_sharing.QuotaRequest: {**_QUOTA, "why": "as agreed for this year"},
    rest_sharing.RaiseRequest: {**_QUOTA, "max_tasks": 500, "seconds": 7200, "why": "the year is being closed"},
    rest_sharing.BookingRequest: {
        "cron": "0 2 * * *",
        "zone": "Europe/Paris",
        "seconds": 7200,
        "lead_seconds": 600,
        "guaranteed": {"cpu": 16.0},
        "why": "the nightly close",
    },
    rest_sharing.GrantRequest: {"seconds": 86400, "why": "they are on call today"},
    rest_sharing.GroupRequest: {"most": 10, "note": "connections that the warehouse allows"},
    rest_sharing.FreezeRequest: {"kind": "pool", "subject": "default", "why": "the racks are moved", "seconds": 3600},
}
"""Examples of request bodies and of some responses."""

_NAMED: Mapping[str, object] = {
    "id": RUN, "run_id": RUN, "task_id": TASK, "tenant": "acme", "job": "etl", "name": "etl", "job_version": 3,
    "version": 3, "job_id": "job_018f3c2e8c10-5f1d0c6e2b9a4473", "pool": "default", "state": "SUCCEEDED",
    "priority": "P1", "worker": "w1", "attempt": 1, "number": 1, "generation": 1, "attempt_id":
    "att_018f3c2f0b7e-31c5d90a7be2f648", "created_by": "token:etl-bot", "submitted_by": "token:etl-bot",
    "updated_by": "token:ops", "by": "token:ops", "actor": "token:ops", "source": "10.0.0.7", "because":
    "no task failed", "definition": JOB, "params": {"day": "2026-11-15"}, "output": {"rows": 1204}, "error": None,
    "document": {"offset": 4000}, "task_count": 2, "task_states": {"SUCCEEDED": 2}, "states": {"SUCCEEDED": 41},
    "labels": {"team": "data"}, "held": None, "cancelled_by": None, "linked_run": None, "stop": None, "paused": False,
    "schedule_id": "sched_018f3c2e7f00-0e1b2c3d4a5f6978", "window_at": _AT, "due_at": None, "next_cursor": None,
    "created_at": _AT, "start_at": _AT, "adopted_at": _AT, "since": _AT, "at": _AT, "ended_at": _LATER,
    "deleted_at": None, "revoked_at": None, "secret": None, "token": None, "resolved_at": None, "roles":
    ["submitter"], "seq": 7, "hash": "9f2c" + "0" * 60, "tries": 1, "detail": "", "problem": None, "start": "RUNNING",
    "end": "SUCCEEDED", "zone": "eu-west-1a", "status": "ready", "action": "cancel_run", "object": RUN, "before": None,
    "after": {"reply": "done"}, "errors": [], "faults": [], "instance": "req_5b1f0c2d3e4a6978", "title": "Conflict",
    "code": "conflict", "type": "/docs/reference/errors#conflict", "webhook_id": "hook_018f3c2e9a41-1a2b3c4d5e6f7089",
    "url": "https://hooks.example.com/mainspring", "events": ["run.failed"], "subject": RUN, "body": EVENT, "fault": "",
}  # fmt: skip

_SIMPLE: Mapping[type[Type], object] = {
    DateTimeType: _AT, BoolType: False, FloatType: 1.5, StrType: "text", RawType: {"day": "2026-11-15"},
}  # fmt: skip


def example_of(kind: object) -> object:
    """Return an example of a type, as JSON builtins."""
    if kind in BODY_EXAMPLES:
        return BODY_EXAMPLES[kind]
    return _value(type_info(kind), "")


def _value(info: Type, name: str) -> object:
    if name in _NAMED and _fits(info, _NAMED[name]):
        return _NAMED[name]
    match info:
        case StructType():
            if info.cls in BODY_EXAMPLES:
                return BODY_EXAMPLES[info.cls]
            return {field.encode_name: _value(field.type, field.name) for field in info.fields}
        case UnionType():
            return _value(next(one for one in info.types if not isinstance(one, NoneType | CustomType)), name)
        case ListType() | VarTupleType():
            return [_value(info.item_type, name.removesuffix("s"))]
        case DictType():
            return {"etl": _value(info.value_type, name)}
        case LiteralType():
            return info.values[0]
        case EnumType():
            return next(iter(info.cls)).value
        case IntType():
            return max(1, info.ge or 0)
        case _:
            return _SIMPLE.get(type(info))


def _fits(info: Type, value: object) -> bool:
    """Return whether a value matches this type, by its kind."""
    kinds = info.types if isinstance(info, UnionType) else (info,)
    return any(_is(kind, value) for kind in kinds)


def _is(info: Type, value: object) -> bool:
    match info:
        case RawType():
            return True
        case NoneType():
            return value is None
        case StrType():
            return isinstance(value, str)
        case DateTimeType():
            return isinstance(value, str) and value[:2] == "20" and value.endswith("Z")
        case BoolType():
            return isinstance(value, bool)
        case IntType() | FloatType():
            return isinstance(value, int) and not isinstance(value, bool)
        case ListType() | VarTupleType():
            return isinstance(value, list) and all(_is(info.item_type, one) for one in value)
        case DictType():
            return isinstance(value, dict) and all(_is(info.value_type, one) for one in value.values())
        case LiteralType():
            return value in info.values
        case EnumType():
            return value in {one.value for one in info.cls}
        case _:
            return False
