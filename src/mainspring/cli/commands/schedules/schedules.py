"""`mainspring schedules`: schedules and their windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    Noun,
    Printing,
    Reach,
    agreed,
    asks_first,
    limited,
    prints,
    prints_rows,
    reaches_server,
    watched,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from mainspring.definitions.schedule_file import ScheduleFile
    from mainspring.protocol.rest.schedules import ScheduleView

OUTCOMES = ("ran", "waiting", "skipped", "late", "condition_false")
_why = click.option("--why", default="", help="Reason, recorded in the audit log.")
_since = click.option("--since", metavar="TIME", help="For new schedules: windows after this time count as missed.")


@click.group("schedules", cls=Noun, invoke_without_command=True)
@click.option("--job", help="Filter by job.", shell_complete=candidates.jobs)
@watched
@limited(100)
@prints_rows
@reaches_server
@click.pass_context
def schedules(
    ctx: click.Context, /, reach: Reach, printing: Printing, job: str | None, watch: bool, limit: int
) -> None:
    """List schedules; create, change, show or delete one.

    \b
    Examples:
      mainspring schedules
      mainspring schedules create nightly.yaml
      mainspring schedules fires nightly --outcome skipped
    """
    if ctx.invoked_subcommand is not None:
        return
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import SCHEDULES

    with reach.client() as client:
        show_list(lambda: client.schedules(job=job, limit=limit), SCHEDULES, printing, watch=watch, limit=limit)


@schedules.command("show")
@click.argument("name", shell_complete=candidates.schedules)
@prints
@reaches_server
def show(reach: Reach, printing: Printing, name: str) -> None:
    """Show a schedule with its definition, next window and latest windows.

    \b
    Examples:
      mainspring schedules show nightly
      mainspring schedules show nightly -o json
    """
    from mainspring.cli.render.details import Portraits
    from mainspring.cli.resource_ids import find_schedule

    with reach.client() as client:
        Portraits(client, printing).show_schedule(find_schedule(client, name))


@schedules.command("create")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Validate locally and print the request without sending it.")
@_since
@_why
@prints
@reaches_server
def create(reach: Reach, printing: Printing, file: str, dry_run: bool, since: str | None, why: str) -> None:
    """Create the schedule in FILE (YAML or JSON, - for stdin). Fails if the name exists.

    \b
    Examples:
      mainspring schedules create nightly.yaml
      mainspring schedules create nightly.yaml --dry-run
      mainspring schedules create nightly.yaml --since 2026-11-15T00:00Z
    """
    read, start = _read_file(file), _read_since(since, printing)
    if dry_run:
        from mainspring.cli.config.input_files import print_body

        print_body(read.body, read.name, printing)
        return
    from mainspring.protocol.errors import Conflict

    with reach.client() as client:
        try:
            made = _send(read, lambda: client.create_schedule(read.body, why, since=start))
        except Conflict as conflict:
            conflict.hint = f"change it with `mainspring schedules set {file}`"
            raise
    _print_made(made, printing)


@schedules.command(name="set")
@click.argument("file")
@_since
@_why
@prints
@reaches_server
def put(reach: Reach, printing: Printing, file: str, since: str | None, why: str) -> None:
    """Create or update the schedule in FILE. Idempotent.

    \b
    Examples:
      mainspring schedules set nightly.yaml --why "an hour later"
    """
    read, start = _read_file(file), _read_since(since, printing)
    with reach.client() as client:
        _print_made(_send(read, lambda: client.put_schedule(read.name, read.body, why, since=start)), printing)


@schedules.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.schedules)
@_why
@asks_first
@prints
@reaches_server
def delete(reach: Reach, printing: Printing, names: tuple[str, ...], why: str, yes: bool) -> None:
    """Delete schedules. Their runs continue, and their history is kept.

    \b
    Examples:
      mainspring schedules delete nightly --why "moved elsewhere"
    """
    from mainspring.cli.render.actions import Deed, print_deeds

    if len(names) > 1 and not agreed(f"delete {len(names)} schedules?", yes=yes):
        raise click.Abort
    with reach.client() as client:
        print_deeds([Deed.of(name, "delete", client.delete_schedule(name, why)) for name in names], printing)


@schedules.command("fires")
@click.argument("name", shell_complete=candidates.schedules)
@click.option(
    "--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Filter by outcome. Repeatable."
)
@click.option("--from", "since", metavar="TIME", help="Only windows at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only windows before this time.")
@watched
@limited(50)
@prints_rows
@reaches_server
def fires(
    reach: Reach,
    printing: Printing,
    name: str,
    outcomes: tuple[str, ...],
    since: str | None,
    before: str | None,
    watch: bool,
    limit: int,
) -> None:
    """List the windows of a schedule and their outcomes, newest first.

    \b
    Examples:
      mainspring schedules fires nightly
      mainspring schedules fires nightly --outcome skipped --outcome late --from 2026-11-01
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import fires_table
    from mainspring.cli.render.times import read_time
    from mainspring.cli.resource_ids import find_schedule

    start = None if since is None else read_time(since, "--from", printing)
    end = None if before is None else read_time(before, "--to", printing)
    with reach.client() as client:
        schedule = find_schedule(client, name).id
        show_list(
            lambda: client.fires(schedule, outcomes=outcomes, since=start, before=end, limit=limit),
            fires_table(printing),
            printing,
            watch=watch,
            limit=limit,
        )


@schedules.command("history")
@click.argument("name", shell_complete=candidates.schedules)
@watched
@limited(50)
@prints_rows
@reaches_server
def history(reach: Reach, printing: Printing, name: str, watch: bool, limit: int) -> None:
    """List the changes of a schedule, newest first.

    \b
    Examples:
      mainspring schedules history nightly
      mainspring schedules history nightly -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import CHANGES
    from mainspring.cli.resource_ids import find_schedule

    with reach.client() as client:
        schedule = find_schedule(client, name).id
        show_list(lambda: client.schedule_changes(schedule, limit=limit), CHANGES, printing, watch=watch, limit=limit)


def _read_since(since: str | None, printing: Printing) -> datetime | None:
    from mainspring.cli.render.times import read_time

    return None if since is None else read_time(since, "--since", printing)


def _read_file(file: str) -> ScheduleFile:
    from mainspring.cli.config.input_files import read_file
    from mainspring.definitions.schedule_file import read_schedule

    name, text = read_file(file)
    return read_schedule(text, name)


def _send(file: ScheduleFile, send: Callable[[], ScheduleView]) -> ScheduleView:
    """Send a schedule. Faults found by the server are mapped to lines of the file."""
    from mainspring.definitions.schedule_file import blame
    from mainspring.protocol.errors import NotFound, Refused

    try:
        return send()
    except NotFound:
        raise
    except Refused as refused:
        if not refused.faults:
            raise
        raise blame(file, refused) from refused


def _print_made(schedule: ScheduleView, printing: Printing) -> None:
    from mainspring.cli.render.output import print_one, say_ago, say_time
    from mainspring.protocol.clock import MachineClock

    def for_people() -> None:
        click.echo(f"{schedule.name} version {schedule.version}: {schedule.trigger}, runs {schedule.job}")
        if schedule.next_at is not None:
            left = say_ago(schedule.next_at, MachineClock().wall())
            click.echo(f"next: {say_time(schedule.next_at, printing)} ({left})")

    print_one(schedule, schedule.name, printing, for_people)
