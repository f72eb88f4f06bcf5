"""What a shard tells people by itself, as rows of the outbox: one function for each kind of thing it is about."""

from __future__ import annotations

from datetime import datetime

from mainspring.core.lifecycle.circuit_breakers import Circuit
from mainspring.core.lifecycle.deadlines import Outlook
from mainspring.core.model.alerts import Alert, AlertKind, Severity, alert_row
from mainspring.core.model.batch import Outgoing
from mainspring.core.model.run import Run
from mainspring.core.model.task import Task

A = AlertKind
_Details = dict[str, str | int | float | bool | None]
_SEVERITIES = {
    A.RUNNING_LONG: Severity.WARNING,
    A.STALLED: Severity.WARNING,
    A.QUARANTINED: Severity.HIGH,
    A.FAN_OUT_LIMIT: Severity.HIGH,
    A.UNEXPLAINED: Severity.HIGH,
}


def quarantined(task: Task, at: datetime, *, resolved: bool = False) -> Outgoing:
    """A task is held, and waits for a person; or does so no more."""
    summary = f"{task.name} is held: {task.because}" if not resolved else f"{task.name} is held no more"
    return alert_row(_about_task(A.QUARANTINED, task, summary, at, resolved=resolved), f"{task.id}:{task.seq}:held")


def attempt(kind: AlertKind, task: Task, attempt_id: str, summary: str, at: datetime) -> Outgoing:
    """Something is wrong with an attempt that runs."""
    return alert_row(_about_task(kind, task, summary, at), f"{attempt_id}:{kind}")


def attempt_over(kind: AlertKind, task: Task, attempt_id: str, at: datetime) -> Outgoing:
    """The attempt with which something was wrong is over."""
    summary = f"the attempt of {task.name} is over"
    return alert_row(_about_task(kind, task, summary, at, resolved=True), f"{attempt_id}:{kind}")


def circuit(kind: str, circuit: Circuit, shard: str, at: datetime, *, resolved: bool = False) -> Outgoing:
    """Retries of one kind of failure, or the work of a job, are held back; or are so no more."""
    what = f"retries of `{circuit.because}`" if kind == "signature" else f"the work of {circuit.subject}"
    why = "" if kind == "signature" else f": {circuit.because}"
    alert = Alert(
        kind=A.CIRCUIT_OPEN,
        key=f"{A.CIRCUIT_OPEN}:{shard}:{kind}:{circuit.subject}",
        severity=Severity.HIGH,
        tenant=circuit.subject.partition("/")[0] if kind == "job" else "",
        summary=f"{what} {'are' if kind == 'signature' else 'is'} {'no longer ' if resolved else ''}held back{why}",
        details={"shard": shard, "circuit": kind, "subject": circuit.subject, "because": circuit.because},
        resolved=resolved,
        at=at,
    )
    return alert_row(alert, f"{shard}:{kind}:{circuit.subject}:{circuit.opened_at:.3f}")


def event_rejected(record: str, shard: str, event: str, subject: str, fault: str, at: datetime) -> Outgoing:
    """Something that happened could not be taken in."""
    alert = Alert(
        kind=A.EVENT_REJECTED,
        key=f"{A.EVENT_REJECTED}:{shard}:{event}:{subject}",
        severity=Severity.HIGH,
        tenant="",
        summary=f"{event} about {subject or 'nothing that is known'} could not be taken: {fault}",
        details={"shard": shard, "event": event, "subject": subject, "fault": fault, "record": record},
        at=at,
    )
    return alert_row(alert, record)


def fan_out_limit(task: Task, items: int, allowed: int, at: datetime, *, resolved: bool = False) -> Outgoing:
    """A task would become more than its job allows, and its run is paused; or somebody has decided about it."""
    summary = f"{task.name}: {task.because}" if not resolved else f"somebody has decided about {task.name}"
    alert = _about_task(A.FAN_OUT_LIMIT, task, summary, at, resolved=resolved)
    alert.details.update({"items": items, "allowed": allowed})
    return alert_row(alert, f"{task.id}:{task.seq}:limit")


def run_stuck(row: Run, since: datetime, at: datetime, *, resolved: bool = False) -> Outgoing:
    """Nothing of a run has changed for long, and nothing of it runs; or it moves again."""
    alert = Alert(
        kind=A.RUN_STUCK,
        key=f"{A.RUN_STUCK}:{row.id}",
        severity=Severity.HIGH,
        tenant=row.tenant,
        summary=f"{row.id} moves again" if resolved else f"{row.id} is {row.because}",
        details={"run": row.id, "since": since.isoformat()},
        resolved=resolved,
        at=at,
    )
    return alert_row(alert, f"{row.id}:{row.generation}:{since.isoformat()}:stuck")


def run_at_risk(row: Run, summary: str, outlook: Outlook, at: datetime) -> Outgoing:
    """A run may not be over by when it is to be."""
    details: _Details = {
        "left_seconds": outlook.left_seconds, "slack_seconds": outlook.slack_seconds, "unknown_tasks": outlook.unknown,
        "priority": row.priority.name,
    }  # fmt: skip
    return _about_deadline(A.RUN_AT_RISK, row, summary, at, details)


def run_late(row: Run, summary: str, at: datetime) -> Outgoing:
    """A run is not over, and was to be."""
    return _about_deadline(A.RUN_LATE, row, summary, at, {})


def deadline_over(row: Run, job: str, at: datetime) -> list[Outgoing]:
    """A run with a deadline is over: whoever was told that it is at risk, or late, hears of it."""
    if row.finish_by is None:
        return []
    in_time = at < row.finish_by
    summary = f"{job} is over ({row.state}), {'in time' if in_time else 'and late'}"
    told = [A.RUN_AT_RISK] if row.at_risk_at is not None else []
    told += [] if in_time else [A.RUN_LATE]
    return [_about_deadline(kind, row, summary, at, {}, resolved=True) for kind in told]


def _about_deadline(
    kind: AlertKind, row: Run, summary: str, at: datetime, details: _Details, *, resolved: bool = False
) -> Outgoing:
    finish_by = "" if row.finish_by is None else row.finish_by.isoformat()
    alert = Alert(
        kind=kind,
        key=f"{kind}:{row.id}",
        severity=Severity.HIGH if kind is A.RUN_LATE else Severity.WARNING,
        tenant=row.tenant,
        summary=summary,
        details={"run": row.id, "finish_by": finish_by, **details},
        resolved=resolved,
        at=at,
    )
    return alert_row(alert, f"{row.id}:{row.generation}:{kind}")


def unexplained(task: Task, fault: str, at: datetime) -> Outgoing:
    """A task was found that nothing would have moved on; it was decided again."""
    return alert_row(_about_task(A.UNEXPLAINED, task, f"{task.name}: {fault}", at), f"{task.id}:{task.seq}:unexplained")


def _about_task(kind: AlertKind, task: Task, summary: str, at: datetime, *, resolved: bool = False) -> Alert:
    return Alert(
        kind=kind,
        key=f"{kind}:{task.id}",
        severity=_SEVERITIES[kind],
        tenant=task.tenant,
        summary=summary,
        details={"run": task.run_id, "task": task.id, "name": task.name, "attempt": task.attempt},
        resolved=resolved,
        at=at,
    )
