"""Tables of schedules, windows, events, alerts, dead letters and durations."""

from __future__ import annotations

from datetime import datetime, timedelta

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, format_ago
from mainspring.cli.render.tables import format_failure
from mainspring.core.text.durations import format_seconds
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
