"""Alerts raised by a shard, as outbox rows: one function per kind of subject."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.lifecycle.circuit_breakers import CircuitBreaker
from mainspring.core.lifecycle.deadlines import DeadlineForecast
from mainspring.core.model.alerts import Alert, AlertKind, Severity, alert_row
from mainspring.core.model.batch import OutboxRow
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task

A = AlertKind
_Details = dict[str, str | int | float | bool | None]
_WARNINGS = frozenset({A.RUNNING_LONG, A.STALLED, A.RUN_AT_RISK})
"""The severity of all others is high."""


def quarantined(task: Task, at: datetime, *, resolved: bool = False) -> OutboxRow:
    """A task is quarantined until a person clears it; or it was released."""
    summary = f"{task.name} was released" if resolved else f"{task.name} is quarantined: {task.because}"
    return _about_task(A.QUARANTINED, f"{task.id}:{task.seq}:held", task, summary, at, resolved=resolved)


def attempt(
    kind: AlertKind, task: Task, attempt_id: str, summary: str, at: datetime, *, resolved: bool = False
) -> OutboxRow:
    """A running attempt has a problem; or it has ended."""
    return _about_task(kind, f"{attempt_id}:{kind}", task, summary, at, resolved=resolved)


def circuit(kind: str, circuit: CircuitBreaker, shard: str, at: datetime, *, resolved: bool = False) -> OutboxRow:
    """Retries of one failure signature, or the work of a job, are on hold; or no longer."""
    is_job = kind == "job"
    what = f"the work of {circuit.subject}" if is_job else f"retries of `{circuit.because}`"
    why = f": {circuit.because}" if is_job else ""
    summary = f"{what} {'is' if is_job else 'are'} {'no longer ' if resolved else ''}on hold{why}"
    tenant, subject = circuit.subject.partition("/")[0] if is_job else "", f"{shard}:{kind}:{circuit.subject}"
    details: _Details = {
        "shard": shard, "circuit": kind, "subject": circuit.subject, "because": circuit.because,
    }  # fmt: skip
    alert = _alert(A.CIRCUIT_OPEN, subject, tenant, summary, details, at, resolved=resolved)
    return alert_row(alert, f"{subject}:{circuit.opened_at:.3f}")


def event_rejected(record: str, shard: str, event: str, subject: str, fault: str, at: datetime) -> OutboxRow:
    """An event could not be applied."""
    summary = f"{event} of {subject or 'an unknown subject'} was rejected: {fault}"
    details: _Details = {"shard": shard, "event": event, "subject": subject, "fault": fault, "record": record}
    return alert_row(_alert(A.EVENT_REJECTED, f"{shard}:{event}:{subject}", "", summary, details, at), record)


def fan_out_limit(task: Task, items: int, allowed: int, at: datetime, *, resolved: bool = False) -> OutboxRow:
    """A task would fan out beyond the limit, and its run is paused; or a person has decided."""
    summary = f"{task.name}: {task.because}" if not resolved else f"{task.name}: resumed or cancelled"
    row_id = f"{task.id}:{task.seq}:limit"
    return _about_task(A.FAN_OUT_LIMIT, row_id, task, summary, at, resolved=resolved, items=items, allowed=allowed)


def run_stuck(row: Run, since: datetime, at: datetime, *, resolved: bool = False) -> OutboxRow:
    """Nothing in a run changes or runs; or it makes progress again."""
    summary = f"{row.id} makes progress again" if resolved else f"{row.id} is {row.because}"
    details: _Details = {"run": row.id, "since": since.isoformat()}
    alert = _alert(A.RUN_STUCK, row.id, row.tenant, summary, details, at, resolved=resolved)
    return alert_row(alert, f"{row.id}:{row.generation}:{since.isoformat()}:stuck")


def run_at_risk(row: Run, summary: str, outlook: DeadlineForecast, at: datetime) -> OutboxRow:
    """A run may miss its deadline."""
    details: _Details = {
        "left_seconds": outlook.left_seconds, "slack_seconds": outlook.slack_seconds, "unknown_tasks": outlook.unknown,
        "priority": row.priority.name,
    }  # fmt: skip
    return _about_deadline(A.RUN_AT_RISK, row, summary, at, details)


def run_late(row: Run, summary: str, at: datetime) -> OutboxRow:
    """A run has missed its deadline."""
    return _about_deadline(A.RUN_LATE, row, summary, at, {})


def deadline_resolved(row: Run, job: str, at: datetime) -> list[OutboxRow]:
    """Resolve the deadline alerts of a run that has ended."""
    if row.finish_by is None:
        return []
    in_time = at < row.finish_by
    summary = f"{job} ended ({row.state}), {'on time' if in_time else 'late'}"
    alerted = [A.RUN_AT_RISK] if row.at_risk_at is not None else []
    alerted += [] if in_time else [A.RUN_LATE]
    return [_about_deadline(kind, row, summary, at, {}, resolved=True) for kind in alerted]


def _about_deadline(
    kind: AlertKind, row: Run, summary: str, at: datetime, details: _Details, *, resolved: bool = False
) -> OutboxRow:
    finish_by = "" if row.finish_by is None else row.finish_by.isoformat()
    details = {"run": row.id, "finish_by": finish_by, **details}
    alert = _alert(kind, row.id, row.tenant, summary, details, at, resolved=resolved)
    return alert_row(alert, f"{row.id}:{row.generation}:{kind}")


def unexplained(task: Task, fault: str, at: datetime) -> OutboxRow:
    """A task was found that nothing would have moved on. It was decided again."""
    return _about_task(A.UNEXPLAINED, f"{task.id}:{task.seq}:unexplained", task, f"{task.name}: {fault}", at)


def _about_task(
    kind: AlertKind, row_id: str, task: Task, summary: str, at: datetime, *, resolved: bool = False, **more: int
) -> OutboxRow:
    details: _Details = {"run": task.run_id, "task": task.id, "name": task.name, "attempt": task.attempt, **more}
    return alert_row(_alert(kind, task.id, task.tenant, summary, details, at, resolved=resolved), row_id)


def _alert(
    kind: AlertKind, subject: str, tenant: str, summary: str, details: _Details, at: datetime, *, resolved: bool = False
) -> Alert:
    """An alert, or the end of one with the same kind and subject."""
    return Alert(
        kind=kind, key=f"{kind}:{subject}", severity=Severity.WARNING if kind in _WARNINGS else Severity.HIGH,
        tenant=tenant, summary=summary, details=details, resolved=resolved, at=at,
    )  # fmt: skip
