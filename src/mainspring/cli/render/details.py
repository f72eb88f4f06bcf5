"""Detail views of single resources: facts first, then related tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.facts import format_when, print_facts
from mainspring.cli.render.output import Table, format_cell, format_time, print_one, print_rows
from mainspring.cli.render.schedule_tables import SCHEDULES, fires_table
from mainspring.cli.render.tables import (
    ATTEMPTS,
    TASKS,
    TRANSITIONS,
    format_counts,
    format_deadline,
    format_failure,
    format_json,
    format_labels,
    format_task_name,
)
from mainspring.cli.resource_ids import find_run, find_task, is_run, is_task, strip_url
from mainspring.client.client import Client
from mainspring.core.text.durations import format_seconds
from mainspring.core.text.quantities import format_bytes
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import JobView, RunView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import ScheduleView

T = TypeVar("T", bound=msgspec.Struct)

_MAX_TASKS = 50
_LATEST_FIRES = 10
_TASKS_OF_PATH = 5
_ATTEMPT = "att_"
_SCHEDULE = "sched_"


class DetailPrinter:
    """Prints resources in detail."""

    def __init__(self, client: Client, printing: Printing) -> None:
        self._client = client
        self._printing = printing
        self._now = SystemClock().wall()

    def show(self, what: str) -> None:
        """Show a resource. Its kind follows from the prefix of its id, or is looked up by name."""
        what = strip_url(what)
        if is_task(what) or "/" in what:
            self._show_task(self._client.task(find_task(self._client, what)))
        elif is_run(what):
            self._show_run(self._client.run(find_run(self._client, what)))
        elif what.startswith(_ATTEMPT):
            self._show_task(self._task_of_attempt(what))
        elif what.startswith(_SCHEDULE):
            self.show_schedule(self._client.schedule(what))
        else:
            self._show_named(what)

    def _task_of_attempt(self, attempt: str) -> TaskView:
        """Find the task whose current attempt this is. Past attempts can't be found: there is no list of attempts."""
        for task in self._client.tasks(states=["ASSIGNED", "RUNNING"]):
            if task.attempt_id == attempt:
                return task
        raise NotFound(f"attempt {attempt} is not the current attempt of any task")

    def _show_named(self, name: str) -> None:
        """Show the worker, job or schedule of this name."""
        for find in (self._find_worker, self._find_job, self._find_schedule):
            try:
                find(name)
            except NotFound:
                continue
            return
        raise NotFound(f"there is no run, task, worker, job or schedule {name}")

    def _find_worker(self, name: str) -> None:
        self._show_worker(self._client.worker(name))

    def _find_job(self, name: str) -> None:
        self._show_job(self._client.job(name))

    def _find_schedule(self, name: str) -> None:
        self.show_schedule(self._client.schedule(name))

    def _show_run(self, run: RunView) -> None:
        def print_text() -> None:
            counts = format_counts(run.task_states or {})
            print_facts(
                ("run", run.id),
                ("job", f"{run.job}@{run.job_version}"),
                ("state", f"{run.state}{' (paused)' if run.paused else ''}"),
                ("reason", run.because),
                ("held", run.held),
                ("cancelled by", run.cancelled_by),
                ("priority", run.priority),
                ("tenant", run.tenant),
                ("pool", run.pool),
                ("submitted by", run.submitted_by),
                ("created", self._when(run.created_at)),
                ("starts", self._when(run.start_at) if run.start_at != run.created_at else None),
                ("ended", self._when(run.ended_at)),
                ("params", format_json(run.params)),
                ("rerun of", run.linked_run),
                ("schedule", run.schedule_id),
                ("window", self._when(run.window_at)),
                ("retries", run.retries or None),
                *self._deadline(run),
                ("tasks", f"{run.task_count}: {counts}" if counts else run.task_count),
            )
            self._table(self._client.tasks_of(run.id, limit=_MAX_TASKS), TASKS)

        print_one(run, run.id, self._printing, print_text)

    def _deadline(self, run: RunView) -> list[tuple[str, str | int | None]]:
        """Return the deadline of a run and its slack."""
        if run.finish_by is None:
            return []
        facts: list[tuple[str, str | int | None]] = [
            ("deadline", f"{format_time(run.finish_by, self._printing)} ({format_deadline(run, self._now)})"),
            ("at risk", self._when(run.at_risk_at)),
        ]
        if run.ended_at is not None:
            return facts
        found = self._client.deadline(run.id)
        if found.left_seconds is None:
            return [*facts, ("slack", "unknown: no durations recorded for its tasks")]
        left = f"{'at least ' if found.unknown else ''}{format_seconds(found.left_seconds)}"
        path = " → ".join(task.name for task in found.path[:_TASKS_OF_PATH])
        more = f" and {len(found.path) - _TASKS_OF_PATH} more" if len(found.path) > _TASKS_OF_PATH else ""
        slack = found.slack_seconds or 0.0
        spare = f"{format_seconds(slack)}" if slack >= 0 else f"-{format_seconds(-slack)}"
        return [*facts, ("slack", f"{spare}; expected {left} more ({path}{more})")]

    def _show_task(self, task: TaskView) -> None:
        def print_text() -> None:
            print_facts(
                ("task", f"{format_task_name(task)} ({task.id})"),
                ("partition", None if task.partition is None else f"{task.partition} of {task.total}"),
                ("run", task.run_id),
                ("state", task.state),
                ("reason", task.because),
                ("since", self._when(task.since)),
                ("attempt", task.attempt or None),
                ("worker", task.worker),
                ("due", self._when(task.due_at)),
                ("started", self._when(task.started_at)),
                ("ended", self._when(task.ended_at)),
                (
                    "stop requested",
                    None if task.stop is None else f"{task.stop.kind} by {task.stop.by}: {task.stop.why}",
                ),
                ("output", format_json(task.output)),
                ("error", format_failure(task.error)),
            )
            self._last_lines(task)
            self._table(self._client.attempts(task.id), ATTEMPTS)
            self._table(self._client.transitions(task.id), TRANSITIONS)

        print_one(task, task.id, self._printing, print_text)

    def _show_worker(self, worker: WorkerView) -> None:
        def print_text() -> None:
            print_facts(
                ("worker", worker.id),
                ("status", worker.status),
                ("hold", f"{worker.hold}: {worker.hold_why}" if worker.hold else None),
                ("last heartbeat", self._when(worker.last_heartbeat_at)),
                ("since", self._when(worker.since)),
                ("pool", worker.pool),
                ("zone", worker.zone),
                ("cpu", f"{worker.cpu_millis / 1_000:g}"),
                ("memory", format_bytes(worker.memory_bytes)),
                ("gpus", worker.gpus),
                ("disk", format_bytes(worker.disk_bytes)),
                ("labels", format_labels(worker.labels)),
                ("version", worker.version),
            )
            self._table(self._client.tasks(worker=worker.id, limit=_MAX_TASKS), TASKS)

        print_one(worker, worker.id, self._printing, print_text)

    def _show_job(self, job: JobView) -> None:
        def print_text() -> None:
            print_facts(
                ("job", job.name),
                ("version", job.version),
                ("tenant", job.tenant),
                ("labels", format_labels(job.labels)),
                ("created", self._when(job.created_at)),
                ("created by", job.created_by),
                ("deleted", self._when(job.deleted_at)),
                ("id", job.id),
            )
            self._table(self._client.schedules(job=job.name, limit=_MAX_TASKS), SCHEDULES)
            if job.definition is not msgspec.UNSET:
                click.echo()
                click.echo(msgspec.json.format(bytes(job.definition), indent=2))

        print_one(job, job.name, self._printing, print_text)

    def show_schedule(self, schedule: ScheduleView) -> None:
        """Show a schedule with its latest windows."""

        def print_text() -> None:
            print_facts(
                ("schedule", schedule.name),
                ("job", schedule.job),
                ("state", schedule.state),
                ("reason", schedule.because),
                ("fires", schedule.trigger),
                ("next", self._when(schedule.next_at)),
                ("waiting", "has waiting windows" if schedule.waiting else None),
                ("version", schedule.version),
                ("tenant", schedule.tenant),
                ("id", schedule.id),
                ("created", f"{self._when(schedule.created_at)} by {schedule.created_by}"),
                ("updated", f"{self._when(schedule.updated_at)} by {schedule.updated_by}"),
            )
            if schedule.definition is not msgspec.UNSET:
                click.echo()
                click.echo(msgspec.json.format(bytes(schedule.definition), indent=2))
            self._table(self._client.fires(schedule.id, limit=_LATEST_FIRES), fires_table(self._printing))

        print_one(schedule, schedule.name, self._printing, print_text)

    def _when(self, at: datetime | None) -> str | None:
        return format_when(at, self._printing)

    def _last_lines(self, task: TaskView) -> None:
        """Print the last lines of output before a failure, if the error has them."""
        error = msgspec.json.decode(task.error)
        lines = error.get("last_lines") if isinstance(error, dict) else None
        if isinstance(lines, str) and lines.strip():
            click.echo("\nlast lines")
            for line in lines.splitlines():
                click.echo(f"  {format_cell(line, self._now)}")

    def _table(self, rows: Iterable[T], table: Table[T]) -> None:
        listed = list(rows)
        if listed:
            click.echo()
            print_rows(listed, table, replace(self._printing, columns=(), sort=None))
