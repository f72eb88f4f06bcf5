"""Data of `mainspring top`: server status, running, waiting and recently failed work."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, print_one, print_rows
from mainspring.cli.render.tables import RUNS, TASKS
from mainspring.client.client import Client
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.rest.runs import Count, RunView, ServerView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import ScheduleView
from mainspring.protocol.rest.sharing import LevelView

T = TypeVar("T", bound=msgspec.Struct)

PRIORITIES = ("P0", "P1", "P2")
_LATEST_RUNS = 200
_MAX_ITEMS = 100
_UNSUCCESSFUL = ("FAILED", "PARTIAL", "TIMED_OUT")
_MINUTE = timedelta(minutes=1)


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshot of a server."""

    at: datetime
    server: ServerView
    level: LevelView
    workers: list[WorkerView]
    running: Count
    """Assigned and running tasks."""
    queued: dict[str, Count]
    """Queued tasks by priority."""
    runs_per_minute: float
    """Runs submitted in the last minute."""
    active: list[RunView]
    waiting: list[TaskView]
    failed: list[RunView]
    latest: list[RunView]
    tasks: list[TaskView]
    schedules: list[ScheduleView]


def read_board(client: Client) -> Board:
    """Fetch a snapshot."""
    latest = list(client.runs(limit=_LATEST_RUNS))
    now = SystemClock().wall()
    return Board(
        at=now,
        server=client.server(),
        level=client.level(),
        workers=list(client.workers(limit=_MAX_ITEMS)),
        running=client.count_tasks(states=["ASSIGNED", "RUNNING"]),
        queued={name: client.count_tasks(states=["QUEUED"], q=f"priority:{name.lower()}") for name in PRIORITIES},
        runs_per_minute=run_rate(latest, now),
        active=list(client.runs(states=["RUNNING", "PAUSED"], limit=_MAX_ITEMS)),
        waiting=list(client.tasks(states=["QUEUED"], limit=_MAX_ITEMS)),
        failed=list(client.runs(states=_UNSUCCESSFUL, limit=_MAX_ITEMS)),
        latest=latest,
        tasks=list(client.tasks(states=["ASSIGNED", "RUNNING", "QUEUED"], limit=_MAX_ITEMS)),
        schedules=list(client.schedules(limit=_MAX_ITEMS)),
    )


def run_rate(latest: Sequence[RunView], now: datetime) -> float:
    """Return runs per minute over the last minute, or over the span of the latest runs if that is shorter."""
    recent = [run for run in latest if now - run.created_at <= _MINUTE]
    if not recent or len(recent) < len(latest):
        return float(len(recent))
    span = max((now - recent[-1].created_at).total_seconds(), 1.0)
    return len(recent) / span * 60 if len(recent) == _LATEST_RUNS else float(len(recent))


def headline(board: Board) -> list[str]:
    """Return two summary lines."""
    ready = sum(worker.status == "ready" for worker in board.workers)
    leads = f"leads {', '.join(board.server.leads)}" if board.server.leads else "leads nothing"
    level = "" if board.level.level == "normal" else f", level {board.level.level}"
    others = f", {len(board.server.servers)} servers" if len(board.server.servers) > 1 else ""
    queued = " ".join(f"{name} {format_count(board.queued[name])}" for name in PRIORITIES)
    counts = [
        f"workers {ready}/{len(board.workers)} ready",
        f"tasks {format_count(board.running)} running, queued {queued}",
        f"{board.runs_per_minute:.0f} runs/min",
    ]
    return [f"{board.server.address}  mainspring {board.server.version}, {leads}{others}{level}", "   ".join(counts)]


def format_count(count: Count) -> str:
    """Format a count, with a + for a lower bound."""
    return f"{count.value}+" if count.at_least else f"{count.value}"


def print_board(board: Board, printing: Printing) -> None:
    """Print a snapshot."""

    def print_text() -> None:
        for line in headline(board):
            click.echo(line)
        _print_part("active runs", board.active, RUNS, printing)
        _print_part("waiting tasks", board.waiting, TASKS, printing)
        _print_part("recently failed runs", board.failed, RUNS, printing)

    print_one(board, board.server.name, printing, print_text)


def _print_part(title: str, rows: Sequence[T], table: Table[T], printing: Printing) -> None:
    click.echo(f"\n{title}: {len(rows) or 'none'}")
    if rows:
        print_rows(rows, table, printing)
