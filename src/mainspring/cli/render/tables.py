"""Tables of runs, tasks, attempts, workers, jobs and tokens, shared by all commands."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from mainspring.cli.render.output import Column, Table
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.core.work.isolation import LEVELS, label_of
from mainspring.protocol.rest.overviews import JobDayView
from mainspring.protocol.rest.runs import (
    AttemptView,
    BulkActionResult,
    BulkItemResult,
    JobView,
    RunView,
    TaskView,
    TokenView,
    TransitionView,
    WorkerView,
)

_FAILED = ("FAILED", "PARTIAL", "TIMED_OUT")


def format_deadline(run: RunView, now: datetime) -> str | None:
    """Format the deadline status of a run; None if it has no deadline."""
    if run.finish_by is None:
        return None
    if run.ended_at is not None:
        return "met" if run.ended_at < run.finish_by else f"late by {_format_timedelta(run.ended_at - run.finish_by)}"
    if now >= run.finish_by:
        return f"late by {_format_timedelta(now - run.finish_by)}"
    return f"in {_format_timedelta(run.finish_by - now)}{', at risk' if run.at_risk_at is not None else ''}"


RUNS: Table[RunView] = Table(
    [
        Column("id", lambda run, _: run.id),
        Column("job", lambda run, _: f"{run.job}@{run.job_version}"),
        Column("state", lambda run, _: run.state),
        Column("priority", lambda run, _: run.priority),
        Column("tenant", lambda run, _: run.tenant),
        Column("tasks", lambda run, _: run.task_count),
        Column("created", lambda run, _: run.created_at),
        Column("took", lambda run, now: _took(run.adopted_at, run.ended_at, now)),
        Column("reason", lambda run, _: run.because),
        Column("deadline", format_deadline, wide=True),
        Column("pool", lambda run, _: run.pool, wide=True),
        Column("submitted_by", lambda run, _: run.submitted_by, wide=True),
        Column("starts", lambda run, _: run.start_at, wide=True),
        Column("ended", lambda run, _: run.ended_at, wide=True),
    ],
    id=lambda run: run.id,
)
TASKS: Table[TaskView] = Table(
    [
        Column("name", lambda task, _: format_task_name(task)),
        Column("state", lambda task, _: task.state),
        Column("attempt", lambda task, _: task.attempt or None),
        Column("worker", lambda task, _: task.worker),
        Column("since", lambda task, _: task.since),
        Column("ran", lambda task, now: _took(task.started_at, task.ended_at, now)),
        Column("reason", lambda task, _: task.because),
        Column("id", lambda task, _: task.id),
        Column("run", lambda task, _: task.run_id, wide=True),
        Column("tenant", lambda task, _: task.tenant, wide=True),
        Column("priority", lambda task, _: task.priority, wide=True),
        Column("due", lambda task, _: task.due_at, wide=True),
    ],
    id=lambda task: task.id,
)
ATTEMPTS: Table[AttemptView] = Table(
    [
        Column("number", lambda attempt, _: attempt.number),
        Column("worker", lambda attempt, _: attempt.worker),
        Column("end", lambda attempt, _: attempt.end),
        Column("started", lambda attempt, _: attempt.started_at),
        Column("ran", lambda attempt, now: _took(attempt.started_at, attempt.ended_at, now)),
        Column("error", lambda attempt, _: format_failure(attempt.error)),
        Column("id", lambda attempt, _: attempt.id),
        Column("generation", lambda attempt, _: attempt.generation, wide=True),
    ],
    id=lambda attempt: attempt.id,
)
TRANSITIONS: Table[TransitionView] = Table(
    [
        Column("at", lambda step, _: step.at),
        Column("state", lambda step, _: step.end),
        Column("attempt", lambda step, _: step.attempt or None),
        Column("by", lambda step, _: step.by),
        Column("reason", lambda step, _: step.because),
        Column("seq", lambda step, _: step.seq, wide=True),
        Column("generation", lambda step, _: step.generation, wide=True),
    ],
    id=lambda step: f"{step.task_id}/{step.generation}/{step.seq}",
)
WORKERS: Table[WorkerView] = Table(
    [
        Column("id", lambda worker, _: worker.id),
        Column("status", lambda worker, _: worker.status),
        Column("hold", lambda worker, _: worker.hold),
        Column("running", lambda worker, _: worker.running),
        Column("cpu", lambda worker, _: f"{worker.cpu_millis / 1_000:g}"),
        Column("memory", lambda worker, _: format_bytes(worker.memory_bytes)),
        Column("gpus", lambda worker, _: worker.gpus),
        Column("pool", lambda worker, _: worker.pool),
        Column("zone", lambda worker, _: worker.zone),
        Column("isolation", lambda worker, _: format_isolation_levels(worker.labels)),
        Column("last_heartbeat", lambda worker, _: worker.last_heartbeat_at),
        Column("version", lambda worker, _: worker.version),
        Column("disk", lambda worker, _: format_bytes(worker.disk_bytes), wide=True),
        Column("since", lambda worker, _: worker.since, wide=True),
        Column("hold_why", lambda worker, _: worker.hold_why, wide=True),
        Column("labels", lambda worker, _: format_labels(worker.labels), wide=True),
    ],
    id=lambda worker: worker.id,
)
JOBS: Table[JobView] = Table(
    [
        Column("name", lambda job, _: job.name),
        Column("version", lambda job, _: job.version),
        Column("tenant", lambda job, _: job.tenant),
        Column("created", lambda job, _: job.created_at),
        Column("created_by", lambda job, _: job.created_by),
        Column("labels", lambda job, _: format_labels(job.labels)),
        Column("id", lambda job, _: job.id, wide=True),
        Column("deleted", lambda job, _: job.deleted_at, wide=True),
    ],
    id=lambda job: job.name,
)
VERSIONS: Table[JobView] = Table(JOBS.columns, id=lambda job: f"{job.name}@{job.version}")
DAYS: Table[JobDayView] = Table(
    [
        Column("day", lambda day, _: f"{day.day:%Y-%m-%d}"),
        Column("runs", lambda day, _: day.runs),
        Column("succeeded", lambda day, _: format_success_rate(day)),
        Column("failed", lambda day, _: sum(day.states.get(state, 0) for state in _FAILED)),
        Column("retries", lambda day, _: day.retries),
        Column("p50", lambda day, _: _seconds(day.duration_p50_seconds)),
        Column("p95", lambda day, _: _seconds(day.duration_p95_seconds)),
        Column("late_p50", lambda day, _: _seconds(day.late_p50_seconds)),
        Column("late_p95", lambda day, _: _seconds(day.late_p95_seconds)),
        Column("states", lambda day, _: format_counts(day.states), wide=True),
    ],
    id=lambda day: f"{day.day:%Y-%m-%d}",
)
TOKENS: Table[TokenView] = Table(
    [
        Column("id", lambda token, _: token.id),
        Column("name", lambda token, _: token.name),
        Column("tenant", lambda token, _: token.tenant),
        Column("roles", lambda token, _: ",".join(token.roles)),
        Column("expires", lambda token, _: token.expires_at),
        Column("last_used", lambda token, _: token.last_used_at),
        Column("revoked", lambda token, _: token.revoked_at),
        Column("created", lambda token, _: token.created_at, wide=True),
        Column("created_by", lambda token, _: token.created_by, wide=True),
    ],
    id=lambda token: token.id,
)
BULK: Table[BulkItemResult] = Table(
    [
        Column("index", lambda line, _: line.index),
        Column("id", lambda line, _: line.id),
        Column("problem", lambda line, _: None if line.problem is None else line.problem.detail or line.problem.title),
    ],
    id=lambda line: line.id or "",
)


BULK_ACTS: Table[BulkActionResult] = Table(
    [
        Column("run", lambda line, _: line.run_id),
        Column("job", lambda line, _: line.job),
        Column("state", lambda line, _: line.state),
        Column("outcome", lambda line, _: "done" if line.changed else "rejected" if line.problem is not None else None),
        Column("detail", lambda line, _: line.detail if line.problem is None else line.problem.detail),
    ],
    id=lambda line: line.run_id,
)


def format_task_name(task: TaskView) -> str:
    """Format a task name, with its label in a fan-out: `fetch[Oslo]`."""
    return f"{task.name}[{task.label}]" if task.label else task.name


def format_counts(states: dict[str, int]) -> str:
    """Format counts by state: `2 FAILED  8 SUCCEEDED`."""
    return "  ".join(f"{number} {state}" for state, number in sorted(states.items()))


def format_success_rate(day: JobDayView) -> str | None:
    """Format the success rate of a day; None without runs."""
    return f"{day.states.get('SUCCEEDED', 0) / day.runs:.0%}" if day.runs else None


def format_labels(labels: dict[str, str]) -> str:
    """Format labels on one line; those without a value by name."""
    return " ".join(f"{name}={value}" if value else name for name, value in sorted(labels.items()))


def format_isolation_levels(labels: dict[str, str]) -> str:
    """Format the isolation levels that a worker offers, weakest first."""
    return " ".join(level for level in LEVELS if label_of(level) in labels)


def format_json(raw: msgspec.Raw) -> str | None:
    """Format user JSON on one line; None for null."""
    text = bytes(raw).decode(errors="replace")
    return None if text == "null" else text


def format_failure(raw: msgspec.Raw) -> str | None:
    """Format the error of an attempt: its message, or else the raw JSON."""
    error = msgspec.json.decode(raw)
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else format_json(raw)


def _format_timedelta(length: timedelta) -> str:
    return format_seconds(length.total_seconds())


def _seconds(length: float | None) -> timedelta | None:
    return None if length is None else timedelta(seconds=length)


def _took(start: datetime | None, end: datetime | None, now: datetime) -> timedelta | None:
    return None if start is None else (end or now) - start
