"""Detail views of single resources: facts first, then related tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import msgspec
import rich_click as click

from mainspring.cli.options import Printing
from mainspring.cli.render.output import (
    Fact,
    Facts,
    Table,
    facts_of,
    format_cell,
    format_time,
    format_when,
    print_facts,
    print_one,
    print_rows,
)
from mainspring.cli.render.tables import (
    ATTEMPTS,
    SCHEDULES,
    TASKS,
    TRANSITIONS,
    fires_table,
    format_counts,
    format_deadline,
    format_failure,
    format_task_name,
)
from mainspring.cli.resource_ids import find_run, find_task, is_run, is_schedule, is_task, strip_url
from mainspring.client.client import Client
from mainspring.core.text.durations import format_seconds
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import NotFound
from mainspring.protocol.rest.runs import JobView, RunView, TaskView, WorkerView
from mainspring.protocol.rest.schedules import ScheduleView

T = TypeVar("T", bound=msgspec.Struct)

_MAX_TASKS = 50
_LATEST_FIRES = 10
_TASKS_OF_PATH = 5
_ATTEMPT = "att_"

RUN = Table.of(
    RunView,
    "run=id job state reason=because held cancelled_by priority tenant pool submitted_by created=created_at starts "
    "ended=ended_at params rerun_of=linked_run schedule=schedule_id window=window_at retries",
    job=lambda run, _: f"{run.job}@{run.job_version}",
    state=lambda run, _: f"{run.state}{' (paused)' if run.paused else ''}",
    starts=lambda run, _: run.start_at if run.start_at != run.created_at else None,
    retries=lambda run, _: run.retries or None,
    id=lambda run: run.id,
)
TASK = Table.of(
    TaskView,
    "task partition run=run_id state reason=because since attempt worker due=due_at started=started_at ended=ended_at "
    "stop_requested output error",
    task=lambda task, _: f"{format_task_name(task)} ({task.id})",
    partition=lambda task, _: None if task.partition is None else f"{task.partition} of {task.total}",
    attempt=lambda task, _: task.attempt or None,
    stop_requested=lambda task, _: f"{task.stop.kind} by {task.stop.by}: {task.stop.why}" if task.stop else None,
    error=lambda task, _: format_failure(task.error),
    id=lambda task: task.id,
)
WORKER = Table.of(
    WorkerView,
    "worker=id status hold last_heartbeat=last_heartbeat_at since pool zone cpu=cpu_millis memory=memory_bytes gpus "
    "disk=disk_bytes labels version",
    hold=lambda worker, _: f"{worker.hold}: {worker.hold_why}" if worker.hold else None,
    id=lambda worker: worker.id,
)
JOB = Table.of(
    JobView,
    "job=name version tenant labels created=created_at created_by deleted=deleted_at id",
    id=lambda job: job.name,
)


def _schedule_table(printing: Printing) -> Table[ScheduleView]:
    return Table.of(
        ScheduleView,
        "schedule=name job state reason=because fires=trigger next=next_at waiting_windows version tenant id created "
        "updated",
        waiting_windows=lambda schedule, _: "yes" if schedule.waiting else None,
        created=lambda schedule, _: f"{format_when(schedule.created_at, printing)} by {schedule.created_by}",
        updated=lambda schedule, _: f"{format_when(schedule.updated_at, printing)} by {schedule.updated_by}",
        id=lambda schedule: schedule.name,
    )


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
        elif is_schedule(what):
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
        with suppress(NotFound):
            return self._show_worker(self._client.worker(name))
        with suppress(NotFound):
            return self._show_job(self._client.job(name))
        with suppress(NotFound):
            return self.show_schedule(self._client.schedule(name))
        raise NotFound(f"there is no run, task, worker, job or schedule {name}")

    def _show(self, thing: T, table: Table[T], more: Callable[[], None], facts: Callable[[], Facts] = list) -> None:
        """Show a resource: its facts, then `more`."""

        def print_text() -> None:
            print_facts(*facts_of(thing, table, self._printing), *facts())
            more()

        print_one(thing, table.id(thing), self._printing, print_text)

    def _show_run(self, run: RunView) -> None:
        counts = format_counts(run.task_states or {})
        tasks = f"{run.task_count}: {counts}" if counts else run.task_count
        self._show(
            run,
            RUN,
            lambda: self._table(self._client.tasks_of(run.id, limit=_MAX_TASKS), TASKS),
            lambda: [*self._deadline(run), ("tasks", tasks)],
        )

    def _deadline(self, run: RunView) -> Facts:
        """Return the deadline of a run and its slack."""
        if run.finish_by is None:
            return []
        facts: list[Fact] = [
            ("deadline", f"{format_time(run.finish_by, self._printing)} ({format_deadline(run, self._now)})"),
            ("at risk", format_when(run.at_risk_at, self._printing)),
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
        spare = f"{'-' if slack < 0 else ''}{format_seconds(abs(slack))}"
        return [*facts, ("slack", f"{spare}; expected {left} more ({path}{more})")]

    def _show_task(self, task: TaskView) -> None:
        def more() -> None:
            self._last_lines(task)
            self._table(self._client.attempts(task.id), ATTEMPTS)
            self._table(self._client.transitions(task.id), TRANSITIONS)

        self._show(task, TASK, more)

    def _show_worker(self, worker: WorkerView) -> None:
        self._show(worker, WORKER, lambda: self._table(self._client.tasks(worker=worker.id, limit=_MAX_TASKS), TASKS))

    def _show_job(self, job: JobView) -> None:
        def more() -> None:
            self._table(self._client.schedules(job=job.name, limit=_MAX_TASKS), SCHEDULES)
            _print_definition(job.definition)

        self._show(job, JOB, more)

    def show_schedule(self, schedule: ScheduleView) -> None:
        """Show a schedule with its latest windows."""

        def more() -> None:
            _print_definition(schedule.definition)
            self._table(self._client.fires(schedule.id, limit=_LATEST_FIRES), fires_table(self._printing))

        self._show(schedule, _schedule_table(self._printing), more)

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


def _print_definition(definition: msgspec.Raw | msgspec.UnsetType) -> None:
    if definition is not msgspec.UNSET:
        click.echo()
        click.echo(msgspec.json.format(bytes(definition), indent=2))
