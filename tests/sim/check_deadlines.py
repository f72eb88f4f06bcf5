"""Checks of runs with deadlines (PLC-11).

1. The deadline is that of the job or of the submission, and never changes.
2. A run is reported at risk in the batch that writes it, once, and never while it is paused.
3. It is escalated at that time or not at all: by one level, only if its job allows it, and to P0 only with a grant.
4. A late run is reported. If the durations of its tasks were known, and its leader evaluated it, it was at risk
   before.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

import msgspec

from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.alerts import OUTBOX_KIND, Alert, AlertKind
from mainspring.core.model.audit_entry import AuditEntry
from mainspring.core.model.batch import Batch
from mainspring.core.model.job import JobSpec
from mainspring.core.model.run import Run
from mainspring.core.model.task import Priority, Task, TaskState
from tests.sim.check_sharing import Made
from tests.sim.findings import Findings
from tests.sim.model import Ever, Model

KNOWN_SECONDS = 3.0
"""Tasks with an expected duration of at least this count as known."""
_KINDS = (AlertKind.RUN_AT_RISK, AlertKind.RUN_LATE)
_TURNS_KEPT = 500
_WAITED = timedelta(seconds=6)
_LOOKED = (timedelta(seconds=1.9), timedelta(seconds=0.3))
"""A leader with a turn at least this long before a run is late must have found the run at risk."""


class DeadlineCheck:
    """Checks the deadlines in a batch before it is applied to the model."""

    def __init__(self, findings: Findings, ever: Ever) -> None:
        self._require = findings.require
        self._ever = ever
        self._told: dict[str, int] = {}
        """By alert id: number of restores of the store by then."""
        self._succeeded: set[tuple[str, str, str]] = set()
        """Tasks that have ever succeeded: tenant, job and task."""
        self._rested: set[str] = set()
        """Runs that were paused, held or ending at some time."""
        self._turns: deque[tuple[float, datetime]] = deque(maxlen=_TURNS_KEPT)
        """When its leader's term began, and the time of each turn that fires timers."""

    def check(self, model: Model, batch: Batch, made: Made | None) -> None:
        """Check the deadlines in a batch."""
        if made is not None and not made.alone and batch.transitions:
            self._turns.append((made.led_since, batch.transitions[-1].at))
        for task in (change.task for change in batch.tasks):
            if task.state is TaskState.SUCCEEDED and task.run_id in model.runs:
                self._succeeded.add((task.tenant, model.job_of(task.run_id).spec.name, _of_many(task.name)))
        told = {kind: dict[str, Alert]() for kind in _KINDS}
        for row in batch.outbox:
            if row.kind == OUTBOX_KIND and row.key.split(":")[1] in _KINDS:
                alert = msgspec.json.decode(row.payload, type=Alert)
                if not alert.resolved:
                    told[alert.kind][str(alert.details["run"])] = alert
        at_risk = told[AlertKind.RUN_AT_RISK]
        audit = {entry.id: entry for entry in batch.audit}
        for run in batch.runs:
            escalation = audit.get(f"escalation_{run.id}_{run.generation}")
            self._check_run(model, run, at_risk.pop(run.id, None), escalation, made)
        self._require("PLC-11", not at_risk, f"told of {list(at_risk)}, and their rows don't say it")
        for run_id, alert in told[AlertKind.RUN_LATE].items():
            self._check_late(model, run_id, alert, made)

    def _check_run(
        self, model: Model, run: Run, alert: Alert | None, escalation: AuditEntry | None, made: Made | None
    ) -> None:
        was, spec = model.runs.get(run.id), model.job_of(run.id).spec
        if run.paused or run.held or run.cancelled_by or run.failed_task or run.timed_out:
            self._rested.add(run.id)
        if was is None:
            return
        reserved = was.finish_by in (None, run.finish_by) and (
            run.finish_by == _promised(run, spec) or not run.adopted_at
        )
        self._require("PLC-11", reserved, f"{run} was to be over by {was.finish_by}")
        found = run.at_risk_at is not None and run.at_risk_at != was.at_risk_at
        self._require("PLC-11", found is (alert is not None), f"{run} is at risk, and the alert is {alert}")
        self._require("PLC-11", found or escalation is None, f"{run} was escalated, but is not at risk")
        if alert is None:
            return
        name = f"{run.id}:{run.generation}"
        again = self._told.get(name) == self._ever.restores
        self._told[name] = self._ever.restores
        self._require("PLC-11", not again, f"{run.id} is alerted as at risk once more")
        self._require("PLC-11", not (was.paused and run.paused), f"{run.id} is paused, and alerted as at risk")
        if escalation is not None and made is not None:
            self._check_escalation(run, spec, escalation, made)

    def _check_escalation(self, run: Run, spec: JobSpec, entry: AuditEntry, made: Made) -> None:
        before = Priority[msgspec.json.decode(entry.before or "{}")["priority"]]
        after = Priority[msgspec.json.decode(entry.after or "{}")["priority"]]
        one_step = spec.escalate and bool(made.scheduler_settings.escalate_at_risk) and after == before - 1
        self._require("PLC-11", one_step, f"{run.id}: {run.because}")
        at = run.at_risk_at
        granted = not made.scheduler_settings.p0_needs_grant or (
            at is not None and made.rules.granted_p0(run.tenant, at)
        )
        self._require("PLC-11", after is not Priority.P0 or granted, f"{run.id} has P0, and {run.tenant} no grant")

    def _check_late(self, model: Model, run_id: str, alert: Alert, made: Made | None) -> None:
        run, spec = model.runs[run_id], model.job_of(run_id).spec
        by = run.finish_by or _promised(run, spec)
        self._require("PLC-11", by is not None and alert.at >= by, f"{run_id} is alerted as late, before {by}")
        if by is None or made is None or run.at_risk_at is not None or run.adopted_at is None:
            return
        looked = any(
            led == made.led_since and by - _LOOKED[0] <= at <= by - _LOOKED[1] for led, at in self._turns
        )  # fmt: skip
        # Tasks added by outputs have no expected duration.
        said = {task.name for task in spec.tasks}
        waited = any(_has_waited(task, by) for task in model.tasks[run_id] if _of_many(task.name) in said)
        is_known = all((task.expected_seconds or 0) >= KNOWN_SECONDS for task in spec.tasks)
        is_known = is_known and not self._has_learnt(model, run, spec)
        rested = run_id in self._rested or run.generation > 1 or run.adopted_at > by - _WAITED
        surprise = looked and waited and is_known and not rested
        self._require("PLC-11", not surprise, f"{run_id} is late, and was never at risk, by {alert}")

    def _has_learnt(self, model: Model, run: Run, spec: JobSpec) -> bool:
        """Whether tasks like the remaining ones have succeeded: measured durations override expected ones."""
        left = {_of_many(task.name) for task in model.tasks[run.id] if task.state not in FINAL}
        return any((run.tenant, spec.name, name) in self._succeeded for name in left)


def _of_many(name: str) -> str:
    return name.partition("[")[0]


def _promised(run: Run, spec: JobSpec) -> datetime | None:
    """Deadline of a run without an explicit one."""
    if spec.finish_within_seconds is None:
        return run.finish_by
    within = timedelta(seconds=spec.finish_within_seconds)
    in_time = run.window_at is not None and run.window_at + within > run.created_at
    return ((run.window_at if in_time else None) or run.start_at) + within


def _has_waited(task: Task, by: datetime) -> bool:
    return task.state in (TaskState.PENDING, TaskState.QUEUED) and task.since <= by - _WAITED and task.generation == 1
