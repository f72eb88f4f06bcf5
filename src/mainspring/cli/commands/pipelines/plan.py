"""`mainspring plan`: preview the next runs of pipelines, clock changes, and changes on a server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, tzinfo
from functools import cache
from pathlib import Path

import msgspec
import rich_click as click

from mainspring.cli.commands.pipelines.folder_commands import is_served_folder
from mainspring.cli.commands.pipelines.pipeline_files import read_all
from mainspring.cli.options import Printing
from mainspring.cli.render.output import Table, format_ago, print_error_message, print_warnings
from mainspring.cli.render.tables import format_local_time
from mainspring.cli.resource import Session, with_session
from mainspring.core.schedules.clock_changes import next_change
from mainspring.core.schedules.schedule_spec import ScheduleSpec
from mainspring.core.schedules.time_zones import find_zone
from mainspring.core.schedules.triggers import CronTrigger, describe_trigger, next_window
from mainspring.definitions.local_time_zone import system_zone
from mainspring.definitions.pipeline_file import Pipeline
from mainspring.folder.deploy import DeployResult, FolderDeployment
from mainspring.folder.deployment import folder_label
from mainspring.protocol.clock import SystemClock
from mainspring.protocol.errors import Forbidden, Unauthenticated, Unavailable

FIRES = 5


class PlannedSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule with its next runs."""

    fires: str
    """Description of the trigger."""
    timezone: str
    enabled: bool
    next: list[datetime]
    """Next windows, in the schedule's time zone."""
    clock_change: str
    """Next clock change that affects a window; empty if none does."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Plan of a pipeline."""

    pipeline: str
    title: str
    file: str
    schedules: list[PlannedSchedule]
    change: str
    """Change on the server: `created`, `updated`, `unchanged` or `refused`; empty if unknown."""
    detail: str


PLANS = Table.of(Plan, "pipeline", id=lambda one: one.pipeline)


def plan_of(pipeline: Pipeline, now: datetime, change: DeployResult | None) -> Plan:
    """Return the plan of a pipeline."""
    return Plan(
        pipeline=pipeline.id,
        title=pipeline.title,
        file=pipeline.file,
        schedules=[_planned(schedule, now) for schedule in pipeline.schedules],
        change="" if change is None else change.change,
        detail="" if change is None else change.detail,
    )


def changes(session: Session, pipelines: Sequence[Pipeline], folder: str) -> dict[str, DeployResult]:
    """Return the changes that deploying a folder would make, by pipeline. Without a server, print a notice."""
    try:
        rows = FolderDeployment(cache(session.client_of), pipelines, folder_label(folder), dry_run=True).execute()
        return {row.pipeline: row for row in rows}
    except (Unavailable, Unauthenticated, Forbidden) as error:
        click.echo(f"can't compare with a server: {error}", err=True)
        return {}


def print_plan(plan: Plan, now: datetime, printing: Printing) -> None:
    """Print a plan."""
    note = {"": "", "unchanged": ", is unchanged"}.get(plan.change, f", would be {plan.change}")
    click.echo(f"{plan.pipeline}  {plan.file}{note}")
    if plan.detail:
        click.echo(f"  {plan.detail}")
    for schedule in plan.schedules:
        click.echo(f"  {schedule.fires}{'' if schedule.enabled else ' (disabled)'}")
        zone = printing.zone or find_zone(schedule.timezone)
        for at in schedule.next:
            local = format_local_time(at, now, replace(printing, zone=zone))
            click.echo(f"    {local:<26}{format_ago(at, now):<10}{at.astimezone(zone).isoformat()}")
        if schedule.clock_change:
            click.echo(f"    {schedule.clock_change}")
    if not plan.schedules:
        click.echo("  manual runs only")


def _planned(schedule: ScheduleSpec, now: datetime) -> PlannedSchedule:
    trigger = schedule.trigger
    name = trigger.timezone if isinstance(trigger, CronTrigger) else system_zone()
    change = next_change(trigger, now)
    return PlannedSchedule(
        fires=describe_trigger(trigger),
        timezone=name,
        enabled=schedule.enabled,
        next=_fires(schedule, now, find_zone(name)),
        clock_change="" if change is None else change.sentence,
    )


def _fires(schedule: ScheduleSpec, now: datetime, zone: tzinfo | None) -> list[datetime]:
    found: list[datetime] = []
    at = next_window(schedule.trigger, now)
    while at is not None and len(found) < FIRES:
        found.append(at.astimezone(zone))
        at = next_window(schedule.trigger, at)
    return found


@click.command("plan")
@click.argument("path", type=click.Path(exists=True, path_type=Path), default=".")
@click.option("--at", metavar="PATH", help="Path of the folder on workers; its local path if omitted.")
@with_session
def plan(session: Session, path: Path, at: str | None) -> None:
    """Show the next runs of pipelines, and what deploying would change.

    PATH is a file or folder. Changes nothing. Without a server, only the times are shown. Exits with 2 if a file is
    invalid.

    \b
    Examples:
      mainspring plan
      mainspring plan pipelines --server https://mainspring.example.org --at /srv/pipelines
      mainspring plan pipelines/etl/pipeline.yaml --tz Europe/Paris
    """
    folder = str(path.absolute()) if path.is_dir() else None
    reading = read_all([path], at=None if folder is None else at or folder)
    for error in reading.errors:
        print_error_message(str(error))
    if folder is not None and is_served_folder(session.connection, path):
        click.echo(f"the server already runs {path} and reloads files as they are saved", err=True)
        found = {}
    else:
        found = {} if folder is None else changes(session, reading.pipelines, Path(folder).name)
    now = SystemClock().wall()
    plans = [plan_of(pipeline, now, found.get(pipeline.id)) for pipeline in reading.pipelines]
    if session.printing.is_human_readable:
        for one in plans:
            print_plan(one, now, session.printing)
    else:
        session.print_rows(plans, PLANS)
    print_warnings(reading.warnings)
    if reading.errors:
        sys.exit(2)
