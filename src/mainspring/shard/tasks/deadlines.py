"""Deadlines of runs (PLC-11). The forecast itself is in `core/lifecycle/deadlines.py`.

    adopted ──► checked ──► on time: checked again when half of the slack is gone
                        ├──► at risk: one alert, and one escalation if wanted and allowed
                        └──► late: one alert
    ended ────► alerts are resolved (`Turn.close`)

1. The risk is in the run's row (`at_risk_at`), written in the batch of the alert: a new leader does not repeat it.
   Lateness follows from the row; its alert is repeated under the same id.
2. Runs that are paused, held or ending are not checked.
3. A run without a deadline has no timer.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.core.lifecycle.deadlines import (
    DeadlineForecast,
    deadline_for,
    forecast_deadline,
    format_instant,
    format_risk,
    higher_priority,
    remaining_seconds,
    usual_seconds,
)
from mainspring.core.lifecycle.states import FINAL
from mainspring.core.model.task import Priority, TaskState
from mainspring.shard import alerts
from mainspring.shard.actions import audit_entries
from mainspring.shard.events import TimerDue, TimerKind
from mainspring.shard.state.memory import ShardMemory
from mainspring.shard.state.run_state import RunMemory
from mainspring.shard.tasks import bulk_operations
from mainspring.shard.turn import Turn

MAX_EXAMINED = 500
MAX_EDGES = 5_000
"""Larger runs are forecast as a whole, from earlier durations: visiting each of their tasks takes milliseconds."""
STAGGER_SECONDS = 0.005
MAX_STAGGER_SECONDS = 30.0
"""A new leader spreads the checks of restored runs, so that no turn is long."""
_NEXT_TURN = timedelta(seconds=0.05)
"""Delay of checks beyond the limit per turn."""
PAUSED_RECHECK_SECONDS = 60.0
"""Interval for runs that are paused or ending."""


def begin(memory: ShardMemory, run: RunMemory, now: datetime) -> None:
    """Set the deadline of an adopted run, if its job has one, and start checking it."""
    row, within = run.run, run.job.spec.finish_within_seconds
    if row.finish_by is None and within is not None:
        row.finish_by = deadline_for(within, window_at=row.window_at, created_at=row.created_at, start_at=row.start_at)
    _watch(memory, run, now)


def restore(memory: ShardMemory, run: RunMemory, now: datetime) -> None:
    """Restore the checks of a run found in the rows: the first one is soon."""
    delay = timedelta(seconds=min(MAX_STAGGER_SECONDS, STAGGER_SECONDS * len(memory.runs)))
    _watch(memory, run, now + delay)


def _watch(memory: ShardMemory, run: RunMemory, check_at: datetime) -> None:
    """Set a timer to check a run with a deadline."""
    if run.run.finish_by is not None:
        at = min(check_at, run.run.finish_by)
        memory.timers.set_at(at, TimerKind.DEADLINE, run.run.id, run.run.generation)


def due(turn: Turn, timer: TimerDue) -> None:
    """Check whether a run will meet its deadline, raise alerts, and set the next check."""
    run, now = turn.memory.runs[timer.subject], turn.now
    row = run.run
    if row.finish_by is None:
        return
    if not run.may_start():
        at = now + timedelta(seconds=PAUSED_RECHECK_SECONDS)
        turn.memory.timers.set_at(at, timer.kind, timer.subject, timer.stamp)
        return
    if now >= row.finish_by:
        summary = f"{run.job.spec.name} is late: deadline {format_instant(row.finish_by)}"
        turn.batch.outbox.append(alerts.run_late(row, summary, now))
        return
    check_at = row.finish_by
    if row.at_risk_at is None:
        if turn.deadline_checks_left <= 0:
            _watch(turn.memory, run, now + _NEXT_TURN)
            return
        turn.deadline_checks_left -= min(row.task_count, MAX_EXAMINED)
        outlook = run_forecast(turn.memory, run, row.finish_by, now)
        if outlook.is_at_risk:
            _at_risk(turn, run, outlook)
        else:
            check_at = now + timedelta(seconds=outlook.seconds_to_next_check())
    _watch(turn.memory, run, check_at)


def run_forecast(memory: ShardMemory, run: RunMemory, finish_by: datetime, now: datetime) -> DeadlineForecast:
    """Forecast the end of a run with a deadline."""
    row = run.run
    edges = sum(map(len, run.job.downstream)) if row.task_count <= MAX_EXAMINED else 0
    if row.task_count > MAX_EXAMINED or edges > MAX_EDGES:
        usual = _usual(memory, run, "", None)
        elapsed = 0.0 if row.adopted_at is None else max(0.0, (now - row.adopted_at).total_seconds())
        left = {0: remaining_seconds(usual, elapsed=elapsed)}
        return forecast_deadline(left, lambda _: (), finish_by=finish_by, now=now)
    return forecast_deadline(_seconds_left(memory, run, now), run.children, finish_by=finish_by, now=now)


def _seconds_left(memory: ShardMemory, run: RunMemory, now: datetime) -> dict[int, float | None]:
    """Remaining seconds of each task that has not ended, including those not created yet."""
    known: dict[str, float | None] = {}
    left: dict[int, float | None] = {}
    for position in range(max(len(run.tasks), len(run.job.tasks))):
        task = run.tasks[position] if position < len(run.tasks) else None
        if task is not None and (task.state in FINAL or run.is_replaced(task)):
            continue
        spec = run.spec(position)
        if spec.name not in known:
            known[spec.name] = _usual(memory, run, spec.name, spec.expected_seconds)
        elapsed, delay = None, 0.0
        if task is not None and task.state is TaskState.RUNNING and task.started_at is not None:
            elapsed = max(0.0, (now - task.started_at).total_seconds())
        elif task is not None and task.due_at is not None:
            delay = max(0.0, (task.due_at - now).total_seconds())
        left[position] = remaining_seconds(known[spec.name], elapsed=elapsed, delay=delay)
    return left


def _usual(memory: ShardMemory, run: RunMemory, task: str, expected: float | None) -> float | None:
    return usual_seconds(memory.durations.samples(run.run.tenant, run.job.spec.name, task), expected)


def _at_risk(turn: Turn, run: RunMemory, outlook: DeadlineForecast) -> None:
    row, risk = run.run, format_risk(outlook)
    row.at_risk_at = turn.now
    turn.mark(run)
    became = _escalate(turn, run, risk)
    summary = f"{run.job.spec.name} is at risk: {risk}; {became}"
    turn.batch.outbox.append(alerts.run_at_risk(row, summary, outlook, turn.now))


def _escalate(turn: Turn, run: RunMemory, risk: str) -> str:
    """Raise the priority of a run at risk by one level, if wanted and allowed; describe the result."""
    memory, row = turn.memory, run.run
    if not run.job.spec.escalate or not memory.scheduler_settings.escalate_at_risk:
        return f"priority stays {row.priority.name}"
    may_have_p0 = not memory.scheduler_settings.p0_needs_grant or memory.rules.granted_p0(row.tenant, turn.now)
    priority = higher_priority(row.priority, may_have_p0=may_have_p0)
    if priority is None:
        no_grant = "" if row.priority is Priority.P0 else f": {row.tenant} has no P0 grant"
        return f"priority stays {row.priority.name}{no_grant}"
    was, change = row.priority, f"from {row.priority.name} to {priority.name}"
    row.because = f"escalated {change}: {risk}"
    bulk_operations.set_priority(turn, run, priority, by="shard", why=row.because)
    turn.batch.audit.append(audit_entries.escalation(row, was, risk))
    return f"priority raised {change}"
