"""Tables of schedules, windows, events, alerts, dead letters and durations."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Column, Table, format_ago
from mainspring.cli.render.tables import format_failure
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.rest.schedules import (
    AlertView,
    BackfillSummary,
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

SCHEDULES: Table[ScheduleView] = Table(
    [
        Column("name", lambda schedule, _: schedule.name),
        Column("job", lambda schedule, _: schedule.job),
        Column("state", lambda schedule, _: schedule.state),
        Column("fires", lambda schedule, _: schedule.trigger),
        Column("next", lambda schedule, _: schedule.next_at),
        Column("tenant", lambda schedule, _: schedule.tenant),
        Column("reason", lambda schedule, _: schedule.because),
        Column("id", lambda schedule, _: schedule.id, wide=True),
        Column("version", lambda schedule, _: schedule.version, wide=True),
        Column("pool", lambda schedule, _: schedule.pool, wide=True),
        Column("updated", lambda schedule, _: schedule.updated_at, wide=True),
        Column("updated_by", lambda schedule, _: schedule.updated_by, wide=True),
    ],
    id=lambda schedule: schedule.name,
)
CHANGES: Table[ChangeView] = Table(
    [
        Column("at", lambda change, _: change.at),
        Column("action", lambda change, _: change.action),
        Column("by", lambda change, _: change.by),
        Column("version", lambda change, _: change.version),
        Column("reason", lambda change, _: change.why),
    ],
    id=lambda change: change.at.isoformat(),
)
BACKFILLS: Table[BackfillSummary] = Table(
    [
        Column("id", lambda backfill, _: backfill.id),
        Column("windows", lambda backfill, _: backfill.wanted),
        Column("parallel", lambda backfill, _: backfill.max_parallel),
        Column("by", lambda backfill, _: backfill.by),
        Column("created", lambda backfill, _: backfill.created_at),
        Column("reason", lambda backfill, _: backfill.why),
    ],
    id=lambda backfill: backfill.id,
)
EVENTS: Table[EventView] = Table(
    [
        Column("type", lambda event, _: event.type),
        Column("id", lambda event, _: event.id),
        Column("source", lambda event, _: event.source),
        Column("subject", lambda event, _: event.subject),
        Column("received", lambda event, _: event.received_at),
        Column("runs", lambda event, _: event.fires),
        Column("tenant", lambda event, _: event.tenant, wide=True),
        Column("at", lambda event, _: event.at, wide=True),
    ],
    id=lambda event: event.id,
)
RECEIVED: Table[ReceivedView] = Table(
    [
        Column("id", lambda event, _: event.id),
        Column("source", lambda event, _: event.source),
        Column("outcome", lambda event, _: "received" if event.is_new else "duplicate"),
    ],
    id=lambda event: event.id,
)
ALERTS: Table[AlertView] = Table(
    [
        Column("severity", lambda alert, _: alert.severity),
        Column("kind", lambda alert, _: alert.kind),
        Column("opened", lambda alert, _: alert.opened_at),
        Column("resolved", lambda alert, _: alert.resolved_at),
        Column("count", lambda alert, _: alert.count),
        Column("tenant", lambda alert, _: alert.tenant),
        Column("detail", lambda alert, _: alert.summary),
        Column("id", lambda alert, _: alert.id, wide=True),
        Column("key", lambda alert, _: alert.key, wide=True),
    ],
    id=lambda alert: alert.id,
)
DEAD_LETTERS: Table[DeadLetterView] = Table(
    [
        Column("task", lambda dead, _: f"{dead.task}[{dead.label}]" if dead.label else dead.task),
        Column("job", lambda dead, _: dead.job),
        Column("state", lambda dead, _: dead.state),
        Column("attempts", lambda dead, _: dead.tries),
        Column("ended", lambda dead, _: dead.ended_at),
        Column("error", lambda dead, _: format_failure(dead.error) or dead.because),
        Column("id", lambda dead, _: dead.task_id),
        Column("tenant", lambda dead, _: dead.tenant, wide=True),
        Column("run", lambda dead, _: dead.run_id, wide=True),
        Column("history", lambda dead, _: "yes" if dead.in_history else "no", wide=True),
        Column("reason", lambda dead, _: dead.because, wide=True),
    ],
    id=lambda dead: dead.task_id,
)
DURATIONS: Table[DurationView] = Table(
    [
        Column("task", lambda usual, _: usual.task or "(run)"),
        Column("p50", lambda usual, _: timedelta(seconds=usual.p50_seconds)),
        Column("p90", lambda usual, _: timedelta(seconds=usual.p90_seconds)),
        Column("p99", lambda usual, _: timedelta(seconds=usual.p99_seconds)),
        Column("count", lambda usual, _: usual.count),
        Column("updated", lambda usual, _: usual.updated_at),
    ],
    id=lambda usual: usual.task,
)


def upcoming_table(printing: Printing) -> Table[UpcomingView]:
    """Return the table of upcoming windows, with times in the selected time zone."""
    return Table(
        [
            Column("next", lambda coming, now: _format_next(coming.window_at, now, printing)),
            Column("left", lambda coming, now: max(timedelta(0), coming.window_at - now)),
            Column("schedule", lambda coming, _: coming.schedule),
            Column("job", lambda coming, _: coming.job),
            Column("last", lambda coming, _: None if coming.last is None else coming.last.last_window_at),
            Column("result", lambda coming, _: "new" if coming.last is None else format_fire_result(coming.last)),
            Column("tenant", lambda coming, _: coming.tenant, wide=True),
        ],
        id=lambda coming: coming.schedule,
    )


def fires_table(printing: Printing) -> Table[FireView]:
    """Return the table of windows and their outcomes."""
    return Table(
        [
            Column("window", lambda fire, now: format_local_time(fire.window_at, now, printing)),
            Column("windows", lambda fire, _: fire.count),
            Column("outcome", lambda fire, _: fire.outcome),
            Column("result", lambda fire, _: fire.run_state),
            Column("run", lambda fire, _: fire.run_id),
            Column("reason", lambda fire, _: fire.because),
            Column("by", lambda fire, _: fire.by, wide=True),
            Column("generation", lambda fire, _: fire.generation, wide=True),
            Column("starts", lambda fire, _: fire.start_at, wide=True),
            Column("ended", lambda fire, _: fire.run_ended_at, wide=True),
            Column("backfill", lambda fire, _: fire.backfill_id, wide=True),
            Column("decided", lambda fire, _: fire.decided_at, wide=True),
        ],
        id=lambda fire: fire.run_id or fire.window_at.isoformat(),
    )


def windows_table(printing: Printing) -> Table[BackfillWindowView]:
    """Return the table of a backfill's windows."""
    return Table(
        [
            Column("window", lambda window, now: format_local_time(window.window_at, now, printing)),
            Column("plan", lambda window, _: "run" if window.is_wanted else "skip (already ran)"),
            Column("generation", lambda window, _: window.generation, wide=True),
        ],
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
