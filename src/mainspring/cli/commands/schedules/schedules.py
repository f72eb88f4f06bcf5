"""`mainspring schedules`: schedules and their windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click

from mainspring.cli.completion import candidates
from mainspring.cli.options import (
    ConnectionOptions,
    Printing,
    ResourceGroup,
    confirmed,
    limit_option,
    watch_option,
    with_confirmation,
    with_connection_options,
    with_output_options,
    with_table_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from mainspring.definitions.files.drafts import ParsedFile
    from mainspring.protocol.rest.schedules import ScheduleView

OUTCOMES = ("ran", "waiting", "skipped", "late", "condition_false")
_why = click.option("--why", default="", help="Reason, recorded in the audit log.")
_since = click.option("--since", metavar="TIME", help="For new schedules: windows after this time count as missed.")


@click.group("schedules", cls=ResourceGroup, invoke_without_command=True)
@click.option("--job", help="Filter by job.", shell_complete=candidates.jobs)
@watch_option
@limit_option(100)
@with_table_options
@with_connection_options
@click.pass_context
def schedules(
    ctx: click.Context, /, connection: ConnectionOptions, printing: Printing, job: str | None, watch: bool, limit: int
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

    with connection.client() as client:
        show_list(lambda: client.schedules(job=job, limit=limit), SCHEDULES, printing, watch=watch, limit=limit)


@schedules.command("show")
@click.argument("name", shell_complete=candidates.schedules)
@with_output_options
@with_connection_options
def show(connection: ConnectionOptions, printing: Printing, name: str) -> None:
    """Show a schedule with its definition, next window and latest windows.

    \b
    Examples:
      mainspring schedules show nightly
      mainspring schedules show nightly -o json
    """
    from mainspring.cli.render.details import DetailPrinter
    from mainspring.cli.resource_ids import find_schedule

    with connection.client() as client:
        DetailPrinter(client, printing).show_schedule(find_schedule(client, name))


@schedules.command("create")
@click.argument("file")
@click.option("--dry-run", is_flag=True, help="Validate locally and print the request without sending it.")
@_since
@_why
@with_output_options
@with_connection_options
def create(
    connection: ConnectionOptions, printing: Printing, file: str, dry_run: bool, since: str | None, why: str
) -> None:
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

    with connection.client() as client:
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
@with_output_options
@with_connection_options
def put(connection: ConnectionOptions, printing: Printing, file: str, since: str | None, why: str) -> None:
    """Create or update the schedule in FILE. Idempotent.

    \b
    Examples:
      mainspring schedules set nightly.yaml --why "an hour later"
    """
    read, start = _read_file(file), _read_since(since, printing)
    with connection.client() as client:
        _print_made(_send(read, lambda: client.put_schedule(read.name, read.body, why, since=start)), printing)


@schedules.command("delete")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=candidates.schedules)
@_why
@with_confirmation
@with_output_options
@with_connection_options
def delete(connection: ConnectionOptions, printing: Printing, names: tuple[str, ...], why: str, yes: bool) -> None:
    """Delete schedules. Their runs continue, and their history is kept.

    \b
    Examples:
      mainspring schedules delete nightly --why "moved elsewhere"
    """
    from mainspring.cli.render.actions import ActionOutcome, print_action_outcomes

    if len(names) > 1 and not confirmed(f"delete {len(names)} schedules?", yes=yes):
        raise click.Abort
    with connection.client() as client:
        print_action_outcomes(
            [ActionOutcome.of(name, "delete", client.delete_schedule(name, why)) for name in names], printing
        )


@schedules.command("fires")
@click.argument("name", shell_complete=candidates.schedules)
@click.option(
    "--outcome", "outcomes", multiple=True, type=click.Choice(OUTCOMES), help="Filter by outcome. Repeatable."
)
@click.option("--from", "since", metavar="TIME", help="Only windows at or after this time.")
@click.option("--to", "before", metavar="TIME", help="Only windows before this time.")
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def fires(
    connection: ConnectionOptions,
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
    from mainspring.cli.render.times import parse_time
    from mainspring.cli.resource_ids import find_schedule

    start = None if since is None else parse_time(since, "--from", printing)
    end = None if before is None else parse_time(before, "--to", printing)
    with connection.client() as client:
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
@watch_option
@limit_option(50)
@with_table_options
@with_connection_options
def history(connection: ConnectionOptions, printing: Printing, name: str, watch: bool, limit: int) -> None:
    """List the changes of a schedule, newest first.

    \b
    Examples:
      mainspring schedules history nightly
      mainspring schedules history nightly -o json
    """
    from mainspring.cli.render.listing import show_list
    from mainspring.cli.render.schedule_tables import CHANGES
    from mainspring.cli.resource_ids import find_schedule

    with connection.client() as client:
        schedule = find_schedule(client, name).id
        show_list(lambda: client.schedule_changes(schedule, limit=limit), CHANGES, printing, watch=watch, limit=limit)


def _read_since(since: str | None, printing: Printing) -> datetime | None:
    from mainspring.cli.render.times import parse_time

    return None if since is None else parse_time(since, "--since", printing)


def _read_file(file: str) -> ParsedFile:
    from mainspring.cli.config.input_files import read_file
    from mainspring.definitions.schedule_file import read_schedule

    name, text = read_file(file)
    return read_schedule(text, name)


def _send(file: ParsedFile, send: Callable[[], ScheduleView]) -> ScheduleView:
    """Send a schedule. Faults found by the server are mapped to lines of the file."""
    from mainspring.protocol.errors import NotFound, Refused

    try:
        return send()
    except NotFound:
        raise
    except Refused as refused:
        if not refused.faults:
            raise
        raise file.locate_faults(refused) from refused


def _print_made(schedule: ScheduleView, printing: Printing) -> None:
    from mainspring.cli.render.output import format_ago, format_time, print_one
    from mainspring.protocol.clock import SystemClock

    def print_text() -> None:
        click.echo(f"{schedule.name} version {schedule.version}: {schedule.trigger}, runs {schedule.job}")
        if schedule.next_at is not None:
            left = format_ago(schedule.next_at, SystemClock().wall())
            click.echo(f"next: {format_time(schedule.next_at, printing)} ({left})")

    print_one(schedule, schedule.name, printing, print_text)
