"""Tables of runs, tasks, workers, jobs, schedules, events, tokens, webhooks, settings and the audit log."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, format_ago, format_json
from mainspring.core.text.durations import format_seconds
from mainspring.core.work.isolation import LEVELS, label_of
from mainspring.protocol.rest.admin import (
    AuditFaultView,
    AuditView,
    DeliveryView,
    HeadView,
    IdentityView,
    JoinTokenView,
    SettingView,
    VerificationView,
    WebhookView,
)
from mainspring.protocol.rest.artifacts import ArtifactView
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
from mainspring.protocol.rest.schedules import (
    AlertView,
    BackfillWindowView,
    ChangeView,
    DeadLetterView,
    DurationView,
    EventView,
    FireView,
    ReceivedView,
    ScheduleView,
    UpcomingView,
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


RUNS = Table.of(
    RunView,
    "id job state priority tenant tasks=task_count created=created_at took reason=because",
    wide="deadline pool submitted_by starts=start_at ended=ended_at",
    job=lambda run, _: f"{run.job}@{run.job_version}",
    took=lambda run, now: _took(run.adopted_at, run.ended_at, now),
    deadline=format_deadline,
    id=lambda run: run.id,
)
TASKS = Table.of(
    TaskView,
    "name state attempt worker since ran reason=because id",
    wide="run=run_id tenant priority due=due_at",
    name=lambda task, _: format_task_name(task),
    attempt=lambda task, _: task.attempt or None,
    ran=lambda task, now: _took(task.started_at, task.ended_at, now),
    id=lambda task: task.id,
)
ATTEMPTS = Table.of(
    AttemptView,
    "number worker end started=started_at ran error id",
    wide="generation",
    ran=lambda attempt, now: _took(attempt.started_at, attempt.ended_at, now),
    error=lambda attempt, _: format_failure(attempt.error),
    id=lambda attempt: attempt.id,
)
TRANSITIONS = Table.of(
    TransitionView,
    "at state=end attempt by reason=because",
    wide="seq generation",
    attempt=lambda step, _: step.attempt or None,
    id=lambda step: f"{step.task_id}/{step.generation}/{step.seq}",
)
ARTIFACTS = Table.of(
    ArtifactView,
    "task path size=size_bytes sha256 stored=stored_at note",
    wide="location kept_until attempt=attempt_id task_id",
    task=lambda one, _: one.task if one.partition is None else f"{one.task}[{one.partition}]",
    sha256=lambda one, _: one.sha256[:12],
    note=lambda one, _: "expired" if one.is_expired else "" if one.succeeded else "failed attempt",
    id=lambda one: f"{one.task_id}/{one.path}",
)
WORKERS = Table.of(
    WorkerView,
    "id status hold running cpu=cpu_millis memory=memory_bytes gpus pool zone isolation "
    "last_heartbeat=last_heartbeat_at version",
    wide="disk=disk_bytes since hold_reason=hold_why labels",
    isolation=lambda worker, _: format_isolation_levels(worker.labels),
    id=lambda worker: worker.id,
)
IDENTITIES = Table.of(
    IdentityView,
    "worker=name pools renewed=renewed_at expires=expires_at revoked=revoked_at",
    wide="joined=enrolled_at join_token serial",
    id=lambda one: one.name,
)
JOBS = Table.of(
    JobView,
    "name version tenant created=created_at created_by labels",
    wide="id deleted=deleted_at",
    id=lambda job: job.name,
)
VERSIONS = Table(JOBS.columns, id=lambda job: f"{job.name}@{job.version}")
DAYS = Table.of(
    JobDayView,
    "day runs succeeded failed retries p50=duration_p50_seconds p95=duration_p95_seconds late_p50=late_p50_seconds "
    "late_p95=late_p95_seconds",
    wide="states",
    day=lambda day, _: f"{day.day:%Y-%m-%d}",
    succeeded=lambda day, _: format_success_rate(day),
    failed=lambda day, _: sum(day.states.get(state, 0) for state in _FAILED),
    states=lambda day, _: format_counts(day.states),
    id=lambda day: f"{day.day:%Y-%m-%d}",
)
BULK = Table.of(
    BulkItemResult,
    "index id problem",
    problem=lambda line, _: None if line.problem is None else line.problem.detail or line.problem.title,
    id=lambda line: line.id or "",
)
BULK_ACTS = Table.of(
    BulkActionResult,
    "run=run_id job state outcome detail",
    outcome=lambda line, _: "done" if line.changed else "rejected" if line.problem is not None else None,
    detail=lambda line, _: line.detail if line.problem is None else line.problem.detail,
    id=lambda line: line.run_id,
)
TOKENS = Table.of(
    TokenView,
    "id name tenant roles expires=expires_at last_used=last_used_at revoked=revoked_at",
    wide="created=created_at created_by",
    id=lambda token: token.id,
)
JOIN_TOKENS = Table.of(
    JoinTokenView,
    "id name pools uses_left expires=expires_at revoked=revoked_at",
    wide="created=created_at created_by",
    id=lambda token: token.id,
)
SETTINGS = Table.of(
    SettingView,
    "name value default origin detail=about",
    wide="min max version updated=updated_at updated_by",
    value=lambda setting, _: _format_setting(setting.value),
    default=lambda setting, _: _format_setting(setting.default),
    min=lambda setting, _: _format_setting(setting.minimum),
    max=lambda setting, _: _format_setting(setting.maximum),
    id=lambda setting: setting.name,
)
WEBHOOKS = Table.of(
    WebhookView,
    "id url events job enabled tenant detail=note",
    wide="version created=created_at created_by",
    events=lambda webhook, _: ",".join(webhook.events) or "all",
    id=lambda webhook: webhook.id,
)
WEBHOOK = Table.of(
    WebhookView,
    "webhook=id url events job enabled note tenant version created=created_at created_by",
    events=lambda webhook, _: ", ".join(webhook.events) or "all",
    id=lambda webhook: webhook.id,
)
DELIVERIES = Table.of(
    DeliveryView,
    "id type subject state attempts=tries status last=last_at problem=fault",
    wide="created=created_at body",
    id=lambda message: message.id,
)
AUDIT = Table.of(
    AuditView,
    "at actor action object tenant reason=why",
    wide="id source seq before after",
    seq=lambda entry, _: entry.seq or None,
    id=lambda entry: entry.id,
)
HEADS = Table.of(HeadView, "tenant seq hash", id=lambda head: head.tenant)
CHAINS = Table.of(
    VerificationView,
    "tenant entries first last faults",
    first=lambda chain, _: chain.first_seq or None,
    last=lambda chain, _: None if chain.head is None else chain.head.seq,
    faults=lambda chain, _: len(chain.faults),
    id=lambda chain: chain.tenant,
)
AUDIT_FAULTS = Table.of(
    AuditFaultView, "tenant seq entry=id problem=why", id=lambda fault: f"{fault.tenant}/{fault.seq}"
)
SCHEDULES = Table.of(
    ScheduleView,
    "name job state fires=trigger next=next_at tenant reason=because",
    wide="id version pool updated=updated_at updated_by",
    id=lambda schedule: schedule.name,
)
CHANGES = Table.of(ChangeView, "at action by version reason=why", id=lambda change: change.at.isoformat())
EVENTS = Table.of(
    EventView, "type id source subject received=received_at runs=fires", wide="tenant at", id=lambda event: event.id
)
RECEIVED = Table.of(
    ReceivedView,
    "id source outcome",
    outcome=lambda event, _: "received" if event.is_new else "duplicate",
    id=lambda event: event.id,
)
ALERTS = Table.of(
    AlertView,
    "severity kind opened=opened_at resolved=resolved_at count tenant detail=summary",
    wide="id key",
    id=lambda alert: alert.id,
)
DEAD_LETTERS = Table.of(
    DeadLetterView,
    "task job state attempts=tries ended=ended_at error id=task_id",
    wide="tenant run=run_id history=in_history reason=because",
    task=lambda dead, _: f"{dead.task}[{dead.label}]" if dead.label else dead.task,
    error=lambda dead, _: format_failure(dead.error) or dead.because,
    id=lambda dead: dead.task_id,
)
DURATIONS = Table.of(
    DurationView,
    "task p50=p50_seconds p90=p90_seconds p99=p99_seconds count updated=updated_at",
    task=lambda usual, _: usual.task or "(run)",
    id=lambda usual: usual.task,
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


def format_isolation_levels(labels: dict[str, str]) -> str:
    """Format the isolation levels that a worker offers, weakest first."""
    return " ".join(level for level in LEVELS if label_of(level) in labels)


def format_failure(raw: msgspec.Raw) -> str | None:
    """Format the error of an attempt: its message, or else the raw JSON."""
    error = msgspec.json.decode(raw)
    message = error.get("message") if isinstance(error, dict) else None
    return message if isinstance(message, str) else format_json(raw)


def _format_setting(value: float | str) -> str:
    """Format a value without an empty fraction: `30`, not `30.0`."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _format_timedelta(length: timedelta) -> str:
    return format_seconds(length.total_seconds())


def _took(start: datetime | None, end: datetime | None, now: datetime) -> timedelta | None:
    return None if start is None else (end or now) - start


def upcoming_table(printing: Printing) -> Table[UpcomingView]:
    """Return the table of upcoming windows, with times in the selected time zone."""
    return Table.of(
        UpcomingView,
        "next left schedule job last result",
        wide="tenant",
        next=lambda coming, now: _format_next(coming.window_at, now, printing),
        left=lambda coming, now: max(timedelta(0), coming.window_at - now),
        last=lambda coming, _: None if coming.last is None else coming.last.last_window_at,
        result=lambda coming, _: "new" if coming.last is None else format_fire_result(coming.last),
        id=lambda coming: coming.schedule,
    )


def fires_table(printing: Printing) -> Table[FireView]:
    """Return the table of windows and their outcomes."""
    return Table.of(
        FireView,
        "window windows=count outcome result=run_state run=run_id reason=because",
        wide="by generation starts=start_at ended=run_ended_at backfill=backfill_id decided=decided_at",
        window=lambda fire, now: format_local_time(fire.window_at, now, printing),
        id=lambda fire: fire.run_id or fire.window_at.isoformat(),
    )


def windows_table(printing: Printing) -> Table[BackfillWindowView]:
    """Return the table of a backfill's windows."""
    return Table.of(
        BackfillWindowView,
        "window plan",
        wide="generation",
        window=lambda window, now: format_local_time(window.window_at, now, printing),
        plan=lambda window, _: "run" if window.is_wanted else "skip (already ran)",
        id=lambda window: window.window_at.isoformat(),
    )


def format_local_time(at: datetime, now: datetime, printing: Printing) -> str:
    """Format a time with its day: `Sun 15 Nov 11:00:00`, with the year if it differs from the current one."""
    local = at.astimezone(printing.zone)
    form = "%a %d %b %H:%M:%S" if local.year == now.astimezone(printing.zone).year else "%a %d %b %Y %H:%M:%S"
    return local.strftime(form)


def format_fire_result(fire: FireView) -> str:
    """Format the result of a window: the state and duration of its run, or its outcome without a run."""
    if fire.run_state is None:
        return "started" if fire.outcome == "ran" else fire.outcome
    if fire.start_at is None or fire.run_ended_at is None:
        return fire.run_state
    return f"{fire.run_state} {format_seconds((fire.run_ended_at - fire.start_at).total_seconds())}"


def _format_next(at: datetime, now: datetime, printing: Printing) -> str:
    if at < now - timedelta(seconds=1):
        return f"overdue since {format_ago(at, now)}"
    return format_local_time(at, now, printing)
